"""CTA barriers (PTX ISA 9.7.13.1) and cluster barriers (9.7.13.3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ptxgym.devices.simulator.barriers import cta_groups
from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.lanes import LaneSet
from ptxgym.devices.simulator.scheduler import Waiting
from ptxgym.devices.simulator.table import Step, effect


def _operands(b: Any, skip: int = 0) -> tuple[int, int]:
    """Slots of barrier number and thread count (-1 for none)."""
    number = b.source(b.operands[skip], "u32")
    has_count = len(b.operands) > skip + 1 + (b.form.row.opcode.endswith("red"))
    return number, b.source(b.operands[skip + 1], "u32") if has_count else -1


def _by_number(x: Context, slot: int) -> list[tuple[int, LaneSet]]:
    values = x.views[slot]
    if values.ndim == 0:
        return [(int(values), x.lanes)]
    found = np.unique(values)
    if len(found) == 1:
        return [(int(found[0]), x.lanes)]
    return [(v, x.batch.pool.subset(x.lanes, values == v)) for v in found.tolist()]


def _arrive(b: Any, waits: bool) -> Step:
    number, count = _operands(b)
    after, where = int(b.pc) + 1, b.where

    def step(x: Context) -> int:
        groups = _by_number(x, number)
        if len(groups) == 1:
            threads = x.uniform(count) if count >= 0 else 0
            return int(x.batch.barriers.arrive(x, groups[0][0], threads, after, where, waits))
        whole, frame = x.lanes, x.frame
        for value, lanes in groups:
            x.enter(lanes, frame)
            pc = x.batch.barriers.arrive(x, value, x.uniform(count) if count >= 0 else 0, after, where, waits)
            if pc >= 0:
                x.batch.ready(x.stack, pc, lanes)
        x.enter(whole, frame)
        return -1

    return step


@effect("bar.sync barrier.sync bar.cta.sync barrier.cta.sync", isa="9.7.13.1", counter="barrier",
        ends_block=True)  # fmt: skip
def bar_sync(b: Any) -> Step:
    """Arrive and wait for the others."""
    return _arrive(b, True)


@effect("bar.arrive barrier.arrive bar.cta.arrive barrier.cta.arrive", isa="9.7.13.1", counter="barrier",
        ends_block=True)  # fmt: skip
def bar_arrive(b: Any) -> Step:
    """Arrive without waiting."""
    return _arrive(b, False)


@effect("bar.red barrier.red bar.cta.red barrier.cta.red", "pred u32", isa="9.7.13.1", modifiers="and or popc",
        counter="barrier", ends_block=True)  # fmt: skip
def bar_red(b: Any) -> Step:
    """Wait, and reduce a predicate over all threads of the barrier."""
    name = b.form.one_of(("and", "or", "popc"))
    d = b.destination(b.operands[0], "u32" if name == "popc" else "pred")
    number, count = _operands(b, 1)
    operand = b.operands[-1]
    s, negated = b.source(operand, "pred"), getattr(operand, "negated", False)
    after, where = int(b.pc) + 1, b.where

    def step(x: Context) -> int:
        frame, stack = x.frame, x.stack
        batch = x.batch

        def finish(members: list[LaneSet]) -> None:
            x2 = Context(batch)
            x2.stack = stack
            asked = []
            for lanes in members:
                x2.enter(lanes, frame)
                asked.append(~x2.get(s) if negated else x2.get(s).copy())
            votes = np.concatenate(asked)
            outcome = {"and": votes.all(), "or": votes.any(), "popc": votes.sum()}[name]
            for lanes in members:
                x2.enter(lanes, frame)
                x2.put(d, outcome)

        threads = x.uniform(count) if count >= 0 else 0
        return int(batch.barriers.arrive(x, x.uniform(number), threads, after, where, True, finish))

    return step


# -- cluster -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Cluster:
    """The barrier of one cluster."""

    phase: int = 0
    arrived: set[int] = field(default_factory=set)
    waiting: list[tuple[int, Waiting]] = field(default_factory=list)


class ClusterBarriers:
    """Barriers of all clusters of a batch; each lane remembers the phase that it arrived at."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch
        self._clusters: dict[int, _Cluster] = {}
        self.lane_phase = np.full(batch.state.lanes, -1, np.int64)

    def of(self, leader: int) -> _Cluster:
        """The barrier of the cluster whose first CTA is ``leader``."""
        return self._clusters.setdefault(leader, _Cluster())

    def by_cluster(self, lanes: LaneSet) -> list[tuple[int, LaneSet]]:
        """Lanes by cluster."""
        size = self._batch.state.geometry.cluster_size
        merged: dict[int, list[LaneSet]] = {}
        for cta, part in cta_groups(self._batch, lanes):
            merged.setdefault(cta // size * size, []).append(part)
        return [(leader, self._batch.pool.union(parts)) for leader, parts in merged.items()]

    def needed(self, leader: int) -> int:
        """Living threads of a cluster."""
        stride, size = self._batch.state.geometry.stride, self._batch.state.geometry.cluster_size
        return int(np.count_nonzero(~self._batch.exited[leader * stride : (leader + size) * stride]))

    def on_exit(self, lanes: LaneSet) -> None:
        """Threads that end are not waited for (PTX ISA 9.7.13.3)."""
        for leader, _ in self.by_cluster(lanes):
            self.check(leader)

    def check(self, leader: int) -> None:
        """Complete the phase if every living thread has arrived."""
        barrier = self.of(leader)
        alive = [lane for lane in barrier.arrived if not self._batch.exited[lane]]
        if not barrier.arrived or len(alive) < self.needed(leader):
            return
        members = self._batch.pool.of(np.array(sorted(barrier.arrived)))
        barrier.phase += 1
        barrier.arrived = set()
        for observer in self._batch.watchers("on_cluster_barrier"):
            observer.on_cluster_barrier(self._batch, members)
        waiting, barrier.waiting = barrier.waiting, []
        for phase, entry in waiting:
            if barrier.phase > phase:
                self._batch.scheduler.wake(entry)
            else:
                barrier.waiting.append((phase, entry))


def cluster_barriers(batch: Any) -> ClusterBarriers:
    """The batch's cluster barriers."""
    found: ClusterBarriers = batch.extension("cluster_barriers", ClusterBarriers)
    return found


@effect("barrier.cluster.arrive", isa="9.7.13.3", counter="barrier", ends_block=True)
def cluster_arrive(b: Any) -> Step:
    """Mark arrival at the cluster's barrier."""
    after = int(b.pc) + 1

    def step(x: Context) -> int:
        barriers = cluster_barriers(x.batch)
        for leader, lanes in barriers.by_cluster(x.lanes):
            barrier = barriers.of(leader)
            barriers.lane_phase[lanes.index] = barrier.phase
            barrier.arrived.update(lanes.index.tolist())
            barriers.check(leader)
        return after

    return step


@effect("barrier.cluster.wait", isa="9.7.13.3", counter="barrier", ends_block=True)
def cluster_wait(b: Any) -> Step:
    """Wait for all threads of the cluster."""
    after, where = int(b.pc) + 1, b.where

    def step(x: Context) -> int:
        barriers = cluster_barriers(x.batch)
        done: list[LaneSet] = []
        for leader, lanes in barriers.by_cluster(x.lanes):
            barrier = barriers.of(leader)
            phases = barriers.lane_phase[lanes.index]
            if int(phases.min()) < 0:
                raise x.fault("cluster-barrier", where, "barrier.cluster.wait without a preceding arrive")
            if barrier.phase > int(phases.max()):
                done.append(lanes)
                continue
            reason = lambda bar=barrier, at=leader: (  # noqa: E731
                f"cluster barrier: {len(bar.arrived)} of {barriers.needed(at)} threads of the cluster arrived"
            )
            barrier.waiting.append((int(phases.max()), x.batch.park(x, after, lanes, where, reason)))
        if not done:
            return -1
        joined = x.batch.pool.union(done)
        if joined is x.lanes:
            return after
        x.batch.ready(x.stack, after, joined)
        return -1

    return step
