"""What a step sees while a set of lanes executes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptxgym.devices.simulator.findings import DeviceFault, Finding, Severity, SourceLine
from ptxgym.devices.simulator.lanes import LaneSet
from ptxgym.devices.simulator.memory import (
    LOCAL_WINDOW,
    PARAM_WINDOW,
    SHARED_WINDOW,
    WINDOW_SIZE,
    BadAddress,
    Part,
)
from ptxgym.devices.simulator.state import RESERVED_SHARED, Frame
from ptxgym.devices.simulator.types import Array


class Views(dict[int, Any]):
    """Operand slots of one frame as seen by one set of lanes; filled on first use."""

    __slots__ = ("_batch", "_frame", "_lanes")

    def __init__(self, frame: Frame, lanes: LaneSet, batch: Any) -> None:
        super().__init__()
        self._frame = frame
        self._lanes = lanes
        self._batch = batch

    def __missing__(self, slot: int) -> Any:
        value, lasting = self._frame.program.slots[slot].view(self._frame, self._lanes, self._batch)
        if lasting:
            self[slot] = value
        return value


class Context:
    """The lanes that execute now, their registers and their memory.

    One object serves a whole batch; :meth:`enter` points it at other lanes.
    """

    __slots__ = ("batch", "frame", "lanes", "sliced", "stack", "views")

    def __init__(self, batch: Any) -> None:
        self.batch = batch
        self.lanes: LaneSet
        self.frame: Frame
        self.views: Views
        self.sliced = True
        self.stack: Any = None

    def enter(self, lanes: LaneSet, frame: Frame) -> None:
        """Make ``lanes`` with ``frame`` the ones that execute."""
        views = lanes.views.get(frame.identity)
        if views is None:
            views = lanes.views[frame.identity] = Views(frame, lanes, self.batch)
        self.views = views
        self.lanes = lanes
        self.frame = frame
        self.sliced = lanes.sliced

    # -- operands ------------------------------------------------------------------------------------

    def get(self, slot: int) -> Array:
        """A source as an array with one element per lane."""
        value = self.views[slot]
        if value.ndim == 0 or len(value) != self.lanes.count:
            return np.broadcast_to(value, (self.lanes.count,))
        return value

    def uniform(self, slot: int) -> int:
        """A source that all lanes agree on (the first lane's)."""
        value = self.views[slot]
        return int(value if value.ndim == 0 else value[0])

    def first_of(self, slot: int, lanes: LaneSet) -> Any:
        """A source as the first of ``lanes`` (a subset of the executing ones) sees it."""
        return self.frame.program.slots[slot].at(self.frame, lanes.first, self.batch)

    def put(self, slot: int, value: Any) -> None:
        """Set a destination."""
        if slot < 0:
            return
        if self.sliced:
            self.views[slot][...] = value
        else:
            self.frame.program.slots[slot].whole(self.frame)[self.lanes.selector] = value

    def put_where(self, slot: int, value: Array, mask: Array) -> None:
        """Set a destination of the lanes whose mask is true."""
        if slot < 0:
            return
        if self.sliced:
            np.copyto(self.views[slot], value, where=mask)
        else:
            whole = self.frame.program.slots[slot].whole(self.frame)
            whole[self.lanes.index[mask]] = np.broadcast_to(value, mask.shape)[mask]

    # -- memory --------------------------------------------------------------------------------------

    def locate(self, space: str, addresses: Array, size: int, where: SourceLine) -> list[Part]:
        """Buffers and offsets of an access of ``size`` bytes per lane."""
        try:
            return _LOCATORS[space](self, addresses, size)
        except BadAddress as bad:
            raise self.fault(bad.code, where, f"{space or 'generic'} access: {bad.detail}", bad.position) from None

    def fault(self, code: str, where: SourceLine, message: str, position: int = 0) -> DeviceFault:
        """A violation by the lane at ``position`` of the executing set."""
        lane = int(self.lanes.index[min(position, self.lanes.count - 1)])
        place = self.batch.state.place(lane)
        return DeviceFault(Finding(code, Severity.ERROR, where, f"{message}; {place}"))

    def warn(self, code: str, where: SourceLine, message: str, position: int = 0) -> None:
        """Record a warning about the lane at ``position``."""
        lane = int(self.lanes.index[min(position, self.lanes.count - 1)])
        self.batch.log.warn(code, where, f"{message}; {self.batch.state.place(lane)}")

    def each_lane(self) -> list[int]:
        """The lanes, as integers."""
        lanes: list[int] = self.lanes.index.tolist()
        return lanes


def _check_alignment(addresses: Array, size: int) -> None:
    if int(np.bitwise_or.reduce(addresses)) & (size - 1):
        position = int(np.flatnonzero(addresses.astype(np.int64) & (size - 1))[0])
        raise BadAddress("misaligned", position, f"address {int(addresses[position]):#x} is not a multiple of {size}")


def _bounds(offsets: Array, low: int, high: int, size: int, what: str) -> None:
    if int(offsets.min()) < low or int(offsets.max()) + size > high:
        offsets = offsets.astype(np.int64)
        position = int(np.flatnonzero((offsets < low) | (offsets + size > high))[0])
        raise BadAddress(
            "out-of-bounds",
            position,
            f"{size} bytes at {what} offset {int(offsets[position])}, of {low}..{high}",
        )


def _shared(context: Context, addresses: Array, size: int) -> list[Part]:
    state = context.batch.state
    _check_alignment(addresses, size)
    wide = addresses.astype(np.int64)
    if state.geometry.cluster_size == 1:
        # The rank bits of the only CTA are zero, so anything above is an invented address.
        _bounds(addresses, RESERVED_SHARED, state.shared_end, size, "shared")
        wide += context.lanes.fact("shared_base", lambda lanes: state.shared_base[lanes.index])
        return [(state.shared, wide, None)]
    rank = wide >> 24
    wide &= 0xFFFFFF
    if int(rank.max()) >= state.geometry.cluster_size or int(rank.min()) < 0:
        position = int(np.flatnonzero(rank >= state.geometry.cluster_size)[0])
        raise BadAddress("out-of-bounds", position, f"CTA rank {int(rank[position])} is not in the cluster")
    leader = context.lanes.fact("leader", lambda lanes: state.leader_of[lanes.index])
    _bounds(wide, RESERVED_SHARED, state.shared_end, size, "shared")
    wide += (leader + rank) * state.shared_stride
    return [(state.shared, wide, None)]


def _local(context: Context, addresses: Array, size: int) -> list[Part]:
    state = context.batch.state
    _check_alignment(addresses, size)
    wide = addresses.astype(np.int64)
    _bounds(wide, 0, state.local_stride, size, "local")
    return [(state.local, wide + context.lanes.index * state.local_stride, None)]


def _param(context: Context, addresses: Array, size: int) -> list[Part]:
    wide = addresses.astype(np.int64)
    _check_alignment(addresses, size)
    _bounds(wide, 0, context.batch.parameters.size, size, "param")
    return [(context.batch.parameters, wide, None)]


def _global(context: Context, addresses: Array, size: int) -> list[Part]:
    parts: list[Part] = context.batch.memory.locate(addresses.astype(np.uint64, copy=False), size)
    return parts


def _generic(context: Context, addresses: Array, size: int) -> list[Part]:
    low, high = int(addresses.min()), int(addresses.max())
    for window, locator in ((SHARED_WINDOW, _shared), (LOCAL_WINDOW, _local), (PARAM_WINDOW, _param)):
        if window <= low and high < window + WINDOW_SIZE:
            return locator(context, addresses - np.uint64(window), size)
    if low >= SHARED_WINDOW + WINDOW_SIZE or high < PARAM_WINDOW:
        return _global(context, addresses, size)
    return _generic_mixed(context, addresses, size)


def _generic_mixed(context: Context, addresses: Array, size: int) -> list[Part]:
    window = (addresses >> np.uint64(40)).astype(np.int64)
    parts: list[Part] = []
    whole = context.lanes
    try:
        for value in np.unique(window):
            chosen = np.flatnonzero(window == value)
            context.lanes = LaneSet(whole.index[chosen])
            for buffer, offsets, inner in _generic(context, addresses[chosen], size):
                parts.append((buffer, offsets, chosen if inner is None else chosen[inner]))
    finally:
        context.lanes = whole
    return parts


_LOCATORS: dict[str, Callable[[Context, Array, int], list[Part]]] = {
    "shared": _shared,
    "local": _local,
    "param": _param,
    "global": _global,
    "const": _global,
    "": _generic,
}
