"""Which source line an instruction belongs to, from nvcc's ``.file`` and ``.loc`` (PTX ISA 11.5)."""

from __future__ import annotations

import re

from ptxgym.devices.simulator.findings import SourceLine
from ptxgym.devices.simulator.ptx.lexer import Token
from ptxgym.devices.simulator.ptx.syntax import Instruction, Translation

_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"')

_TOOLKIT_ENDINGS = (".h", ".hpp", ".inl")

_Place = tuple[int, int]


class LineTable:
    """Follows ``.loc`` through the text.

    An instruction inside inline assembly usually stands in a one-line wrapper; the line that helps its
    writer is the wrapper's caller, which ``inlined_at`` names.  File names come at the end of the text,
    so lines hold the file's number until :meth:`finish`.
    """

    def __init__(self) -> None:
        self._files: dict[int, str] = {}
        self._place: _Place | None = None
        self._caller: _Place | None = None
        self._in_asm = False

    def enter(self, line: int) -> None:
        """A function body begins."""
        del line
        self._place = None
        self._caller = None

    def take(self, token: Token) -> None:
        """Note a ``.loc``, ``.file`` or inline-assembly mark."""
        if token.kind == "asm":
            self._in_asm = "begin" in token.text
        elif token.kind == "file":
            found = _FILE.match(token.text)
            if found:
                self._files[int(found[1])] = found[2]
        else:
            found = _LOC.match(token.text)
            if found:
                self._place = (int(found[1]), int(found[2]))
                self._caller = (int(found[4]), int(found[5])) if found[4] else None

    def where(self, ptx_line: int) -> SourceLine:
        """The place of an instruction, its files still numbers (``#place`` or ``#place>caller``)."""
        place, caller = self._place, self._caller
        if place is None or place[1] == 0:
            return SourceLine("<ptx>", ptx_line)
        if caller is None:
            return SourceLine(f"#{place[0]}", place[1])
        if self._in_asm:
            return SourceLine(f"#{caller[0]}", caller[1])
        return SourceLine(f"#{place[0]}>{caller[0]}:{caller[1]}", place[1])

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
        place, _, caller = where.file[1:].partition(">")
        name = self._files.get(int(place), "<source>")
        if caller and name.endswith(_TOOLKIT_ENDINGS):
            # CUDA's own headers tell a kernel writer nothing; who called them does.
            number, line = caller.split(":")
            return SourceLine(self._files.get(int(number), "<source>"), int(line))
        return SourceLine(name, where.line)
