"""Where inline PTX stands in a source: which functions wrap which instruction, and where they are called.

A source is read as text. What cannot be told for sure is left out: a mutation that is not made costs nothing.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from baselines.fixit.sources import code_alone, without_comments
from knowledge.headers import INCLUDE

INSTRUCTIONS = {
    "mbarrier.init": r"mbarrier\.init\b",
    "mbarrier.expect_tx": r"mbarrier\.(?:arrive\.)?expect_tx\b",
    "mbarrier.arrive": r"mbarrier\.arrive(?!\.expect_tx)\b",
    "mbarrier.wait": r"mbarrier\.(?:try|test)_wait\b",
    "fence.mbarrier_init": r"fence\.mbarrier_init\b",
    "fence.proxy.async": r"fence\.proxy\.async\b",
    "bulk.load": r"cp\.async\.bulk\.(?:tensor\.\w+\.)?shared::(?:cluster|cta)\.global\b",
    "bulk.store": r"cp\.(?:reduce\.)?async\.bulk\.(?:tensor\.\w+\.)?global\.shared::cta\b",
    "bulk.commit": r"cp\.async\.bulk\.commit_group\b",
    "bulk.wait": r"cp\.async\.bulk\.wait_group\b",
    "cp.async.commit": r"cp\.async\.commit_group\b",
    "cp.async.wait": r"cp\.async\.wait_(?:group|all)\b",
    "wgmma.fence": r"wgmma\.fence\b",
    "wgmma.commit": r"wgmma\.commit_group\b",
    "wgmma.wait": r"wgmma\.wait_group\b",
    "wgmma.mma": r"wgmma\.mma_async\b",
    "tcgen05.mma": r"tcgen05\.mma\b",
    "tcgen05.commit": r"tcgen05\.commit\b",
    "tcgen05.wait": r"tcgen05\.wait\b",
    "tcgen05.fence": r"tcgen05\.fence\b",
    "tcgen05.dealloc": r"tcgen05\.dealloc\b",
    "cluster.barrier": r"barrier\.cluster\b",
    "named.barrier": r"\bbar(?:rier)?\.(?:cta\.)?(?:sync|arrive)\b",
}
"""Idiom to the PTX that shows it."""

_PATTERNS = {name: re.compile(pattern) for name, pattern in INSTRUCTIONS.items()}
_DEFINITION = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_NO_FUNCTIONS = frozenset({"if", "for", "while", "switch", "return", "sizeof", "catch", "asm", "defined", "alignas"})


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a wrapper, or a bare statement such as ``__syncthreads()``."""

    name: str
    start: int
    """Of the name."""
    end: int
    """Behind the closing parenthesis."""
    template: tuple[int, int] | None
    """The text between angle brackets, if any."""
    arguments: tuple[tuple[int, int], ...]
    """Start and end of each argument, white space left out."""


