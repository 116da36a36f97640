"""Warpgroup matrix multiply-accumulate (PTX ISA 9.7.15).

The product is computed when it is issued, but the accumulator registers get their values when the group is
waited for: until then they hold what they held, as the ISA leaves them undefined.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ptxgym.devices.simulator import layouts
from ptxgym.devices.simulator.batch import Incomplete
from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.lanes import LaneSet
from ptxgym.devices.simulator.matrices import Operand, check_operand, decode_elements, read_operand
from ptxgym.devices.simulator.ptx.syntax import Vector
from ptxgym.devices.simulator.table import Form, Step, UnsupportedForm, effect
from ptxgym.devices.simulator.types import SIZES, Array

_HOPPER = ("90a",)
_SHAPE = re.compile(r"m64n(\d+)k(\d+)")


@dataclass(slots=True)
class Chain:
    """Accumulators of one warpgroup, in flight."""

    lanes: Any
    frame: Any
    rows: Array
    registers: frozenset[tuple[str, int]]
    matrix: Array
    where: Any
    open_groups: int = 0
    """Groups that hold an operation on it and were not waited for."""
    inputs: frozenset[tuple[str, int]] = frozenset()


@dataclass(slots=True)
class Warpgroup:
    """The asynchronous state of one warpgroup."""

    chains: dict[Any, Chain] = field(default_factory=dict)
    current: list[Any] = field(default_factory=list)
    groups: list[list[Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Shape:
    """What an opcode says."""

    n: int
    k: int
    result: str
    a: str
    b: str
    saturates: bool


def parse_shape(form: Form) -> Shape:
    """The shape and types of a ``wgmma.mma_async``.

    Raises:
        UnsupportedForm: Sparse, or a shape that does not exist.
    """
    found = next((m for p in form.parts if (m := _SHAPE.fullmatch(p))), None)
    types = [p for p in form.parts if p in SIZES]
    if found is None or len(types) != 3 or "sp" in form.parts or "b1" in types:
        raise UnsupportedForm("sparse or one-bit wgmma")
    shape = Shape(int(found[1]), int(found[2]), types[0], types[1], types[2], "satfinite" in form.parts)
    if shape.n % 8 or not 8 <= shape.n <= 256 or shape.k * SIZES[shape.a] != 32:
        raise UnsupportedForm(f"m64n{shape.n}k{shape.k} with {shape.a}")
    return shape


def warpgroups(x: Context, pc: int) -> list[LaneSet]:
    """The executing lanes as whole warpgroups.

    Raises:
        Incomplete: A warpgroup lacks threads.
    """

    def split(lanes: LaneSet) -> list[LaneSet] | None:
        stride = x.batch.state.geometry.stride
        index = lanes.index
        if len(index) % 128:
            return None
        table = index.reshape(-1, 128)
        whole = (table[:, -1] - table[:, 0] == 127) & (table[:, 0] % stride % 128 == 0)
        return [x.batch.pool.of(row) for row in table] if whole.all() else None

    groups = x.lanes.fact("warpgroups", split)
    if groups is None:
        raise Incomplete(pc, _complete_mask(x))
    return groups  # type: ignore[no-any-return]


def _complete_mask(x: Context) -> Array:
    geometry = x.batch.state.geometry
    index = x.lanes.index
    key = index // geometry.stride * 64 + index % geometry.stride // 128
    _, inverse, counts = np.unique(key, return_inverse=True, return_counts=True)
    return (counts == 128)[inverse]


def state_of(x: Context, lanes: LaneSet) -> Warpgroup:
    """A warpgroup's state."""
    table: dict[int, Warpgroup] = x.batch.extension("wgmma", _new_table)
    return table.setdefault(lanes.first, Warpgroup())


def _new_table(batch: Any) -> dict[int, Warpgroup]:
    batch.register_watchers.append(touch)
    return {}


@effect("wgmma.fence", isa="9.7.15.7.1", counter="wgmma", lenient=True, architectures=_HOPPER)
def fence(b: Any) -> Step:
    """Order register accesses before the next wgmma."""
    pc, where = b.pc, b.where

    def step(x: Context) -> None:
        for lanes in warpgroups(x, pc):
            for observer in x.batch.watchers("on_wgmma_fence"):
                observer.on_wgmma_fence(x, lanes, where)

    return step


