"""Warp-wide instructions: shuffles, votes, matches, reductions, election (PTX ISA 9.7.9.5, 9.7.13.8-14)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxgym.devices.simulator.batch import Incomplete
from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.lanes import LaneSet
from ptxgym.devices.simulator.table import Step, effect
from ptxgym.devices.simulator.types import Array, dtype_of

FULL = np.uint32(0xFFFFFFFF)


class WarpView:
    """A set of lanes laid out as [warps, 32]."""

    __slots__ = ("column", "lane", "warp", "warps", "whole")

    def __init__(self, lanes: LaneSet) -> None:
        index = lanes.index
        numbers, self.warp = np.unique(index // 32, return_inverse=True)
        self.warps = len(numbers)
        self.lane = (index % 32).astype(np.uint32)
        self.column = self.warp * 32 + self.lane
        self.whole = len(index) == 32 * self.warps

    def spread(self, values: Array, fill: Any = 0) -> Array:
        """One row per warp."""
        if self.whole:
            return values.reshape(self.warps, 32)
        table = np.full(self.warps * 32, fill, values.dtype)
        table[self.column] = values
        return table.reshape(self.warps, 32)

    def active(self) -> Array:
        """Mask of executing lanes per warp."""
        if self.whole:
            return np.full(self.warps, FULL)
        bits = np.zeros(self.warps, np.uint32)
        np.bitwise_or.at(bits, self.warp, np.left_shift(np.uint32(1), self.lane))
        return bits


def warp_view(lanes: LaneSet) -> WarpView:
    """The warps of a set of lanes."""
    view: WarpView = lanes.fact("warp_view", WarpView)
    return view


def gather(x: Context, mask: Array, pc: int) -> WarpView:
    """Wait until every lane that a member mask names is here.

    Raises:
        Incomplete: Some warps lack lanes.
    """
    view = warp_view(x.lanes)
    if view.whole:
        return view
    required = mask & ~_gone(x, view)[view.warp]
    missing = required & ~view.active()[view.warp]
    if missing.any():
        short = np.zeros(view.warps, np.bool_)
        short[view.warp[missing != 0]] = True
        raise Incomplete(pc, ~short[view.warp])
    return view


def _gone(x: Context, view: WarpView) -> Array:
    """Lanes of each warp that ended; members that no longer exist are not waited for."""
    first = x.lanes.index[np.unique(view.warp, return_index=True)[1]] // 32 * 32
    exited = x.batch.exited[first[:, None] + np.arange(32)]
    return (exited.astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(axis=1).astype(np.uint32)


def shuffle_source(mode: str, lane: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """Source lane and validity (pseudo-code of PTX ISA 9.7.9.6, ``shfl.sync``)."""
    lane, b, c = lane.astype(np.int64), b.astype(np.int64) & 31, c.astype(np.int64)
    segment = (c >> 8) & 31
    clamp = c & 31
    highest = (lane & segment) | (clamp & ~segment)
    lowest = lane & segment
    if mode == "up":
        source = lane - b
        valid = source >= highest
    elif mode == "down":
        source = lane + b
        valid = source <= highest
    elif mode == "bfly":
        source = lane ^ b
        valid = source <= highest
    else:
        source = lowest | (b & ~segment)
        valid = source <= highest
    return np.where(valid, source, lane), valid


@effect("shfl", "b32", isa="9.7.9.6", modifiers="up down bfly idx", counter="warp")
def shfl(b: Any) -> Step:
    """Exchange registers within a warp."""
    mode = b.form.one_of(("up", "down", "bfly", "idx"))
    target, flag = b.pair(b.operands[0])
    d = b.destination(target, "b32")
    p = b.destination(flag, "pred") if flag is not None else -1
    a, second, c = b.source(b.operands[1], "b32"), b.source(b.operands[2], "b32"), b.source(b.operands[3], "b32")
    member = b.source(b.operands[4], "b32") if len(b.operands) > 4 else b.slot_of(np.array(FULL))
    pc, where = b.pc, b.where

    def step(x: Context) -> None:
        view = gather(x, x.get(member), pc)
        source, valid = shuffle_source(mode, view.lane, x.get(second), x.get(c))
        value = view.spread(x.get(a)).reshape(-1)[view.warp * 32 + source]
        if not view.whole:
            present = (view.active()[view.warp] >> source.astype(np.uint32)) & np.uint32(1)
            if not present.all():
                x.warn("shuffle-inactive", where, "shfl.sync reads from a lane that does not execute it",
                       int(np.flatnonzero(present == 0)[0]))  # fmt: skip
        if p >= 0:
            x.put(p, valid)
        x.put(d, value)

    return step


@effect("vote", "pred b32", isa="9.7.13.9", modifiers="all any uni ballot", counter="warp")
def vote(b: Any) -> Step:
    """A question to all lanes."""
    mode = b.form.one_of(("all", "any", "uni", "ballot"))
    d = b.destination(b.operands[0], "b32" if mode == "ballot" else "pred")
    operand = b.operands[1]
    s, negated = b.source(operand, "pred"), getattr(operand, "negated", False)
    member = b.source(b.operands[2], "b32")
    pc = b.pc

    def step(x: Context) -> None:
        mask = x.get(member)
        view = gather(x, mask, pc)
        asked = ~x.get(s) if negated else x.get(s)
        bits = _ballot(view, asked) & mask
        present = view.active()[view.warp] & mask
        outcomes: dict[str, Any] = {
            "ballot": lambda: bits,
            "any": lambda: bits != 0,
            "all": lambda: bits == present,
            "uni": lambda: (bits == present) | (bits == 0),
        }
        x.put(d, outcomes[mode]())

    return step


def _ballot(view: WarpView, asked: Array) -> Array:
    table = view.spread(np.ascontiguousarray(asked, np.bool_), False)
    bits = np.packbits(table, axis=1, bitorder="little").view(np.uint32)[:, 0]
    return bits[view.warp]


@effect("match", "b32 b64", isa="9.7.13.10", modifiers="any all", counter="warp")
def match(b: Any) -> Step:
    """Which lanes hold the same value."""
    everyone = b.form.has("all")
    target, flag = b.pair(b.operands[0])
    d = b.destination(target, "b32")
    p = b.destination(flag, "pred") if flag is not None else -1
    a, member = b.source(b.operands[1], b.form.types[0]), b.source(b.operands[2], "b32")
    pc = b.pc

    def step(x: Context) -> None:
        mask = x.get(member)
        view = gather(x, mask, pc)
        table = view.spread(x.get(a))
        present = view.active()
        equal = table[:, :, None] == table[:, None, :]
        bits = np.packbits(equal, axis=2, bitorder="little").view(np.uint32)[:, :, 0].reshape(-1)
        same = bits[view.warp * 32 + view.lane] & present[view.warp] & mask
        if everyone:
            agreed = same == (present[view.warp] & mask)
            if p >= 0:
                x.put(p, agreed)
            x.put(d, np.where(agreed, same, np.uint32(0)))
        else:
            x.put(d, same)

    return step


_REDUCTIONS: dict[str, Any] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip


@effect("redux", "u32 s32 b32 f32", isa="9.7.13.12", modifiers="add min max and or xor NaN abs", counter="warp")
def redux(b: Any) -> Step:
    """Reduce over the warp's member lanes."""
    name = b.form.one_of(tuple(_REDUCTIONS))
    kind = b.form.types[0]
    d, a = b.destination(b.operands[0], kind), b.source(b.operands[1], kind)
    member = b.source(b.operands[2], "b32")
    function, pc = _REDUCTIONS[name], b.pc
    if kind == "f32":
        nan = b.form.has("NaN")
        function = {"min": np.minimum if nan else np.fmin, "max": np.maximum if nan else np.fmax}[name]
    absolute = b.form.has("abs")

    def step(x: Context) -> None:
        mask = x.get(member)
        view = gather(x, mask, pc)
        values = np.abs(x.get(a)) if absolute else x.get(a)
        keys = view.warp.astype(np.uint64) << np.uint64(32) | mask
        result = np.empty(x.lanes.count, dtype_of(kind))
        groups, inverse = np.unique(keys, return_inverse=True)
        for group in range(len(groups)):
            chosen = inverse == group
            result[chosen] = function.reduce(values[chosen])
        x.put(d, result)

    return step


