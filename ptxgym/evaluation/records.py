"""What an evaluation found: one result per stage, with its evidence. Immutable, and faithful through JSON."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ptxgym.devices import DeviceInfo, MemoryReport, Regime, TimingReport
from ptxgym.toolchain import Advisory, KernelResources, Record

StageName = Literal["source", "compile", "memory", "correctness", "instructions", "timing"]
StageStatus = Literal["passed", "failed", "unknown", "skipped"]
"""``unknown``: this machine could not tell; never a verdict on the candidate. ``skipped``: an earlier stage failed, or
the stage was not asked for."""

STAGES: tuple[StageName, ...] = ("source", "compile", "memory", "correctness", "instructions", "timing")

Status = Literal[
    "passed",
    "invalid_action",
    "compile_error",
    "memory_error",
    "runtime_error",
    "timeout",
    "incorrect",
    "target_instructions_missing",
    "implausible",
    "unknown",
]
"""An evaluation in one word. ``unknown`` is a machine's fault; all the others are the candidate's."""

STATUSES: tuple[Status, ...] = Status.__args__  # type: ignore[attr-defined]


class CompileEvidence(Record):
    """What the compiler built."""

    kind: Literal["compile"] = "compile"
    diagnostics: str
    kernels: tuple[KernelResources, ...]
    advisories: tuple[Advisory, ...]
    families: dict[str, int]
    """Instruction family to occurrences in the cubin; being there is not being executed."""
    compiler: str

    @property
    def registers(self) -> int:
        """The most registers per thread of any kernel."""
        return max((kernel.registers for kernel in self.kernels), default=0)

    @property
    def spill_bytes(self) -> int:
        """Bytes spilled to local memory, stores and loads, over all kernels."""
        return sum(kernel.spill_store_bytes + kernel.spill_load_bytes for kernel in self.kernels)


class MemoryEvidence(Record):
    """What the memory checker saw, by shape."""

    kind: Literal["memory"] = "memory"
    reports: tuple[MemoryReport, ...]
    shapes: tuple[str, ...]
    refused: tuple[str, ...]
    """Shapes for which ``run`` returned an error."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was found on shapes without errors, one report per kind and place."""
        first: dict[str, str] = {}
        for text in (text for report in self.reports if not report.errors for text in report.reports):
            first.setdefault(_kind_and_place(text), text)
        return tuple(first.values())

    @property
    def verdict(self) -> str:
        """In a few words what a passed stage found."""
        where = f"on {len(self.shapes)} shape{'s' * (len(self.shapes) != 1)}"
        if not self.warnings:
            return f"clean {where}"
        return f"no memory error {where}, {len(self.warnings)} warning{'s' * (len(self.warnings) > 1)}"


def _kind_and_place(report: str) -> str:
    """The part of a report of the simulator's that other shapes share: place, severity and code."""
    place, *rest = report.split(": ", 3)
    return ": ".join([place, *rest[:2]]) if rest[:1] == ["warning"] else report


class OutputComparison(Record):
    """One output of one call against the higher-precision reference."""

    output: str
    shape: str
    distribution: str
    elements: int
    bad_elements: int
    """Elements that break the pointwise rule."""
    allowed_bad: int
    """How many may: :meth:`ptxgym.tasks.Tolerance.allowed_bad`."""
    nonfinite: int
    """Elements that are NaN or infinite; none ever may be."""
    unwritten: int
    """Elements that still hold the poison's bits."""
    worst_index: tuple[int, ...]
    got: float
    expected: float
    max_absolute_error: float
    norm_error: float
    """‖out − ref‖ / ‖ref − mean(ref)‖."""
    norm_limit: float

    @property
    def passed(self) -> bool:
        """Whether both rules hold. A NaN is never under a limit."""
        return self.nonfinite == 0 and self.bad_elements <= self.allowed_bad and self.norm_error <= self.norm_limit


class CorrectnessEvidence(Record):
    """Every comparison that was made."""

    kind: Literal["correctness"] = "correctness"
    comparisons: tuple[OutputComparison, ...]
    refused: tuple[str, ...]
    """Probe shapes for which ``run`` returned an error."""
    mutated_inputs: tuple[str, ...]
    overrun_outputs: tuple[str, ...]
    confinement: tuple[str, ...]
    """What the candidate's process was confined by."""

    @property
    def worst(self) -> OutputComparison | None:
        """The comparison to show: the first that failed, else the one nearest to its limit."""
        failed = next((c for c in self.comparisons if not c.passed), None)
        return failed or max(self.comparisons, key=lambda c: c.norm_error, default=None)


