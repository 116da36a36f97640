"""Rules of cluster launch control (PTX ISA 9.7.13.17 and 9.7.13.18; CUDA programming guide, cluster launch control).

Places are the sixteen bytes of an answer, which often share a line with other variables.  Not watched: the proxy
fence between reading an answer and the next request for the same place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxgym.devices.simulator.checks.clocks import clocks_of
from ptxgym.devices.simulator.checks.observer import Observer
from ptxgym.devices.simulator.types import Array

_PENDING = 1 << 62
"""The time of an answer that is on its way."""


class _Place:
    """Sixteen bytes of shared memory that get answers."""

    def __init__(self) -> None:
        self.where: Any = None
        """The last request."""
        self.arrival = 0
        self.column = 0
        """The clock column of the barrier that told of it."""
        self.readers: dict[int, int] = {}
        """Warp to the time of its last access."""


class LaunchControlRules(Observer):
    """Remembers requests, where their answers go, and who has read them."""

    def __init__(self, batch: Any) -> None:
        super().__init__(batch)
        self._clocks = clocks_of(batch)
        self._state = batch.state
        self._places: dict[int, _Place] = {}
        self._is_place = np.zeros(batch.state.shared.size // 16, np.bool_)
        self._unread: dict[int, Any] = {}
        """Requests whose answer may grant a cluster that nobody has looked at."""
        self._refused = np.zeros(batch.state.count, np.bool_)
        """CTAs that have seen a refusal."""

    # -- requests ------------------------------------------------------------------------------------

    def on_cancel_request(self, batch: Any, request: Any) -> None:
        """A request, whose places must be free and whose CTAs must be there."""
        if self._refused[self._state.cta_of[request.lane]]:
            self._warn("cancel-after-refusal", request.where, "asks for another cluster although the block has seen a "
                       "request refused; what happens then is undefined")  # fmt: skip
        gone = self._gone()[self._ctas(request)]
        if gone.any():
            self._warn("remote-after-exit", request.where, "the answer goes to every block of the cluster, but "
                       f"{self._block(self._ctas(request)[gone][0])} has exited")  # fmt: skip
        for offset in request.places:
            self._occupy(offset, request)
        self._unread[request.number] = request

    def _occupy(self, offset: int, request: Any) -> None:
        place = self._places.setdefault(offset, _Place())
        self._is_place[offset >> 4] = True
        known = self._clocks.known[request.lane // 32]
        name = self.batch.shared_name(offset)
        if place.arrival == _PENDING:
            self._warn("stage-reuse", request.where, f"asks for an answer in {name} while the one to the request at "
                       f"{place.where} is still on its way there")  # fmt: skip
        elif any(time > known[warp] for warp, time in place.readers.items() if warp != request.lane // 32):
            self._warn("stage-reuse", request.where, f"asks for an answer in {name} before all readers of the last one "
                       "there are known to be done (nothing orders them)")  # fmt: skip
        place.where, place.arrival, place.readers = request.where, _PENDING, {}

    def on_cancel_answer(self, batch: Any, request: Any) -> None:
        """From now on those who wait for the barrier may read."""
        for offset, barrier in zip(request.places, request.barriers, strict=True):
            place = self._places[offset]
            place.arrival = self._clocks.complete(barrier.offset)
            place.column = self._clocks.column(barrier.offset)
        if request.first is None:
            self._unread.pop(request.number, None)

    # -- answers -------------------------------------------------------------------------------------

    def on_access(self, x: Any, parts: Any, size: int, write: bool, where: Any) -> None:
        """A load or store."""
        if not self._places:
            return
        for buffer, offsets, chosen in parts:
            if buffer is self._state.shared:
                hit = self._is_place.take(offsets >> 4)
                if hit.any():
                    lanes = x.lanes.index if chosen is None else x.lanes.index[chosen]
                    self._touch(offsets[hit] >> 4, lanes[hit] // 32, where)

    def _touch(self, places: Array, warps: Array, where: Any) -> None:
        now = self._clocks.tick()
        for number, warp in np.unique(np.stack([places, warps]), axis=1).T.tolist():
            place = self._places[number << 4]
            place.readers[warp] = now
            if place.arrival > self._clocks.known[warp, place.column]:
                self._warn("read-before-arrival", where, f"{self.batch.shared_name(number << 4)} is accessed without "
                           f"waiting for the barrier of the request at {place.where}")  # fmt: skip

    def on_cancel_query(self, x: Any, answers: Any, ctaid: bool, where: Any) -> None:
        """Only an answer may be asked, and only one that grants a cluster for its CTA."""
        if not answers.known.all():
            position = int(np.flatnonzero(~answers.known)[0])
            x.warn("cancel-answer", where, "asks a value that is not the answer to a request; load its 16 bytes after "
                   "the wait for the barrier", position)  # fmt: skip
        refused = answers.known & ~answers.granted
        if not ctaid:
            self._refused[self._state.cta_of[x.lanes.index[refused]]] = True
            return
        if refused.any():
            x.warn("cancel-refused", where, "asks for the block of a request that was refused, which is undefined",
                   int(np.flatnonzero(refused)[0]))  # fmt: skip
        for number in np.unique(answers.numbers[answers.granted]).tolist():
            self._unread.pop(number, None)

    # -- the end -------------------------------------------------------------------------------------

    def on_exit(self, batch: Any, lanes: Any) -> None:
        """Blocks must have read their answers."""
        if not self._unread:
            return
        gone = self._gone()
        for number, request in list(self._unread.items()):
            left = gone[self._ctas(request)]
            if left.any() and not request.answered:
                self._warn("cancel-unread", request.where, f"{self._block(self._ctas(request)[left][0])} exits before "
                           "the answer to this request has arrived")  # fmt: skip
            elif left.all():
                self._warn("cancel-unread", request.where, f"the cluster of block {request.first} will not run, and "
                           "nobody has read that its work is theirs now")  # fmt: skip
            else:
                continue
            del self._unread[number]

    def _gone(self) -> Array:
        return self.batch.exited.reshape(self._state.count, -1).all(axis=1)

    def _ctas(self, request: Any) -> Array:
        return np.array(request.places) // self._state.shared_stride

    def _block(self, cta: int) -> str:
        return f"block {self._state.ctas[cta]}"

    def _warn(self, code: str, where: Any, message: str) -> None:
        self.batch.log.warn(code, where, message)


def launch_control_rules(batch: Any) -> Observer:
    """The rules, for kernels that use it; for others an observer of nothing."""
    return LaunchControlRules(batch) if batch.launch.image.cancels_launches else Observer(batch)
