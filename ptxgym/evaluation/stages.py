"""One function per stage that runs something: from a program and a device to a result.

A stage raises :class:`~ptxgym.errors.CandidateError` or :class:`~ptxgym.errors.InfrastructureError` where it has no
evidence of its own; the evaluator turns them into *failed* and *unknown*.
"""

from __future__ import annotations

import math
import secrets
import statistics
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ptxgym.devices import Device, InstructionReport, KernelExecution, Regime, Session, TimingReport
from ptxgym.errors import CandidateError, InfrastructureError
from ptxgym.evaluation.comparison import compare, full_precision
from ptxgym.evaluation.records import (
    CompileEvidence,
    CorrectnessEvidence,
    InstructionEvidence,
    MemoryEvidence,
    OutputComparison,
    StageResult,
    TimingEvidence,
)
from ptxgym.evaluation.statistics import median_ratio
from ptxgym.tasks import DISTRIBUTIONS, Architecture, Distribution, Shape, Task, Tensors, format_shape
from ptxgym.toolchain import Program, ptx, sass
from ptxgym.toolchain.ablation import ablate

InstructionRule = Literal["work", "paper"]

WORK_FRACTION_LIMIT = 0.9
"""Share of the operator's FLOPs that target tensor instructions must execute under ``instruction_rule="work"``."""

_ROOFLINE_SLACK = 0.98
"""Below this share of the roofline's time a measurement is implausible; clocks and sensors are a little inexact."""

_SLOPE_SLACK = 1.5
_SLOPE_OVERHEAD_SECONDS = 100e-6
"""A call may take this factor of its claimed device time, and this much for its launch, by the judge's clock."""


@dataclass(frozen=True, slots=True)
class Case:
    """What the stages of one evaluation share."""

    program: Program
    task: Task
    device: Device
    probes: bool
    """Whether probe shapes are used, besides the workload."""
    instruction_rule: InstructionRule
    regime: Regime

    def small_shapes(self) -> tuple[Shape, ...]:
        """Shapes for the memory checker: the probes, else the workload."""
        return self.task.probes if self.probes else (self.task.workload,)

    def checked_shapes(self) -> tuple[Shape, ...]:
        """Shapes for correctness: probes and workload, as far as asked for and feasible."""
        probes = self.task.probes if self.probes or not self.device.runs_workload else ()
        return (*probes, self.task.workload) if self.device.runs_workload else probes

    def counted_shapes(self) -> tuple[Shape, ...]:
        """Shapes on which instructions may be counted: the workload, else a probe."""
        return (self.task.workload,) if self.device.runs_workload else self.task.probes

    def draw_inputs(self, shape: Shape) -> Tensors:
        """Draw normal inputs outside a session."""
        with self.device.sharing():
            return self.make_inputs(shape, "normal")

    def make_inputs(self, shape: Shape, distribution: Distribution) -> Tensors:
        """Draw inputs from a seed that nobody knows, within a session or ``sharing``."""
        import torch

        generator = torch.Generator(device=self.device.torch_device)
        generator.manual_seed(secrets.randbits(63))
        with full_precision():
            return self.task.operator.make_inputs(shape, distribution, generator)


def compile_stage(program: Program, task: Task) -> StageResult:
    """The compiler's verdict."""
    families: Counter[str] = Counter()
    for opcode, count in program.opcodes().items():
        if name := sass.family(opcode, task.architecture):
            families[name] += count
    evidence = CompileEvidence(
        diagnostics=program.diagnostics,
        kernels=program.kernels,
        advisories=program.advisories,
        families=dict(families),
        compiler=program.compiler,
    )
    reason = {"compiled": "", "rejected": "rejected", "timeout": "timeout"}[program.status]
    return StageResult(
        stage="compile",
        status="failed" if reason else "passed",
        reason=reason,
        message="The source does not compile." if reason else "",
        evidence=evidence,
    )


