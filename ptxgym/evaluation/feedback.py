"""What a policy reads: the verdict first, then only what helps the next attempt.

Bounded in length and stable in form. It never shows a seed, nor reference data beyond the worst element of an output.
"""

from __future__ import annotations

import math

from ptxgym.evaluation.records import (
    CompileEvidence,
    CorrectnessEvidence,
    Evaluation,
    InstructionEvidence,
    MemoryEvidence,
    OutputComparison,
    StageName,
    StageResult,
    TimingEvidence,
)
from ptxgym.toolchain.names import source_name

MAX_FEEDBACK_CHARACTERS = 6000

_CLAIMS: dict[StageName, str] = {
    "correctness": "correct",
    "memory": "memory-clean",
    "instructions": "done by the target instructions",
}
"""What a stage that passed says of a kernel, in the order of the verdict."""

_VERDICTS = {
    "invalid_action": "INVALID ACTION: this is not a source that can be compiled.",
    "compile_error": "COMPILE ERROR",
    "memory_error": "MEMORY ERROR: the memory checker found errors.",
    "runtime_error": "RUNTIME ERROR: the kernel could not be run to its end.",
    "timeout": "TIMEOUT: the kernel did not finish.",
    "incorrect": "INCORRECT: the outputs are wrong.",
    "target_instructions_missing": "TARGET INSTRUCTIONS MISSING: the outputs are right, but the required instructions "
    "did not do the work.",
    "implausible": "IMPLAUSIBLE: the outputs are right, but the timing cannot be believed.",
    "unknown": "UNKNOWN: this machine could not finish the evaluation; nothing is held against the kernel.",
}

_COMPILER_CHARACTERS = 3000
_SHOWN_KERNELS = 4


def feedback(evaluation: Evaluation) -> str:
    """The feedback text of an evaluation."""
    parts = [_verdict(evaluation), *evaluation.notes]
    for stage in evaluation.stages:
        parts += _stage_lines(stage)
    text = "\n".join(part for part in parts if part)
    return text if len(text) <= MAX_FEEDBACK_CHARACTERS else text[: MAX_FEEDBACK_CHARACTERS - 4] + "\n[…]"


def _verdict(evaluation: Evaluation) -> str:
    if evaluation.status != "passed":
        return _VERDICTS[evaluation.status]
    claims = [claim for stage, claim in _CLAIMS.items() if evaluation.stage(stage).status == "passed"]
    if not claims:
        return "PASSED: it compiles, and nothing more was asked."
    if len(claims) > 1:
        claims[-1] = f"and {claims[-1]}"
    verdict = f"PASSED: {(', ' if len(claims) > 2 else ' ').join(claims)}."
    memory = evaluation.stage("memory").evidence
    if isinstance(memory, MemoryEvidence) and memory.warnings:
        return verdict.replace("memory-clean", "no memory error (but see the warnings)")
    return verdict


def _stage_lines(stage: StageResult) -> list[str]:
    if stage.status == "skipped":
        return [f"{stage.stage}: not measured. {stage.message}"] if stage.reason == "unavailable" else []
    lines = [f"{stage.stage}: {stage.status}. {stage.message}".strip()] if stage.status != "passed" else []
    match stage.evidence:
        case CompileEvidence() as evidence:
            lines += _compile_lines(evidence, failed=stage.status == "failed")
        case MemoryEvidence() as evidence:
            lines += _memory_lines(evidence, passed=stage.status == "passed")
            lines += _refused_lines("memory", evidence.refused)
        case CorrectnessEvidence() as evidence:
            lines += _correctness_lines(evidence)
        case InstructionEvidence() as evidence:
            lines += _instruction_lines(evidence)
        case TimingEvidence() as evidence:
            lines += _timing_lines(evidence)
    return lines


