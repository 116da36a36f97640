"""Memory barriers in shared memory (PTX ISA 9.7.13.15).

A barrier is an object beside the eight bytes that name it.  ``try_wait`` really blocks: the ISA lets it
suspend until the phase completes, so spinning never happens and a deadlock is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ptxgym.devices.simulator.barriers import cta_groups
from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.findings import SourceLine
from ptxgym.devices.simulator.lanes import LaneSet
from ptxgym.devices.simulator.scheduler import Waiting
from ptxgym.devices.simulator.table import Step, effect
from ptxgym.devices.simulator.types import Array

_ORDER = "shared shared::cta shared::cluster parity noComplete noinc"
MAX_COUNT = (1 << 20) - 1


@dataclass(slots=True, eq=False)
class Mbarrier:
    """One barrier."""

    offset: int
    """Flat offset in the batch's shared memory."""
    count: int
    """Arrivals of a phase."""
    pending: int
    born: SourceLine
    phase: int = 0
    transactions: int = 0
    """Bytes expected minus bytes arrived in this phase."""
    armed: SourceLine | None = None
    """The last ``expect_tx``."""
    expected_bytes: int = 0
    """Bytes announced in this phase."""
    waiting: list[tuple[int, Waiting]] = field(default_factory=list)
    last_completed: SourceLine | None = None


class Mbarriers:
    """All barriers of a batch, by flat offset."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch
        self._barriers: dict[int, Mbarrier] = {}

    def init(self, offset: int, count: int, where: SourceLine) -> None:
        """``mbarrier.init``."""
        old = self._barriers.get(offset)
        if old is not None and old.waiting:
            self._batch.log.warn("mbarrier-live", where, f"{self.name(offset)} is initialised while threads wait on it")
        self._barriers[offset] = Mbarrier(offset, count, count, where)

    def invalidate(self, offset: int) -> None:
        """``mbarrier.inval``."""
        self._barriers.pop(offset, None)

    def all(self) -> list[Mbarrier]:
        """Every live barrier."""
        return list(self._barriers.values())

    def get(self, x: Context, offset: int, where: SourceLine) -> Mbarrier:
        """The barrier at an offset.

        Raises:
            DeviceFault: Nothing was initialised there.
        """
        found = self._barriers.get(offset)
        if found is None:
            raise x.fault("mbarrier-uninitialised", where, f"no mbarrier was initialised at {self.name(offset)}")
        return found

    def find(self, offset: int) -> Mbarrier | None:
        """The barrier at an offset, if any."""
        return self._barriers.get(offset)

    def name(self, offset: int) -> str:
        """A barrier in the kernel's words."""
        return str(self._batch.shared_name(offset))

    def arrive(self, barrier: Mbarrier, count: int, where: SourceLine) -> None:
        """``count`` arrivals."""
        barrier.pending -= count
        if barrier.pending < 0:
            self._batch.log.warn(
                "mbarrier-over-arrival", where,
                f"{self.name(barrier.offset)} got {-barrier.pending} more arrivals in a phase than its count of "
                f"{barrier.count} (initialised at {barrier.born})",
            )  # fmt: skip
            barrier.pending = 0
        for observer in self._batch.watchers("on_mbarrier_arrive"):
            observer.on_mbarrier_arrive(self._batch, barrier, where)
        self.check(barrier)

    def expect(self, barrier: Mbarrier, size: int, where: SourceLine) -> None:
        """``size`` more bytes will arrive in this phase."""
        barrier.transactions += size
        barrier.expected_bytes += size
        barrier.armed = where
        if abs(barrier.transactions) > MAX_COUNT:
            self._batch.log.warn("tx-count", where, f"{self.name(barrier.offset)}: tx-count {barrier.transactions} is "
                                 f"outside of ±{MAX_COUNT}")  # fmt: skip

    def complete(self, barrier: Mbarrier, size: int) -> None:
        """``size`` bytes have arrived."""
        barrier.transactions -= size
        self.check(barrier)

    def check(self, barrier: Mbarrier) -> None:
        """Complete the phase if nothing is missing."""
        if barrier.pending or barrier.transactions:
            return
        barrier.phase += 1
        barrier.pending = barrier.count
        barrier.expected_bytes = 0
        for observer in self._batch.watchers("on_mbarrier_phase"):
            observer.on_mbarrier_phase(self._batch, barrier)
        waiting, barrier.waiting = barrier.waiting, []
        for phase, entry in waiting:
            if barrier.phase > phase:
                self.released(entry.lanes, barrier)
                self._batch.scheduler.wake(entry)
            else:
                barrier.waiting.append((phase, entry))

    def released(self, lanes: LaneSet, barrier: Mbarrier) -> None:
        """Lanes have observed a completed phase."""
        for observer in self._batch.watchers("on_mbarrier_wait"):
            observer.on_mbarrier_wait(self._batch, lanes, barrier)

    def missing(self, barrier: Mbarrier, phase: int) -> str:
        """What a waiter lacks."""
        parts = []
        if barrier.pending:
            parts.append(f"{barrier.pending} of {barrier.count} arrivals are missing")
        if barrier.transactions > 0:
            parts.append(f"{barrier.transactions} bytes more were expected than this phase received")
        if barrier.transactions < 0:
            parts.append(f"{-barrier.transactions} bytes more arrived than this phase expected")
        armed = f", armed at {barrier.armed}" if barrier.armed else ""
        return (
            f"mbarrier {self.name(barrier.offset)}, phase {phase} (parity {phase & 1}): {' and '.join(parts)}; "
            f"initialised at {barrier.born}{armed}"
        )


