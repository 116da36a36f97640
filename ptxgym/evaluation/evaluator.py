"""A submission through the stages, to an Evaluation."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import platform
import threading
import time
from collections.abc import Callable
from typing import Literal

from ptxgym._version import __version__
from ptxgym.devices import Device, Regime, get_device
from ptxgym.errors import CandidateError, CrowdedError, InfrastructureError, MisuseError
from ptxgym.evaluation.records import STAGES, Evaluation, StageName, StageResult
from ptxgym.evaluation.stages import (
    Case,
    InstructionRule,
    compile_stage,
    correctness_stage,
    instructions_stage,
    memory_stage,
)
from ptxgym.evaluation.timing_stage import timing_stage
from ptxgym.tasks import Task
from ptxgym.toolchain import (
    Cache,
    Program,
    Record,
    Source,
    SourceRefusedError,
    cache_root,
    compile_source,
    content_key,
    read_source,
)

_RUNNING: tuple[tuple[StageName, Callable[[Case], StageResult]], ...] = (
    ("memory", memory_stage),
    ("correctness", correctness_stage),
    ("instructions", instructions_stage),
    ("timing", timing_stage),
)

_FILE = "evaluation.json"
_FORMAT = 3
"""Raise it when the same program must be judged again: it is part of every key."""

_COMPILERS = threading.BoundedSemaphore(os.cpu_count() or 1)
"""More compilers than processors only wait for each other."""

Progress = Callable[[StageName, StageResult | None], None]
"""Called with None when a stage begins, and with its result when it ends."""


class EvaluationOptions(Record):
    """How a task is judged. The defaults are the strictest."""

    device: str = "auto"
    """``auto``, ``cuda``, ``cuda:1``, ``simulator`` or ``none``; see :func:`ptxgym.devices.get_device`."""
    shapes: Literal["all", "workload"] = "all"
    """``workload`` is the paper's rule: only the fixed workload counts. It needs a GPU, or ``none``."""
    instruction_rule: InstructionRule = "work"
    """``work``: target instructions did at least 0.9 of the FLOPs. ``paper``: one was executed."""
    regime: Regime = "hot"
    """``hot`` under load; ``cool`` with idle time before each call, for records."""
    stages: tuple[StageName, ...] = STAGES
    """Stages that run; the others are skipped. ``source`` and ``compile`` always do."""
    cache: bool = True
    """Whether a finished evaluation of the same program may be used again."""


class Evaluator:
    """Judges submissions for one task.

    Args:
        task: What is asked.
        options: How it is judged.

    Raises:
        MisuseError: The options name a device that does not exist or is not here, or ask it for what it cannot do.
    """

    def __init__(self, task: Task, options: EvaluationOptions | None = None) -> None:
        self.task = task
        self.options = options or EvaluationOptions()
        self._programs = Cache("programs")
        self._evaluations = Cache("evaluations")
        if self.options.device != "auto" or self.options.shapes == "workload":
            _check_shapes(self.options, get_device(self.options.device, task.architecture))

    @functools.cached_property
    def device(self) -> Device:
        """Where programs run; looked for at the first use."""
        return get_device(self.options.device, self.task.architecture)

    def __getstate__(self) -> dict[str, object]:
        """The question, not the device: a copy looks for its own."""
        return {name: value for name, value in self.__dict__.items() if name != "device"}

    def evaluate(self, action: object, progress: Progress | None = None) -> Evaluation:
        """Judge one submission. Never raises for what the candidate or the machine does.

        Args:
            action: The source; anything else is an invalid action.
            progress: Told of every stage.
        """
        report = progress or (lambda stage, result: None)
        run = _Run(self, report)
        try:
            source = run.source(action)
            if source is None:
                return run.finish("")
            run.sha256 = hashlib.sha256(source.text.encode("utf-8")).hexdigest()
            run.flags, run.notes = source.flags(), source.notes
            program = run.compile(source)
            if program is None or program.status != "compiled":
                return run.finish(program.key if program else "")
            return self._judge(program, run)
        except Exception as error:  # a fault of ours: the candidate must not pay for it, nor the training run end
            run.broken(error)
            return run.finish("")

    def _judge(self, program: Program, run: _Run) -> Evaluation:
        options = self.options
        key = content_key(
            format=_FORMAT,
            program=program.key,
            task=self.task.id,
            device=self.device.info.model_dump(mode="json"),
            options=options.model_dump(mode="json", exclude={"cache"}),
        )
        if options.cache and (kept := self._evaluations.load(key, _FILE, Evaluation)):
            for stage in kept[0].stages[2:]:
                run.report(stage.stage, stage)
            return kept[0].model_copy(update={"cached": True, "flags": run.flags, "notes": run.notes})
        case = Case(
            program=program,
            task=self.task,
            device=self.device,
            probes=options.shapes == "all",
            instruction_rule=options.instruction_rule,
            regime=options.regime,
        )
        for name, work in _RUNNING:
            if name == "timing" and not self.device.gives_times:
                run.skip(name, "unavailable", f"{self.device.info.name} gives no times.")
            elif name in options.stages:
                run.stage(name, functools.partial(_on_device, work, case))
        evaluation = run.finish(program.key)
        if options.cache and evaluation.valid and not _ended_by_a_clock(evaluation):
            self._keep(key, evaluation)
        return evaluation

    def _keep(self, key: str, evaluation: Evaluation) -> None:
        with self._evaluations.adding(key) as folder:
            (folder / _FILE).write_text(evaluation.model_dump_json(), encoding="utf-8")