def memory_stage(case: Case) -> StageResult:
    """A memory checker over the small shapes; a shape that ``run`` refuses says nothing."""
    reports, shapes, refused = [], [], []
    for shape in case.small_shapes():
        inputs = case.draw_inputs(shape)
        try:
            reports.append(case.device.check_memory(case.program, case.task, shape, inputs))
            shapes.append(format_shape(shape))
        except CandidateError as error:
            if error.reason != "refused":
                raise
            refused.append(format_shape(shape))
        if reports and reports[-1].errors:
            break
    evidence = MemoryEvidence(reports=tuple(reports), shapes=tuple(shapes), refused=tuple(refused))

    def result(status: Literal["passed", "failed", "unknown"], reason: str = "", message: str = "") -> StageResult:
        return StageResult(stage="memory", status=status, reason=reason, message=message, evidence=evidence)

    if any(report.errors for report in reports):
        return result("failed", "memory_error", f"{reports[-1].tool} reported {reports[-1].errors} errors.")
    if not reports:
        return result("unknown", "refused", "run refuses every shape on which memory is checked.")
    if not all(report.complete for report in reports):
        return result("unknown", "infrastructure", f"{reports[-1].tool} did not finish its report.")
    return result("passed")


def correctness_stage(case: Case) -> StageResult:
    """Every shape and distribution against the reference, until something is wrong."""
    comparisons: list[OutputComparison] = []
    refused: list[str] = []
    mutated: list[str] = []
    overrun: list[str] = []
    with case.device.session(case.program, case.task) as session:
        for shape in case.checked_shapes():
            try:
                session.bind(shape)
                found = _compare_shape(case, session, shape, mutated, overrun)
            except CandidateError as error:
                if error.reason != "refused" or shape is case.task.workload:
                    raise
                refused.append(format_shape(shape))
                continue
            comparisons += found
            if mutated or overrun or not all(c.passed for c in found):
                break
        confinement = session.confinement
    evidence = CorrectnessEvidence(
        comparisons=tuple(comparisons),
        refused=tuple(refused),
        mutated_inputs=tuple(dict.fromkeys(mutated)),
        overrun_outputs=tuple(dict.fromkeys(overrun)),
        confinement=confinement,
    )
    reason, message = _correctness_reason(evidence)
    status: Literal["passed", "failed", "unknown"] = "failed" if reason else "passed"
    if not comparisons:
        status, reason, message = "unknown", "refused", "run refuses every shape that this device can run."
    return StageResult(stage="correctness", status=status, reason=reason, message=message, evidence=evidence)


def _compare_shape(
    case: Case, session: Session, shape: Shape, mutated: list[str], overrun: list[str]
) -> list[OutputComparison]:
    found: list[OutputComparison] = []
    for distribution in DISTRIBUTIONS:
        inputs = case.make_inputs(shape, distribution)
        outputs, record = session.run(inputs)
        mutated += record.mutated_inputs
        overrun += record.overrun_outputs
        found += _compare_outputs(case, shape, distribution, inputs, outputs)
        if not all(comparison.passed for comparison in found):
            break
    return found


def _compare_outputs(
    case: Case, shape: Shape, distribution: Distribution, inputs: Tensors, outputs: Tensors
) -> list[OutputComparison]:
    with full_precision():
        reference = case.task.operator.reference(inputs)
    return [
        compare(
            outputs[name],
            reference[name],
            case.task.tolerance,
            name=name,
            shape=format_shape(shape),
            distribution=distribution,
        )
        for name in outputs
    ]


def _correctness_reason(evidence: CorrectnessEvidence) -> tuple[str, str]:
    if evidence.mutated_inputs:
        return "mutated_inputs", f"run changed its inputs: {', '.join(evidence.mutated_inputs)}."
    if evidence.overrun_outputs:
        return "overrun", f"run wrote behind the end of: {', '.join(evidence.overrun_outputs)}."
    worst = evidence.worst
    if worst is None or worst.passed:
        return "", ""
    if worst.unwritten == worst.elements:
        return "unwritten", f"{worst.output} was not written."
    if worst.nonfinite:
        return "nonfinite", f"{worst.output} has {worst.nonfinite} elements that are NaN or infinite."
    if worst.bad_elements > worst.allowed_bad:
        return "mismatch", f"{worst.output} is wrong in {worst.bad_elements} of {worst.elements} elements."
    return "low_precision", f"{worst.output} is less precise than bf16 arithmetic: see its norm error."


