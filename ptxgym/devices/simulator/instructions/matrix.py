"""Matrix loads and stores of a warp (PTX ISA 9.7.14.5.15-17)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.instructions.warp import FULL, gather
from ptxgym.devices.simulator.table import Step, UnsupportedForm, effect
from ptxgym.devices.simulator.types import Array

_FORMS = "m8n8 m16n16 m8n16 m16n8 x1 x2 x4 trans shared shared::cta"


def _count(b: Any) -> int:
    if not b.form.has("m8n8") or b.form.types[0] != "b16":
        raise UnsupportedForm("only m8n8 with b16")
    return int(b.form.one_of(("x1", "x2", "x4"))[1:])


def _rows(x: Context, address: Array, count: int, where: Any, *, write: bool) -> Array:
    """Flat offsets of the rows, [warps, count, 8]; matrix i's rows come from lanes 8i..8i+7."""
    warps = x.lanes.count // 32
    chosen = address.reshape(warps, 32)[:, : 8 * count]
    lanes = x.lanes
    x.lanes = x.batch.pool.of(lanes.index.reshape(warps, 32)[:, : 8 * count].reshape(-1))
    try:
        parts = x.locate("shared", chosen.reshape(-1), 16, where)
        for observer in x.batch.access_observers:
            observer.on_access(x, parts, 16, write, where)
    finally:
        x.lanes = lanes
    return parts[0][1].reshape(warps, count, 8)


def _whole(x: Context, pc: int) -> None:
    gather(x, np.broadcast_to(FULL, x.lanes.count), pc)


@effect("ldmatrix", "b16 b8", isa="9.7.14.5.15", modifiers=_FORMS, counter="matrix")
def ldmatrix(b: Any) -> Step:
    """Load 8×8 matrices: lane l gets row l//4, columns 2(l%4) and the next (transposed: the other way)."""
    count, trans = _count(b), b.form.has("trans")
    destinations, address = b.destinations(b.operands[0], "b32"), b.address(b.operands[1])
    pc, where = b.pc, b.where

    def step(x: Context) -> None:
        _whole(x, pc)
        rows = _rows(x, address(x), count, where, write=False)
        x.batch.launch.bytes["shared.read"] += rows.size * 16
        shared = x.batch.state.shared.typed(np.dtype(np.uint16))
        tiles = shared[(rows[..., None] >> 1) + np.arange(8)]
        if trans:
            tiles = tiles.swapaxes(-1, -2)
        fragments = np.ascontiguousarray(tiles).view(np.uint32).reshape(-1, count, 32)
        for i, slot in enumerate(destinations):
            x.put(slot, fragments[:, i].reshape(-1))

    return step


@effect("stmatrix", "b16 b8", isa="9.7.14.5.16", modifiers=_FORMS, counter="matrix")
def stmatrix(b: Any) -> Step:
    """Store 8×8 matrices, the inverse of ``ldmatrix``."""
    count, trans = _count(b), b.form.has("trans")
    address, sources = b.address(b.operands[0]), b.sources(b.operands[1], "b32")
    pc, where = b.pc, b.where

    def step(x: Context) -> None:
        _whole(x, pc)
        rows = _rows(x, address(x), count, where, write=True)
        x.batch.launch.bytes["shared.write"] += rows.size * 16
        registers = np.stack([x.get(slot).reshape(-1, 32) for slot in sources], axis=1)
        tiles = registers.view(np.uint16).reshape(-1, count, 8, 8)
        if trans:
            tiles = tiles.swapaxes(-1, -2)
        shared = x.batch.state.shared.typed(np.dtype(np.uint16))
        shared[(rows[..., None] >> 1) + np.arange(8)] = tiles

    return step


@effect("movmatrix", "b16", isa="9.7.14.5.17", modifiers="m8n8 trans", counter="matrix")
def movmatrix(b: Any) -> Step:
    """Transpose an 8×8 matrix across the warp's registers."""
    d, s, pc = b.destination(b.operands[0], "b32"), b.source(b.operands[1], "b32"), b.pc

    def step(x: Context) -> None:
        _whole(x, pc)
        tiles = np.ascontiguousarray(x.get(s)).view(np.uint16).reshape(-1, 8, 8)
        x.put(d, np.ascontiguousarray(tiles.swapaxes(1, 2)).view(np.uint32).reshape(-1))

    return step