def mbarriers(batch: Any) -> Mbarriers:
    """The barriers of a batch."""
    found: Mbarriers = batch.extension("mbarriers", Mbarriers)
    return found


def flat_offsets(x: Context, addresses: Array, where: SourceLine, size: int = 8, space: str = "shared") -> Array:
    """Flat shared offsets; 64-bit addresses without a space are generic."""
    ((buffer, offsets, _),) = x.locate(space, addresses, size, where)
    if buffer is not x.batch.state.shared:
        raise x.fault("wrong-space", where, "an mbarrier must be in shared memory")
    return offsets


def _space(b: Any) -> str:
    return "shared" if any(m.startswith("shared") for m in b.form.modifiers) else ""


def by_barrier(x: Context, offsets: Array) -> list[tuple[int, LaneSet]]:
    """Lanes by the barrier that they name."""
    if int(offsets.min()) == int(offsets.max()):
        return [(int(offsets[0]), x.lanes)]
    result: list[tuple[int, LaneSet]] = []
    start = 0
    for _, lanes in cta_groups(x.batch, x.lanes):
        part = offsets[start : start + lanes.count]
        start += lanes.count
        if int(part.min()) == int(part.max()):
            result.append((int(part[0]), lanes))
            continue
        result += [(v, x.batch.pool.of(lanes.index[part == v])) for v in np.unique(part).tolist()]
    return result


@effect("mbarrier.init", "b64", isa="9.7.13.15.9", modifiers=_ORDER, counter="mbarrier")
def init(b: Any) -> Step:
    """Initialise with an arrival count."""
    address, count, where, space = b.address(b.operands[0]), b.source(b.operands[1], "u32"), b.where, _space(b)

    def step(x: Context) -> None:
        barriers = mbarriers(x.batch)
        counts = x.get(count).tolist()
        offsets = flat_offsets(x, address(x), where, 8, space).tolist()
        for offset, expected in zip(offsets, counts, strict=True):
            if not 0 < expected <= MAX_COUNT:
                raise x.fault("mbarrier-count", where, f"mbarrier.init with an arrival count of {expected}")
            barriers.init(offset, expected, where)
        for observer in x.batch.watchers("on_mbarrier_init"):
            observer.on_mbarrier_init(x, offsets, where)

    return step


@effect("mbarrier.inval", "b64", isa="9.7.13.15.10", modifiers=_ORDER, counter="mbarrier")
def inval(b: Any) -> Step:
    """Make the memory ordinary again."""
    address, where, space = b.address(b.operands[0]), b.where, _space(b)

    def step(x: Context) -> None:
        for offset in flat_offsets(x, address(x), where, 8, space).tolist():
            mbarriers(x.batch).invalidate(offset)

    return step


@effect("mbarrier.expect_tx", "b64", isa="9.7.13.15.11", modifiers=_ORDER, counter="mbarrier")
def expect_tx(b: Any) -> Step:
    """Announce bytes without arriving."""
    address, size, where, space = b.address(b.operands[0]), b.source(b.operands[1], "u32"), b.where, _space(b)

    def step(x: Context) -> None:
        barriers = mbarriers(x.batch)
        sizes = x.get(size).tolist()
        for offset, n in zip(flat_offsets(x, address(x), where, 8, space).tolist(), sizes, strict=True):
            barriers.expect(barriers.get(x, offset, where), n, where)

    return step