@effect("activemask", "b32", isa="9.7.13.11", counter="warp")
def activemask(b: Any) -> Step:
    """The lanes that execute together now."""
    d = b.destination(b.operands[0], "b32")

    def step(x: Context) -> None:
        view = warp_view(x.lanes)
        x.put(d, view.active()[view.warp])

    return step


@effect("elect", "", isa="9.7.13.14", counter="warp")
def elect(b: Any) -> Step:
    """Choose one lane of the members: here always the lowest."""
    target, flag = b.pair(b.operands[0])
    d, p = b.destination(target, "b32"), b.destination(flag, "pred")
    member = b.source(b.operands[1], "b32")
    pc = b.pc

    def step(x: Context) -> None:
        view = gather(x, x.get(member), pc)
        here = view.active()[view.warp] & x.get(member)
        leader = np.bitwise_count((here & -here.astype(np.int64)).astype(np.uint32) - np.uint32(1))
        x.put(d, leader.astype(np.uint32))
        x.put(p, view.lane == leader)

    return step


@effect("bar.warp", "", isa="9.7.13.2", counter="barrier")
def bar_warp(b: Any) -> Step:
    """Wait for the member lanes of the warp."""
    member, pc, where = b.source(b.operands[0], "b32"), b.pc, b.where

    def step(x: Context) -> None:
        gather(x, x.get(member), pc)
        for observer in x.batch.watchers("on_warp_barrier"):
            observer.on_warp_barrier(x, where)

    return step
