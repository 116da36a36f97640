"""Evaluations and runs made up by the test, and hostile text."""

from __future__ import annotations

import math
import random
from pathlib import Path

from ptxgym.devices import DeviceInfo, MemoryReport, TimedRound, TimingReport
from ptxgym.evaluation import (
    STAGES,
    CompileEvidence,
    CorrectnessEvidence,
    Evaluation,
    Evidence,
    InstructionEvidence,
    MemoryEvidence,
    OutputComparison,
    StageResult,
    TimingEvidence,
    feedback,
)
from ptxgym.runs.records import Message, RunRecord, StopRecord, Timing, TurnRecord, Usage
from ptxgym.toolchain import KernelResources

TASK = "PTXBench-GEMM-H100"
DEVICE = DeviceInfo(kind="cuda", name="NVIDIA H200")

HOSTILE = (
    "</pre></details><script>document.title='taken'; console.error('taken')</script>"
    "<img src=x onerror=\"document.title='taken'\"><svg onload=\"document.title='taken'\"></svg>"
    "<style>body{display:none}</style>{{ 7*7 }}{% raw %}]]>-->&lt;\x00\x1b[31m\u202e\u200b\ud800"
)


def _evidence(
    diagnostics: str, executed: bool, share: float, speedup: float, norm_error: float, wrong: int
) -> dict[str, Evidence]:
    comparison = OutputComparison(
        output="C",
        shape="M=512 N=768 K=640",
        distribution="normal",
        elements=512 * 768,
        bad_elements=wrong,
        allowed_bad=0,
        nonfinite=0,
        unwritten=0,
        worst_index=(17, 402),
        got=0.51,
        expected=0.48,
        max_absolute_error=0.03,
        norm_error=norm_error,
        norm_limit=0.01,
    )
    resources = KernelResources(
        name="_Z4gemmv",
        registers=168,
        stack_bytes=0,
        spill_store_bytes=0,
        spill_load_bytes=0,
        static_shared_bytes=0,
    )
    rounds = tuple(TimedRound(candidate=1e-3, reference=0.8e-3, sm_clock_mhz=1980, correct=None) for _ in range(3))
    report = TimingReport(
        timer="CUPTI",
        regime="hot",
        rounds=rounds,
        warmup=10,
        warmup_correct=True,
        reference="cuBLAS",
        reference_version="13.1",
        reference_kernels=("nvjet",),
        candidate_kernels=("_Z4gemmv",),
        wall_seconds_per_call=1e-3,
        throttle_reasons=(),
        power_limit_watts=700,
        temperature_celsius=50,
    )
    return {
        "compile": CompileEvidence(
            diagnostics=diagnostics, kernels=(resources,), advisories=(), families={"HGMMA": 8}, compiler="nvcc 13.0.88"
        ),
        "memory": MemoryEvidence(
            reports=(MemoryReport(tool="memcheck", errors=0, reports=(), complete=True),),
            shapes=("M=512 N=768 K=640",),
            refused=(),
        ),
        "correctness": CorrectnessEvidence(
            comparisons=(comparison,), refused=(), mutated_inputs=(), overrun_outputs=(), confinement=()
        ),
        "instructions": InstructionEvidence(
            tool="Nsight Compute 2025.3",
            shape="M=8192 N=7168 K=5120",
            executed=executed,
            tensor_flops=share * 6e11,
            required_flops=6e11,
            families={"HGMMA": 1000} if executed else {},
            opcodes={},
            bytes={},
            kernels=("_Z4gemmv",),
            foreign_kernels=(),
        ),
        "timing": TimingEvidence(
            speedup=speedup,
            speedup_low=speedup * 0.98,
            speedup_high=speedup * 1.02,
            candidate_seconds=0.8e-3 / max(speedup, 1e-3),
            reference_seconds=0.8e-3,
            tflops=600.0,
            roofline_seconds=0.6e-3,
            sm_clock_mhz=1700,
            regime="hot",
            report=report,
        ),
    }


def evaluation(
    ends_at: str = "",
    reason: str = "mismatch",
    status: str = "failed",
    speedup: float = 0.9,
    device: DeviceInfo = DEVICE,
    share: float = 1.0,
    executed: bool = True,
    diagnostics: str = "",
    message: str = "",
    task: str = TASK,
) -> Evaluation:
    """An evaluation that passes every stage up to ``ends_at``, which has this status; later ones are skipped."""
    evidence = _evidence(diagnostics, executed, share, speedup, 2e-3, 9 * (ends_at == "correctness"))
    stages = []
    for name in STAGES:
        if not stages or stages[-1].status == "passed" or (stages[-1].status == "unknown" and name != "timing"):
            here = status if name == ends_at else "passed"
            passed = here == "passed"
            kept = evidence.get(name) if passed or name in ("compile", "correctness", "instructions") else None
            kept = None if here == "unknown" and name == "correctness" else kept
            text = "" if passed else message or f"The {name} stage says no."
            stages.append(
                StageResult(stage=name, status=here, reason="" if passed else reason, message=text, evidence=kept)
            )
        else:
            stages.append(StageResult(stage=name, status="skipped", reason="earlier_stage"))
    return Evaluation(task=task, source_sha256="0" * 64, program="p", device=device, stages=tuple(stages))


