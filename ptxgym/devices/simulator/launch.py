"""One kernel launch: its batches, limits and counts."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptxgym.devices.simulator.batch import Batch, new_counts
from ptxgym.devices.simulator.deadlock import deadlock_findings, describe_lanes
from ptxgym.devices.simulator.findings import Finding, FindingLog, LimitReached, Severity, SourceLine
from ptxgym.devices.simulator.lanes import LaneSet
from ptxgym.devices.simulator.memory import ByteBuffer, GlobalMemory
from ptxgym.devices.simulator.module import Image
from ptxgym.devices.simulator.program import Block
from ptxgym.devices.simulator.state import Geometry


@dataclass(frozen=True, slots=True)
class LaunchConfig:
    """How a kernel is launched."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] = (1, 1, 1)
    dynamic_shared: int = 0
    """Bytes."""
    parameters: bytes = b""
    """The parameter block, laid out as :class:`~ptxgym.devices.simulator.module.Kernel` says."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one launch may use."""

    instructions: int = 50_000_000_000
    """Executed thread instructions."""
    seconds: float = 120.0
    """Processor time of the simulating process, which depends on the work and not on what else the machine does."""
    wall_seconds: float = 1200.0
    """Wall-clock time; using it up says that the machine is busy, nothing about the kernel."""
    memory_bytes: int = 1 << 30
    """Registers, shared and local memory of the CTAs that execute together."""
    local_bytes_per_thread: int = 0
    """Room for ``.local`` data and call frames; zero takes what the code declares, plus room for calls."""
    spins: int = 2_000_000
    """Backward branches without any progress elsewhere before a loop counts as endless."""


