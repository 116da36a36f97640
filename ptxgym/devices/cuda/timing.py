"""Timed rounds: candidate and library interleaved, at cold L2, on inputs that neither has seen before.

Every round rotates the inputs along an axis that the operator's mathematics does not mix, so that an answer kept from
an earlier call is wrong, while the right one is known without computing it. Outputs are poisoned in every round and
looked at in a few that are drawn in secret.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ptxgym.devices.cuda.kernel_timer import KernelTimer
from ptxgym.devices.cuda.session import CudaSession
from ptxgym.devices.cuda.telemetry import Telemetry, throttle_reasons
from ptxgym.devices.device import OutputCheck, Regime, TimedRound, TimingReport
from ptxgym.errors import CandidateError, InfrastructureError
from ptxgym.tasks import Operator, Tensors

if TYPE_CHECKING:
    import torch

WARMUP, TIMED = 10, 50
"""The paper's numbers of rounds."""

_CHECKED = 4
_PREHEAT_SECONDS = 0.15
_LOAD_SECONDS = 3e-3
"""Under ``hot``, the library runs at least so long before every timed call, so that the chip is under load."""
_IDLE_SECONDS = 0.25
_FILLS = {"hot": 1, "cool": 16}
"""L2 flushes before a timed call; after an idle second they also bring the clocks up."""
_SLOPE_CALLS = (2, 12)
_SLOPE_MEASUREMENTS = 3

_SAMPLED_EVERY = 10
"""Rounds between two looks at clocks; a look takes 0.05 ms, and a handful tell how a run went."""

Activity = Sequence[object]
"""(kind, name, start, end) as :class:`KernelTimer` gives it."""


class Rounds:
    """The timing of one candidate.

    Args:
        session: The candidate's process, started with a timer and bound to the shape with a flush buffer.
        operator: What is computed.
        inputs: The inputs before any rotation.
        check: Looks at the candidate's outputs.
        regime: Hot or cool.
        telemetry: The GPU's sensors.
        flush: A tensor of twice the L2's size for the library's side.
    """

    def __init__(
        self,
        session: CudaSession,
        operator: Operator,
        inputs: Tensors,
        check: OutputCheck,
        regime: Regime,
        telemetry: Telemetry,
        flush: torch.Tensor,
    ) -> None:
        self._session, self._operator, self._inputs, self._check = session, operator, inputs, check
        self._regime, self._telemetry, self._flush = regime, telemetry, flush
        self._timer = KernelTimer()
        self._random = np.random.default_rng()
        self._blocks = min(operator.independent_axis(session.shape).values())
        session.fill(inputs)
        self._library = operator.library({name: session.views[name] for name in inputs})
        self._names: dict[str, tuple[str, ...]] = {}
        self._throttle = 0
        self._load_calls = 1

    def run(self) -> TimingReport:
        """Warm up, time, and measure the wall-clock slope."""
        try:
            if self._regime == "hot":
                self._preheat()
            checked = set(self._random.choice(WARMUP + TIMED, _CHECKED, replace=False).tolist())
            warmup = [self._round(number, number in checked) for number in range(WARMUP)]
            self._names.clear()  # a library may set itself up in its first calls
            rounds = [self._round(number, number in checked) for number in range(WARMUP, WARMUP + TIMED)]
        finally:
            self._timer.close()
        slope = self._slope()
        return TimingReport(
            timer="CUPTI",
            regime=self._regime,
            rounds=tuple(rounds),
            warmup=WARMUP,
            warmup_correct=all(r.correct is not False for r in warmup),
            reference=self._library.name,
            reference_version=self._library.version,
            reference_kernels=self._names["reference"],
            candidate_kernels=self._names.get("candidate", ()),
            wall_seconds_per_call=slope,
            throttle_reasons=throttle_reasons(self._throttle),
            power_limit_watts=self._telemetry.power_limit_watts(),
            temperature_celsius=self._telemetry.temperature_celsius(),
        )

    def _round(self, number: int, checked: bool) -> TimedRound:
        blocks = int(self._random.integers(self._blocks))
        self._session.fill(self._operator.rotate(self._inputs, self._session.shape, blocks))
        seconds = {}
        for side in self._random.permutation(["candidate", "reference"]):
            self._prepare()
            seconds[str(side)] = self._time_candidate() if side == "candidate" else self._time_reference()
        return TimedRound(
            candidate=seconds["candidate"],
            reference=seconds["reference"],
            sm_clock_mhz=self._sample() if number % _SAMPLED_EVERY == 0 else 0,
            correct=self._check(self._session.outputs(), blocks) if checked else None,
        )

    def _sample(self) -> int:
        """The clock; collects throttle reasons besides."""
        clock = self._telemetry.sm_clock_mhz()
        self._throttle |= self._telemetry.throttle_bits()
        return clock

    def _time_candidate(self) -> float:
        reply = self._session.ask("time", fills=_FILLS[self._regime])
        return self._span("candidate", reply.get("activities"))

    def _time_reference(self) -> float:
        import torch

        self._timer.start()
        for _ in range(_FILLS[self._regime]):
            self._flush.zero_()
        self._library.call()
        torch.cuda.synchronize()
        return self._span("reference", self._timer.stop())

    def _span(self, side: str, activities: object) -> float:
        """First start to last end, in seconds, of what came after the flush."""
        try:
            own = [(str(kind), str(name), int(start), int(end)) for kind, name, start, end in activities]  # type: ignore[attr-defined]
        except (TypeError, ValueError):
            raise CandidateError("protocol", "The process answered with something that is no record.") from None
        own = own[_FILLS[self._regime] :]
        if not own:
            if side == "reference":
                raise InfrastructureError("CUPTI recorded no kernel of the library; another profiler may hold it.")
            return 0.0
        names = tuple(dict.fromkeys(name for kind, name, _, _ in own if kind == "kernel"))
        if side == "reference" and self._names.get(side, names) != names:
            raise InfrastructureError("Other work ran in the judge's process while the library was timed.")
        self._names[side] = tuple(dict.fromkeys((*self._names.get(side, ()), *names)))
        return (max(end for *_, end in own) - min(start for *_, start, _ in own)) * 1e-9

    def _prepare(self) -> None:
        """Bring the chip into the regime's state before a timed call."""
        if self._regime == "cool":
            time.sleep(_IDLE_SECONDS)
        else:
            self._run_library(self._load_calls)

    def _preheat(self) -> None:
        """Run the library for a while, and find out how many calls make a load."""
        start, calls = time.monotonic(), 0
        while time.monotonic() - start < _PREHEAT_SECONDS:
            calls += 8
            self._run_library(8)
        self._load_calls = math.ceil(_LOAD_SECONDS * calls / (time.monotonic() - start))

    def _run_library(self, calls: int) -> None:
        import torch

        for _ in range(calls):
            self._library.call()
        torch.cuda.synchronize()

    def _slope(self) -> float:
        """Seconds per call by the judge's clock, from runs of different length.

        The least of a few measurements: what delays a process makes it longer, nothing makes it shorter than the work.
        """
        few, many = _SLOPE_CALLS
        return min(self._seconds(many) - self._seconds(few) for _ in range(_SLOPE_MEASUREMENTS)) / (many - few)

    def _seconds(self, calls: int) -> float:
        start = time.monotonic()
        self._session.ask("repeat", count=calls)
        return time.monotonic() - start