def instructions_stage(case: Case) -> StageResult:
    """Which instructions were executed, and how much of the work they did."""
    report = _count(case)
    if not report.kernels:  # what computes without a kernel has failed correctness
        raise InfrastructureError(f"{report.tool} saw no kernel.")
    evidence = instruction_evidence(report, case.program, case.task)
    reason, message = _instruction_reason(evidence, case)
    if not reason and report.dialect == "ptx" and case.instruction_rule == "work":
        reason, message = _decoy_reason(case, report.shape)
    unknown = reason == "work_unknown"
    return StageResult(
        stage="instructions",
        status="unknown" if unknown else "failed" if reason else "passed",
        reason=reason,
        message=message,
        evidence=evidence,
    )


def _decoy_reason(case: Case, shape: Shape) -> tuple[str, str]:
    """Run once more with every target instruction subtracting where it added: what stays right did not need them."""
    with tempfile.TemporaryDirectory(prefix="ptxgym-judge-") as folder:
        program = ablate(case.program, Path(folder))
        if program is None:  # nothing that this edit knows, e.g. on Blackwell
            return "", ""
        inputs = case.draw_inputs(shape)
        try:
            with case.device.session(program, case.task) as session:
                session.bind(shape)
                outputs, _ = session.run(inputs)
        except CandidateError:  # it misses what the instructions computed
            return "", ""
    if all(comparison.passed for comparison in _compare_outputs(case, shape, "normal", inputs, outputs)):
        return "decoy", "The output is right without the target instructions: what they computed is not used."
    return "", ""


def _count(case: Case) -> InstructionReport:
    """Count on the first shape that ``run`` does not refuse."""
    for shape in case.counted_shapes():
        try:
            return case.device.count_instructions(case.program, case.task, shape, case.draw_inputs(shape))
        except CandidateError as error:
            if error.reason != "refused" or shape is case.task.workload:
                raise
    raise InfrastructureError("run refuses every shape that this device can run.")


def instruction_evidence(report: InstructionReport, program: Program, task: Task) -> InstructionEvidence:
    """From counts of opcodes to families, FLOPs and the paper's Boolean."""
    architecture = task.architecture
    family = {"sass": sass.family, "ptx": ptx.family}[report.dialect]
    families: Counter[str] = Counter()
    opcodes: Counter[str] = Counter()
    moved: Counter[str] = Counter()
    for kernel in report.kernels:
        moved.update(kernel.bytes)
        for opcode, threads in kernel.threads.items():
            if threads and (name := family(opcode, architecture)):
                families[name] += threads
                opcodes[opcode] += threads
    own = {kernel.name for kernel in program.instructions}
    names = dict.fromkeys(kernel.name for kernel in report.kernels)
    return InstructionEvidence(
        tool=report.tool,
        shape=format_shape(report.shape),
        executed=any(name in sass.TARGET_FAMILIES[architecture.target] for name in families),
        tensor_flops=sum(_target_flops(kernel, report.dialect, architecture) for kernel in report.kernels),
        required_flops=task.operator.flops(report.shape),
        families=dict(families),
        opcodes=dict(opcodes),
        bytes=dict(moved),
        kernels=tuple(names),
        foreign_kernels=tuple(name for name in names if name not in own),
    )


_TARGET_FLOPS = {"90a": "wgmma/bf16", "100a": "tcgen05/bf16"}
"""The key of :attr:`KernelExecution.tensor_flops` that counts, by target."""


def _target_flops(kernel: KernelExecution, dialect: str, architecture: Architecture) -> float:
    """BF16 FLOPs by target tensor instructions; NaN where the opcodes do not tell."""
    if dialect == "ptx":
        return kernel.tensor_flops.get(_TARGET_FLOPS[architecture.target], 0)
    per_thread = {opcode: sass.flops_per_thread(opcode, architecture) for opcode, n in kernel.threads.items() if n}
    return sum(math.nan if rate is None else rate * kernel.threads[opcode] for opcode, rate in per_thread.items())