@effect("wgmma.mma_async", isa="9.7.15.5.2", counter="wgmma", lenient=True, architectures=_HOPPER)
def mma_async(b: Any) -> Step:
    """D = A·B (+ D) for a warpgroup, A in registers or shared memory."""
    shape = parse_shape(b.form)
    is_half = shape.result == "f16"
    registers = b.destinations(b.operands[0], "b32")
    rows = np.array([b.program.slots[slot].row for slot in registers])
    if len(rows) != shape.n // (4 if is_half else 2):
        raise b.unknown(f"{len(rows)} accumulator registers")
    from_registers = isinstance(b.operands[1], Vector)
    if from_registers:
        a_slots = b.sources(b.operands[1], "b32")
        a_rows = np.array([b.program.slots[slot].row for slot in a_slots])
        a_source = -1
        inputs = frozenset(("b32", int(row)) for row in a_rows)
    else:
        a_source, a_rows, inputs = b.source(b.operands[1], "b64"), np.zeros(0, int), frozenset()
    b_source, scale_d = b.source(b.operands[2], "b64"), _scale_d(b)
    rest = [b.constant(o) for o in b.operands[4:]]
    issue = _Issue(shape, rows, a_rows, inputs, _signs(rest), _transposes(rest, from_registers, shape), b)
    pc, where = b.pc, b.where

    def step(x: Context) -> None:
        groups = warpgroups(x, pc)
        for lanes in groups:
            issue.run(
                x, lanes, int(x.first_of(a_source, lanes)) if a_source >= 0 else None,
                int(x.first_of(b_source, lanes)), bool(x.first_of(scale_d, lanes)), where,
            )  # fmt: skip

    return step


def _scale_d(b: Any) -> int:
    return int(b.source(b.operands[3], "pred"))


def _signs(rest: list[int]) -> tuple[int, int]:
    return (rest[0], rest[1]) if len(rest) >= 2 else (1, 1)


def _transposes(rest: list[int], from_registers: bool, shape: Shape) -> tuple[bool, bool]:
    if len(rest) <= 2:
        return False, False
    return (False, bool(rest[2])) if from_registers else (bool(rest[2]), bool(rest[3]))


class _Issue:
    """One ``wgmma.mma_async``, bound."""

    def __init__(
        self, shape: Shape, rows: Array, a_rows: Array, inputs: frozenset[tuple[str, int]], signs: tuple[int, int],
        transposes: tuple[bool, bool], b: Any,
    ) -> None:  # fmt: skip
        self.shape = shape
        self.rows = _as_slice(rows)
        self.a_rows = a_rows
        self.inputs = inputs
        self.signs = signs
        self.transposes = transposes
        self.registers = frozenset(("b32", int(row)) for row in rows)
        self.key = tuple(rows.tolist())
        self.flops = 2 * 64 * shape.n * shape.k

    def run(self, x: Context, lanes: LaneSet, a: int | None, b: int, scale_d: bool, where: Any) -> None:
        shape = self.shape
        group = state_of(x, lanes)
        key = (x.frame.identity, self.key)
        chain = group.chains.get(key)
        if chain is None:
            chain = self._start(x, lanes, scale_d, where)
            group.chains[key] = chain
        elif not scale_d:
            chain.matrix[...] = 0
        if key not in group.current:
            group.current.append(key)
        chain.inputs = chain.inputs | self.inputs
        for observer in x.batch.watchers("on_wgmma"):
            observer.on_wgmma(x, lanes, self.registers, self.inputs, where)
        left = self._left(x, lanes, a, where)
        operand = self._operand("B", b, shape.n, shape.b, self.transposes[1])
        right = self._tile(x, lanes, operand, where)
        accumulate(chain.matrix, left, right, self.signs[0] * self.signs[1], shape)
        x.batch.launch.tensor_flops["wgmma", shape.a] += self.flops
        x.batch.inflight |= self.registers | self.inputs

    def _left(self, x: Context, lanes: LaneSet, a: int | None, where: Any) -> Array:
        shape = self.shape
        if a is not None:
            operand = self._operand("A", a, 64, shape.a, self.transposes[0])
            return self._tile(x, lanes, operand, where)
        registers = x.frame.banks["b32"][self.a_rows][:, lanes.selector]
        return decode_elements(layouts.a_registers_to_matrix(registers, SIZES[shape.a]), shape.a)

    def _operand(self, name: str, bits: int, rows: int, kind: str, transposed: bool) -> Operand:
        return Operand(
            name, layouts.plan(bits, False, rows, SIZES[kind], self.shape.k, transposed), kind, transposed
        )  # fmt: skip

    @staticmethod
    def _tile(x: Context, lanes: LaneSet, operand: Operand, where: Any) -> Array:
        cta = int(x.batch.state.cta_of[lanes.first])
        if operand.transposed and SIZES[operand.kind] != 2:
            raise x.fault("descriptor", where, f"operand {operand.name}: only 16-bit types can be MN-major")
        check_operand(x, operand, cta, lanes, where)
        return read_operand(x.batch.state, operand, cta)

    def _start(self, x: Context, lanes: LaneSet, scale_d: bool, where: Any) -> Chain:
        shape = self.shape
        if scale_d:
            registers = x.frame.banks["b32"][self.rows, lanes.selector]
            matrix = load_accumulator(registers, shape.result)
        else:
            matrix = np.zeros((64, shape.n), np.int32 if shape.result == "s32" else np.float32)
        return Chain(lanes, x.frame, self.rows, self.registers, matrix, where)