@effect("mbarrier.complete_tx", "b64", isa="9.7.13.15.12", modifiers=_ORDER, counter="mbarrier")
def complete_tx(b: Any) -> Step:
    """Simulate the completion of bytes."""
    address, size, where, space = b.address(b.operands[0]), b.source(b.operands[1], "u32"), b.where, _space(b)

    def step(x: Context) -> None:
        barriers = mbarriers(x.batch)
        sizes = x.get(size).tolist()
        for offset, n in zip(flat_offsets(x, address(x), where, 8, space).tolist(), sizes, strict=True):
            barriers.complete(barriers.get(x, offset, where), n)

    return step


@effect("mbarrier.arrive mbarrier.arrive_drop", "b64", isa="9.7.13.15.13, 9.7.13.15.14",
        modifiers=f"{_ORDER} expect_tx", counter="mbarrier")  # fmt: skip
def arrive(b: Any) -> Step:
    """Arrive, perhaps announcing bytes; the result names the phase."""
    operands = list(b.operands)
    has_state = not hasattr(operands[0], "extra")
    d = b.destination(operands.pop(0), "b64") if has_state else -1
    address = b.address(operands[0])
    amount = b.source(operands[1], "u32") if len(operands) > 1 else -1
    expects, drops = b.form.has("expect_tx"), b.form.row.opcode.endswith("drop")
    where, space = b.where, _space(b)

    def step(x: Context) -> None:
        barriers = mbarriers(x.batch)
        groups = by_barrier(x, flat_offsets(x, address(x), where, 8, space))
        for offset, lanes in groups:
            barrier = barriers.get(x, offset, where)
            if d >= 0:
                _put_state(x, d, lanes, barrier.phase)
            each = int(x.first_of(amount, lanes)) if amount >= 0 else 1
            if expects:
                barriers.expect(barrier, each * lanes.count, where)
            for observer in x.batch.watchers("on_arriving"):
                observer.on_arriving(x.batch, lanes, barrier)
            if drops:
                barrier.count -= lanes.count
            barriers.arrive(barrier, lanes.count * (1 if expects else each), where)

    return step


def _put_state(x: Context, slot: int, lanes: LaneSet, phase: int) -> None:
    whole = x.frame.program.slots[slot].whole(x.frame)
    whole[lanes.index] = phase


@effect("mbarrier.test_wait mbarrier.try_wait", "b64", isa="9.7.13.15.16", modifiers=_ORDER, counter="mbarrier",
        ends_block=True)  # fmt: skip
def wait(b: Any) -> Step:
    """Ask for (``test_wait``), or wait for (``try_wait``), the completion of a phase."""
    d = b.destination(b.operands[0], "pred")
    address = b.address(b.operands[1])
    by_parity = b.form.has("parity")
    wanted = b.source(b.operands[2], "u32" if by_parity else "b64")
    blocks = b.form.row.opcode.endswith("try_wait")
    after, where, space = int(b.pc) + 1, b.where, _space(b)

    def step(x: Context) -> int:
        barriers = mbarriers(x.batch)
        ready: list[LaneSet] = []
        waits = False
        for offset, lanes in by_barrier(x, flat_offsets(x, address(x), where, 8, space)):
            barrier = barriers.get(x, offset, where)
            token = int(x.first_of(wanted, lanes))
            # The token names a phase; it is complete once the barrier has moved on from it.
            done = (barrier.phase & 1) != (token & 1) if by_parity else barrier.phase > token
            if done:
                if by_parity:
                    for observer in x.batch.watchers("on_mbarrier_granted"):
                        observer.on_mbarrier_granted(x.batch, lanes, barrier, token & 1, where)
                barriers.released(lanes, barrier)
                ready.append(lanes)
            elif blocks:
                waits = True
                phase = barrier.phase
                reason = lambda bar=barrier, at=phase: barriers.missing(bar, at)  # noqa: E731
                barrier.waiting.append((phase, x.batch.park(x, after, lanes, where, reason, barrier)))
            else:
                x.batch.restless = 16
        if not blocks:
            x.put(d, np.False_)
            for lanes in ready:
                x.frame.program.slots[d].whole(x.frame)[lanes.index] = True
            return after
        x.put(d, np.True_)  # those that wait see true when they go on
        if not waits:
            return after
        if ready:
            x.batch.ready(x.stack, after, x.batch.pool.union(ready))
        return -1

    return step
