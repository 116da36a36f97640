"""The contracts of ``knowledge/``, one record each, found by number or by the finding that checks them."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from knowledge.headers import INCLUDE

_PAGES = ("contracts.md", "hopper/contracts.md", "blackwell/contracts.md")
_ENTRY = re.compile(r"^\*\*\[(?P<id>\w+)\] (?P<text>.+)$", re.MULTILINE)
_OTHERWISE = re.compile(r"\*Otherwise\* (.*?)(?=\s*\*Checked as\*|$)")
_CHECKED = re.compile(r"\*Checked as\* (.*)$")
_FINDING = re.compile(
    r"^(?P<file>[^\s:]+):(?P<line>\d+)(?: \(in [^)]+\))?: (?P<severity>error|warning): (?P<code>[a-z0-9-]+): "
    r"(?P<message>.*)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Contract:
    """One contract."""

    id: str
    """Its number, e.g. ``12`` or ``T5``."""
    rule: str
    """What must hold, with the reason."""
    otherwise: str
    """What is seen when it does not."""
    codes: tuple[str, ...]
    """The simulator's findings that check it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding of the simulator, taken from its text."""

    code: str
    line: int
    """In the kernel; 0 when the place is elsewhere."""
    text: str


@functools.cache
def contracts() -> dict[str, Contract]:
    """All contracts by number, in the order of the pages."""
    folder = INCLUDE.parent
    text = "\n".join((folder / page).read_text(encoding="utf-8") for page in _PAGES)
    return {entry["id"]: _contract(entry["id"], entry["text"]) for entry in _ENTRY.finditer(text)}


def contract_of(code: str, likely: tuple[str, ...] = ()) -> Contract | None:
    """The contract that a finding checks.

    Args:
        code: The finding's code.
        likely: Numbers of the contracts to prefer, since several share a code such as ``deadlock``.
    """
    by_number = contracts()
    order = [by_number[number] for number in likely if number in by_number] + list(by_number.values())
    return next((contract for contract in order if code in contract.codes), None)


def read_finding(text: str) -> Finding | None:
    """A finding from a line of the simulator's report; None when it is none."""
    found = _FINDING.match(text.strip())
    if not found:
        return None
    return Finding(found["code"], int(found["line"]) if found["file"].endswith("kernel.cu") else 0, text.strip())


def _contract(number: str, text: str) -> Contract:
    rule = re.split(r"\s*\*(?:Otherwise|Checked as)\*", text)[0]
    otherwise, checked = _OTHERWISE.search(text), _CHECKED.search(text)
    return Contract(
        id=number,
        rule=_plain(rule),
        otherwise=_plain(otherwise[1]) if otherwise else "",
        codes=tuple(re.findall(r"`([a-z0-9-]+)`", checked[1])) if checked else (),
    )


def _plain(text: str) -> str:
    """Without Markdown's marks."""
    return re.sub(r"\\([<>])", r"\1", text.replace("**", "").replace("`", "")).strip()
