"""Cluster launch control: a running CTA takes over the work of a cluster that has not begun.

PTX ISA 9.7.13.17 and 9.7.13.18.  The request is asynchronous: it takes the cluster out of the launch when it
completes, writes sixteen opaque bytes to shared memory and counts them at an mbarrier.  Not modelled: a request that
is refused although clusters wait, as hardware may do for a launch of higher priority.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.findings import SourceLine
from ptxgym.devices.simulator.instructions.bulk_copy import multicast_targets
from ptxgym.devices.simulator.instructions.mbarrier import Mbarrier, mbarriers
from ptxgym.devices.simulator.table import Step, effect
from ptxgym.devices.simulator.types import Array

ANSWER_BYTES = 16
_REFUSED, _GRANTED = 0xC1C0_0000, 0xC1C0_0001
"""The upper word of an answer; nobody but :class:`Answers` may know."""


@dataclass(slots=True, eq=False)
class Request:
    """One ``try_cancel`` of one thread."""

    number: int
    """Unique in the launch."""
    where: SourceLine
    lane: int
    places: list[int]
    """Flat shared offsets of the answer, one per CTA that gets it."""
    barriers: list[Mbarrier]
    """Signalled, in the same order."""
    answered: bool = False
    first: tuple[int, int, int] | None = None
    """The first CTA of the cluster that was cancelled."""


class Answers:
    """The answers in a ``.b128`` register, taken apart."""

    def __init__(self, low: Array, high: Array) -> None:
        tags = high >> np.uint64(32)
        self.granted = tags == np.uint64(_GRANTED)
        self.known = self.granted | (tags == np.uint64(_REFUSED))
        """Whether it is an answer at all."""
        self.numbers = (high & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        """Of their requests."""
        self.axes = [(low >> np.uint64(at) & np.uint64(mask)).astype(np.uint32)
                     for at, mask in ((0, 0xFFFFFFFF), (32, 0xFFFF), (48, 0xFFFF))]  # fmt: skip


def encode(request: Request) -> Array:
    """The bytes of an answer."""
    if request.first is None:
        low, tag = (1 << 64) - 1, _REFUSED
    else:
        low, tag = request.first[0] | request.first[1] << 32 | request.first[2] << 48, _GRANTED
    return np.array([low, request.number & 0xFFFFFFFF | tag << 32], np.uint64).view(np.uint8)


@effect("clusterlaunchcontrol.try_cancel", "b128", isa="9.7.13.17",
        modifiers="async shared::cta mbarrier::complete_tx::bytes multicast::cluster::all", counter="cluster",
        architectures=("100a",))  # fmt: skip
def try_cancel(b: Any) -> Step:
    """Ask for a cluster that has not begun."""
    answer, barrier, where = b.address(b.operands[0]), b.address(b.operands[1]), b.where
    space = "shared" if b.form.has("shared::cta") else ""
    everyone = b.form.has("multicast::cluster::all")
    b.program.image.cancels_launches = True

    def step(x: Context) -> None:
        places = _own_offsets(x, answer(x), ANSWER_BYTES, space, where)
        bars = _own_offsets(x, barrier(x), 8, space, where)
        mask = (1 << x.batch.state.geometry.cluster_size) - 1
        for lane, place, bar in zip(x.each_lane(), places, bars, strict=True):
            targets = multicast_targets(x, mask, place) if everyone else [place]
            signals = multicast_targets(x, mask, bar) if everyone else [bar]
            found = [mbarriers(x.batch).get(x, offset, where) for offset in signals]
            _issue(x.batch, Request(x.batch.launch.count_request(), where, lane, targets, found))

    return step


def _own_offsets(x: Context, addresses: Array, size: int, space: str, where: SourceLine) -> list[int]:
    state = x.batch.state
    parts = x.locate(space, addresses, size, where)
    buffer, offsets, _ = parts[0]
    if len(parts) > 1 or buffer is not state.shared or (offsets // state.shared_stride != _ctas(x)).any():
        raise x.fault("wrong-space", where, "try_cancel writes its answer and signals in the shared memory of the CTA "
                      "that executes it, and nowhere else")  # fmt: skip
    flat: list[int] = offsets.tolist()
    return flat


def _ctas(x: Context) -> Array:
    return x.batch.state.cta_of[x.lanes.index]


def _issue(batch: Any, request: Request) -> None:
    for observer in batch.watchers("on_signal", "on_cancel_request"):
        observer.on_signal(batch, request.lane, request.barriers)
        observer.on_cancel_request(batch, request)

    def run() -> None:
        request.first = batch.launch.cancel_cluster()
        request.answered = True
        data = encode(request)
        for place in request.places:
            batch.state.shared.bytes[place : place + ANSWER_BYTES] = data
        for observer in batch.watchers("on_cancel_answer"):
            observer.on_cancel_answer(batch, request)
        for barrier in request.barriers:
            mbarriers(batch).complete(barrier, ANSWER_BYTES)

    batch.later(run)


def _read(x: Context, halves: tuple[int, int], ctaid: bool, where: SourceLine) -> Answers:
    answers = Answers(x.get(halves[0]), x.get(halves[1]))
    for observer in x.batch.watchers("on_cancel_query"):
        observer.on_cancel_query(x, answers, ctaid, where)
    return answers


@effect("clusterlaunchcontrol.query_cancel.is_canceled", "pred b128", isa="9.7.13.18", counter="cluster",
        architectures=("100a",))  # fmt: skip
def is_canceled(b: Any) -> Step:
    """Whether the answer grants a cluster."""
    d, halves, where = b.destination(b.operands[0], "pred"), b.wide_register(b.operands[1]), b.where
    return lambda x: x.put(d, _read(x, halves, False, where).granted)


@effect("clusterlaunchcontrol.query_cancel.get_first_ctaid", "b32 b128", isa="9.7.13.18", modifiers="v4",
        counter="cluster", needs="v4", architectures=("100a",))  # fmt: skip
def get_first_ctaid(b: Any) -> Step:
    """The first CTA of the cluster that was cancelled; the fourth element is not specified."""
    destinations = b.destinations(b.operands[0], "b32")
    halves, where = b.wide_register(b.operands[1]), b.where

    def step(x: Context) -> None:
        for d, value in zip(destinations, _read(x, halves, True, where).axes, strict=False):
            x.put(d, value)

    return step


@effect("clusterlaunchcontrol.query_cancel.get_first_ctaid::x clusterlaunchcontrol.query_cancel.get_first_ctaid::y "
        "clusterlaunchcontrol.query_cancel.get_first_ctaid::z", "b32 b128", isa="9.7.13.18", counter="cluster",
        architectures=("100a",))  # fmt: skip
def get_first_ctaid_axis(b: Any) -> Step:
    """One coordinate of it."""
    d, halves, where = b.destination(b.operands[0], "b32"), b.wide_register(b.operands[1]), b.where
    axis = "xyz".index(b.form.row.opcode[-1])
    return lambda x: x.put(d, _read(x, halves, True, where).axes[axis])
