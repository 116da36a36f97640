"""The timing stage: a speedup, and whether the measurement can be believed."""

from __future__ import annotations

import math
import secrets
import statistics

from ptxgym.devices import KernelLaunch, TimingReport
from ptxgym.evaluation.records import StageResult, TimingEvidence
from ptxgym.evaluation.stages import (
    WORK_FRACTION_LIMIT,
    Case,
    compare_outputs,
    count_instructions,
    instruction_evidence,
    target_flops,
)
from ptxgym.evaluation.statistics import median_ratio
from ptxgym.tasks import Tensors
from ptxgym.toolchain import Program

_ROOFLINE_SLACK = 0.98
"""Below this share of the roofline's time a measurement is implausible; clocks and sensors are a little inexact."""

_ROUND_TRIP_SECONDS, _LAUNCH_SECONDS = 700e-6, 10e-6
"""What the judge's clock may show besides device time: once per measurement for the request, its reply and the change
from one process to the other on the GPU, and once per call for its launch. On an H200 a measurement of five to eight
calls took 0.7 to 0.9 ms more than its device time, the library's 0 to 0.3; a candidate must not be accused for it."""

_WALL_SLACK = 1.08
"""A speedup counts as far as the judge's clock bears it out, times this: the two are measured one after the other, at
clocks that differ by a few percent."""

_CLOCK_MISMATCH = 1.5
"""A recorded time that is so many times better than the judge's clock is a forgery, or leaves work out."""

_RECOUNTS = 2
"""How often instructions are counted again before a timed kernel that was not counted is held against a candidate:
which kernels a call launches may be a choice that was made by the clock."""


def timing_stage(case: Case) -> StageResult:
    """Speedup over the library, and whether the measurement can be believed."""
    import torch

    task, shape = case.task, case.task.workload
    with case.device.sharing():
        drawn = case.make_inputs(shape, "normal")
    generator = torch.Generator(device=case.device.torch_device)
    generator.manual_seed(secrets.randbits(63))

    def draw() -> Tensors:
        return task.operator.redraw(drawn, shape, generator)

    def check(inputs: Tensors, outputs: Tensors) -> bool:
        return all(comparison.passed for comparison in compare_outputs(case, shape, "normal", inputs, outputs))

    report = case.device.time(case.program, task, shape, draw, check, case.regime)
    if min(round_.candidate for round_ in report.rounds) <= 0:
        return StageResult(
            stage="timing",
            status="failed",
            reason="no_kernel",
            message="A timed call launched nothing on the device.",
        )
    evidence = timing_evidence(report, case)
    reason, message = _timing_reason(evidence, case.program)
    if not reason and (other := _other_kernels(report, case)):
        reason, message = "other_kernels", other
    return StageResult.judged("timing", reason, message, evidence)


def _other_kernels(report: TimingReport, case: Case) -> str:
    """Why the timed calls are not like those whose instructions were counted; empty when they are."""
    if not case.counted or not case.counted[0].kernels:  # that stage was not asked for, or could not tell
        return ""
    complaint = _unlike(report, case)
    for _ in range(_RECOUNTS):
        if complaint:
            case.counted.append(count_instructions(case))
            complaint = _unlike(report, case)
    return complaint


def _unlike(report: TimingReport, case: Case) -> str:
    counted = [kernel for instructions in case.counted for kernel in instructions.kernels]
    other = sorted(set(report.candidate_kernels) - {kernel.name for kernel in counted})
    if other:
        return f"Timed calls launched a kernel that was not there when instructions were counted: {other[0][:200]}."
    first = instruction_evidence(case.counted[0], case.program, case.task)
    if case.instruction_rule != "work" or first.work_fraction < WORK_FRACTION_LIMIT:
        return ""
    most: dict[str, tuple[float, int]] = {}  # FLOPs and warps of the counted launch that did most
    for kernel in counted:
        flops = target_flops(kernel, case.counted[0].dialect, case.task.architecture)
        most[kernel.name] = max(most.get(kernel.name, (0.0, 0)), (flops, kernel.warps))
    needed = WORK_FRACTION_LIMIT * case.task.operator.flops(case.task.workload)
    if any(
        sum(_likely_flops(launch, *most[launch.name]) for launch in call) < needed for call in report.candidate_calls
    ):
        return "A timed call launched less of the kernels that had executed the target instructions."
    return ""


def _likely_flops(launch: KernelLaunch, flops: float, warps: int) -> float:
    """What timed launches of a kernel do if each does what a counted one of as many warps did."""
    share = min(1.0, launch.warps / warps) if launch.warps and warps else 1.0
    return launch.count * flops * share


def timing_evidence(report: TimingReport, case: Case) -> TimingEvidence:
    """From rounds to a speedup with its interval."""
    candidate = [round_.candidate for round_ in report.rounds]
    library = [round_.reference for round_ in report.rounds]
    operator, shape = case.task.operator, case.task.workload
    flops = operator.flops(shape)
    speedup, low, high = median_ratio(library, candidate)
    supported = _WALL_SLACK * _wall_speedup(report)
    reference = statistics.median(library)
    seconds = max(statistics.median(candidate), reference / supported)
    return TimingEvidence(
        speedup=min(speedup, supported),
        speedup_low=min(low, supported),
        speedup_high=min(high, supported),
        claimed_speedup=speedup,
        candidate_seconds=seconds,
        reference_seconds=reference,
        tflops=flops / seconds / 1e12,
        roofline_seconds=case.device.info.roofline_seconds(case.task.architecture, flops, operator.bytes(shape)),
        sm_clock_mhz=round(statistics.median([r.sm_clock_mhz for r in report.rounds if r.sm_clock_mhz] or [0])),
        regime=report.regime,
        report=report,
    )


def _wall_speedup(report: TimingReport) -> float:
    """Library over candidate by the judge's clock, the candidate's launches given for free; infinite when unknown."""
    launch = _LAUNCH_SECONDS + _ROUND_TRIP_SECONDS / report.wall_calls
    seconds = report.wall_seconds_per_call - launch
    if not report.reference_wall_seconds_per_call or seconds <= 0:
        return math.inf
    return report.reference_wall_seconds_per_call / seconds


def _timing_reason(evidence: TimingEvidence, program: Program) -> tuple[str, str]:
    report = evidence.report
    if not report.warmup_correct or any(round_.correct is False for round_ in report.rounds):
        return "wrong_when_timed", "An output of a timed call was wrong: every call gets new inputs."
    if not report.wall_correct:
        return (
            "wrong_when_timed",
            "Of calls back to back, each with its own buffers, one had a wrong output once the device was idle.",
        )
    foreign = set(report.candidate_kernels) - {kernel.name for kernel in program.instructions}
    if foreign:
        return (
            "foreign_kernel",
            f"Kernels ran that are not in this source: {', '.join(sorted(foreign))[:300]}.",
        )
    if statistics.median(round_.candidate for round_ in report.rounds) < _ROOFLINE_SLACK * evidence.roofline_seconds:
        return (
            "below_roofline",
            "The measured time is shorter than this device can do the operator's work in.",
        )
    if evidence.claimed_speedup > _CLOCK_MISMATCH * _wall_speedup(report):
        return (
            "clock_mismatch",
            "Calls take longer by the judge's clock than the device time that was recorded.",
        )
    return "", ""
