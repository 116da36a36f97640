"""What becomes of a program whose tensor instructions subtract where they added.

A kernel whose output does not change did not need them. The edit is one sign in the PTX (``imm-scale-a`` of
``wgmma.mma_async``, PTX ISA 9.7.15.5.2), so nothing else of the program moves.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from ptxgym.toolchain.program import Program

_WGMMA = re.compile(r"(wgmma\.mma_async\.sync\.aligned\.m64n\d+k16\.f32\.bf16\.bf16\s*\{[^}]*\}\s*,)([^;]*);")
_REGISTERS = re.compile(r"\s*\{")


def ablate(program: Program, folder: Path) -> Program | None:
    """A copy of a program in ``folder`` with every bf16 ``wgmma`` subtracting; None without any."""
    text, count = _WGMMA.subn(_negated, program.ptx.read_text(encoding="utf-8"))
    if not count:
        return None
    for path in program.folder.iterdir() if program.folder else ():
        shutil.copyfile(path, folder / path.name)
    ablated = program.model_copy(update={"folder": folder})
    ablated.ptx.write_text(text, encoding="utf-8")
    return ablated


def _negated(match: re.Match[str]) -> str:
    # a, b, scale-d, imm-scale-a, imm-scale-b, transpose-a, transpose-b; without transpose-a where A is in registers.
    fields = match[2].split(",")
    place = -3 if _REGISTERS.match(match[2]) else -4
    fields[place] = " 1" if fields[place].strip() == "-1" else " -1"
    return f"{match[1]}{','.join(fields)};"