def _as_slice(rows: Array) -> Any:
    if len(rows) > 1 and (np.diff(rows) == 1).all():
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows


def load_accumulator(registers: Array, kind: str) -> Array:
    """Registers to a matrix to accumulate in."""
    if kind == "f16":
        return layouts.packed_accumulator_to_matrix(registers).view(np.float16).astype(np.float32)
    return layouts.accumulator_to_matrix(registers.view(np.int32 if kind == "s32" else np.float32))


def store_accumulator(matrix: Array, packed: bool) -> Array:
    """A matrix to registers."""
    if packed:
        return layouts.matrix_to_packed_accumulator(matrix.astype(np.float16).view(np.uint16))
    return layouts.matrix_to_accumulator(matrix).view(np.uint32)


def accumulate(matrix: Array, left: Array, right: Array, sign: int, shape: Shape) -> None:
    """Add a product.

    Products and sums are float32; the tensor core's own rounding of partial sums differs in the last bits.
    """
    product = left @ right.T
    if sign < 0:
        product = -product
    if shape.result == "s32":
        total = matrix.astype(np.int64) + product.astype(np.int64)
        matrix[...] = np.clip(total, -(1 << 31), (1 << 31) - 1) if shape.saturates else total.astype(np.int32)
    elif shape.result == "f16":
        matrix[...] = (matrix + product).astype(np.float16)
    else:
        matrix += product


@effect("wgmma.commit_group", isa="9.7.15.7.2", counter="wgmma", lenient=True, architectures=_HOPPER)
def commit(b: Any) -> Step:
    """Close the group of wgmma operations."""
    pc = b.pc

    def step(x: Context) -> None:
        for lanes in warpgroups(x, pc):
            group = state_of(x, lanes)
            for key in group.current:
                group.chains[key].open_groups += 1
            group.groups.append(group.current)
            group.current = []
            for observer in x.batch.watchers("on_wgmma_commit"):
                observer.on_wgmma_commit(x, lanes)

    return step


@effect("wgmma.wait_group", isa="9.7.15.7.3", counter="wgmma", lenient=True, architectures=_HOPPER)
def wait(b: Any) -> Step:
    """Wait until at most N groups are unfinished; their accumulators become readable."""
    allowed, pc = b.constant(b.operands[0]), b.pc

    def step(x: Context) -> None:
        for lanes in warpgroups(x, pc):
            group = state_of(x, lanes)
            keep = len(group.groups) - allowed
            if keep > 0:
                done, group.groups = group.groups[:keep], group.groups[keep:]
                for key in (key for keys in done for key in keys):
                    group.chains[key].open_groups -= 1
            retire(group)
            for observer in x.batch.watchers("on_wgmma_wait"):
                observer.on_wgmma_wait(x, lanes, allowed)
        refresh(x.batch)

    return step


def retire(group: Warpgroup, *, everything: bool = False) -> None:
    """Write the accumulators of finished chains to their registers."""
    for key, chain in list(group.chains.items()):
        if everything or (chain.open_groups == 0 and key not in group.current):
            packed = chain.frame.banks["b32"][chain.rows, chain.lanes.selector].shape[0] * 4 == chain.matrix.shape[1]
            chain.frame.banks["b32"][chain.rows, chain.lanes.selector] = store_accumulator(chain.matrix, packed)
            del group.chains[key]


def refresh(batch: Any) -> None:
    """Recompute the registers that are in flight anywhere."""
    table: dict[int, Warpgroup] = batch.extensions.get("wgmma", {})
    batch.inflight = frozenset().union(*(c.registers | c.inputs for g in table.values() for c in g.chains.values()))


def touch(x: Context, instruction: Any) -> None:
    """An instruction names registers of an unfinished wgmma; if these lanes own it, report and finish it."""
    if instruction.form.row.counter == "wgmma":
        return
    table: dict[int, Warpgroup] = x.batch.extensions.get("wgmma", {})
    for first, group in table.items():
        for chain in group.chains.values():
            if chain.frame is not x.frame or not _overlaps(x.lanes, first):
                continue
            hit = instruction.registers & (chain.registers | chain.inputs)
            if not hit:
                continue
            kind = "accumulator" if hit & chain.registers else "A operand"
            x.batch.log.warn(
                "wgmma-in-flight", instruction.where,
                f"{instruction.opcode} uses {kind} registers of the wgmma.mma_async issued at {chain.where} before "
                "wgmma.wait_group; ptxas serialises such code",
            )  # fmt: skip
            retire(group, everything=True)
            group.groups, group.current = [], []
            refresh(x.batch)
            return


def _overlaps(lanes: LaneSet, first: int) -> bool:
    at = int(np.searchsorted(lanes.index, first))
    return at < lanes.count and int(lanes.index[at]) < first + 128
