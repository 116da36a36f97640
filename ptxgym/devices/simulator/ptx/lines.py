"""Which source line an instruction belongs to, from nvcc's ``.file`` and ``.loc`` (PTX ISA 11.5)."""

from __future__ import annotations

import re

from ptxgym.devices.simulator.findings import SourceLine
from ptxgym.devices.simulator.ptx.lexer import Token
from ptxgym.devices.simulator.ptx.syntax import Instruction, Translation

_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"')

_TOOLKIT_ENDINGS = (".h", ".hpp", ".inl")

_DEEPEST = 32
"""Calls of inlined functions that are followed outwards."""

_Place = tuple[int, int, int]
"""File, line and column."""


class LineTable:
    """Follows ``.loc`` through the text.

    An instruction inside inline assembly usually stands in a one-line wrapper; the line that helps its
    writer is the wrapper's caller, which ``inlined_at`` names.  That place may be inlined itself, as the ``.loc``
    before says, and so on outwards to the line in the writer's own file.  File names come at the end of the text,
    so lines hold the numbers of their files until :meth:`finish`.
    """

    def __init__(self) -> None:
        self._files: dict[int, str] = {}
        self._place: _Place | None = None
        self._callers: dict[_Place, _Place | None] = {}
        """Where a place was last inlined."""
        self._in_asm = False
        self._found: SourceLine | None = None
        """The present place, once it was asked for."""

    def enter(self, line: int) -> None:
        """A function body begins."""
        del line
        self._place = None
        self._callers.clear()
        self._found = None

    def take(self, token: Token) -> None:
        """Note a ``.loc``, ``.file`` or inline-assembly mark."""
        self._found = None
        if token.kind == "asm":
            self._in_asm = "begin" in token.text
        elif token.kind == "file":
            found = _FILE.match(token.text)
            if found:
                self._files[int(found[1])] = found[2]
        else:
            found = _LOC.match(token.text)
            if found:
                self._place = int(found[1]), int(found[2]), int(found[3])
                self._callers[self._place] = (int(found[4]), int(found[5]), int(found[6])) if found[4] else None

    def where(self, ptx_line: int) -> SourceLine:
        """The place of an instruction and the calls around it, their files still numbers (``#2:9>1:61``)."""
        place = self._place
        if place is None or place[1] == 0:
            return SourceLine("<ptx>", ptx_line)
        if self._found is None:
            chain = self._chain(place)
            self._found = SourceLine("#" + ">".join(f"{file}:{line}" for file, line, _ in chain), chain[0][1])
        return self._found

    def _chain(self, place: _Place | None) -> list[_Place]:
        """A place and the calls around it; for inline assembly, its wrapper's call and those around that."""
        chain: list[_Place] = []
        while place is not None and len(chain) < _DEEPEST:
            chain.append(place)
            place = self._callers.get(place)
        return chain[1:] if self._in_asm and len(chain) > 1 else chain

    def finish(self, unit: Translation) -> None:
        """Replace file numbers by names."""
        cache: dict[SourceLine, SourceLine] = {}
        for function in unit.functions.values():
            function.body[:] = [self._named(instruction, cache) for instruction in function.body]

    def _named(self, old: Instruction, cache: dict[SourceLine, SourceLine]) -> Instruction:
        if not old.where.file.startswith("#"):
            return old
        where = cache.get(old.where)
        if where is None:
            where = cache[old.where] = self._resolve(old.where)
        return Instruction(old.opcode, old.predicate, old.operands, old.scope, where, old.ptx_line)

    def _resolve(self, where: SourceLine) -> SourceLine:
        places = []
        for place in where.file[1:].split(">"):
            number, _, line = place.partition(":")
            places.append(SourceLine(self._files.get(int(number), "<source>"), int(line)))
        # CUDA's own headers tell a kernel writer nothing; who called them does.
        inner = next((place for place in places if not place.file.endswith(_TOOLKIT_ENDINGS)), places[0])
        outer = places[-1]
        return inner if inner.file == outer.file else SourceLine(outer.file, outer.line, str(inner))
