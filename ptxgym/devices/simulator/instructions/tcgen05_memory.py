"""Tensor memory: allocation, and data movement from and to registers (PTX ISA 9.7.16.7, 9.7.16.8)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxgym.devices.simulator.barriers import cta_groups
from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.instructions.warp import FULL, gather
from ptxgym.devices.simulator.table import Step, effect
from ptxgym.devices.simulator.tensor_memory import (
    COLUMNS,
    REGISTERS,
    TensorMemory,
    fragment,
    packed_fragment,
    tensor_memory,
)
from ptxgym.devices.simulator.types import Array

_BLACKWELL = ("100a",)
_GROUPS = "cta_group::1 cta_group::2"
_SHAPES = " ".join(REGISTERS)
_LOW, _SIXTEEN = np.uint32(0xFFFF), np.uint32(16)
_COUNTS = "x1 x2 x4 x8 x16 x32 x64 x128"


def _whole_warp(x: Context, pc: int) -> None:
    gather(x, np.broadcast_to(FULL, x.lanes.count), pc)


@effect("tcgen05.alloc", "b32", isa="9.7.16.7.1", modifiers=f"{_GROUPS} shared shared::cta", counter="tcgen05",
        architectures=_BLACKWELL)  # fmt: skip
def alloc(b: Any) -> Step:
    """Allocate columns and write their address to shared memory."""
    address, count, where, pc = b.address(b.operands[0]), b.source(b.operands[1], "u32"), b.where, b.pc

    def step(x: Context) -> None:
        _whole_warp(x, pc)
        columns = x.uniform(count)
        if columns & (columns - 1) or not 32 <= columns <= COLUMNS:
            raise x.fault("tmem-alloc", where, f"tcgen05.alloc of {columns} columns: a power of two from 32 to 512 is "
                          "needed")  # fmt: skip
        parts = x.locate("shared", address(x), 4, where)
        ((buffer, offsets, _),) = parts
        for observer in x.batch.access_observers:
            observer.on_access(x, parts, 4, True, where)
        start = 0
        for cta, lanes in cta_groups(x.batch, x.lanes):
            buffer.typed(np.dtype(np.uint32))[int(offsets[start]) >> 2] = _allocate(x, cta, columns, where)
            start += lanes.count

    return step


def _allocate(x: Context, cta: int, columns: int, where: Any) -> int:
    memory = tensor_memory(x.batch, cta)
    if memory.relinquished:
        raise x.fault("tmem-alloc", where, "tcgen05.alloc after tcgen05.relinquish_alloc_permit")
    first = memory.allocate(columns)
    if first is None:
        free = COLUMNS - int(np.count_nonzero(memory.owner))
        raise x.fault("tmem-alloc", where, f"tcgen05.alloc of {columns} columns would wait for ever: {free} are free")
    return first


@effect("tcgen05.dealloc", "b32", isa="9.7.16.7.1", modifiers=_GROUPS, counter="tcgen05", architectures=_BLACKWELL)
def dealloc(b: Any) -> Step:
    """Give columns back."""
    address, count = b.source(b.operands[0], "u32"), b.source(b.operands[1], "u32")
    where, pc = b.where, b.pc

    def step(x: Context) -> None:
        _whole_warp(x, pc)
        columns = x.uniform(count)
        for cta, lanes in cta_groups(x.batch, x.lanes):
            first = int(x.first_of(address, lanes)) & 0xFFFF
            memory = tensor_memory(x.batch, cta)
            if not memory.is_allocated(first, columns):
                raise x.fault(
                    "tmem-dealloc",
                    where,
                    f"tcgen05.dealloc of columns {first} to {first + columns - 1}, which are not allocated",
                )
            busy = memory.unfinished(first, columns)
            if busy is not None:
                x.warn("tmem-in-flight", where, f"deallocates columns that the tensor instruction at {busy} still uses")
            for observer in x.batch.watchers("on_tensor_access"):
                observer.on_tensor_access(
                    x.batch, "dealloc", lanes.first, cta, slice(0, 8), slice(first, first + columns), where
                )
            memory.owner[first : first + columns] = 0
            memory.written[:, first : first + columns] = False

    return step


@effect("tcgen05.relinquish_alloc_permit", "", isa="9.7.16.7.1", modifiers=_GROUPS, counter="tcgen05",
        architectures=_BLACKWELL)  # fmt: skip
def relinquish(b: Any) -> Step:
    """Promise to allocate no more."""

    def step(x: Context) -> None:
        for cta, _ in cta_groups(x.batch, x.lanes):
            tensor_memory(x.batch, cta).relinquished = True

    return step


class _Access:
    """The operands that loads and stores share."""

    def __init__(self, b: Any, address: Any, registers: list[int], split: int) -> None:
        self.shape = b.form.one_of(tuple(REGISTERS))
        self.packed = bool(b.form.modifiers & {"pack::16b", "unpack::16b"})
        count = int(b.form.one_of(tuple(_COUNTS.split()))[1:]) * REGISTERS[self.shape]
        if count != len(registers):
            raise b.unknown(f"{len(registers)} registers, {count} are needed")
        self.address = b.address(address)
        rows, columns = (packed_fragment if self.packed else fragment)(self.shape, count, split)
        self.width, self.height = int(columns.max()) + 1, int(rows.max()) + 1
        self.cells = rows * COLUMNS + columns
        self.where, self.pc = b.where, b.pc

    def each_warp(self, x: Context, kind: str) -> list[tuple[int, TensorMemory, Array]]:
        """Per warp: its position, its CTA's memory, and the flat index there of every register and thread."""
        _whole_warp(x, self.pc)
        state = x.batch.state
        addresses = self.address(x).reshape(-1, 32)[:, 0].tolist()
        firsts = x.lanes.index.reshape(-1, 32)[:, 0].tolist()
        result = []
        for i, (address, lane) in enumerate(zip(addresses, firsts, strict=True)):
            row, column = int(address) >> 16, int(address) & 0xFFFF
            quadrant = int(state.thread_of[lane]) // 32 % 4
            if row // 32 != quadrant:
                raise x.fault("tmem-lane", self.where, f"warp {int(state.thread_of[lane]) // 32} may access lanes "
                              f"{32 * quadrant} to {32 * quadrant + 31} of tensor memory, not lane {row}",
                              i * 32)  # fmt: skip
            memory = tensor_memory(x.batch, int(state.cta_of[lane]))
            if not memory.is_allocated(column, self.width):
                raise x.fault(
                    "tmem-out-of-bounds",
                    self.where,
                    f"columns {column} to {column + self.width - 1} of tensor memory are not allocated",
                    i * 32,
                )
            busy = memory.unfinished(column, self.width)
            if busy is not None:
                x.warn(
                    "tmem-in-flight",
                    self.where,
                    f"accesses tensor memory that the instruction at {busy} is not known "
                    "to have finished (wait for its commit)",
                    i * 32,
                )
            for observer in x.batch.watchers("on_tensor_access"):
                observer.on_tensor_access(
                    x.batch, kind, lane, int(state.cta_of[lane]), slice(row // 16, (row + self.height + 15) // 16),
                    slice(column, column + self.width), self.where,
                )  # fmt: skip
            result.append((i, memory, self.cells + (row * COLUMNS + column)))
        return result


@effect("tcgen05.ld", "b32", isa="9.7.16.8.3", modifiers=f"{_SHAPES} {_COUNTS} pack::16b", counter="tcgen05",
        architectures=_BLACKWELL)  # fmt: skip
def ld(b: Any) -> Step:
    """Tensor memory to registers."""
    destinations = b.destinations(b.operands[0], "b32")
    split = b.constant(b.operands[2]) if len(b.operands) > 2 else 0
    access = _Access(b, b.operands[1], destinations, split)
    where = b.where
    registers = frozenset(("b32", b.program.slots[slot].row) for slot in destinations)

    def step(x: Context) -> None:
        values = np.empty((len(destinations), x.lanes.count), np.uint32)
        for i, memory, cells in access.each_warp(x, "ld"):
            if not memory.written.take(cells).all():
                x.warn("tmem-uninitialised", where, "tcgen05.ld reads tensor memory that nothing has written", i * 32)
            words = memory.words.take(cells)
            values[:, 32 * i : 32 * i + 32] = words[0] & _LOW | words[1] << _SIXTEEN if access.packed else words
        x.batch.launch.bytes["tmem.read"] += values.nbytes
        pending_loads(x.batch).issue(x, registers, where)
        for slot, value in zip(destinations, values, strict=True):
            x.put(slot, value)

    return step


@effect("tcgen05.st", "b32", isa="9.7.16.8.4", modifiers=f"{_SHAPES} {_COUNTS} unpack::16b", counter="tcgen05",
        architectures=_BLACKWELL)  # fmt: skip
def st(b: Any) -> Step:
    """Registers to tensor memory."""
    split = b.constant(b.operands[1]) if len(b.operands) > 2 else 0
    sources = b.sources(b.operands[-1], "b32")
    access = _Access(b, b.operands[0], sources, split)

    def step(x: Context) -> None:
        values = np.stack([x.get(slot) for slot in sources])
        x.batch.launch.bytes["tmem.write"] += values.nbytes
        for i, memory, cells in access.each_warp(x, "st"):
            words = values[:, 32 * i : 32 * i + 32]
            memory.words.reshape(-1)[cells] = np.stack([words & _LOW, words >> _SIXTEEN]) if access.packed else words
            memory.written.reshape(-1)[cells] = True

    return step


class PendingLoads:
    """Registers that ``tcgen05.ld`` has not filled yet, by warp."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch
        self._loads: dict[int, tuple[frozenset[tuple[str, int]], Any]] = {}
        batch.register_watchers.append(self._touch)

    def issue(self, x: Context, registers: frozenset[tuple[str, int]], where: Any) -> None:
        """A load by the executing warps."""
        for first in x.lanes.index[::32].tolist():
            older, _ = self._loads.get(first, (frozenset(), None))
            self._loads[first] = (older | registers, where)
        self._batch.inflight = self._batch.inflight | registers

    def wait(self, x: Context) -> None:
        """The executing warps' loads are complete."""
        for first in x.lanes.index[::32].tolist():
            self._loads.pop(first, None)
        self._refresh()

    def _refresh(self) -> None:
        self._batch.inflight = frozenset().union(*(registers for registers, _ in self._loads.values()))

    def _touch(self, x: Context, instruction: Any) -> None:
        if instruction.form.row.opcode == "tcgen05.ld":
            return
        for first, (registers, where) in list(self._loads.items()):
            if registers & instruction.registers and _holds(x, first):
                self._batch.log.warn(
                    "tcgen05-wait-ld",
                    instruction.where,
                    f"{instruction.opcode} uses registers that the "
                    f"tcgen05.ld at {where} fills, before tcgen05.wait::ld",
                )
                self._loads.pop(first)
                self._refresh()
                return


def _holds(x: Context, first: int) -> bool:
    at = int(np.searchsorted(x.lanes.index, first))
    return at < x.lanes.count and int(x.lanes.index[at]) < first + 32


def pending_loads(batch: Any) -> PendingLoads:
    """The batch's unfinished loads."""
    found: PendingLoads = batch.extension("tmem_loads", PendingLoads)
    return found


@effect("tcgen05.wait::ld", "", isa="9.7.16.8.5", counter="tcgen05", architectures=_BLACKWELL)
def wait_ld(b: Any) -> Step:
    """The warp's loads from tensor memory are complete."""
    pc = b.pc

    def step(x: Context) -> None:
        _whole_warp(x, pc)
        pending_loads(x.batch).wait(x)
        for observer in x.batch.watchers("on_tensor_wait"):
            observer.on_tensor_wait(x, "ld")

    return step


@effect("tcgen05.wait::st", "", isa="9.7.16.8.5", counter="tcgen05", architectures=_BLACKWELL)
def wait_st(b: Any) -> Step:
    """The warp's stores to tensor memory are complete; here they complete at once, and only the checks care."""
    pc = b.pc

    def step(x: Context) -> None:
        _whole_warp(x, pc)
        for observer in x.batch.watchers("on_tensor_wait"):
            observer.on_tensor_wait(x, "st")

    return step


@effect("tcgen05.fence::before_thread_sync tcgen05.fence::after_thread_sync", "", isa="9.7.16.11.1", counter="tcgen05",
        architectures=_BLACKWELL)  # fmt: skip
def fence(b: Any) -> Step:
    """Every fence holds here; only the checks care."""
    after = b.form.row.opcode.endswith("after_thread_sync")

    def step(x: Context) -> None:
        for observer in x.batch.watchers("on_tensor_fence"):
            observer.on_tensor_fence(x, after)

    return step