def turn(number: int, source: str, found: Evaluation, **changes: object) -> TurnRecord:
    """One turn of the first trajectory of variant ``plain``."""
    settings: dict[str, object] = {
        "run": "run-a",
        "env": found.task,
        "policy": "mini_ptx_agent",
        "model": "Claude Opus 4.8",
        "variant": "plain",
        "trajectory": 0,
        "messages": (
            Message(role="assistant", content=f"```cpp\n{source}\n```", reasoning="First the tiles, then the ring."),
            Message(role="user", content=feedback(found)),
        ),
        "reward": 0.5,
        "terminated": False,
        "truncated": False,
        "usage": Usage(prompt_tokens=24_000, completion_tokens=31_000, reasoning_tokens=28_000, cost=0.41),
        "timing": Timing(model_seconds=190.0, evaluation_seconds=21.0),
        "created": "2026-11-29T20:00:00+00:00",
    } | changes
    return TurnRecord(turn=number, source=source, evaluation=found, **settings)  # type: ignore[arg-type]


def write_run(folder: Path, records: list[TurnRecord], stops: tuple[StopRecord, ...] = (), **changes: object) -> Path:
    """A run's folder, as the harness leaves it."""
    folder.mkdir(parents=True)
    fields: dict[str, object] = {
        "run": records[0].run,
        "created": "2026-11-29T20:00:00+00:00",
        "envs": tuple(dict.fromkeys(record.env for record in records)),
        "policy": records[0].policy,
        "variants": {},
        "trajectories": 1,
        "max_turns": 8,
        "seed": 0,
    }
    settings = RunRecord.model_validate(fields | changes)
    (folder / "run.json").write_text(settings.model_dump_json(), encoding="utf-8")
    for name, lines in (("turns.jsonl", records), ("stops.jsonl", stops)):
        (folder / name).write_text("".join(line.model_dump_json() + "\n" for line in lines), encoding="utf-8")
    return folder


def stop(record: TurnRecord, why: str) -> StopRecord:
    """The end of a trajectory after this turn."""
    return StopRecord(
        env=record.env,
        variant=record.variant,
        trajectory=record.trajectory,
        turn=record.turn,
        stop=why,
        created=record.created,
    )


def demonstration(example: str, seed: int = 0) -> tuple[list[TurnRecord], tuple[StopRecord, ...]]:
    """A run as real ones look: two tasks, three variants, two trajectories each, kernels that grow better."""
    drawn = random.Random(seed)
    records, stops = [], []
    for task in (TASK, "PTXBench-MHAForward-H100"):
        for variant in ("plain", "multicast", "warp-specialised"):
            for trajectory in range(2):
                skill = drawn.uniform(0, 0.4)
                for number in range(1, 9):
                    skill += drawn.uniform(-0.05, 0.15)
                    source = example.replace("// ", f"// attempt {number}: ", number)
                    found = _attempt(drawn, skill, task)
                    tokens = int(drawn.lognormvariate(math.log(28_000 if found.correct else 40_000), 0.4))
                    usage = Usage(
                        prompt_tokens=22_000 + 9000 * number,
                        completion_tokens=tokens + 3000,
                        reasoning_tokens=tokens,
                        cost=0.02 * number,
                    )
                    record = turn(number, source, found, variant=variant, trajectory=trajectory, usage=usage)
                    records.append(record)
                    if found.speedup > 1.2:
                        break
                stops.append(stop(record, "target_speedup" if found.speedup > 1.2 else "turn_budget"))
    return records, tuple(stops)


def _attempt(drawn: random.Random, skill: float, task: str) -> Evaluation:
    luck = skill + drawn.uniform(-0.3, 0.3)
    if luck < 0.1:
        return evaluation("compile", "compile_error", diagnostics="kernel.cu(88): error: expected a ';'", task=task)
    if luck < 0.25:
        return evaluation("correctness", task=task)
    if luck < 0.35:
        return evaluation("instructions", "not_enough_work", share=drawn.uniform(0.1, 0.8), task=task)
    if luck < 0.4:
        return evaluation("memory", "infrastructure", status="unknown", task=task)
    return evaluation(speedup=min(1.25, luck + drawn.uniform(0, 0.3)), task=task)
