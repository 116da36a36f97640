"""The record of a compilation."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """Base of every record: immutable, closed, and faithful through JSON (NaN and infinity included)."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class KernelResources(Record):
    """What ptxas says one kernel uses."""

    name: str
    """The mangled name."""
    registers: int
    """Registers per thread at entry."""
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    static_shared_bytes: int


class Advisory(Record):
    """A ptxas advisory on the wgmma pipeline or on setmaxnreg."""

    code: str
    """E.g. ``C7512``."""
    meaning: str
    """What it means for the kernel's writer."""


class KernelInstructions(Record):
    """The SASS of one kernel, counted by opcode as it stands in the cubin."""

    name: str
    """The mangled name."""
    opcodes: dict[str, int]
    """Full opcode, e.g. ``HGMMA.64x256x16.F32.BF16``, to occurrences."""


class Program(Record):
    """A source, compiled or refused. The files lie in the program's own folder in the cache."""

    source_sha256: str
    """Of the UTF-8 source, as submitted after unwrapping."""
    key: str
    """Of everything that decides the build: source, signature, architecture, flags and compiler version."""
    target: str
    """E.g. ``sm_90a``."""
    status: Literal["compiled", "rejected", "timeout"]
    """``rejected``: the compiler or the linker said no, and ``diagnostics`` says why."""
    diagnostics: str
    """What the compiler said, paths shortened to ``kernel.cu``."""
    kernels: tuple[KernelResources, ...] = ()
    instructions: tuple[KernelInstructions, ...] = ()
    advisories: tuple[Advisory, ...] = ()
    compiler: str
    """E.g. ``nvcc 13.0.88``."""
    seconds: float
    """Wall-clock time of the compilation and inspection."""
    folder: Path
    """Where the artefacts lie."""

    @property
    def source_file(self) -> Path:
        """The source as compiled."""
        return self.folder / "kernel.cu"

    @property
    def library(self) -> Path:
        """The host library that exports ``run``."""
        return self.folder / "kernel.so"

    @property
    def ptx(self) -> Path:
        """The PTX of the same call."""
        return self.folder / "kernel.ptx"

    @property
    def cubin(self) -> Path:
        """The machine code of the same call."""
        return self.folder / "kernel.cubin"

    def opcodes(self) -> dict[str, int]:
        """Occurrences of every SASS opcode over all kernels."""
        total: dict[str, int] = {}
        for kernel in self.instructions:
            for opcode, count in kernel.opcodes.items():
                total[opcode] = total.get(opcode, 0) + count
        return total