class InstructionEvidence(Record):
    """Which instructions did the work."""

    kind: Literal["instructions"] = "instructions"
    tool: str
    shape: str
    executed: bool
    """The paper's rule: a target family executed with a positive predicate-true count."""
    tensor_flops: float
    """FLOPs that bf16 target tensor instructions executed; NaN where opcodes do not tell (Blackwell SASS)."""
    required_flops: float
    """FLOPs that the operator needs."""
    families: dict[str, int]
    """Family to predicate-true thread executions."""
    opcodes: dict[str, int]
    """Opcodes of those families to predicate-true thread executions."""
    bytes: dict[str, int]
    """Bytes moved by kind, e.g. ``tma.load``; empty where the tool does not tell."""
    kernels: tuple[str, ...]
    foreign_kernels: tuple[str, ...]
    """Kernels that ran and are not in the candidate's own machine code."""

    @property
    def work_fraction(self) -> float:
        """Share of the operator's FLOPs that target tensor instructions executed, at most 1; NaN when unknown."""
        if math.isnan(self.tensor_flops) or not self.required_flops:  # min(1.0, nan) would be 1.0
            return math.nan
        return min(1.0, self.tensor_flops / self.required_flops)


class TimingEvidence(Record):
    """How fast, beside the library."""

    kind: Literal["timing"] = "timing"
    speedup: float
    """Median over rounds of library time ÷ candidate time, as far as the judge's own clock bears it out."""
    speedup_low: float
    speedup_high: float
    """95 % bootstrap interval of the median."""
    claimed_speedup: float = 0.0
    """The median by recorded times alone, 0 where an older version judged."""
    candidate_seconds: float
    reference_seconds: float
    """Medians of device time; the candidate's is longer where the judge's clock does not bear it out."""
    tflops: float
    """The operator's FLOPs over the candidate's median time, in 10¹² per second."""
    roofline_seconds: float
    """Faster than this is not possible on this device."""
    sm_clock_mhz: int
    """Median over rounds, 0 when unknown."""
    regime: Regime
    report: TimingReport


Evidence = Annotated[
    CompileEvidence | MemoryEvidence | CorrectnessEvidence | InstructionEvidence | TimingEvidence,
    Field(discriminator="kind"),
]


class StageResult(Record):
    """One stage."""

    stage: StageName
    status: StageStatus
    reason: str = ""
    """A stable code, empty when passed; e.g. ``mismatch``, ``timeout``, ``infrastructure``."""
    message: str = ""
    """A sentence for the kernel's writer."""
    seconds: float = 0.0
    evidence: Evidence | None = None

    @classmethod
    def judged(cls, stage: StageName, reason: str, message: str, evidence: Evidence) -> Self:
        """Failed where there is a reason to, else passed."""
        return cls(
            stage=stage, status="failed" if reason else "passed", reason=reason, message=message, evidence=evidence
        )

    @model_validator(mode="after")
    def _has_what_its_status_needs(self) -> Self:
        if self.status != "passed" and not self.reason:
            raise ValueError(f"a {self.status} {self.stage} stage needs a reason")
        if self.status == "passed" and self.stage != "source" and self.evidence is None:
            raise ValueError(f"a passed {self.stage} stage needs evidence")
        return self


class Evaluation(Record):
    """A verdict that can be kept, compared and judged again."""

    version: Literal[1] = 1
    task: str
    source_sha256: str
    program: str
    """The Program's key; empty when nothing was compiled."""
    device: DeviceInfo
    stages: tuple[StageResult, ...]
    flags: tuple[str, ...] = ()
    """What looks suspicious in the source; never part of the verdict."""
    notes: tuple[str, ...] = ()
    cached: bool = False
    """Whether it was answered from the cache."""
    software: dict[str, str] = Field(default_factory=dict)
    """Versions of what judged."""

    def stage(self, name: StageName) -> StageResult:
        """One stage's result."""
        return next(stage for stage in self.stages if stage.stage == name)

    @property
    def failed_stage(self) -> StageResult | None:
        """The first stage that failed."""
        return next((stage for stage in self.stages if stage.status == "failed"), None)

    @property
    def status(self) -> Status:
        """The evaluation in one word: the first failure, else what is unknown, else passed."""
        if failed := self.failed_stage:
            return _failure(failed)
        return "unknown" if any(stage.status == "unknown" for stage in self.stages) else "passed"

    @property
    def correct(self) -> bool:
        """Whether the outputs were right and nothing before them failed."""
        return self.stage("correctness").status == "passed"

    @property
    def valid(self) -> bool:
        """Whether this is a verdict on the candidate; False when the machine could not tell."""
        return self.status != "unknown"

    @property
    def work_fraction(self) -> float:
        """See :attr:`InstructionEvidence.work_fraction`; NaN without evidence."""
        evidence = self.stage("instructions").evidence
        return evidence.work_fraction if isinstance(evidence, InstructionEvidence) else math.nan

    @property
    def speedup(self) -> float:
        """Library time ÷ candidate time of a candidate whose timing stage passed, else NaN."""
        timing = self.stage("timing")
        if timing.status != "passed" or not isinstance(timing.evidence, TimingEvidence):
            return math.nan
        return timing.evidence.speedup


def _failure(stage: StageResult) -> Status:
    if stage.reason == "timeout" and stage.stage != "compile":
        return "timeout"
    if stage.reason in ("crash", "exit", "device_error", "load_error", "refused", "protocol"):
        return "runtime_error"
    by_stage: dict[StageName, Status] = {
        "source": "invalid_action",
        "compile": "compile_error",
        "memory": "memory_error",
        "correctness": "incorrect",
        "instructions": "target_instructions_missing",
        "timing": "implausible",
    }
    return by_stage[stage.stage]
