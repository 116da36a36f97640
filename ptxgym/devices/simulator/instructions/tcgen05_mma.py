"""Fifth-generation tensor cores: ``tcgen05.mma`` and ``tcgen05.commit`` (PTX ISA 9.7.16.10, 9.7.16.12).

An operation reads shared memory and changes tensor memory when it completes, in issue order; a commit's
arrival comes after the operations before it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ptxgym.devices.simulator import layouts
from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.formats import decode_small
from ptxgym.devices.simulator.instructions.bulk_copy import multicast_targets
from ptxgym.devices.simulator.instructions.mbarrier import flat_offsets, mbarriers
from ptxgym.devices.simulator.instructions.tcgen05_footprint import (
    A_COLUMNS,
    Request,
    check_lanes,
    check_parts,
    footprint,
)
from ptxgym.devices.simulator.matrices import (
    Operand,
    check_operand,
    decode_elements,
    raw_type,
    read_operand,
    unpack_nibbles,
)
from ptxgym.devices.simulator.products import (
    CONTAINER_SHIFT,
    PADDED,
    TYPES,
    Instruction,
    K,
    Layout,
    accumulate,
    plan_of,
    selected_columns,
)
from ptxgym.devices.simulator.ptx.syntax import Address, Vector
from ptxgym.devices.simulator.table import Step, UnsupportedForm, effect
from ptxgym.devices.simulator.tensor_memory import LANES, SHIFTED_COLUMNS, TensorMemory, tensor_memory
from ptxgym.devices.simulator.types import SIZES, Array

_BLACKWELL = ("100a",)
_KINDS = {f"kind::{kind}": kind for kind in TYPES}
_FACTORS = {
    "mxf8f6f4": {"": 1, "scale_vec::1X": 1, "block32": 1},
    "mxf4": {"": 2, "scale_vec::2X": 2, "block32": 2},
    "mxf4nvf4": {"scale_vec::2X": 2, "scale_vec::4X": 4, "block32": 2, "block16": 4},
}
"""Scale factors of a row, by kind and modifier (9.7.16.10.7.1)."""


def _collector(*buffers: str) -> str:
    """What may be kept in the tensor core; the values are the same."""
    return " ".join(f"collector::{b}::{use}" for b in buffers for use in ("fill", "use", "lastuse", "discard"))


@effect("tcgen05.mma", "", isa="9.7.16.10.9.1", counter="tcgen05", architectures=_BLACKWELL,
        modifiers=f"cta_group::1 cta_group::2 {' '.join(_KINDS)} block_scale scale_vec::1X scale_vec::2X scale_vec::4X "
        f"block16 block32 ashift {_collector('a')}")  # fmt: skip
def mma(b: Any) -> Step:
    """D = A·B (+ D), D in tensor memory, A in tensor or shared memory."""
    return _Issue(b).step


@effect(
    "tcgen05.mma.ws",
    "",
    isa="9.7.16.10.9.3",
    counter="tcgen05",
    architectures=_BLACKWELL,
    modifiers=f"cta_group::1 {' '.join(k for k in _KINDS if 'mx' not in k)} {_collector('b0', 'b1', 'b2', 'b3')}",
)
def mma_ws(b: Any) -> Step:
    """The same with B held in the tensor core; fewer rows, in other lanes."""
    return _Issue(b, weight_stationary=True).step


class _Issue:
    """One ``tcgen05.mma``, bound."""

    def __init__(self, b: Any, *, weight_stationary: bool = False) -> None:
        self.kind = next((kind for m, kind in _KINDS.items() if b.form.has(m)), "")
        if not self.kind:
            raise UnsupportedForm("this kind")
        self.weight_stationary = weight_stationary
        self.k = K[self.kind]
        self.pair, self.shifts = b.form.has("cta_group::2"), b.form.has("ashift")
        self.scaled = b.form.has("block_scale")
        self.where, self.unknown = b.where, b.unknown
        operands = list(b.operands)
        self.d = b.address(operands[0])
        self.a_in_tmem = isinstance(operands[1], Address)
        self.a_address = b.address(operands[1]) if self.a_in_tmem else None
        self.a = -1 if self.a_in_tmem else b.source(operands[1], "b64")
        self.b, self.idesc = b.source(operands[2], "b64"), b.source(operands[3], "u32")
        rest = operands[4:]
        self.scales = [b.address(rest.pop(0)) for _ in range(2)] if self.scaled else []
        self.factors = _factors(b, self.kind) if self.scaled else 0
        self.mask = b.sources(rest.pop(0), "b32") if isinstance(rest[0], Vector) else []
        if len(self.mask) not in (0, 8 if self.pair else 4):
            raise UnsupportedForm(f"{len(self.mask)} words of disable-output-lane")
        self.enable = b.source(rest[0], "pred")
        more = rest[1:]
        self.columns = b.source(more.pop(), "b64") if weight_stationary and more else -1
        self.input_scale = 0.5 ** b.constant(more[0]) if more else 1.0

    def step(self, x: Context) -> None:
        """Issue for every executing thread."""
        d = self.d(x).tolist()
        a = (self.a_address(x) if self.a_address is not None else x.get(self.a)).tolist()
        b, idesc, enable = x.get(self.b).tolist(), x.get(self.idesc).tolist(), x.get(self.enable).tolist()
        scales = list(zip(*[s(x).tolist() for s in self.scales], strict=True)) or [()] * len(d)
        masks = self._masks(x)
        columns = x.get(self.columns).tolist() if self.columns >= 0 else [0] * len(d)
        for i, lane in enumerate(x.each_lane()):
            what, layout = self._decode(x, idesc[i], i)
            request = Request(i, lane, d[i], a[i], self.a_in_tmem, b[i], what, layout, enable[i], scales[i], masks[i],
                              columns[i])  # fmt: skip
            check_lanes(x, request, self.where)
            self._issue(x, request)

    def _masks(self, x: Context) -> list[tuple[Array, ...]]:
        """``disable-output-lane``: one bit per lane, four words for each CTA."""
        if not self.mask:
            return [()] * x.lanes.count
        words = np.stack([x.get(slot) for slot in self.mask], axis=1).astype("<u4")
        bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little").astype(np.bool_)
        return [tuple(row.reshape(-1, LANES)) if row.any() else () for row in bits]

    def _decode(self, x: Context, bits: int, position: int) -> tuple[Instruction, Layout]:
        try:
            what, layout, problem = plan_of(bits, self.kind, self.pair, self.weight_stationary)
        except ValueError as error:
            raise self.unknown(f"instruction descriptor {bits:#x}: {error}") from None
        if self.shifts and what.m < 128:
            problem = problem or f".ashift needs M=128 or 256, not {what.m}"
        if problem is not None or layout is None:
            raise x.fault("instruction-descriptor", self.where, problem or "", position)
        return what, layout

    def _issue(self, x: Context, r: Request) -> None:
        batch, what = x.batch, r.what
        cta = int(batch.state.cta_of[r.lane])
        ctas = [cta & ~1, cta | 1] if self.pair else [cta]
        left, right = self._operands(x, r, ctas)
        memories = [tensor_memory(batch, owner) for owner in ctas]
        parts = footprint(r)
        for memory in memories:
            check_parts(x, memory, parts, r, self.where)
        batch.launch.tensor_flops["tcgen05", what.a] += 2 * what.m * what.n * self.k
        for owner in ctas:
            self._announce(batch, owner, r)

        def run() -> None:
            b_matrix = np.concatenate([read_operand(batch.state, right, owner) for owner in ctas])
            if r.columns:
                zeros, shift = selected_columns(r.columns, what.n, r.layout.groups)
                b_matrix = np.where(zeros[:, None], 0, b_matrix[shift : shift + what.n])
            for i, memory in enumerate(memories):
                a_parts = [read_operand(batch.state, left, ctas[i])] if left else self._a_from_tmem(memory, r)
                product = self._multiply(memory, a_parts, b_matrix, r)
                accumulate(memory, r.layout, r.d, product, what, self.input_scale if r.enable else None,
                           r.disabled[i] if r.disabled else None)  # fmt: skip
                if self.shifts:
                    memory.shift(r.a & 0xFFFF)

        operation = batch.later(run)
        column, width = r.d & 0xFFFF, what.n // r.layout.groups
        for memory in memories:
            memory.busy.append((column, column + width, operation, self.where))
            if self.shifts:
                memory.busy.append((r.a & 0xFFFF, (r.a & 0xFFFF) + SHIFTED_COLUMNS, operation, self.where))

    def _announce(self, batch: Any, cta: int, r: Request) -> None:
        """Tell the checks which tensor memory the product touches."""
        rows = slice(r.d >> 20 & 1, 8, 2) if r.layout.spread else slice(0, 8)
        width = r.what.n // r.layout.groups
        touched = [("mma", rows, r.d & 0xFFFF, width)]
        if self.a_in_tmem:
            touched.append(("shift" if self.shifts else "operand", rows, r.a & 0xFFFF, A_COLUMNS))
        if self.scaled:
            sizes = (-(-r.layout.rows // 32), -(-width // 32))
            touched += [("operand", slice(0, 8), s & 0xFFFF, n) for s, n in zip(r.scales, sizes, strict=True)]
        for observer in batch.watchers("on_tensor_access"):
            for kind, lanes, column, count in touched:
                observer.on_tensor_access(batch, kind, r.lane, cta, lanes, slice(column, column + count), self.where)

    # -- operands ------------------------------------------------------------------------------------

    def _operands(self, x: Context, r: Request, ctas: list[int]) -> tuple[Operand | None, Operand]:
        what, share = r.what, len(ctas)
        shift = selected_columns(r.columns, what.n, r.layout.groups)[1] if r.columns else 0
        right = self._operand(x, "B", r.b, what.n // share + shift, what.b, what.transpose_b, r.position)
        left = None
        if not self.a_in_tmem:
            left = self._operand(x, "A", r.a, what.m // share, what.a, what.transpose_a, r.position)
        lanes = x.batch.pool.of(np.array([r.lane]))
        for owner in ctas:
            check_operand(x, right, owner, lanes, self.where)
            if left is not None:
                check_operand(x, left, owner, lanes, self.where)
        return left, right

    def _operand(
        self, x: Context, name: str, bits: int, rows: int, kind: str, transposed: bool, position: int
    ) -> Operand:  # fmt: skip
        try:
            operand = _operand_of(name, bits, rows, kind, transposed, self.k)
        except KeyError:
            raise x.fault("descriptor", self.where, f"shared-memory descriptor {bits:#x} has a reserved swizzle mode "
                          f"({bits >> 61 & 7})", position) from None  # fmt: skip
        if transposed and (operand.plan.descriptor.swizzle == "128B_atom_32B") != (kind == "tf32"):
            raise x.fault("descriptor", self.where, f"operand {name}: MN-major tiles of {kind} "
                          f"{'need' if kind == 'tf32' else 'cannot have'} the 128-byte swizzle with 32-byte atoms",
                          position)  # fmt: skip
        return operand

    def _a_from_tmem(self, memory: TensorMemory, r: Request) -> list[Array]:
        """A as each group of columns of D sees it."""
        return [self._a_rows(memory, r, r.layout.lanes(group)) for group in range(r.layout.groups)]

    def _a_rows(self, memory: TensorMemory, r: Request, lanes: Array) -> Array:
        column, kind = r.a & 0xFFFF, r.what.a
        words = np.ascontiguousarray(memory.words[lanes + (r.a >> 16), column : column + A_COLUMNS])
        raw = words.view(raw_type(kind))
        if self.k == 64:
            return decode_elements(unpack_nibbles(raw), kind)
        return decode_elements(raw >> CONTAINER_SHIFT[kind] if kind in PADDED else raw, kind)

    # -- arithmetic ----------------------------------------------------------------------------------

    def _multiply(self, memory: TensorMemory, a: list[Array], b: Array, r: Request) -> Array:
        """A·B, [rows, N]; ``a`` is the same for all groups of columns, or one for each."""
        if self.scaled:
            return self._multiply_scaled(memory, a, b, r)
        if len(a) == 1:
            product: Array = a[0] @ b.T
            return product
        return np.concatenate([part @ b[r.layout.columns(r.what.n, i)].T for i, part in enumerate(a)], axis=1)

    def _multiply_scaled(self, memory: TensorMemory, a: list[Array], b: Array, r: Request) -> Array:
        """Every 32 lanes of D are computed with the copy of the scales in the same lanes."""
        what, layout = r.what, r.layout
        result = np.empty((layout.rows, what.n), np.float32)
        for first in range(0, LANES, 32):
            group, row = divmod(first, layout.rows)
            rows, columns = slice(row, row + 32), layout.columns(what.n, group)
            left = a[group % len(a)][rows] * self._scales(memory, first, r.scales[0], rows, what.scale_a, what)
            inside = slice(0, columns.stop - columns.start)
            right = b[columns] * self._scales(memory, first, r.scales[1], inside, what.scale_b, what)
            result[rows, columns] = left @ right.T
        return result

    def _scales(
        self, memory: TensorMemory, first: int, address: int, rows: slice, which: int, what: Instruction
    ) -> Array:  # fmt: skip
        """[rows, K] scale factors: row r's word is in lane r % 32 of each 32, column r // 32 (9.7.16.10.7).

        With M=128 over two CTAs the lower 64 lanes have the scales of B's first half, the upper those of the second
        (CUTLASS's ``tmem_sf_frg``, ``ScaleFactorDuplicated2by2``).
        """
        row = np.arange(rows.start, rows.stop)
        words = memory.words[first + row % 32, (address & 0xFFFF) + row // 32]
        shifts = np.array([8 * (which + i & 3) for i in range(self.factors)], np.uint32)
        values = decode_small(words[:, None] >> shifts & np.uint32(255), what.scale_type)
        return np.repeat(values, self.k // self.factors, axis=1)


@lru_cache(maxsize=4096)
def _operand_of(name: str, bits: int, rows: int, kind: str, transposed: bool, k: int) -> Operand:
    """The tile that a shared-memory descriptor names; a reserved swizzle mode is a KeyError."""
    packed = k == 64
    rows += -rows % (16 // SIZES[kind]) if transposed else 0
    plan = layouts.plan(bits, True, rows, SIZES[kind], k // 2 if packed else k, transposed)
    return Operand(name, plan, kind, transposed, packed, 0 if packed else PADDED.get(kind, 0))


def _factors(b: Any, kind: str) -> int:
    size = next((m for m in b.form.parts if m.startswith("scale_vec") or m in ("block16", "block32")), "")
    if size not in _FACTORS[kind]:
        raise UnsupportedForm(f"kind::{kind} with {size or 'no scale vector size'}")
    return _FACTORS[kind][size]


@effect("tcgen05.commit", "b64", isa="9.7.16.12.1", modifiers="cta_group::1 cta_group::2 mbarrier::arrive::one "
        "shared::cluster shared::cta multicast::cluster", counter="tcgen05", architectures=_BLACKWELL)  # fmt: skip
def commit(b: Any) -> Step:
    """Signal a barrier once the thread's earlier operations are complete."""
    address, where = b.address(b.operands[0]), b.where
    mask = b.source(b.operands[1], "b16") if b.form.has("multicast::cluster") else -1
    space = "shared" if any(m.startswith("shared") for m in b.form.modifiers) else ""

    def step(x: Context) -> None:
        batch = x.batch
        offsets = flat_offsets(x, address(x), where, 8, space).tolist()
        masks = x.get(mask).tolist() if mask >= 0 else [0] * len(offsets)
        targets = [multicast_targets(x, m, o) if m else [o] for m, o in zip(masks, offsets, strict=True)]
        barriers = [[mbarriers(batch).get(x, o, where) for o in each] for each in targets]
        contexts = [_context_of(x, lane) for lane in x.each_lane()]
        for lane in x.each_lane():
            for observer in batch.watchers("on_tensor_commit_issue"):
                observer.on_tensor_commit_issue(batch, lane)

        def run() -> None:
            for context, each in zip(contexts, barriers, strict=True):
                for observer in batch.watchers("on_tensor_commit"):
                    observer.on_tensor_commit(context, each)
                for barrier in each:
                    mbarriers(batch).arrive(barrier, 1, where)

        batch.later(run)

    return step


def _context_of(x: Context, lane: int) -> Context:
    context = Context(x.batch)
    context.enter(x.batch.pool.of(np.array([lane])), x.frame)
    return context


assert set(SIZES) >= {kind for types in TYPES.values() for kind in types.values()}
