"""Text that others wrote, made safe to look at, and the difference between two kernels."""

from __future__ import annotations

import difflib
from collections import Counter
from dataclasses import dataclass
from typing import Literal

_PICTURES = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"} | {0x7F: "\u2421"}
_INVISIBLE = (
    *range(0x80, 0xA0),  # C1 controls
    0x00AD,  # soft hyphen
    0x061C,
    *range(0x200B, 0x2010),  # zero-width characters and direction marks
    *range(0x202A, 0x202F),  # direction overrides: what is shown is not what is compiled
    *range(0x2060, 0x2070),
    0xFEFF,
)
_TABLE = _PICTURES | {code: f"⟦U+{code:04X}⟧" for code in _INVISIBLE}


def visible(text: str) -> str:
    """The text with every character that hides, reorders or controls shown as itself. Not escaped for HTML."""
    return "".join(c if not 0xD800 <= ord(c) < 0xE000 else f"⟦U+{ord(c):04X}⟧" for c in text.translate(_TABLE))


def lines(source: str) -> list[str]:
    """The lines of a source as a compiler counts them."""
    return visible(source.replace("\r\n", "\n")).split("\n")


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of a unified difference."""

    kind: Literal["add", "del", "hunk", "same"]
    text: str


_MOST_LINES = 6000
_MOST_PAIRS = 100_000


def difference(before: str, after: str) -> list[DiffLine] | None:
    """The unified difference of two sources, three lines of context; None when it would take too long to find."""
    old, new = lines(before), lines(after)
    if len(old) + len(new) > _MOST_LINES or _pairs(old, new) > _MOST_PAIRS:
        return None
    kinds: dict[str, Literal["add", "del", "hunk", "same"]] = {"+": "add", "-": "del", "@": "hunk", " ": "same"}
    unified = difflib.unified_diff(old, new, lineterm="")
    return [DiffLine(kinds[line[0]], line) for index, line in enumerate(unified) if index > 1]  # after the file names


def _pairs(old: list[str], new: list[str]) -> int:
    """How many pairs of equal lines difflib would look at, which is what it takes its time for."""
    counts, limit = Counter(new), len(new) // 100 + 1
    kept = {line: n for line, n in counts.items() if len(new) < 200 or n <= limit}  # it drops the others itself
    return sum(kept.get(line, 0) for line in old)
