"""Distributed shared memory (PTX ISA 9.7.13.3; CUDA programming guide, thread block clusters).

Accesses of one CTA to another's shared memory must be ordered with the owner's, and over before it exits.
Granularity is a line of 128 bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxgym.devices.simulator.checks.clocks import clocks_of, warps_of
from ptxgym.devices.simulator.checks.observer import Observer
from ptxgym.devices.simulator.types import Array


class ClusterRules(Observer):
    """Remembers, per line, the last remote access and the last write."""

    def __init__(self, batch: Any) -> None:
        super().__init__(batch)
        self._state = batch.state
        self._active = batch.state.geometry.cluster_size > 1
        self._clocks = clocks_of(batch)
        self._lines_per_cta = batch.state.shared_stride // 128
        count = batch.state.shared.size // 128 if self._active else 0
        self._write_time = np.zeros(count, np.int64)
        self._writer = np.zeros(count, np.int32)
        self._remote_time = np.zeros(count, np.int64)
        self._remote = np.zeros(count, np.int32)
        self._remote_line: dict[int, Any] = {}
        self._gone = np.zeros(batch.state.count, np.bool_)
        self._arrivals: dict[int, tuple[int, int, Any]] = {}
        """Last remote arrival at a barrier: time, warp, place."""

    def on_access(self, x: Any, parts: Any, size: int, write: bool, where: Any) -> None:
        """Loads and stores."""
        if not self._active:
            return
        for buffer, offsets, chosen in parts:
            if buffer is self._state.shared:
                lanes = x.lanes.index if chosen is None else x.lanes.index[chosen]
                self._access(offsets >> 7, lanes, write, where)

    def on_strong(self, x: Any, parts: Any, size: int, write: bool, where: Any) -> None:
        """Strong accesses do not race."""

    def _access(self, lines: Array, lanes: Array, write: bool, where: Any) -> None:
        warps, owner = lanes // 32, lines // self._lines_per_cta
        self._check_gone(owner, where, "shared memory")
        now = self._clocks.tick()
        others = self._writer[lines] // self._clocks.warps_per_cta != self._state.cta_of[lanes]
        unordered = others & (self._write_time[lines] > self._clocks.known[warps, self._writer[lines]])
        if unordered.any():
            name = self.batch.shared_name(int(lines[np.flatnonzero(unordered)[0]]) * 128)
            self.batch.log.warn(
                "shared-race",
                where,
                f"{name} is accessed although nothing orders this after another CTA's "
                "write (a cluster barrier is missing)",
            )
        if write:
            self._write_time[lines], self._writer[lines] = now, warps
        remote = owner != self._state.cta_of[lanes]
        if remote.any():
            self._remote_time[lines[remote]], self._remote[lines[remote]] = now, warps[remote]
            for cta in np.unique(owner[remote]).tolist():
                self._remote_line[cta] = where

    def on_arriving(self, batch: Any, lanes: Any, barrier: Any) -> None:
        """Arrivals from other CTAs."""
        if self._active:
            owner = barrier.offset // self._state.shared_stride
            far = lanes.index[self._state.cta_of[lanes.index] != owner]
            if len(far):
                self._arrivals[barrier.offset] = (self._clocks.now + 1, int(far[0]) // 32, barrier)

    def on_mbarrier_arrive(self, batch: Any, barrier: Any, where: Any) -> None:
        """Arrivals at barriers of CTAs that are gone."""
        if self._active:
            self._check_gone(np.array([barrier.offset // self._state.shared_stride]), where, "mbarrier")

    def on_async_write(self, batch: Any, where: Any, lane: int, offset: int, size: int) -> Any:
        """Multicast and remote copies."""
        if self._active:
            self._check_gone(np.array([offset // self._state.shared_stride]), where, "shared memory")

    def on_exit(self, batch: Any, lanes: Any) -> None:
        """What other CTAs did to this one's memory must be known to be over."""
        if not self._active:
            return
        self._gone = batch.exited.reshape(self._state.count, -1).all(axis=1)
        members = warps_of(lanes)
        for cta in np.unique(members // self._clocks.warps_per_cta).tolist():
            if self._gone[cta]:
                self._check_exit(cta)

    def _check_exit(self, cta: int) -> None:
        known = self._clocks.known[cta * self._clocks.warps_per_cta : (cta + 1) * self._clocks.warps_per_cta].max(
            axis=0
        )
        lines = slice(cta * self._lines_per_cta, (cta + 1) * self._lines_per_cta)
        late = self._remote_time[lines] > known[self._remote[lines]]
        if late.any():
            self._report(self._remote_line[cta], cta, "the access to its shared memory")
        for offset, (time, warp, barrier) in self._arrivals.items():
            if offset // self._state.shared_stride == cta and time > known[warp]:
                self._report(barrier.born, cta, f"a remote arrival at {self.batch.shared_name(offset)}")

    def _report(self, where: Any, cta: int, what: str) -> None:
        self.batch.log.warn(
            "remote-after-exit",
            where,
            f"block {self._state.ctas[cta]} may exit before {what}; a cluster barrier at the end is missing",
        )

    def _check_gone(self, ctas: Array, where: Any, what: str) -> None:
        gone = self._gone[ctas]
        if gone.any():
            block = self._state.ctas[int(ctas[np.flatnonzero(gone)[0]])]
            self.batch.log.warn(
                "remote-after-exit",
                where,
                f"uses the {what} of block {block}, whose threads have all "
                "exited; a cluster barrier at the end is missing",
            )
