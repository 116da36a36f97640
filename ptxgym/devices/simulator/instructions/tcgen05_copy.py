"""Movement within a CTA's memories that no register sees: ``tcgen05.cp`` and ``tcgen05.shift`` (PTX ISA 9.7.16.9)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ptxgym.devices.simulator import layouts
from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.formats import spread
from ptxgym.devices.simulator.products import CONTAINER_SHIFT
from ptxgym.devices.simulator.table import Step, effect
from ptxgym.devices.simulator.tensor_memory import SHIFTED_COLUMNS, TensorMemory, tensor_memory
from ptxgym.devices.simulator.types import Array

_BLACKWELL = ("100a",)
_GROUPS = "cta_group::1 cta_group::2"
_COPIES: dict[str, tuple[int, int, int]] = {
    "128x256b": (128, 32, 1), "128x128b": (128, 16, 1), "4x256b": (4, 32, 1), "32x128b": (32, 16, 4),
    "64x128b": (64, 16, 2),
}  # fmt: skip
"""Rows, bytes per row, and how often the rows repeat over the lanes."""
_FORMATS = {"b6x16_p32": (6, CONTAINER_SHIFT["e3m2"]), "b4x16_p64": (4, CONTAINER_SHIFT["e2m1"])}
"""Bits of an element, and the lowest bit that it gets in its byte (9.7.16.9.1)."""


@effect("tcgen05.cp", "", isa="9.7.16.9.2", modifiers=f"{_GROUPS} {' '.join(_COPIES)} warpx4 warpx2::02_13 "
        f"warpx2::01_23 b8x16 {' '.join(_FORMATS)}", counter="tcgen05", architectures=_BLACKWELL)  # fmt: skip
def cp(b: Any) -> Step:
    """Shared memory to tensor memory."""
    return _Copy(b).step


class _Copy:
    """One ``tcgen05.cp``, bound."""

    def __init__(self, b: Any) -> None:
        self.shape = b.form.one_of(tuple(_COPIES))
        self.rows, self.width, repeats = _COPIES[self.shape]
        self.order = _lane_order(b.form.has("warpx2::01_23"), self.shape, repeats)
        self.format = _FORMATS.get(b.form.one_of(tuple(_FORMATS)))
        self.address, self.source = b.address(b.operands[0]), b.source(b.operands[1], "b64")
        self.pair, self.where = b.form.has("cta_group::2"), b.where

    def step(self, x: Context) -> None:
        """Issue for every executing thread."""
        batch, state = x.batch, x.batch.state
        addresses, descriptors = self.address(x).tolist(), x.get(self.source).tolist()
        for i, lane in enumerate(x.each_lane()):
            cta = int(state.cta_of[lane])
            column = addresses[i] & 0xFFFF
            order = self.order + (addresses[i] >> 16) % 32 if self.shape == "4x256b" else self.order
            for owner in (cta, cta ^ 1) if self.pair else (cta,):
                memory = tensor_memory(batch, owner)
                if not memory.is_allocated(column, self.width // 4):
                    raise x.fault("tmem-out-of-bounds", self.where, f"tcgen05.cp to columns {column} and up, which are "
                                  "not allocated", i)  # fmt: skip
                for observer in batch.watchers("on_tensor_access"):
                    observer.on_tensor_access(
                        batch, "cp", lane, owner, slice(0, 8), slice(column, column + self.width // 4), self.where
                    )
                self._issue(x, memory, owner, descriptors[i], order, column)

    def _issue(self, x: Context, memory: TensorMemory, cta: int, descriptor: int, order: Array, column: int) -> None:
        state, end = x.batch.state, column + self.width // 4
        plan = layouts.plan(descriptor, True, self.rows, 1, self.width, False)
        if plan.low < 64 or (plan.high + 1) * 16 > state.shared_end:
            raise x.fault("descriptor", self.where, f"tcgen05.cp reads shared offset {(plan.high + 1) * 16} of "
                          f"{state.shared_end}")  # fmt: skip

        def run() -> None:
            base = cta * state.shared_stride >> 4
            data = state.shared.typed(layouts.CHUNK)[base + plan.chunks].view(np.uint8)
            if self.format is not None:
                bits, shift = self.format
                data = spread(data, bits) << np.uint8(shift)
            words = data.view(np.uint32)
            for lanes in order:
                memory.words[lanes, column:end] = words
                memory.written[lanes, column:end] = True

        operation = x.batch.later(run)
        memory.busy.append((column, end, operation, self.where))


def _lane_order(neighbours: bool, shape: str, repeats: int) -> Array:
    """Lanes that receive each row, [repeats, rows]."""
    if repeats == 4:
        return np.arange(4)[:, None] * 32 + np.arange(32)
    if repeats == 2:
        halves = [(0, 1), (2, 3)] if neighbours else [(0, 2), (1, 3)]
        return np.array([[32 * halves[r // 32][copy] + r % 32 for r in range(64)] for copy in (0, 1)])
    if shape == "4x256b":  # one row for each quarter, at the address's lane (CUTLASS: SM100_UTCCP_4dp256bit)
        return 32 * np.arange(4)[None, :]
    return np.arange(_COPIES[shape][0])[None, :]


@effect("tcgen05.shift", "", isa="9.7.16.9.3", modifiers=f"{_GROUPS} down", counter="tcgen05", needs="down",
        architectures=_BLACKWELL)  # fmt: skip
def shift(b: Any) -> Step:
    """Move 32 bytes of each lane to the lane below."""
    address, pair, where = b.address(b.operands[0]), b.form.has("cta_group::2"), b.where

    def step(x: Context) -> None:
        addresses = address(x).tolist()
        for i, thread in enumerate(x.each_lane()):
            cta, (lane, column) = int(x.batch.state.cta_of[thread]), divmod(addresses[i], 1 << 16)
            if lane % 32:
                raise x.fault("tmem-lane", where, f"tcgen05.shift at lane {lane} of tensor memory; it must be a "
                              "multiple of 32", i)  # fmt: skip
            for owner in (cta, cta ^ 1) if pair else (cta,):
                memory = tensor_memory(x.batch, owner)
                if not memory.is_allocated(column, SHIFTED_COLUMNS):
                    raise x.fault("tmem-out-of-bounds", where, f"tcgen05.shift of columns {column} to "
                                  f"{column + SHIFTED_COLUMNS - 1}, which are not allocated", i)  # fmt: skip
                for observer in x.batch.watchers("on_tensor_access"):
                    observer.on_tensor_access(
                        x.batch, "shift", thread, owner, slice(0, 8), slice(column, column + SHIFTED_COLUMNS), where
                    )
                operation = x.batch.later(partial(memory.shift, column))
                memory.busy.append((column, column + SHIFTED_COLUMNS, operation, where))

    return step