class SourceMap:
    """A source with its wrappers and calls.

    Args:
        source: CUDA C++.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.code = code_alone(source)
        self.bodies = list(_bodies(self.code))
        own = _wrappers(source, self.bodies)
        self.wrappers = {name: kinds for name, kinds in _library().items() if name not in own} | own
        """Function to the idioms in its body."""

    def calls(self, idiom: str) -> Iterator[Call]:
        """Calls of functions that wrap this instruction and nothing else."""
        names = [name for name, kinds in self.wrappers.items() if kinds == {idiom}]
        yield from self.calls_of(names)

    def calls_of(self, names: list[str]) -> Iterator[Call]:
        """Calls of functions by name, outside of macros."""
        if not names:
            return
        pattern = re.compile(rf"(?<![\w.:>])(?:{'|'.join(map(re.escape, sorted(names)))})\b\s*(?=[<(])")
        for found in pattern.finditer(self.code):
            if not self._in_macro(found.start()) and (call := self._call(found)):
                yield call

    def statement(self, call: Call) -> tuple[int, int] | None:
        """The statement that is nothing but this call, with its ``if`` or ``for``; None when there is none."""
        end = self._skip(call.end)
        if self.code[end : end + 1] != ";":
            return None
        start = call.start
        while (before := self._before(start)) >= 0 and self.code[before] == ")":
            opening = self._opening(before)
            word = re.search(r"\b(if(?:\s+constexpr)?|for|while)\s*$", self.code[: max(0, opening)])
            if opening < 0 or word is None:
                return None
            start = word.start()
        if before >= 0 and self.code[before] not in ";{}" and not self._after_pragma(start):
            return None
        if self.code.startswith("else", self._skip(end + 1)) or self.code[:start].rstrip().endswith("else"):
            return None
        return start, end + 1

    def inside(self, name: str) -> Iterator[tuple[int, int]]:
        """Bodies of functions of this name."""
        return ((start, end) for found, start, end in self.bodies if found == name)

    def is_definition(self, position: int) -> bool:
        """Whether a name at this place is being defined rather than used."""
        return any(self.code.find(name, position) == position and start > position and self._opens(position, start)
                   for name, start, _ in self.bodies)  # fmt: skip

    def _opens(self, position: int, start: int) -> bool:
        opening = self.code.find("(", position)
        closing = _closing(self.code, opening)
        return closing >= 0 and self.code[closing + 1 : start].strip() in ("", "const", "noexcept")

    def _call(self, found: re.Match[str]) -> Call | None:
        place, template = found.end(), None
        if self.code[place] == "<":
            close = self.code.find(">", place)
            inner = self.code[place + 1 : close]
            if close < 0 or any(mark in inner for mark in ";{}"):
                return None
            template, place = (place + 1, close), self._skip(close + 1)
        if self.code[place : place + 1] != "(" or self.is_definition(found.start()):
            return None
        closing = _closing(self.code, place)
        if closing < 0:
            return None
        name = re.match(r"\w+", found[0])
        return Call(
            name[0] if name else "",
            found.start(),
            closing + 1,
            template,
            tuple(_arguments(self.code, place + 1, closing)),
        )

    def _in_macro(self, position: int) -> bool:
        line = self.code.rfind("\n", 0, position) + 1
        while line > 1 and self.code[: line - 1].rstrip(" \t").endswith("\\"):
            line = self.code.rfind("\n", 0, line - 1) + 1
        return self.code[line:position].lstrip().startswith("#")

    def _after_pragma(self, position: int) -> bool:
        line_start = self.code.rfind("\n", 0, position)
        previous = self.code[: max(0, line_start)].rstrip()
        return previous[previous.rfind("\n") + 1 :].lstrip().startswith("#pragma")

    def _skip(self, position: int) -> int:
        while position < len(self.code) and self.code[position].isspace():
            position += 1
        return position

    def _before(self, position: int) -> int:
        position -= 1
        while position >= 0 and self.code[position].isspace():
            position -= 1
        return position

    def _opening(self, closing: int) -> int:
        depth = 0
        for place in range(closing, -1, -1):
            depth += {")": 1, "(": -1}.get(self.code[place], 0)
            if not depth:
                return place
        return -1


def _bodies(code: str) -> Iterator[tuple[str, int, int]]:
    """Every function's name, and where its body begins and ends, braces included."""
    for found in _DEFINITION.finditer(code):
        if found[1] in _NO_FUNCTIONS:
            continue
        closing = _closing(code, found.end() - 1)
        if closing < 0:
            continue
        rest = re.compile(r"\s*(?:const\b|noexcept\b)?\s*\{").match(code, closing + 1)
        if rest and (end := _closing(code, rest.end() - 1)) >= 0:
            yield found[1], rest.end() - 1, end + 1


def _wrappers(source: str, bodies: list[tuple[str, int, int]]) -> dict[str, set[str]]:
    """Function to the idioms of the inline PTX in its body. Kernels and other long functions wrap nothing."""
    text = without_comments(source)
    found: dict[str, set[str]] = {}
    for name, start, end in bodies:
        body = text[start:end]
        if "asm" in body and body.count(";\n") < 12:
            kinds = {idiom for idiom, pattern in _PATTERNS.items() if pattern.search(body)}
            if kinds:
                found.setdefault(name, set()).update(kinds)
    return found


@functools.cache
def _library() -> dict[str, set[str]]:
    """The wrappers of ``knowledge/include``, which a source may use without defining them."""
    found: dict[str, set[str]] = {}
    sources = [path.read_text(encoding="utf-8") for path in sorted(INCLUDE.rglob("*.cuh"))]
    codes = [code_alone(source) for source in sources]
    for source, code in zip(sources, codes, strict=True):
        for name, kinds in _wrappers(source, list(_bodies(code))).items():
            found.setdefault(name, set()).update(kinds)
    for code in codes:  # those that call nothing but wrappers, such as both halves of a barrier
        for name, start, end in _bodies(code):
            calls = _DEFINITION.findall(code[start:end])
            if calls and name not in found and all(call in found for call in calls):
                found[name] = set().union(*(found[call] for call in calls))
    return found


def _closing(code: str, opening: int) -> int:
    """The bracket that closes the one at ``opening``; −1 without."""
    if opening < 0:
        return -1
    up, down = code[opening], {"(": ")", "{": "}", "[": "]"}[code[opening]]
    depth = 0
    for found in re.compile(rf"[{re.escape(up + down)}]").finditer(code, opening):
        depth += 1 if found[0] == up else -1
        if not depth:
            return found.start()
    return -1


def _arguments(code: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    depth, first = 0, start
    for place in range(start, end + 1):
        mark = code[place] if place < end else ","
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(mark, 0)
        if mark == "," and (depth == 0 or place == end):
            text = code[first:place]
            if text.strip():
                yield first + len(text) - len(text.lstrip()), place - (len(text) - len(text.rstrip()))
            first = place + 1
