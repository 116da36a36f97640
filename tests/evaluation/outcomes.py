"""Evaluations made of parts, without running anything."""

from __future__ import annotations

from ptxgym.devices import DeviceInfo, MemoryReport, TimedRound, TimingReport
from ptxgym.evaluation import (
    STAGES,
    WORK_FRACTION_LIMIT,
    CompileEvidence,
    CorrectnessEvidence,
    Evaluation,
    Evidence,
    InstructionEvidence,
    MemoryEvidence,
    StageName,
    StageResult,
    StageStatus,
    TimingEvidence,
)

_ROOFLINE, _LIBRARY = 0.5e-3, 0.8e-3


def evaluation_of(
    compiled: bool = True,
    memory: str = "passed",
    correct: bool = True,
    share: float = 1.0,
    speedup: float | None = None,
) -> Evaluation:
    """The evaluation of a submission that came so far; without a speedup it was not timed."""
    results: dict[StageName, StageResult] = {"source": StageResult(stage="source", status="passed")}

    def add(stage: StageName, passed: bool, evidence: Evidence) -> None:
        blocked = any(r.status == "failed" for r in results.values() if stage != "timing" or r.stage != "instructions")
        if not blocked:
            status: StageStatus = "passed" if passed else "failed"
            reason = "" if passed else "made"
            results[stage] = StageResult(stage=stage, status=status, reason=reason, evidence=evidence)

    add("compile", compiled, CompileEvidence(diagnostics="", kernels=(), advisories=(), families={}, compiler=""))
    report = MemoryReport(tool="made", errors=int(memory != "passed"), reports=(), complete=True)
    add("memory", memory == "passed", MemoryEvidence(reports=(report,), shapes=(), refused=()))
    add(
        "correctness",
        correct,
        CorrectnessEvidence(comparisons=(), refused=(), mutated_inputs=(), overrun_outputs=(), confinement=()),
    )
    add("instructions", share >= WORK_FRACTION_LIMIT, _instructions(share))
    if speedup is not None:
        add("timing", True, _timing(speedup))
    for stage in STAGES:
        results.setdefault(stage, StageResult(stage=stage, status="skipped", reason="not_requested"))
    return Evaluation(
        task="made",
        source_sha256="",
        program="",
        device=DeviceInfo(kind="none", name="made"),
        stages=tuple(results[stage] for stage in STAGES),
    )


def _instructions(share: float) -> InstructionEvidence:
    return InstructionEvidence(
        tool="made",
        shape="",
        executed=share > 0,
        tensor_flops=share,
        required_flops=1.0,
        families={},
        opcodes={},
        bytes={},
        kernels=(),
        foreign_kernels=(),
    )


def _timing(speedup: float) -> TimingEvidence:
    seconds = _LIBRARY / speedup
    timed = TimedRound(candidate=seconds, reference=_LIBRARY, sm_clock_mhz=0, correct=True)
    return TimingEvidence(
        speedup=speedup,
        speedup_low=speedup,
        speedup_high=speedup,
        candidate_seconds=seconds,
        reference_seconds=_LIBRARY,
        tflops=0.0,
        roofline_seconds=_ROOFLINE,
        sm_clock_mhz=0,
        regime="hot",
        report=TimingReport(
            timer="made",
            regime="hot",
            rounds=(timed,),
            warmup=0,
            warmup_correct=True,
            reference="made",
            reference_version="",
            reference_kernels=(),
            candidate_kernels=(),
            wall_seconds_per_call=seconds,
            throttle_reasons=(),
            power_limit_watts=0.0,
            temperature_celsius=0.0,
        ),
    )
