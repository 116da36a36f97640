"""What becomes of a program whose tensor instructions subtract where they added.

A kernel whose output does not change did not need them. The edit is one sign in the PTX (``imm-scale-a`` of
``wgmma.mma_async``, PTX ISA 9.7.15.5.2), so nothing else of the program moves.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from ptxgym.errors import InfrastructureError
from ptxgym.toolchain.process import run_tool
from ptxgym.toolchain.program import Program
from ptxgym.toolchain.toolkit import find_toolkit

_WGMMA = re.compile(r"(wgmma\.mma_async\.sync\.aligned\.m64n\d+k16\.f32\.bf16\.bf16\s*\{[^}]*\}\s*,)([^;]*);")
_REGISTERS = re.compile(r"\s*\{")


def ablate(program: Program, folder: Path, machine_code: bool) -> Program | None:
    """A copy of a program in ``folder`` with every bf16 ``wgmma`` subtracting; None without any.

    Args:
        program: The program.
        folder: An empty folder.
        machine_code: Whether the library gets the edit too, for a GPU; else the PTX alone, for the simulator.

    Raises:
        InfrastructureError: ptxas did not give machine code that fits into the library.
    """
    text, count = _WGMMA.subn(_negated, program.ptx.read_text(encoding="utf-8"))
    if not count:
        return None
    for path in program.folder.iterdir() if program.folder else ():
        shutil.copyfile(path, folder / path.name)
    ablated = program.model_copy(update={"folder": folder, "key": f"{program.key}-ablated"})
    ablated.ptx.write_text(text, encoding="utf-8")
    if machine_code:
        _assemble(program, ablated)
    return ablated


def _assemble(program: Program, ablated: Program) -> None:
    """Put the machine code of the edited PTX into the library, where the original lies: a sign moves no instruction."""
    toolkit = find_toolkit()
    command = [str(toolkit.nvcc.with_name("ptxas")), f"-arch={program.target}", "-m64"]
    result = run_tool(
        [*command, ablated.ptx.name, "-o", ablated.cubin.name], cwd=ablated.folder, readable=toolkit.readable()
    )
    if result.returncode:
        raise InfrastructureError(f"ptxas refused PTX whose tensor instructions subtract: {result.output[:300]}")
    library, old, new = (path.read_bytes() for path in (program.library, program.cubin, ablated.cubin))
    if library.count(old) != 1 or len(new) > len(old):
        raise InfrastructureError(
            "The machine code of a program whose tensor instructions subtract does not fit into it."
        )
    ablated.library.write_bytes(library.replace(old, new.ljust(len(old), b"\0")))


def _negated(match: re.Match[str]) -> str:
    # a, b, scale-d, imm-scale-a, imm-scale-b, transpose-a, transpose-b; without transpose-a where A is in registers.
    fields = match[2].split(",")
    place = -3 if _REGISTERS.match(match[2]) else -4
    fields[place] = " 1" if fields[place].strip() == "-1" else " -1"
    return f"{match[1]}{','.join(fields)};"
