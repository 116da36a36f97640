"""Races between threads that share memory through CTA barriers alone, and reads of unwritten shared memory.

Between two barriers of the whole CTA, a word that one warp writes must not be touched by another.  Accesses
are remembered by word; a barrier of the whole CTA forgets them.  CTAs that use other means (mbarriers, named
barriers, asynchronous copies) are left to :mod:`~ptxgym.devices.simulator.checks.pipeline`, which knows them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxgym.devices.simulator.checks.observer import Observer
from ptxgym.devices.simulator.state import RESERVED_SHARED
from ptxgym.devices.simulator.types import Array


class IntervalRaces(Observer):
    """One epoch number per CTA; shadow words hold the epoch and warp of the last write and read."""

    def __init__(self, batch: Any) -> None:
        super().__init__(batch)
        state = batch.state
        words = state.shared.size // 4
        self._state = state
        self._writer = np.zeros(words, np.int32)
        self._reader = np.zeros(words, np.int32)
        self._written = np.zeros(words, np.bool_)
        self._pending = np.zeros(words, np.bool_)
        self._lines: list[Any] = [None]
        self._write_line = np.zeros(words, np.int32)
        self._warp_bits = int(state.lanes // 32).bit_length() + 1
        self._epoch = np.ones(state.count, np.int32)
        self._stamp: Array | None = None
        """Epoch and warp of every lane; None after a barrier, until somebody asks."""
        self._reads: list[tuple[Array, int, Any]] = []
        """Reads of this interval that are not in the shadow yet: byte offsets, size, lanes."""
        self._complete = False
        """Whether every word has been written, so that nobody need look."""
        self._copies = False
        self._wrote = np.zeros(state.count, np.int32)
        self._off = state.geometry.threads <= 32 or state.geometry.cluster_size > 1

    # -- what ends the interval ----------------------------------------------------------------------

    def on_barrier(self, batch: Any, lanes: Any, number: int, where: Any) -> None:
        """A barrier of whole CTAs starts a new interval; any other kind ends this check."""
        ctas = lanes.fact("ctas", lambda s: np.unique(batch.state.cta_of[s.index]))
        alive = ~batch.exited.reshape(batch.state.count, -1)[ctas]
        if int(alive.sum()) > lanes.count:
            self._off = True
            return
        self._epoch[ctas] += 1
        self._stamp = None
        if not self._complete:
            used = self._written.reshape(batch.state.count, -1)[:, RESERVED_SHARED // 4 : batch.state.shared_end // 4]
            self._complete = bool(used.all())
        self._drop(ctas)

    def _drop(self, ctas: Array) -> None:
        """Forget reads from before the barrier; those of other CTAs go to the shadow."""
        if len(ctas) < self._state.count:
            self._replay()
        self._reads.clear()

    def on_mbarrier_init(self, x: Any, offsets: Any, where: Any) -> None:
        """Not this check's domain."""
        self._off = True

    def on_fence(self, x: Any, kind: str, where: Any) -> None:
        """Threads may synchronise through memory from here on."""
        if "proxy" not in kind:
            self._off = True

    def on_strong(self, x: Any, parts: Any, size: int, write: bool, where: Any) -> None:
        """Strong accesses do not race; through them threads may synchronise in ways that this check does not follow."""
        if any(buffer is self._state.shared for buffer, _, _ in parts):
            self._off = True
        self.on_access(x, parts, size, write, where)

    def on_atomic(self, x: Any, parts: Any, size: int, where: Any) -> None:
        """Atomics do not race, and they initialise."""
        for buffer, offsets, chosen in parts:
            if buffer is self._state.shared:
                if not self._written.take(offsets >> 2).all():
                    self._unwritten(x, offsets >> 2, chosen, where)
                self._written[offsets >> 2] = True

    def on_async_write(self, batch: Any, where: Any, lane: int, offset: int, size: int) -> Any:
        """Asynchronous copies initialise."""
        self._off = True
        self._written[offset >> 2 : (offset + size) >> 2] = True

    def on_cancel_request(self, batch: Any, request: Any) -> None:
        """Answers initialise, too."""
        for place in request.places:
            self.on_async_write(batch, request.where, request.lane, place, 16)

    def on_thread_copy(self, x: Any, targets: Any, size: int, where: Any) -> Any:
        """``cp.async`` writes when it is complete; until then nobody may read."""
        words = ((targets >> 2)[:, None] + np.arange(size // 4)).reshape(-1)
        self._written[words] = self._pending[words] = self._copies = True
        lanes = x.lanes.index
        if not self._off:
            self._replay()
            self._check(
                self._reader, words, np.repeat(self._stamps(lanes), size // 4),
                np.repeat(lanes, size // 4), where, "read",
            )  # fmt: skip
        return words, np.repeat(lanes, size // 4), where

    def on_thread_copy_done(self, batch: Any, token: Any) -> None:
        """Now the words count as written by the thread that waited."""
        words, lanes, where = token
        self._pending[words] = False
        self._writer[words] = self._stamps(lanes)
        self._write_line[words] = self._line(where)
        ctas = np.unique(self._state.cta_of[lanes])
        self._wrote[ctas] = self._epoch[ctas]

    # -- accesses ------------------------------------------------------------------------------------

    def on_access(self, x: Any, parts: Any, size: int, write: bool, where: Any) -> None:
        """A load or store."""
        for buffer, offsets, chosen in parts:
            if buffer is not self._state.shared:
                continue
            if write or self._copies or not self._complete:
                for words in _words(offsets, size):
                    self._initialised(x, words, chosen, write, where)
            if self._off:
                continue
            lanes = x.lanes.selector if chosen is None else x.lanes.index[chosen]
            ctas = x.lanes.fact("ctas", lambda s: np.unique(self._state.cta_of[s.index]))
            if write or (self._wrote[ctas] == self._epoch[ctas]).any():
                for words in _words(offsets, size):
                    self._word(words, size, lanes, write, where)
                if write:
                    self._wrote[ctas] = self._epoch[ctas]
                continue
            # Nobody wrote since the barrier: nothing to compare with, unless a write follows.
            self._reads.append((offsets, size, lanes))
            if len(self._reads) > 256:
                self._replay()

    def _initialised(self, x: Any, words: Array, chosen: Any, write: bool, where: Any) -> None:
        if write:
            self._written[words] = True
        elif not self._complete and not self._written.take(words).all():
            self._unwritten(x, words, chosen, where)
        if self._copies and self._pending.take(words).any():
            name = self.batch.shared_name(int(words[self._pending.take(words)][0]) * 4)
            x.warn(
                "cp-async-in-flight", where, f"touches {name} before cp.async.wait_group says that its copy is complete"
            )

    def _word(self, words: Array, size: int, lanes: Any, write: bool, where: Any) -> None:
        stamps = self._stamps(lanes)
        if write:
            if size >= 4:
                self._check(self._writer, words, stamps, lanes, where, "write")
            self._replay()
            self._check(self._reader, words, stamps, lanes, where, "read")
            self._writer[words] = stamps
            self._write_line[words] = self._line(where)
        else:
            self._check(self._writer, words, stamps, lanes, where, "write")
            self._reader[words] = stamps

    def _stamps(self, lanes: Any) -> Array:
        """Epoch and warp of some lanes (a slice or an index)."""
        if self._stamp is None:
            warps = (np.arange(self._state.lanes) >> 5).astype(np.int32)
            self._stamp = (self._epoch[self._state.cta_of] << self._warp_bits) + warps
        return self._stamp[lanes]

    def _replay(self) -> None:
        """Put the remembered reads of this interval into the shadow."""
        for offsets, size, lanes in self._reads:
            for words in _words(offsets, size):
                self._reader[words] = self._stamps(lanes)
        self._reads.clear()

    def _line(self, where: Any) -> int:
        if self._lines[-1] != where:
            self._lines.append(where)
        return len(self._lines) - 1

    def _check(self, shadow: Array, words: Array, stamps: Array, lanes: Any, where: Any, kind: str) -> None:
        old = shadow.take(words)
        bad = (old != stamps) & (old >> self._warp_bits == stamps >> self._warp_bits)
        if bad.any():
            at = int(np.flatnonzero(bad)[0])
            other = int(old[at] & ((1 << self._warp_bits) - 1)) % (self._state.geometry.stride // 32)
            line = self._lines[int(self._write_line[words[at]])] if kind == "write" else None
            name = self.batch.shared_name(int(words[at]) * 4)
            lane = int(np.arange(self._state.lanes)[lanes][at])
            self.batch.log.warn(
                "shared-race", where,
                f"{self._state.place(lane)} touches {name}, which warp {other} {kind}s"
                f"{f' at {line}' if line else ''} without a barrier between them",
            )  # fmt: skip

    def _unwritten(self, x: Any, words: Array, chosen: Any, where: Any) -> None:
        bad = np.flatnonzero(~self._written.take(words))
        position = int(bad[0]) if chosen is None else int(chosen[bad[0]])
        name = self.batch.shared_name(int(words[bad[0]]) * 4)
        x.warn("uninitialised-shared", where, f"reads {name}, which nothing has written", position)


def _words(offsets: Array, size: int) -> list[Array]:
    """Numbers of the words that an access of ``size`` bytes per lane touches, the first word of each lane last."""
    first = offsets >> 2
    return [first + extra for extra in range(1, max(size // 4, 1))] + [first]
