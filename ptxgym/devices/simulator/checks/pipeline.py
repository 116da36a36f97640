"""Hazards of asynchronous copies and tensor instructions in shared memory.

Granularity is a line of 128 bytes, the alignment of every tensor copy; ordinary accesses are compared with
asynchronous ones only.  The rules:

* a copy into shared memory must come after every earlier read of its lines (``stage-reuse``);
* a read must come after the copy that fills its lines, through the barrier that the copy signals
  (``read-before-arrival``);
* what threads wrote must pass a proxy fence before the asynchronous proxy reads it (``missing-proxy-fence``);
* a store's source must not change before the store has read it (``store-source``).

PTX ISA 8.9.5, 9.7.9.25.2, 9.7.13.4, 9.7.15.4.  Completion of a copy and of wgmma carries its own fence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ptxgym.devices.simulator.checks.clocks import clocks_of
from ptxgym.devices.simulator.checks.observer import Observer
from ptxgym.devices.simulator.checks.phases import phases_of
from ptxgym.devices.simulator.types import Array

_SLOTS = 4
_PENDING = np.int64(1) << np.int64(62)
"""The time of a read that is not known to be over."""


@dataclass(slots=True, eq=False)
class _Copy:
    """An asynchronous copy."""

    lines: slice
    warp: int
    where: Any
    slot: int = 0
    lane: int = 0


class PipelineHazards(Observer):
    """Watches lines of shared memory."""

    def __init__(self, batch: Any) -> None:
        super().__init__(batch)
        state = batch.state
        count = state.shared.size // 128 + 1
        self._state = state
        self.clocks = clocks_of(batch)
        self._phases = phases_of(batch)
        self._signals: list[Any] = []
        """The barriers of the copy that is being issued."""
        self._active = False
        self._writer_time = np.zeros(count, np.int64)
        """Ordinary writes: time, warp, place."""
        self._writer = np.zeros(count, np.int32)
        self._writer_line = np.zeros(count, np.int32)
        self._copy_time = np.zeros(count, np.int64)
        """Asynchronous writes: completion time (pending while in flight), barrier column, place."""
        self._copy_column = np.zeros(count, np.int32)
        self._copy_line = np.zeros(count, np.int32)
        self._issue_time = np.zeros(count, np.int64)
        self._read_time = np.zeros((_SLOTS, count), np.int64)
        self._reader = np.zeros((_SLOTS, count), np.int32)
        self._read_line = np.zeros((_SLOTS, count), np.int32)
        self._read_ordinary = np.zeros((_SLOTS, count), np.bool_)
        self._places: list[Any] = [None]
        self._tensor_reads: dict[int, list[list[Any]]] = {}
        self._open_reads: dict[int, list[Any]] = {}
        self._stores: dict[int, list[list[_Copy]]] = {}
        self._ever = np.zeros(count, np.bool_)
        """Whether anything has been written there."""
        self._seen: dict[tuple[int, int, str], int] = {}
        self._swizzles = np.zeros(count, np.int8)
        self._swizzle_names = ["?"]

    # -- asynchronous writes -------------------------------------------------------------------------

    def on_signal(self, batch: Any, lane: int, barriers: list[Any]) -> None:
        """The next copy will signal these barriers, one for each place."""
        self._signals = list(barriers)

    def on_async_write(self, batch: Any, where: Any, lane: int, offset: int, size: int) -> Any:
        """A copy into shared memory."""
        self._active = True
        now = self.clocks.tick()
        lines = slice(offset >> 7, (offset + size + 127) >> 7)
        warp = lane // 32
        self._check_readers(lines, warp, where)
        if self._signals:
            barrier = self._signals.pop(0) if len(self._signals) > 1 else self._signals[0]
            self._copy_column[lines] = self.clocks.column(barrier.offset)
        if size >= 128:  # smaller ones (st.async) share lines
            self._check_overwrite(lines, warp, where)
        self._ever[lines] = True
        self._copy_time[lines] = _PENDING
        self._issue_time[lines] = now
        self._copy_line[lines] = self._place(where)
        self._writer_time[lines] = 0
        self._swizzles[lines] = 0
        return _Copy(lines, warp, where)

    def _check_readers(self, lines: slice, warp: int, where: Any) -> None:
        times, readers = self._read_time[:, lines], self._reader[:, lines]
        late = times > self.clocks.known[warp].take(readers)
        if not late.any():
            return
        late &= (readers != warp) | (times >= _PENDING)
        if late.any():
            slot, position = np.argwhere(late)[0].tolist()
            at = position + lines.start
            reader = self._places[int(self._read_line[slot, at])]
            self._warn("stage-reuse", where, f"the copy into {self._name(at)} is issued before its reader at "
                       f"{reader} is known to be done (nothing orders them)")  # fmt: skip
            self._refilled(lines, warp, where, at)

    def _check_overwrite(self, lines: slice, warp: int, where: Any) -> None:
        if (self._copy_time[lines] >= _PENDING).any():
            at = int(np.flatnonzero(self._copy_time[lines] >= _PENDING)[0]) + lines.start
            self._warn("stage-reuse", where, f"the copy into {self._name(at)} is issued while the one from "
                       f"{self._places[int(self._copy_line[at])]} is still under way")  # fmt: skip
            self._refilled(lines, warp, where, at)

    def _refilled(self, lines: slice, warp: int, where: Any, at: int) -> None:
        self._phases.refilled_early(
            warp, int(self._issue_time[lines].max()), f"the copy at {where} overwrote {self._name(at)}, still in use"
        )

    def on_async_done(self, batch: Any, tokens: list[Any], barriers: list[Any]) -> None:
        """A copy is complete and signals its barriers."""
        copies = [t for t in tokens if isinstance(t, _Copy) and t.slot == 0]
        for i, copy in enumerate(copies):
            if barriers:
                barrier = barriers[min(i, len(barriers) - 1)]
                self._copy_time[copy.lines] = self.clocks.complete(barrier.offset)
                self._copy_column[copy.lines] = self.clocks.column(barrier.offset)

    # -- asynchronous reads --------------------------------------------------------------------------

    def on_async_read(self, batch: Any, where: Any, lane: int, offset: int, size: int) -> Any:
        """A copy out of shared memory."""
        self._active = True
        lines = slice(offset >> 7, (offset + size + 127) >> 7)
        warp = lane // 32
        self._check_sources(lines, warp, where)
        slot = self._slot(warp)
        self._read_time[slot, lines] = _PENDING
        self._reader[slot, lines] = warp
        self._read_line[slot, lines] = self._place(where)
        self._read_ordinary[slot, lines] = False
        copy = _Copy(lines, warp, where, slot + 1, lane)
        self._stores.setdefault(lane, [[]])[-1].append(copy)
        return copy

    def on_bulk_commit(self, x: Any) -> None:
        """``cp.async.bulk.commit_group``."""
        for lane in x.each_lane():
            groups = self._stores.get(lane)
            if groups is not None:
                groups.append([])

    def on_bulk_wait(self, x: Any, allowed: int, read_only: bool) -> None:
        """The sources of finished groups may be written again."""
        for lane in x.each_lane():
            groups = self._stores.get(lane)
            if groups is None:
                continue
            keep = max(len(groups) - 1 - allowed, 0)
            for copy in (c for group in groups[:keep] for c in group):
                self._finish_read(copy.slot - 1, copy.lines, copy.warp)
            self._stores[lane] = groups[keep:]

    def _finish_read(self, slot: int, lines: Any, warp: int) -> None:
        now = self.clocks.tick()
        self.clocks.known[warp, warp] = now
        mine = self._reader[slot, lines] == warp
        self._read_time[slot, lines] = np.where(mine, now, self._read_time[slot, lines])

    def _check_sources(self, lines: Any, warp: int, where: Any) -> None:
        """The asynchronous proxy reads what threads, or copies, wrote."""
        ever = self._ever[lines]
        if not ever.all():
            at = self._absolute(lines, int(np.flatnonzero(~ever)[0]))
            self._warn("uninitialised-shared", where, f"reads {self._name(at)}, which nothing has written")
        times = self._writer_time[lines]
        if times.any():
            self._check_written(lines, times, warp, where)
        self._check_arrival(lines, warp, where)

    def _check_written(self, lines: Any, times: Array, warp: int, where: Any) -> None:
        writers = self._writer[lines]
        racing = times > self.clocks.known[warp][writers]
        racing &= writers != warp
        hidden = times > self.clocks.visible[warp][writers]
        bad = racing if racing.any() else hidden
        if bad.any():
            at = self._absolute(lines, int(np.flatnonzero(bad)[0]))
            place = self._places[int(self._writer_line[at])]
            if racing.any():
                self._warn(
                    "shared-race",
                    where,
                    f"{self._name(at)} is read by the asynchronous proxy, but nothing orders "
                    f"this after the write at {place}",
                )
            else:
                self._warn("missing-proxy-fence", where, f"{self._name(at)} was written at {place} by ordinary stores; "
                           "without fence.proxy.async between, the asynchronous proxy may read old data")  # fmt: skip

    def _check_arrival(self, lines: Any, warp: int, where: Any) -> None:
        times = self._copy_time[lines]
        early = times > self.clocks.known[warp][self._copy_column[lines]]
        if early.any():
            at = self._absolute(lines, int(np.flatnonzero(early)[0]))
            self._early(at, warp, where)

    def _early(self, at: int, warp: int, where: Any) -> None:
        place = self._places[int(self._copy_line[at])]
        self._warn("read-before-arrival", where, f"{self._name(at)} is read without waiting for the barrier of the "
                   f"copy at {place}")  # fmt: skip
        barrier = self.clocks.barrier_of.get(int(self._copy_column[at]))
        self._phases.read_early(warp, barrier, f"{self._name(at)} was read at {where} before the copy at {place} came")

    @staticmethod
    def _absolute(lines: Any, at: int) -> int:
        return lines.start + at if isinstance(lines, slice) else int(lines[at])

    def on_thread_copy(self, x: Any, targets: Any, size: int, where: Any) -> Any:
        """``cp.async`` writes through the generic proxy, when it is complete."""
        return targets >> 7, (x.lanes.index // 32).astype(np.int32), where

    def on_thread_copy_done(self, batch: Any, token: Any) -> None:
        """Now it is a write by the thread that waited."""
        self._write(*token)

    # -- tensor instructions -------------------------------------------------------------------------

    def on_tile(self, batch: Any, places: list[int], size: int, swizzle: str) -> None:
        """Remember how a tile is written."""
        if swizzle not in self._swizzle_names:
            self._swizzle_names.append(swizzle)
        for place in places:
            self._swizzles[place >> 7 : (place + size + 127) >> 7] = self._swizzle_names.index(swizzle)

    def on_operand(self, x: Any, lanes: Any, lines: Array, descriptor: Any, where: Any, name: str) -> None:
        """A tile is read by a warpgroup, until its wait."""
        self._active = True
        key = (lanes.first, id(lines), descriptor.swizzle)
        if self._seen.get(key) == self.clocks.now:
            return  # nothing has happened since the same lines were looked at, one k-step earlier
        self._seen[key] = self.clocks.now
        warp = lanes.first // 32
        self._check_sources(lines, warp, where)
        tags = self._swizzles[lines]
        if (
            descriptor.swizzle not in self._swizzle_names
            or ((tags != 0) & (tags != self._swizzle_names.index(descriptor.swizzle))).any()
        ):
            written = self._swizzle_names[int(tags.max())]
            if written != "?":
                self._warn(
                    "swizzle-mismatch",
                    where,
                    f"operand {name}: the descriptor says swizzle {descriptor.swizzle}, "
                    f"the tile was written with {written}",
                )
        slot = self._slot(warp)
        self._read_time[slot, lines] = _PENDING
        self._reader[slot, lines] = warp
        self._read_line[slot, lines] = self._place(where)
        self._read_ordinary[slot, lines] = False
        self._open_reads.setdefault(lanes.first, []).append(lines)

    def on_wgmma_commit(self, x: Any, lanes: Any) -> None:
        """Close a group of reads."""
        self._tensor_reads.setdefault(lanes.first, []).append(self._open_reads.pop(lanes.first, []))

    def on_wgmma_wait(self, x: Any, lanes: Any, allowed: int) -> None:
        """Reads of finished groups are over, for all four warps."""
        groups = self._tensor_reads.get(lanes.first, [])
        keep = max(len(groups) - allowed, 0)
        if keep:
            warp = lanes.first // 32
            still = {id(lines) for group in groups[keep:] for lines in group}
            for lines in (each for group in groups[:keep] for each in group if id(each) not in still):
                self._finish_read(self._slot(warp), lines, warp)
            self.clocks.known[warp : warp + 4, warp] = self.clocks.now
        self._tensor_reads[lanes.first] = groups[keep:]

    def on_tensor_commit(self, x: Any, barriers: list[Any]) -> None:
        """Operands of the thread's earlier ``tcgen05.mma`` may be overwritten by who waits for the barriers."""
        for lane in x.each_lane():
            warp = lane // 32
            for lines in self._open_reads.pop(lane, []):
                self._finish_read(self._slot(warp), lines, warp)

    # -- ordinary accesses ---------------------------------------------------------------------------

    def on_access(self, x: Any, parts: Any, size: int, write: bool, where: Any) -> None:
        """A load or store."""
        for buffer, offsets, chosen in parts:
            if buffer is not self._state.shared or not (write or self._active):
                continue
            lines = offsets >> 7
            warps = x.lanes.fact("warp_numbers", lambda s: (s.index // 32).astype(np.int32))
            warps = warps if chosen is None else warps[chosen]
            if write:
                self._write(lines, warps, where)
            else:
                self._read(lines, warps, where)

    def _write(self, lines: Array, warps: Array, where: Any) -> None:
        now = self.clocks.tick()
        if self._active:
            self._check_write(lines, warps, where)
            self._swizzles[lines] = 0
            self._copy_time[lines] = 0
        self._ever[lines] = True
        self._writer_time[lines] = now
        self._writer[lines] = warps
        self._writer_line[lines] = self._place(where)

    def _check_write(self, lines: Array, warps: Array, where: Any) -> None:
        for slot in range(_SLOTS):
            times, readers = self._read_time[slot, lines], self._reader[slot, lines]
            times = np.where(self._read_ordinary[slot, lines], 0, times)
            late = (times > self.clocks.known[warps, readers]) & ((readers != warps) | (times >= _PENDING))
            if late.any():
                at = int(lines[np.flatnonzero(late)[0]])
                place = self._places[int(self._read_line[slot, at])]
                self._warn(
                    "store-source",
                    where,
                    f"{self._name(at)} is overwritten while the asynchronous read at {place} may not be over",
                )
                return

    def _read(self, lines: Array, warps: Array, where: Any) -> None:
        early = self._copy_time[lines] > self.clocks.known[warps, self._copy_column[lines]]
        if early.any():
            at = int(lines[np.flatnonzero(early)[0]])
            self._early(at, int(warps[np.flatnonzero(early)[0]]), where)
        slots = (warps + warps // 4) % _SLOTS
        keep = self._read_time[slots, lines] < _PENDING
        self._read_time[slots[keep], lines[keep]] = self.clocks.tick()
        self._reader[slots[keep], lines[keep]] = warps[keep]
        self._read_line[slots[keep], lines[keep]] = self._place(where)
        self._read_ordinary[slots[keep], lines[keep]] = True

    # -- the end -------------------------------------------------------------------------------------

    def on_exit(self, batch: Any, lanes: Any) -> None:
        """Shared memory ends with the CTA; stores must have read it."""
        if not self._stores:
            return
        for lane in lanes.index.tolist():
            for group in self._stores.pop(lane, []):
                for copy in group[:1]:
                    self._warn(
                        "bulk-not-waited",
                        copy.where,
                        "the thread exits before cp.async.bulk.wait_group says that this store has read shared memory",
                    )

    def _slot(self, warp: int) -> int:
        return (warp + warp // 4) % _SLOTS

    def _place(self, where: Any) -> int:
        if self._places[-1] is not where:
            self._places.append(where)
        return len(self._places) - 1

    def _name(self, line: int) -> str:
        return str(self.batch.shared_name(line * 128))

    def _warn(self, code: str, where: Any, message: str) -> None:
        self.batch.log.warn(code, where, message)
