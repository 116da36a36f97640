"""Timed rounds: candidate and library interleaved, at cold L2, on inputs that neither has seen before.

Every round has inputs of its own, which the candidate gets just before its call and the library reads from memory that
is lent to nobody. Outputs are poisoned in every round. In some that are drawn in secret a few of their independent
blocks, drawn in secret too, are held against the reference; in a few of these, everything.

The recorded times come from the candidate's process, so they are held against the judge's own clock: calls back to
back, each with inputs and poisoned outputs of its own, every one of them looked at, and the library in the same way
once the candidate's process has ended and can slow nothing down any more.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ptxgym.devices.cuda.kernel_timer import Activity, KernelTimer
from ptxgym.devices.cuda.session import CudaSession
from ptxgym.devices.cuda.telemetry import Telemetry, throttle_reasons
from ptxgym.devices.device import InputDraw, KernelLaunch, OutputCheck, Regime, TimedRound, TimingReport
from ptxgym.errors import CandidateError, InfrastructureError
from ptxgym.tasks import Operator, Shape, Tensors

if TYPE_CHECKING:
    import torch

WARMUP, TIMED = 10, 50
"""The paper's numbers of rounds."""

_CHECKED, _CHECKED_WHOLE = 20, 4
_LEAST_WARMUP, _LEAST_TIMED = 1, 5
_PATIENCE = {"warmup": 0.5, "timed": 2.5}
"""Seconds of the candidate's, after which the least number of rounds is enough, and every output is looked at."""

_LOOKED_AT = 64
"""Of an operator's independent blocks every 64th is looked at, at least one."""
_PREHEAT_SECONDS = 0.05
_LOAD_SECONDS = 3e-3
"""Under ``hot``, the library runs at least so long before every timed call, so that the chip is under load."""
_IDLE_SECONDS = 0.25
_FILLS = {"hot": 1, "cool": 16}
"""L2 flushes before a timed call; after an idle second they also bring the clocks up."""
_MOST_CALLS, _SLOW_SECONDS = 8, 0.05
"""Slow calls need not be many, nor measured again: what delays a process is nothing beside them."""

_WALL_BYTES = 4 << 30
_WALL_MEASUREMENTS = 3

_MOST_KERNELS = 256

_SAMPLED_EVERY = 10
"""Rounds between two looks at clocks; a look takes 0.05 ms, and a handful tell how a run went."""


