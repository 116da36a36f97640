"""What a ``tcgen05.mma`` asks for, and which tensor memory it touches (PTX ISA 9.7.16.10.5, 9.7.16.10.7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.products import Instruction, Layout, result_cells, scale_cells
from ptxgym.devices.simulator.tensor_memory import TensorMemory
from ptxgym.devices.simulator.types import Array

A_COLUMNS = 8
"""Columns of A in tensor memory: one instruction's K is 32 bytes, whatever the type."""


@dataclass(slots=True)
class Request:
    """The product that one thread asks for."""

    position: int
    """Of the thread among those that execute."""
    lane: int
    d: int
    a: int
    """A descriptor, or an address in tensor memory."""
    a_in_tmem: bool
    b: int
    what: Instruction
    layout: Layout
    enable: bool
    scales: tuple[int, ...]
    """Addresses of the scales of A and B; empty without block scaling."""
    disabled: tuple[Array, ...]
    """For each CTA, which lanes of D stay as they are; empty for none."""
    columns: int
    """The zero-column mask descriptor; zero for none."""


@dataclass(slots=True)
class Part:
    """Columns of tensor memory that hold an operand."""

    name: str
    column: int
    cells: Array
    """Which lanes of which columns, as booleans."""
    read: bool


def footprint(r: Request) -> list[Part]:
    """What a CTA's share of the product touches."""
    width = r.what.n // r.layout.groups
    parts = [Part("D", r.d & 0xFFFF, result_cells(r.layout, width, r.d >> 16), r.enable)]
    if r.a_in_tmem:
        parts.append(Part("A", r.a & 0xFFFF, result_cells(r.layout, A_COLUMNS, r.a >> 16), True))
    if r.scales:
        for name, address, rows in (("A", r.scales[0], r.layout.rows), ("B", r.scales[1], width)):
            parts.append(Part(f"the scales of {name}", address & 0xFFFF, scale_cells(rows), True))
    return parts


def check_lanes(x: Context, r: Request, where: Any) -> None:
    """Fault on operands that begin at a lane where none can."""
    spread = r.layout.spread
    for name, address in (("D", r.d), ("A", r.a)) if r.a_in_tmem else (("D", r.d),):
        lane = address >> 16
        if lane and not (lane == 16 and spread):
            raise x.fault("tmem-lane", where, f"{name} begins at lane {lane} of tensor memory; with M={r.what.m} it "
                          f"must be lane 0{' or 16' if spread else ''}", r.position)  # fmt: skip
    if r.a_in_tmem and spread and r.a >> 16 != r.d >> 16:
        raise x.fault("tmem-lane", where, f"A begins at lane {r.a >> 16} of tensor memory, D at lane {r.d >> 16}; with "
                      "M=64 they must begin at the same", r.position)  # fmt: skip


def check_parts(x: Context, memory: TensorMemory, parts: list[Part], r: Request, where: Any) -> None:
    """Fault on columns that are not allocated; warn about reading what nothing has written."""
    for part in parts:
        first, width = part.column, part.cells.shape[1]
        columns = f"columns {first} to {first + width - 1} of tensor memory"
        if not memory.is_allocated(first, width):
            raise x.fault("tmem-out-of-bounds", where, f"{part.name} needs {columns}, which are not allocated",
                          r.position)  # fmt: skip
        if not part.read or _filled(memory, part) or memory.unfinished(first, width) is not None:
            continue
        if part.name == "D":
            x.warn("tmem-uninitialised", where, "accumulates onto tensor memory that nothing has written (is "
                   "enable-input-d false for the first k-step?)", r.position)  # fmt: skip
        else:
            x.warn("tmem-uninitialised", where, f"reads {part.name} in {columns}, where nothing has written all of "
                   "it", r.position)  # fmt: skip


def _filled(memory: TensorMemory, part: Part) -> bool:
    written = memory.written[:, part.column : part.column + part.cells.shape[1]]
    return bool(written.all()) or bool((written | ~part.cells).all())
