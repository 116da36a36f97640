"""Ampere's asynchronous copies (PTX ISA 9.7.9.25.3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxgym.devices.simulator.asynchronous import copy_groups
from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.instructions.mbarrier import by_barrier, flat_offsets, mbarriers
from ptxgym.devices.simulator.ptx.syntax import Name
from ptxgym.devices.simulator.table import Step, effect
from ptxgym.devices.simulator.types import Array


@effect("cp.async", "", isa="9.7.9.25.3.1", modifiers="shared shared::cta global", counter="copy")
def cp_async(b: Any) -> Step:
    """Copy 4, 8 or 16 bytes per thread; bytes beyond the source size are zero."""
    to, frm, size, where = b.address(b.operands[0]), b.address(b.operands[1]), b.constant(b.operands[2]), b.where
    rest = b.operands[3:]
    has_policy = b.form.has("L2::cache_hint")
    extra = rest[0] if len(rest) > int(has_policy) else None
    ignores = isinstance(extra, Name) and (b.program.register(b.instruction.scope, extra.text) or ("", 0))[0] == "pred"
    source_size = b.source(extra, "pred" if ignores else "u32") if extra is not None else -1

    def step(x: Context) -> None:
        targets = flat_offsets(x, to(x), where, size)
        amount = np.full(x.lanes.count, size)
        if source_size >= 0:
            given = x.get(source_size)
            amount = np.where(given, 0, size) if ignores else np.minimum(given, size).astype(np.int64)
        data = _read(x, frm(x), amount, size, where)
        x.batch.launch.bytes["global.read"] += int(amount.sum())
        _issue(x, targets, data, size, where)

    return step


def _read(x: Context, addresses: Array, amount: Array, size: int, where: Any) -> Array:
    """[lanes, size] bytes; lanes that read nothing may name any address."""
    data = np.zeros((x.lanes.count, size), np.uint8)
    reading = np.flatnonzero(amount > 0)
    if len(reading) == 0:
        return data
    lanes = x.lanes
    if len(reading) < lanes.count:
        x.lanes = x.batch.pool.of(lanes.index[reading])
    try:
        parts = x.locate("global", addresses[reading], size, where)
    finally:
        x.lanes = lanes
    for buffer, offsets, chosen in parts:
        rows = reading if chosen is None else reading[chosen]
        data[rows] = buffer.bytes[offsets[:, None] + np.arange(size)]
    data[np.arange(size) >= amount[:, None]] = 0
    return data


def _issue(x: Context, targets: Array, data: Array, size: int, where: Any) -> None:
    batch, groups = x.batch, copy_groups(x.batch)
    lanes = x.each_lane()
    tokens = [observer.on_thread_copy(x, targets, size, where) for observer in batch.observers]

    def run() -> None:
        batch.state.shared.bytes[targets[:, None] + np.arange(size)] = data
        for observer, token in zip(batch.observers, tokens, strict=True):
            observer.on_thread_copy_done(batch, token)

    operation = batch.later(run)
    for lane in lanes:
        groups.issue(lane, operation)


@effect("cp.async.commit_group", "", isa="9.7.9.25.3.2", counter="copy")
def commit(b: Any) -> Step:
    """Close the group."""

    def step(x: Context) -> None:
        groups = copy_groups(x.batch)
        for lane in x.each_lane():
            groups.commit(lane)

    return step


@effect("cp.async.wait_group", "", isa="9.7.9.25.3.3", counter="copy")
def wait_group(b: Any) -> Step:
    """Wait until at most N groups are unfinished."""
    allowed = b.constant(b.operands[0])

    def step(x: Context) -> None:
        groups = copy_groups(x.batch)
        for lane in x.each_lane():
            groups.wait(lane, allowed)

    return step


@effect("cp.async.wait_all", "", isa="9.7.9.25.3.3", counter="copy")
def wait_all(b: Any) -> Step:
    """Wait for everything."""

    def step(x: Context) -> None:
        groups = copy_groups(x.batch)
        for lane in x.each_lane():
            groups.wait_all(lane)

    return step


@effect("cp.async.mbarrier.arrive", "b64", isa="9.7.13.15.15", modifiers="shared shared::cta noinc", counter="mbarrier")
def arrive(b: Any) -> Step:
    """Arrive at a barrier once the thread's copies so far are complete."""
    address, noinc, where = b.address(b.operands[0]), b.form.has("noinc"), b.where

    def step(x: Context) -> None:
        barriers, groups = mbarriers(x.batch), copy_groups(x.batch)
        plan = []
        for offset, lanes in by_barrier(x, flat_offsets(x, address(x), where)):
            barrier = barriers.get(x, offset, where)
            if not noinc:
                barrier.pending += lanes.count
            plan.append((barrier, lanes))

        def run() -> None:
            for barrier, lanes in plan:
                for lane in lanes.index.tolist():
                    groups.wait_all(lane)
                for observer in x.batch.watchers("on_arriving"):
                    observer.on_arriving(x.batch, lanes, barrier)
                barriers.arrive(barrier, lanes.count, where)

        x.batch.later(run)

    return step
