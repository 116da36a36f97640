"""One function per stage that runs something: from a program and a device to a result.

A stage raises :class:`~ptxgym.errors.CandidateError` or :class:`~ptxgym.errors.InfrastructureError` where it has no
evidence of its own; the evaluator turns them into *failed* and *unknown*.
"""

from __future__ import annotations

import math
import secrets
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from ptxgym.devices import Device, InstructionReport, KernelExecution, MemoryReport, Regime, Session
from ptxgym.errors import CandidateError, CrowdedError, OutOfMemoryError
from ptxgym.evaluation.comparison import compare, full_precision
from ptxgym.evaluation.records import (
    CompileEvidence,
    CorrectnessEvidence,
    InstructionEvidence,
    MemoryEvidence,
    OutputComparison,
    StageResult,
)
from ptxgym.tasks import DISTRIBUTIONS, Architecture, Distribution, Shape, Task, Tensors, format_shape
from ptxgym.toolchain import Program, ptx, sass
from ptxgym.toolchain.ablation import ablate
from ptxgym.toolchain.scratch import scratch_folder

InstructionRule = Literal["work", "paper"]

WORK_FRACTION_LIMIT = 0.9
"""Share of the operator's FLOPs that target tensor instructions must execute under ``instruction_rule="work"``."""

_ENOUGH_WITHOUT = 0.5
"""Share of the operator's FLOPs that other instructions must be able to do before a kernel is run without the target
ones. Honest kernels stay far below it; decoys have to do all of the work twice."""


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
    counted: list[InstructionReport] = field(default_factory=list)
    """What the instruction stage saw; timing compares its kernels."""

    def small_shapes(self) -> tuple[Shape, ...]:
        """Shapes for the memory checker: the probes, else the workload."""
        return self.task.probes if self.probes else (self.task.workload,)

    def checked_shapes(self) -> tuple[Shape, ...]:
        """Shapes for correctness: probes and workload, as far as asked for and feasible."""
        probes = self.task.probes if self.probes or not self.device.runs_workload else ()
        return (*probes, *self.workload())

    def workload(self) -> tuple[Shape, ...]:
        """The workload, where the device can run it."""
        return (self.task.workload,) if self.device.runs_workload else ()

    def counted_shapes(self) -> tuple[Shape, ...]:
        """Shapes on which instructions may be counted: the workload, else a probe."""
        return self.workload() or self.task.probes

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
    return StageResult.judged("compile", reason, "The source does not compile." if reason else "", evidence)


def memory_stage(case: Case) -> StageResult:
    """A memory checker over the small shapes; where ``run`` refuses all of them, over the workload."""
    reports: list[MemoryReport] = []
    shapes, refused = [], []
    small = case.small_shapes()
    large = [shape for shape in case.workload() if shape not in small]
    for shape in (*small, *large):
        if reports and shape in large:
            break
        inputs = case.draw_inputs(shape)
        try:
            reports.append(case.device.check_memory(case.program, case.task, shape, inputs))
            shapes.append(format_shape(shape))
        except CandidateError as error:
            if error.reason != "refused" or isinstance(error, CrowdedError):
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
        return result("failed", "refused", _refuses(refused))
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
                others = isinstance(error, OutOfMemoryError)  # may have what it lacks: the device will say
                if error.reason != "refused" or shape is case.task.workload or others:
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
    if not comparisons:
        reason, message = "refused", _refuses(refused)
    return StageResult.judged("correctness", reason, message, evidence)


def _refuses(shapes: list[str]) -> str:
    return f"run refuses every shape that this device can run: {' and '.join(shapes)}. Support at least one of them."


def _compare_shape(
    case: Case, session: Session, shape: Shape, mutated: list[str], overrun: list[str]
) -> list[OutputComparison]:
    found: list[OutputComparison] = []
    for distribution in DISTRIBUTIONS:
        inputs = case.make_inputs(shape, distribution)
        outputs, record = session.run(inputs)
        mutated += record.mutated_inputs
        overrun += record.overrun_outputs
        found += compare_outputs(case, shape, distribution, inputs, outputs)
        if not all(comparison.passed for comparison in found):
            break
    return found


def compare_outputs(
    case: Case, shape: Shape, distribution: Distribution, inputs: Tensors, outputs: Tensors
) -> list[OutputComparison]:
    """Every output against the reference of its inputs."""
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
    report = count_instructions(case)
    case.counted.append(report)
    evidence = instruction_evidence(report, case.program, case.task)
    reason, message = _instruction_reason(evidence, case)
    if not reason and case.instruction_rule == "work" and _could_do_without(report, case.task):
        reason, message = _decoy_reason(case, report)
    unknown = reason == "work_unknown"
    return StageResult(
        stage="instructions",
        status="unknown" if unknown else "failed" if reason else "passed",
        reason=reason,
        message=message,
        evidence=evidence,
    )


def _could_do_without(report: InstructionReport, task: Task) -> bool:
    """Whether the other instructions are enough for the work, at the most FLOPs that any of their kind can do.

    The simulator's counts do not tell, and a run there costs little.
    """
    if report.dialect == "ptx":
        return True
    most = sum(
        sass.most_other_flops_per_thread(opcode, task.architecture) * count
        for kernel in report.kernels
        for opcode, count in kernel.threads.items()
    )
    return most > _ENOUGH_WITHOUT * task.operator.flops(report.shape)


def _decoy_reason(case: Case, report: InstructionReport) -> tuple[str, str]:
    """Run once more with every target instruction subtracting where it added: what stays right did not need them."""
    shape = report.shape
    with scratch_folder() as folder:
        program = ablate(case.program, folder, machine_code=report.dialect == "sass")
        if program is None:  # nothing that this edit knows, e.g. on Blackwell
            return "", ""
        inputs = case.draw_inputs(shape)
        try:
            with case.device.session(program, case.task) as session:
                session.bind(shape)
                outputs, _ = session.run(inputs)
                found = compare_outputs(case, shape, "normal", inputs, outputs)  # while the device is shared
        except CandidateError:  # it misses what the instructions computed
            return "", ""
    if all(comparison.passed for comparison in found):
        return "decoy", "The output is right without the target instructions: what they computed is not used."
    return "", ""


def count_instructions(case: Case) -> InstructionReport:
    """Count on every shape that is countable and not refused; the one where least was done by target instructions."""
    reports = []
    for shape in case.counted_shapes():
        try:
            reports.append(case.device.count_instructions(case.program, case.task, shape, case.draw_inputs(shape)))
        except CandidateError as error:
            if error.reason != "refused" or shape is case.task.workload:
                raise
    if not reports:
        raise CandidateError("refused", _refuses([format_shape(shape) for shape in case.counted_shapes()]))
    return min(reports, key=lambda report: instruction_evidence(report, case.program, case.task).work_fraction)


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
        tensor_flops=sum(target_flops(kernel, report.dialect, architecture) for kernel in report.kernels),
        required_flops=task.operator.flops(report.shape),
        families=dict(families),
        opcodes=dict(opcodes),
        bytes=dict(moved),
        kernels=tuple(names),
        foreign_kernels=tuple(name for name in names if name not in own),
    )


_TARGET_FLOPS = {"90a": "wgmma/bf16", "100a": "tcgen05/bf16"}
"""The key of :attr:`KernelExecution.tensor_flops` that counts, by target."""


def target_flops(kernel: KernelExecution, dialect: str, architecture: Architecture) -> float:
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