class Launch:
    """A running launch."""

    def __init__(
        self, memory: GlobalMemory, image: Image, config: LaunchConfig, limits: Limits, symbols: dict[str, int],
        checks: Any,
    ) -> None:  # fmt: skip
        self.memory = memory
        self.image = image
        self.config = config
        self.limits = limits
        self.symbols = symbols
        self.geometry = Geometry(config.grid, config.block, config.cluster)
        self.parameters = ByteBuffer(np.frombuffer(config.parameters.ljust(16, b"\0"), np.uint8).copy())
        self.log = FindingLog()
        self.block_counts = new_counts()
        self.predicated: dict[int, int] = defaultdict(int)
        self.partial_counts: dict[int, int] = defaultdict(int)
        self.tensor_flops: dict[tuple[str, str], int] = defaultdict(int)
        self.bytes: dict[str, int] = defaultdict(int)
        self.output: list[str] = []
        self.heap = {"next": 4096, "used": 0}
        self.executed_total = 0
        self._last: tuple[Batch, Block, LaneSet] | None = None
        """What was executed last, for the report of a limit."""
        self._steps = 0
        self._spins = 0
        self._clusters = self.geometry.ctas // self.geometry.cluster_size
        self._begun = 0
        """Clusters that have begun or were cancelled; both happens in order."""
        self._requests = 0
        self._stuck: list[Batch] = []
        self._deadline = time.process_time() + limits.seconds
        self._wall_deadline = time.monotonic() + limits.wall_seconds
        self._checks = checks

    def observers(self, batch: Batch) -> list[Any]:
        """The checks that watch a batch."""
        return [make(batch) for make in self._checks]

    # -- limits --------------------------------------------------------------------------------------

    def spend(self, batch: Batch, block: Block, lanes: LaneSet) -> None:
        """Count executed instructions against the limits.

        Raises:
            LimitReached: There is nothing left.
        """
        self.executed_total += block.size * lanes.count
        self._last = batch, block, lanes
        self._steps += 1
        if self._steps & 255 == 0:
            self._look_at_clocks()
        if self.executed_total > self.limits.instructions:
            raise self._limit(
                "instruction-limit", f"the launch executed {self.limits.instructions} thread instructions"
            )

    def _look_at_clocks(self) -> None:
        if time.process_time() > self._deadline:
            raise self._limit("time-limit", f"the launch used its {self.limits.seconds:.0f} s of processor time")
        if time.monotonic() > self._wall_deadline:
            seconds = f"{self.limits.wall_seconds:.0f} s of wall-clock time"
            raise self._limit("wall-clock-limit", f"the machine is too busy: the launch is not done after {seconds}")

    def note_spin(self, spins: int) -> None:
        """Strands loop and nothing else can move.

        Raises:
            LimitReached: They have done so for too long.
        """
        self._spins += spins
        if self._spins > self.limits.spins:
            raise self._limit("endless-loop", f"a loop ran {self._spins} times while no thread got anywhere else")

    def note_progress(self) -> None:
        """Something other than looping happened."""
        self._spins = 0

    def others(self, batch: Batch) -> bool:
        """Whether another batch could make a difference to one whose threads only loop."""
        return self._begun < self._clusters or any(b is not batch for b in self._stuck)

    def _limit(self, code: str, message: str) -> LimitReached:
        where = SourceLine()
        if self._last is not None:
            batch, block, lanes = self._last
            where = block.instructions[-1].where
            message = f"{message}; last here: {describe_lanes(batch, lanes.index).rstrip(',')}"
        return LimitReached(Finding(code, Severity.ERROR, where, message))

    # -- batches -------------------------------------------------------------------------------------

    def run(self) -> None:
        """Execute the whole grid."""
        shared = self.image.static_shared + self.config.dynamic_shared
        size = self._clusters_per_batch(shared)
        if self.image.cancels_launches:
            # All might fit; then a kernel that asks for the work of clusters that wait would never get any.
            size = min(size, -(-self._clusters // CLUSTERS_PER_WORKER))
        while self._begun < self._clusters:
            first, self._begun = self._begun, min(self._begun + size, self._clusters)
            self._stuck.append(Batch(self, cluster_ctas(self.geometry, range(first, self._begun)), shared))
            self._run_stuck()
        while self._stuck:
            before = self.executed_total
            self._run_stuck()
            if self.executed_total == before:
                raise_deadlock(self._stuck, self.log)

    def count_request(self) -> int:
        """Number a request for a cluster that has not begun."""
        self._requests += 1
        return self._requests

    def cancel_cluster(self) -> tuple[int, int, int] | None:
        """Take the next cluster that has not begun out of the launch: its first CTA, or None when all have begun."""
        if self._begun == self._clusters:
            return None
        self._begun += 1
        self.note_progress()
        (first, *_), (x, y, _) = cluster_ctas(self.geometry, range(self._begun - 1, self._begun)), self.geometry.grid
        return first % x, first // x % y, first // (x * y)

    def _run_stuck(self) -> None:
        """Run the batches that are not done, the newest first; what waits may now have what it waited for."""
        for batch in reversed(list(self._stuck)):
            if batch.run():
                self._stuck.remove(batch)

    def _clusters_per_batch(self, shared: int) -> int:
        """How many clusters execute together: as many as the arrays may hold."""
        geometry = self.geometry
        per_cta = self._bytes_per_cta(shared)
        wanted = max(LANES_PER_BATCH // geometry.stride, 1)
        affordable = max(self.limits.memory_bytes // per_cta, 1)
        size = geometry.cluster_size
        if size * per_cta > 4 * self.limits.memory_bytes:
            raise self._limit("memory-limit", f"one cluster needs {size * per_cta >> 20} MiB in the simulator")
        return max(min(wanted, affordable) // size, 1)

    def _bytes_per_cta(self, shared: int) -> int:
        widths = {"pred": 1, "b8": 1, "b16": 2, "b32": 4, "b64": 8}
        registers = sum(widths[bank] * n for bank, n in self.image.entry.bank_sizes.items())
        return self.geometry.stride * (registers + self.limits.local_bytes_per_thread + 64) + shared + 2048


LANES_PER_BATCH = 8192
"""Enough that NumPy's cost per call is small against the work, few enough that rows stay in the cache."""

CLUSTERS_PER_WORKER = 4
"""Of the clusters of a kernel that cancels launches, one in so many begins at first."""


def cluster_ctas(geometry: Geometry, clusters: range) -> list[int]:
    """Linear numbers of the CTAs of some clusters, each cluster in rank order."""
    if geometry.cluster_size == 1:
        return list(clusters)
    cx, cy, cz = geometry.cluster
    gx, gy, _ = geometry.grid
    across, down = gx // cx, gy // cy
    ranks = np.arange(geometry.cluster_size)
    result: list[int] = []
    for number in clusters:
        x = number % across * cx + ranks % cx
        y = number // across % down * cy + ranks // cx % cy
        z = number // (across * down) * cz + ranks // (cx * cy)
        result += (x + gx * (y + gy * z)).tolist()
    return result


def raise_deadlock(stuck: list[Batch], log: FindingLog) -> None:
    """Report who waits for what.

    Raises:
        Deadlock: Always.
    """
    findings = deadlock_findings(stuck)
    log.extend(findings)
    raise Deadlock(findings)


class Deadlock(Exception):  # noqa: N818
    """Nothing can move and threads still exist."""

    def __init__(self, findings: list[Finding]) -> None:
        self.findings = findings
        super().__init__("; ".join(str(f) for f in findings[:3]))
