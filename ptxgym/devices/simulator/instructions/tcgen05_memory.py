"""Tensor memory: allocation and data movement (PTX ISA 9.7.16.7-9.7.16.9)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxgym.devices.simulator import layouts
from ptxgym.devices.simulator.barriers import cta_groups
from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.instructions.warp import FULL, gather
from ptxgym.devices.simulator.table import Step, UnsupportedForm, effect
from ptxgym.devices.simulator.tensor_memory import COLUMNS, REGISTERS, TensorMemory, fragment, tensor_memory
from ptxgym.devices.simulator.types import Array

_BLACKWELL = ("100a",)
_GROUPS = "cta_group::1 cta_group::2"
_SHAPES = " ".join(REGISTERS)
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
        if b.form.has("pack::16b") or b.form.has("unpack::16b"):
            raise UnsupportedForm("16-bit packing")
        count = int(b.form.one_of(tuple(_COUNTS.split()))[1:]) * REGISTERS[self.shape]
        if count != len(registers):
            raise b.unknown(f"{len(registers)} registers, {count} are needed")
        self.address = b.address(address)
        self.rows, self.columns = fragment(self.shape, count, split)
        self.width = int(self.columns.max()) + 1
        self.where, self.pc = b.where, b.pc

    def each_warp(self, x: Context) -> list[tuple[int, TensorMemory, Array, Array]]:
        """Per warp: its position, its CTA's memory, and the rows and columns of every register and thread."""
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
            result.append((i, memory, self.rows + row, self.columns + column))
        return result


@effect("tcgen05.ld", "b32", isa="9.7.16.8.1", modifiers=f"{_SHAPES} {_COUNTS} pack::16b", counter="tcgen05",
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
        for i, memory, rows, columns in access.each_warp(x):
            if not memory.written[rows, columns].all():
                x.warn("tmem-uninitialised", where, "tcgen05.ld reads tensor memory that nothing has written", i * 32)
            values[:, 32 * i : 32 * i + 32] = memory.words[rows, columns]
        x.batch.launch.bytes["tmem.read"] += values.nbytes
        pending_loads(x.batch).issue(x, registers, where)
        for slot, value in zip(destinations, values, strict=True):
            x.put(slot, value)

    return step


@effect("tcgen05.st", "b32", isa="9.7.16.8.2", modifiers=f"{_SHAPES} {_COUNTS} unpack::16b", counter="tcgen05",
        architectures=_BLACKWELL)  # fmt: skip
def st(b: Any) -> Step:
    """Registers to tensor memory."""
    split = b.constant(b.operands[1]) if len(b.operands) > 2 else 0
    sources = b.sources(b.operands[-1], "b32")
    access = _Access(b, b.operands[0], sources, split)

    def step(x: Context) -> None:
        values = np.stack([x.get(slot) for slot in sources])
        x.batch.launch.bytes["tmem.write"] += values.nbytes
        for i, memory, rows, columns in access.each_warp(x):
            memory.words[rows, columns] = values[:, 32 * i : 32 * i + 32]
            memory.written[rows, columns] = True

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


@effect("tcgen05.wait::ld", "", isa="9.7.16.8.3", counter="tcgen05", architectures=_BLACKWELL)
def wait_ld(b: Any) -> Step:
    """The warp's loads from tensor memory are complete."""
    pc = b.pc

    def step(x: Context) -> None:
        _whole_warp(x, pc)
        pending_loads(x.batch).wait(x)

    return step


@effect("tcgen05.wait::st tcgen05.fence::before_thread_sync tcgen05.fence::after_thread_sync", "",
        isa="9.7.16.11", counter="tcgen05", architectures=_BLACKWELL)  # fmt: skip
def wait(b: Any) -> Step:
    """Stores complete at once here, and every fence holds."""
    return lambda x: None


_COPIES: dict[str, tuple[int, int, int]] = {
    "128x256b": (128, 32, 1), "128x128b": (128, 16, 1), "4x256b": (4, 32, 1), "32x128b": (32, 16, 4),
    "64x128b": (64, 16, 2),
}  # fmt: skip
"""Rows, bytes per row, and how often the rows repeat over the lanes."""


@effect("tcgen05.cp", "", isa="9.7.16.9.2", modifiers=f"{_GROUPS} {' '.join(_COPIES)} warpx4 warpx2::02_13 "
        "warpx2::01_23 b8x16 b6x16_p32 b4x16_p64", counter="tcgen05", architectures=_BLACKWELL)  # fmt: skip
def cp(b: Any) -> Step:
    """Shared memory to tensor memory."""
    if b.form.modifiers & {"b8x16", "b6x16_p32", "b4x16_p64"}:
        raise UnsupportedForm("decompressing copies")
    rows, width, repeats = _COPIES[b.form.one_of(tuple(_COPIES))]
    order = _lane_order(b.form.has("warpx2::01_23"), rows, repeats)
    address, source, where = b.address(b.operands[0]), b.source(b.operands[1], "b64"), b.where
    pair = b.form.has("cta_group::2")

    def step(x: Context) -> None:
        batch, state = x.batch, x.batch.state
        addresses, descriptors = address(x).tolist(), x.get(source).tolist()
        for i, lane in enumerate(x.each_lane()):
            cta = int(state.cta_of[lane])
            column = addresses[i] & 0xFFFF
            for owner in (cta, cta ^ 1) if pair else (cta,):
                memory = tensor_memory(batch, owner)
                if not memory.is_allocated(column, width // 4):
                    raise x.fault("tmem-out-of-bounds", where, f"tcgen05.cp to columns {column} and up, which are not "
                                  "allocated", i)  # fmt: skip
                _issue_copy(x, memory, owner, descriptors[i], (rows, width), order, column, where)

    return step


def _lane_order(neighbours: bool, rows: int, repeats: int) -> Array:
    """Lanes that receive each row, [repeats, rows]."""
    if repeats == 4:
        return np.arange(4)[:, None] * 32 + np.arange(32)
    if repeats == 2:
        halves = [(0, 1), (2, 3)] if neighbours else [(0, 2), (1, 3)]
        return np.array([[32 * halves[r // 32][copy] + r % 32 for r in range(64)] for copy in (0, 1)])
    return np.arange(rows)[None, :]


def _issue_copy(
    x: Context, memory: TensorMemory, cta: int, descriptor: layouts.Descriptor, shape: tuple[int, int], order: Array,
    column: int, where: Any,
) -> None:  # fmt: skip
    state = x.batch.state
    rows, width = shape
    plan = layouts.plan(descriptor, True, rows, 1, width, False)
    if plan.low < 64 or (plan.high + 1) * 16 > state.shared_end:
        raise x.fault(
            "descriptor", where, f"tcgen05.cp reads shared offset {(plan.high + 1) * 16} of {state.shared_end}"
        )

    def run() -> None:
        base = cta * state.shared_stride >> 4
        words = state.shared.typed(layouts.CHUNK)[base + plan.chunks].view(np.uint32)
        for lanes in order:
            memory.words[lanes, column : column + width // 4] = words
            memory.written[lanes, column : column + width // 4] = True

    operation = x.batch.later(run)
    memory.busy.append((column, column + width // 4, operation, where))