def wall_calls(operator: Operator, shape: Shape) -> int:
    """How many calls back to back the judge's clock measures: as many sets of buffers have to be there."""
    sizes = operator.dimensions(shape)
    size = sum(math.prod(sizes[p.name]) * p.itemsize for p in operator.tensors())
    return max(2, min(_MOST_CALLS, _WALL_BYTES // size))


def _count(value: object) -> int:
    """Nanoseconds or warps as CUPTI gives them; floats and words of any length are somebody else's."""
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError
    return value


def without_flush(side: str, activities: object, fills: int) -> list[Activity]:
    """What :class:`KernelTimer` recorded, without the fills that came first.

    Raises:
        CandidateError: It is no record, or work had begun before the call was asked for.
    """
    try:
        found = [
            (str(kind), str(name)[:1000], _count(start), _count(end), _count(warps))
            for kind, name, start, end, warps in activities  # type: ignore[attr-defined]
        ]
    except (TypeError, ValueError):
        raise CandidateError("protocol", "The process answered with something that is no record.") from None
    if side == "reference":  # torch fills with a kernel
        return found[fills:]
    if found and found[0][0] != "memset":
        raise CandidateError("protocol", "Something ran on the device before the cache was flushed.")
    flush = [place for place, (kind, *_) in enumerate(found) if kind == "memset"][:fills]
    return [record for place, record in enumerate(found) if place not in flush]


@dataclasses.dataclass(frozen=True, slots=True)
class _Round:
    """A round whose library time CUPTI has not told yet."""

    candidate: float
    clock: int
    correct: bool | None


class Rounds:
    """The timing of one candidate.

    Args:
        session: The candidate's process, started with a timer and bound to the shape with a flush buffer and
            :func:`wall_calls` sets of buffers.
        operator: What is computed.
        draw: Draws inputs.
        check: Looks at the candidate's outputs.
        regime: Hot or cool.
        telemetry: The GPU's sensors.
        flush: A tensor of twice the L2's size for the library's side.
    """

    def __init__(
        self,
        session: CudaSession,
        operator: Operator,
        draw: InputDraw,
        check: OutputCheck,
        regime: Regime,
        telemetry: Telemetry,
        flush: torch.Tensor,
    ) -> None:
        self._session, self._operator, self._draw, self._check = session, operator, draw, check
        self._regime, self._telemetry, self._flush = regime, telemetry, flush
        self._shape, self.calls = session.shape, wall_calls(operator, session.shape)
        self._timer = KernelTimer()
        self._random = np.random.default_rng()
        self._inputs = draw()  # the library's own
        self._seen = draw()  # what the candidate had last
        self._library = operator.library(self._inputs)
        self._names: dict[str, tuple[str, ...]] = {}
        self._calls: dict[tuple[KernelLaunch, ...], None] = {}
        self._kept: dict[int, tuple[Tensors, Tensors]] = {}
        self._throttle = 0
        self._load_calls = 1
        self._spent = 0.0

    def run(self) -> TimingReport:
        """Warm up, time, and hold the times against the judge's clock. Closes the session."""
        try:
            if self._regime == "hot":
                self._preheat()
            checked = self._random.choice(WARMUP + TIMED, _CHECKED, replace=False).tolist()
            looks = dict.fromkeys(checked, "some") | dict.fromkeys(checked[:_CHECKED_WHOLE], "all")
            warmup = self._rounds(range(WARMUP), looks, _LEAST_WARMUP, _PATIENCE["warmup"])
            self._names.clear()  # a library may set itself up in its first calls
            self._calls.clear()
            rounds = self._rounds(range(WARMUP, WARMUP + TIMED), looks, _LEAST_TIMED, _PATIENCE["timed"])
        finally:
            self._timer.close()
        slow = statistics.median(round_.candidate for round_ in rounds) > _SLOW_SECONDS
        if slow:
            self.calls = 2
        # As long as the calls took that were timed, besides what one may take: none may stretch the time alone.
        limit = self._session.run_seconds + self.calls * self._spent / (len(warmup) + len(rounds))
        wall_correct, wall, library_wall = self._wall(1 if slow else _WALL_MEASUREMENTS, limit)
        return TimingReport(
            timer="CUPTI",
            regime=self._regime,
            rounds=tuple(rounds),
            warmup=len(warmup),
            warmup_correct=all(r.correct is not False for r in warmup),
            reference=self._library.name,
            reference_version=self._library.version,
            reference_kernels=self._names["reference"],
            candidate_kernels=self._names.get("candidate", ()),
            candidate_calls=tuple(self._calls),
            wall_seconds_per_call=wall,
            wall_calls=self.calls,
            wall_correct=wall_correct,
            reference_wall_seconds_per_call=library_wall,
            throttle_reasons=throttle_reasons(self._throttle),
            power_limit_watts=self._telemetry.power_limit_watts(),
            temperature_celsius=self._telemetry.temperature_celsius(),
        )

    def look_at_kept(self, report: TimingReport) -> TimingReport:
        """The report with the whole outputs checked that were kept; needs the GPU, but not alone."""
        wrong = {number for number, (inputs, outputs) in self._kept.items() if not self._check(inputs, outputs)}
        rounds = [
            round_.model_copy(update={"correct": False}) if number in wrong else round_
            for number, round_ in enumerate(report.rounds, WARMUP)  # however many warm-ups there were
        ]
        correct = report.warmup_correct and not any(number < WARMUP for number in wrong)
        return report.model_copy(update={"rounds": tuple(rounds), "warmup_correct": correct})

    def _rounds(self, numbers: range, looks: dict[int, str], least: int, patience: float) -> list[TimedRound]:
        rounds: list[_Round] = []
        for number in numbers:
            slow = self._spent > patience
            if slow and len(rounds) >= least:
                break
            rounds.append(self._round(number, "all" if slow else looks.get(number)))
        # CUPTI is asked for the library's times once: an answer takes it longer than the library takes.
        return [
            TimedRound(
                candidate=round_.candidate,
                reference=self._span("reference", activities),
                sm_clock_mhz=round_.clock,
                correct=round_.correct,
            )
            for round_, activities in zip(rounds, self._timer.records(), strict=True)
        ]

    def _round(self, number: int, look: str | None) -> _Round:
        drawn = self._draw()
        for name, tensor in drawn.items():
            self._inputs[name].copy_(tensor)
        seconds = 0.0
        correct: bool | None = None
        for side in self._random.permutation(["candidate", "reference"]).tolist():
            self._prepare()
            if side == "candidate":
                self._session.fill(drawn)
                seconds = self._time_candidate()
                correct = self._look(number, drawn, look) if look else None
                self._seen = drawn
            else:
                self._session.fill(self._seen)  # the same work as before the candidate's call, and nothing to learn
                self._call_library()
        return _Round(seconds, self._sample() if number % _SAMPLED_EVERY == 0 else 0, correct)

    def _look(self, number: int, inputs: Tensors, look: str) -> bool:
        """Whether some blocks are right and nothing else was touched; with ``all``, keep the whole for later."""
        record = self._session.look(inputs)
        outputs = self._session.outputs()
        if look == "all":
            self._kept[number] = inputs, {name: tensor.clone() for name, tensor in outputs.items()}
        chosen = self._some_blocks()
        right = self._check(self._blocks(inputs, chosen), self._blocks(outputs, chosen))
        return right and not record.mutated_inputs and not record.overrun_outputs

    def _some_blocks(self) -> torch.Tensor:
        import torch

        blocks = min(self._operator.independent_axis(self._shape).values())
        chosen = self._random.choice(blocks, -(-blocks // _LOOKED_AT), replace=False)
        return torch.as_tensor(chosen, device=self._flush.device)

    def _blocks(self, tensors: Tensors, chosen: torch.Tensor) -> Tensors:
        return self._operator.blocks(tensors, self._shape, chosen)

    def _sample(self) -> int:
        """The clock; collects throttle reasons besides."""
        clock = self._telemetry.sm_clock_mhz()
        self._throttle |= self._telemetry.throttle_bits()
        return clock

    def _time_candidate(self) -> float:
        start = time.monotonic()
        reply = self._session.ask("time", fills=_FILLS[self._regime])
        self._spent += time.monotonic() - start
        return self._span("candidate", reply.get("activities"))

    def _call_library(self) -> None:
        import torch

        self._timer.begin()
        for _ in range(_FILLS[self._regime]):
            self._flush.zero_()
        self._library.call()
        torch.cuda.synchronize()
        self._timer.end()

    def _span(self, side: str, activities: object) -> float:
        """First start to last end, in seconds, of what ran besides the flush."""
        own = without_flush(side, activities, _FILLS[self._regime])
        if not own:
            if side == "reference":
                raise InfrastructureError("CUPTI recorded no kernel of the library; another profiler may hold it.")
            return 0.0
        launches = Counter((name, warps) for kind, name, _, _, warps in own if kind == "kernel")
        if len(launches) > _MOST_KERNELS:
            raise CandidateError("protocol", f"One call launched more than {_MOST_KERNELS} different kernels.")
        names = tuple(dict.fromkeys(name for name, _ in launches))
        if side == "reference" and self._names.get(side, names) != names:
            raise InfrastructureError("Other work ran in the judge's process while the library was timed.")
        self._names[side] = tuple(dict.fromkeys((*self._names.get(side, ()), *names)))
        if side == "candidate":
            self._calls[tuple(KernelLaunch(name=n, warps=w, count=c) for (n, w), c in sorted(launches.items()))] = None
        return (max(end for *_, end, _ in own) - min(start for _, _, start, *_ in own)) * 1e-9

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

    def _wall(self, measurements: int, limit: float) -> tuple[bool, float, float]:
        """Whether calls back to back were right, and seconds per call: the candidate's, then the library's.

        The clock starts before the candidate has the inputs and stops when the judge has some of every call's outputs.
        Of a few measurements the least counts: what delays a process makes it longer, nothing makes it shorter than the
        work. The library is measured once the candidate's process, which could slow it down, has ended. Closes the
        session.
        """
        calls, correct = self.calls, True
        candidate: list[float] = []
        while not candidate or (len(candidate) < measurements and sum(candidate) < _PATIENCE["timed"]):
            inputs = [self._draw() for _ in range(calls)]
            chosen = [self._some_blocks() for _ in range(calls)]
            seconds, found = self._measure(lambda: self._session.repeat(calls, limit), inputs, chosen)
            candidate.append(seconds)
            for tensors, blocks, outputs in zip(inputs, chosen, found, strict=True):
                correct = correct and self._check(self._blocks(tensors, blocks), outputs)
        correct = correct and not self._session.overrun()
        self._session.end_process()
        library, nothing = (
            min(self._measure(work, inputs, chosen)[0] for _ in range(_WALL_MEASUREMENTS))
            for work in (lambda: self._run_library(calls), lambda: None)
        )
        self._session.close()
        return correct, (min(candidate) - nothing) / calls, (library - nothing) / calls

    def _measure(
        self, work: Callable[[], None], inputs: list[Tensors], chosen: list[torch.Tensor]
    ) -> tuple[float, list[Tensors]]:
        """Seconds for giving inputs, working on them and taking blocks of the outputs; and those blocks."""
        import torch

        self._run_library(self._load_calls)
        start = time.monotonic()
        self._session.fill(*inputs)
        work()
        found = [self._blocks(self._session.outputs(number), blocks) for number, blocks in enumerate(chosen)]
        torch.cuda.synchronize()
        return time.monotonic() - start, found