def _check_shapes(options: EvaluationOptions, device: Device) -> None:
    if options.shapes == "workload" and not device.runs_workload:
        raise MisuseError(
            f"shapes='workload' needs a GPU of the task's architecture: {device.info.name} runs probe shapes alone, a "
            "workload would take it hours. Take shapes='all', which judges on the probe shapes there."
        )


def _ended_by_a_clock(evaluation: Evaluation) -> bool:
    """Whether another look might end otherwise: what a clock stops depends on more than the program."""
    return any(stage.reason == "timeout" for stage in evaluation.stages)


class _Run:
    """The stages of one evaluation as they come in."""

    def __init__(self, evaluator: Evaluator, report: Progress) -> None:
        self._evaluator = evaluator
        self._results: dict[StageName, StageResult] = {}
        self.report = report
        self.sha256 = ""
        self.flags: tuple[str, ...] = ()
        self.notes: tuple[str, ...] = ()

    def source(self, action: object) -> Source | None:
        """The source stage; None when the action is no source."""
        self.report("source", None)
        try:
            source = read_source(action)
        except SourceRefusedError as error:
            self._add(StageResult(stage="source", status="failed", reason="invalid_action", message=str(error)))
            return None
        self._add(StageResult(stage="source", status="passed"))
        return source

    def compile(self, source: Source) -> Program | None:
        """The compile stage; None when there is no compiler."""
        programs: list[Program] = []

        def stage() -> StageResult:
            with _COMPILERS:
                programs.append(compile_source(source, self._evaluator.task, self._evaluator._programs))
            return compile_stage(programs[0], self._evaluator.task)

        self.stage("compile", stage)
        return programs[0] if programs else None

    def stage(self, name: StageName, stage: Callable[[], StageResult]) -> None:
        """Run one stage, unless one before it failed in a way that makes it meaningless."""
        if self._blocked(name):
            return
        self.report(name, None)
        start = time.monotonic()
        try:
            result = stage()
        except CandidateError as error:
            result = StageResult(stage=name, status="failed", reason=error.reason, message=error.message)
        except InfrastructureError as error:
            result = StageResult(stage=name, status="unknown", reason="infrastructure", message=str(error))
        except (RuntimeError, OSError, ImportError) as error:  # torch's and the system's own
            message = f"The judge failed: {type(error).__name__}: {str(error)[:300]}"
            result = StageResult(stage=name, status="unknown", reason="infrastructure", message=message)
        self._add(result.model_copy(update={"seconds": time.monotonic() - start}))

    def skip(self, name: StageName, reason: str, message: str) -> None:
        """Leave a stage out for good."""
        if not self._blocked(name):
            self._add(StageResult(stage=name, status="skipped", reason=reason, message=message))

    def broken(self, error: Exception) -> None:
        """Record a fault of the judge's own at the first stage that has no result."""
        name = next((name for name in STAGES if name not in self._results), STAGES[-1])
        message = f"The judge failed: {type(error).__name__}: {str(error)[:300]}"
        self._add(StageResult(stage=name, status="unknown", reason="infrastructure", message=message))

    def finish(self, program: str) -> Evaluation:
        """The record, with what did not run marked as skipped."""
        failed = next(
            (name for name in STAGES if name in self._results and self._results[name].status == "failed"),
            None,
        )
        for name in STAGES:
            if name not in self._results:
                reason, message = ("earlier_failure", f"{failed} failed") if failed else ("not_requested", "")
                self._results[name] = StageResult(stage=name, status="skipped", reason=reason, message=message)
        return Evaluation(
            task=self._evaluator.task.id,
            source_sha256=self.sha256,
            program=program,
            device=self._evaluator.device.info,
            stages=tuple(self._results[name] for name in STAGES),
            flags=self.flags,
            notes=self.notes,
            software=_software(),
        )

    def _blocked(self, name: StageName) -> bool:
        """A failure ends the evaluation, but a correct kernel is timed whatever instructions it used.

        The paper's Fast_p counts every correct kernel, FastInst_p those with target instructions.
        """
        failed = {stage for stage, result in self._results.items() if result.status == "failed"}
        return bool(failed - {"instructions"} if name == "timing" else failed)

    def _add(self, result: StageResult) -> None:
        self._results[result.stage] = result
        self.report(result.stage, result)


def _on_device(stage: Callable[[Case], StageResult], case: Case) -> StageResult:
    if case.device.absence:
        raise InfrastructureError(case.device.absence)
    try:
        try:
            return stage(case)
        except CrowdedError:  # others may have had the time that the candidate lacked
            with case.device.alone():
                return stage(case)
    except CandidateError as error:
        if error.reason != "refused":
            case.device.probe()
        raise
    except RuntimeError:  # torch's: where the judge's own context is lost, no later verdict can be had from it
        case.device.probe()
        raise


@functools.cache
def _software() -> dict[str, str]:
    versions = {name: importlib.metadata.version(name) for name in ("torch", "numpy")}
    return {"python": platform.python_version(), "ptxgym": __version__, **versions}


def clear_cache() -> int:
    """Remove every kept program and evaluation; returns the bytes freed."""
    return sum(Cache(kind, limit=0).prune() for kind in ("programs", "evaluations") if (cache_root() / kind).exists())
