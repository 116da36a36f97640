"""Fifth-generation tensor cores: ``tcgen05.mma`` and ``tcgen05.commit`` (PTX ISA 9.7.16.10, 9.7.16.12).

An operation reads shared memory and changes tensor memory when it completes, in issue order; a commit's
arrival comes after the operations before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ptxgym.devices.simulator import layouts
from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.formats import decode_small
from ptxgym.devices.simulator.instructions.bulk_copy import multicast_targets
from ptxgym.devices.simulator.instructions.mbarrier import flat_offsets, mbarriers
from ptxgym.devices.simulator.matrices import (
    Operand,
    check_operand,
    decode_elements,
    raw_type,
    read_operand,
    unpack_nibbles,
)
from ptxgym.devices.simulator.ptx.syntax import Address, Vector
from ptxgym.devices.simulator.table import Step, UnsupportedForm, effect
from ptxgym.devices.simulator.tensor_memory import TensorMemory, tensor_memory
from ptxgym.devices.simulator.types import SIZES, Array

_BLACKWELL = ("100a",)
_TYPES: dict[str, dict[int, str]] = {
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "f8f6f4": {0: "e4m3", 1: "e5m2"},
    "mxf8f6f4": {0: "e4m3", 1: "e5m2"},
    "i8": {0: "u8", 1: "s8"},
    "mxf4": {1: "e2m1"},
    "mxf4nvf4": {1: "e2m1"},
}
"""Operand types by kind and code.  The 6- and 4-bit types of f8f6f4 sit in padded bytes and have no row."""
_K = {"f16": 16, "tf32": 8, "f8f6f4": 32, "mxf8f6f4": 32, "i8": 32, "mxf4": 64, "mxf4nvf4": 64}
_KINDS = tuple(f"kind::{k}" for k in _TYPES)


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction descriptor (9.7.16.4.2)."""

    a: str
    b: str
    result: int
    """0 F16, 1 F32, 2 S32."""
    negate: int
    transpose_a: bool
    transpose_b: bool
    n: int
    m: int
    scale_a: int
    """Byte of the scale word that applies, for block scaling."""
    scale_b: int
    scale_type: int


@lru_cache(maxsize=256)
def decode_instruction(bits: int, kind: str) -> Instruction:
    """Take a descriptor apart.

    Raises:
        ValueError: A field has no meaning for the kind.
    """
    scaled = kind.startswith("mx")
    mask = 3 if kind in ("mxf4", "mxf4nvf4") else 7
    types = _TYPES[kind]
    a, b = types.get(bits >> 7 & 7), types.get(bits >> 10 & mask)
    if a is None or b is None:
        raise ValueError(f"the type codes {bits >> 7 & 7} and {bits >> 10 & mask}")
    if bits >> 2 & 1:
        raise ValueError("the sparsity bit")
    return Instruction(
        a, b, 1 if scaled else bits >> 4 & 3, -1 if (bits >> 13 ^ bits >> 14) & 1 else 1, bool(bits >> 15 & 1),
        bool(bits >> 16 & 1), (bits >> 17 & 63) * 8, (bits >> 27 & 3) * 128 if scaled else (bits >> 24 & 31) * 16,
        bits >> 29 & 3, bits >> 4 & 3, bits >> 23 & 1,
    )  # fmt: skip


# -- where rows of D live ------------------------------------------------------------------------------
# Layouts D (M=128), F (M=64), A (M=256 over two CTAs) and B (M=128 over two CTAs), 9.7.16.10.5.