def _compile_lines(evidence: CompileEvidence, failed: bool) -> list[str]:
    if failed:
        text = evidence.diagnostics
        return [text if len(text) <= _COMPILER_CHARACTERS else text[:_COMPILER_CHARACTERS] + "\n[…]"]
    names = [source_name(kernel.name) for kernel in evidence.kernels]
    lines = [
        f"compile: {(name if names.count(name) == 1 else kernel.name)[:80]}: {kernel.registers} registers, "
        f"{kernel.spill_store_bytes + kernel.spill_load_bytes} bytes spilled, "
        f"{kernel.static_shared_bytes} bytes static shared memory"
        for name, kernel in zip(names, evidence.kernels[:_SHOWN_KERNELS], strict=False)
    ]
    return lines + [f"  ptxas {advisory.code}: {advisory.meaning}" for advisory in evidence.advisories]


def _memory_lines(evidence: MemoryEvidence, passed: bool) -> list[str]:
    warnings = evidence.warnings
    failing = [text for report in evidence.reports if report.errors for text in report.reports]
    lines = [f"memory: passed. {evidence.verdict.capitalize()}:"] if passed and warnings else []
    return lines + [f"  {line}" for text in dict.fromkeys([*failing, *warnings]) for line in text.splitlines()]


def _correctness_lines(evidence: CorrectnessEvidence) -> list[str]:
    worst = evidence.worst
    lines = []
    if worst is not None and not worst.passed:
        first_failures = {c.output: c for c in reversed(evidence.comparisons) if not c.passed}
        lines += [_comparison_line(comparison) for comparison in first_failures.values()]
    elif worst is not None:
        lines.append(
            f"correctness: {len(evidence.comparisons)} comparisons passed; largest norm error {worst.norm_error:.1e} "
            f"({worst.output}, limit {worst.norm_limit:.0e})"
        )
    return lines + _refused_lines("correctness", evidence.refused)


def _comparison_line(comparison: OutputComparison) -> str:
    index = ", ".join(map(str, comparison.worst_index))
    return (
        f"  {comparison.output} at {comparison.shape}, {comparison.distribution} inputs: worst at "
        f"{comparison.output}[{index}]: got {comparison.got:.6g}, expected {comparison.expected:.6g}; "
        f"{comparison.bad_elements / comparison.elements:.2%} of elements wrong, {comparison.nonfinite} not finite, "
        f"{comparison.unwritten} not written; norm error {comparison.norm_error:.2e} "
        f"(limit {comparison.norm_limit:.0e})"
    )


def _refused_lines(stage: str, refused: tuple[str, ...]) -> list[str]:
    return [f"{stage}: run refused {shape}, so nothing was checked there." for shape in refused]


def _instruction_lines(evidence: InstructionEvidence) -> list[str]:
    share = "unknown" if math.isnan(evidence.work_fraction) else f"{evidence.work_fraction:.3f}"
    executed = ", ".join(f"{name} {count:,}" for name, count in sorted(evidence.families.items())) or "none"
    return [
        f"instructions: work fraction {share} of the operator's FLOPs by target tensor instructions "
        f"({evidence.tool}, {evidence.shape})",
        f"  thread executions by family: {executed}",
    ]


def _timing_lines(evidence: TimingEvidence) -> list[str]:
    interval = f"[{evidence.speedup_low:.3f}, {evidence.speedup_high:.3f}]"
    lines = [
        f"timing: {evidence.candidate_seconds * 1e3:.3f} ms ({evidence.tflops:.0f} TFLOP/s), speedup "
        f"{evidence.speedup:.3f} {interval} over {evidence.report.reference} at "
        f"{evidence.reference_seconds * 1e3:.3f} ms ({evidence.regime}, {evidence.sm_clock_mhz} MHz)"
    ]
    if evidence.claimed_speedup > evidence.speedup:
        lines.append(
            f"  kernels were recorded at {evidence.claimed_speedup:.3f}, but calls back to back take longer by the "
            "judge's clock: host work in run, or waiting for the device, counts"
        )
    return lines