def _instruction_reason(evidence: InstructionEvidence, case: Case) -> tuple[str, str]:
    if evidence.foreign_kernels:
        return (
            "foreign_kernel",
            f"Kernels ran that are not in this source: {', '.join(evidence.foreign_kernels)[:300]}.",
        )
    if not evidence.executed:
        return (
            "not_executed",
            f"No target instruction was executed. {case.task.architecture.instructions} is required.",
        )
    if case.instruction_rule == "paper":
        return "", ""
    if math.isnan(evidence.work_fraction):
        return "work_unknown", "The counter does not tell how many FLOPs the target instructions executed."
    if evidence.work_fraction < WORK_FRACTION_LIMIT:
        share = f"{evidence.work_fraction:.1%}"
        return (
            "token_use",
            f"Target tensor instructions executed only {share} of the operator's FLOPs in bf16.",
        )
    return "", ""


def timing_stage(case: Case) -> StageResult:
    """Speedup over the library, and whether the measurement can be believed."""
    task, shape = case.task, case.task.workload
    with case.device.sharing(), full_precision():
        inputs = case.make_inputs(shape, "normal")
        reference = task.operator.reference(inputs)

    def check(outputs: Tensors, blocks: int) -> bool:
        rotated = task.operator.rotate(reference, shape, blocks)
        compared = (
            compare(
                outputs[name],
                rotated[name],
                task.tolerance,
                name=name,
                shape=format_shape(shape),
                distribution="normal",
            )
            for name in outputs
        )
        return all(comparison.passed for comparison in compared)

    report = case.device.time(case.program, task, shape, inputs, check, case.regime)
    if min(round_.candidate for round_ in report.rounds) <= 0:
        return StageResult(
            stage="timing",
            status="failed",
            reason="no_kernel",
            message="A timed call launched nothing on the device.",
        )
    evidence = timing_evidence(report, case)
    reason, message = _timing_reason(evidence, case.program)
    return StageResult(
        stage="timing",
        status="failed" if reason else "passed",
        reason=reason,
        message=message,
        evidence=evidence,
    )


def timing_evidence(report: TimingReport, case: Case) -> TimingEvidence:
    """From rounds to a speedup with its interval."""
    candidate = [round_.candidate for round_ in report.rounds]
    library = [round_.reference for round_ in report.rounds]
    operator, shape = case.task.operator, case.task.workload
    flops = operator.flops(shape)
    speedup, low, high = median_ratio(library, candidate)
    median = statistics.median(candidate)
    return TimingEvidence(
        speedup=speedup,
        speedup_low=low,
        speedup_high=high,
        candidate_seconds=median,
        reference_seconds=statistics.median(library),
        tflops=flops / median / 1e12,
        roofline_seconds=case.device.info.roofline_seconds(case.task.architecture, flops, operator.bytes(shape)),
        sm_clock_mhz=round(statistics.median([r.sm_clock_mhz for r in report.rounds if r.sm_clock_mhz] or [0])),
        regime=report.regime,
        report=report,
    )


def _timing_reason(evidence: TimingEvidence, program: Program) -> tuple[str, str]:
    report = evidence.report
    if not report.warmup_correct or any(round_.correct is False for round_ in report.rounds):
        return "wrong_when_timed", "An output of a timed call was wrong: every call gets new inputs."
    foreign = set(report.candidate_kernels) - {kernel.name for kernel in program.instructions}
    if foreign:
        return (
            "foreign_kernel",
            f"Kernels ran that are not in this source: {', '.join(sorted(foreign))[:300]}.",
        )
    if evidence.candidate_seconds < _ROOFLINE_SLACK * evidence.roofline_seconds:
        return (
            "below_roofline",
            "The measured time is shorter than this device can do the operator's work in.",
        )
    if report.wall_seconds_per_call > _SLOPE_SLACK * evidence.candidate_seconds + _SLOPE_OVERHEAD_SECONDS:
        return (
            "clock_mismatch",
            "Calls take longer by the judge's clock than the device time that was recorded.",
        )
    return "", ""