@lru_cache(maxsize=64)
def result_place(m: int, n: int, pair: bool) -> tuple[Array, Array]:
    """Lane and column of each element of a CTA's part of D, broadcast to [rows, N]."""
    rows = m // 2 if pair else m
    row, column = np.arange(rows)[:, None], np.arange(n)[None, :]
    if pair and m == 128:
        return row + 64 * (column >= n // 2), column % (n // 2) + 0 * row
    if not pair and m == 64:
        return row // 16 * 32 + row % 16 + 0 * column, column + 0 * row
    return row + 0 * column, column + 0 * row


@effect("tcgen05.mma", "", isa="9.7.16.10.9", counter="tcgen05", lenient=True, architectures=_BLACKWELL)
def mma(b: Any) -> Step:
    """D = A·B (+ D), D in tensor memory, A in tensor or shared memory."""
    kind = next((m.split("::")[1] for m in b.form.parts if m in _KINDS), "")
    if not kind or b.form.modifiers & {"sp", "ws"}:
        raise UnsupportedForm("sparse or .ws tcgen05.mma")
    issue = _Issue(b, kind)
    return issue.step


class _Issue:
    """One ``tcgen05.mma``, bound."""

    def __init__(self, b: Any, kind: str) -> None:
        self.kind, self.k = kind, _K[kind]
        self.pair = b.form.has("cta_group::2")
        self.scaled = "block_scale" in b.form.parts
        self.where = b.where
        self.unknown = b.unknown
        operands = list(b.operands)
        self.d = b.address(operands[0])
        self.a_in_tmem = isinstance(operands[1], Address)
        self.a_address = b.address(operands[1]) if self.a_in_tmem else None
        self.a = -1 if self.a_in_tmem else b.source(operands[1], "b64")
        self.b, self.idesc = b.source(operands[2], "b64"), b.source(operands[3], "u32")
        rest = operands[4:]
        self.scales = [b.address(rest.pop(0)) for _ in range(2)] if self.scaled else []
        if rest and isinstance(rest[0], Vector):
            raise UnsupportedForm("disable-output-lane")
        self.enable = b.source(rest[0], "pred")
        if len(rest) > 1:
            raise UnsupportedForm("scale-input-d")

    def step(self, x: Context) -> None:
        """Issue for every executing thread."""
        d = self.d(x).tolist()
        a = (self.a_address(x) if self.a_address is not None else x.get(self.a)).tolist()
        b, idesc, enable = x.get(self.b).tolist(), x.get(self.idesc).tolist(), x.get(self.enable).tolist()
        scales = list(zip(*[s(x).tolist() for s in self.scales], strict=True)) or [(0, 0)] * len(d)
        for i, lane in enumerate(x.each_lane()):
            try:
                what = decode_instruction(idesc[i], self.kind)
            except ValueError as error:
                raise self.unknown(f"instruction descriptor {idesc[i]:#x}: {error}") from None
            self._issue(x, lane, i, d[i], a[i], b[i], what, enable[i], scales[i])

    def _issue(
        self, x: Context, lane: int, position: int, d: int, a: int, b: int, what: Instruction, enable: bool,
        scales: tuple[int, int],
    ) -> None:  # fmt: skip
        batch = x.batch
        self._check(x, what, position)
        cta = int(batch.state.cta_of[lane])
        ctas = [cta & ~1, cta | 1] if self.pair else [cta]
        rows, columns = what.m // len(ctas), what.n // len(ctas)
        right = self._operand(x, "B", b, columns, what.b, what.transpose_b, position)
        left = None if self.a_in_tmem else self._operand(x, "A", a, rows, what.a, what.transpose_a, position)
        lanes = batch.pool.of(np.array([lane]))
        for owner in ctas:
            check_operand(x, right, owner, lanes, self.where)
            if left is not None:
                check_operand(x, left, owner, lanes, self.where)
        place, width = result_place(what.m, what.n, self.pair), what.n // 2 if self.pair and what.m == 128 else what.n
        memories = [tensor_memory(batch, owner) for owner in ctas]
        for memory in memories:
            self._check_result(x, memory, d & 0xFFFF, width, place, enable, position)
        batch.launch.tensor_flops["tcgen05", what.a] += 2 * what.m * what.n * self.k

        def run() -> None:
            b_matrix = np.concatenate([read_operand(batch.state, right, owner) for owner in ctas])
            if self.scaled:
                b_matrix = b_matrix * self._scales(
                    memories[0], scales[1] & 0xFFFF, what.n, what.scale_b, what.scale_type
                )
            for owner, memory in zip(ctas, memories, strict=True):
                a_matrix = (
                    read_operand(batch.state, left, owner) if left else self._a_from_tmem(memory, a, rows, what.a)
                )
                if self.scaled:
                    sizes = self._scales(memory, scales[0] & 0xFFFF, rows, what.scale_a, what.scale_type)
                    a_matrix = a_matrix * sizes
                accumulate(memory, place, d, a_matrix @ b_matrix.T, what, enable)

        operation = batch.later(run)
        for memory in memories:
            memory.busy.append((d & 0xFFFF, (d & 0xFFFF) + width, operation, self.where))

    def _check(self, x: Context, what: Instruction, position: int) -> None:
        allowed = (128, 256) if self.pair else (64, 128)
        step = 16 if self.pair or what.m == 128 else 8
        if self.kind in ("i8",):
            step = 16
        if what.m not in allowed or what.n % step or not step <= what.n <= 256:
            raise x.fault(
                "instruction-descriptor",
                self.where,
                f"M={what.m}, N={what.n} is no shape of tcgen05.mma with cta_group::{2 if self.pair else 1}",
                position,
            )
        if what.result == 0:
            raise self.unknown("F16 accumulators")

    def _operand(
        self, x: Context, name: str, bits: int, rows: int, kind: str, transposed: bool, position: int
    ) -> Operand:  # fmt: skip
        packed = self.k == 64
        try:
            plan = layouts.plan(bits, True, rows, SIZES[kind], self.k // 2 if packed else self.k, transposed)
        except KeyError:
            raise x.fault("descriptor", self.where, f"shared-memory descriptor {bits:#x} has a reserved swizzle mode "
                          f"({bits >> 61 & 7})", position) from None  # fmt: skip
        return Operand(name, plan, kind, transposed, packed)

    def _check_result(
        self, x: Context, memory: TensorMemory, column: int, width: int, place: tuple[Array, Array], enable: bool,
        position: int,
    ) -> None:  # fmt: skip
        if not memory.is_allocated(column, width):
            raise x.fault(
                "tmem-out-of-bounds",
                self.where,
                f"D needs columns {column} to {column + width - 1} of tensor memory, which are not allocated",
                position,
            )
        rows, columns = place
        if self._fresh(memory, column, width, rows):
            return
        if enable and memory.unfinished(column, width) is None and not memory.written[rows, columns + column].all():
            x.warn("tmem-uninitialised", self.where, "accumulates onto tensor memory that nothing has written (is "
                   "enable-input-d false for the first k-step?)", position)  # fmt: skip

    @staticmethod
    def _fresh(memory: TensorMemory, column: int, width: int, rows: Array) -> bool:
        """Whether whole columns were written before, the common case."""
        return rows.shape[0] == 128 and bool(memory.written[:, column : column + width].all())

    def _a_from_tmem(self, memory: TensorMemory, address: int, rows: int, kind: str) -> Array:
        column = address & 0xFFFF
        lanes = np.arange(rows) if rows == 128 else np.arange(rows) // 16 * 32 + np.arange(rows) % 16
        words = np.ascontiguousarray(memory.words[lanes, column : column + 8])
        raw = words.view(raw_type(kind))
        return decode_elements(unpack_nibbles(raw) if self.k == 64 else raw, kind)

    def _scales(self, memory: TensorMemory, column: int, rows: int, which: int, scale_type: int) -> Array:
        """[rows, K] scale factors; row r's word is in lane r % 32, column r // 32 (9.7.16.10.7)."""
        row = np.arange(rows)
        words = memory.words[row % 32, column + row // 32]
        per_row = {"mxf8f6f4": 1, "mxf4": 2, "mxf4nvf4": 4}[self.kind]
        if per_row == 4 and scale_type == 1:
            per_row = 2  # mxf4nvf4 with ue8m0 is scale_vec::2X
        codes = np.stack([(words >> np.uint32(8 * ((which + i) & 3))) & np.uint32(255) for i in range(per_row)], axis=1)
        values = decode_small(codes, "ue8m0" if scale_type == 1 else "ue4m3")
        return np.repeat(values, self.k // per_row, axis=1)


def accumulate(
    memory: TensorMemory, place: tuple[Array, Array], d: int, product: Array, what: Instruction, enable: bool
) -> None:
    """Add a product to D."""
    rows, columns = place[0], place[1] + (d & 0xFFFF)
    kind = np.int32 if what.result == 2 else np.float32
    total = product.astype(kind, copy=False)
    if what.negate < 0:
        total = -total
    if rows.shape[0] == 128 and int(rows[0, -1]) == 0:  # every row in its own lane, columns in order
        span = slice(int(columns[0, 0]), int(columns[0, -1]) + 1)
        view = memory.words[:, span].view(kind)
        if enable:
            view += total
        else:
            view[...] = total
            memory.written[:, span] = True
        return
    if enable:
        total = memory.words[rows, columns].view(kind) + total
    memory.words[rows, columns] = total.view(np.uint32)
    memory.written[rows, columns] = True


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

        def run() -> None:
            for context, each in zip(contexts, barriers, strict=True):
                for observer in batch.observers:
                    observer.on_tensor_commit(context, each)
                for barrier in each:
                    mbarriers(batch).arrive(barrier, 1, where)

        batch.later(run)

    return step


def _context_of(x: Context, lane: int) -> Context:
    context = Context(x.batch)
    context.enter(x.batch.pool.of(np.array([lane])), x.frame)
    return context


assert set(SIZES) >= {kind for types in _TYPES.values() for kind in types.values()}
