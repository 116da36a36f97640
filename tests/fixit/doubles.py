"""What the tests of Fixit share: verified records without a compiler, a small task, a tokenizer made on the spot."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from baselines.fixit.records import Failure, Origin, Pair, Problem, Reasoning, content_id
from baselines.fixit.sources import code_id
from ptxgym.devices import DeviceInfo, MemoryReport
from ptxgym.evaluation import (
    CompileEvidence,
    CorrectnessEvidence,
    Evaluation,
    EvaluationOptions,
    InstructionEvidence,
    MemoryEvidence,
    StageResult,
)
from ptxgym.trajectories import EvaluationRecord

ROOT = Path(__file__).parent.parent.parent
D128 = [f"PTXBench-{name}-H100" for name in ("MHAForward", "MHAForwardCausal", "MHABackward", "MHABackwardCausal")]
D64, D96 = [f"{name}-D64" for name in D128], [f"{name}-D96" for name in D128]
GEMM = "PTXBench-GEMM-H100"

KERNEL = 'extern "C" cudaError_t run(int x, cudaStream_t stream) {\n    return cudaError_t(x - %s);\n}\n'
FINDING = "kernel.cu:2: error: missing-proxy-fence: The copy reads what ordinary stores wrote, without a fence."
THOUGHT = (
    "I look at the finding first. It names line 2, so I ask what has to happen before it. The stores are ordinary, "
    "and the copy reads them asynchronously. Nothing orders the two, therefore I need the fence by every thread that "
    "wrote, then the barrier, and only then the copy."
)

TEMPLATE = (
    "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"
)


def evaluation(
    env: str = GEMM, source: str = KERNEL % 0, failed: str = "", reports: tuple[str, ...] = ()
) -> Evaluation:
    """As the simulator's judge writes it: passed, or failed in one stage."""
    evidence = {
        "source": None,
        "compile": CompileEvidence(diagnostics="", kernels=(), advisories=(), families={}, compiler="nvcc 13.0"),
        "memory": MemoryEvidence(
            reports=(MemoryReport(tool="ptxgym simulator", errors=len(reports), reports=reports, complete=True),),
            shapes=("M=128 N=128 K=64",),
            refused=(),
        ),
        "correctness": CorrectnessEvidence(
            comparisons=(), refused=(), mutated_inputs=(), overrun_outputs=(), confinement=()
        ),
        "instructions": InstructionEvidence(
            tool="ptxgym simulator",
            shape="",
            executed=True,
            tensor_flops=1.0,
            required_flops=1.0,
            families={},
            opcodes={},
            bytes={},
            kernels=(),
            foreign_kernels=(),
        ),
    }
    stages, over = [], False
    for name, found in evidence.items():
        if over:
            stages.append(StageResult(stage=name, status="skipped", reason="earlier_failure"))
        elif name == failed:
            stages.append(StageResult(stage=name, status="failed", reason="mismatch", message="It fails."))
            if name == "memory":
                stages[-1] = stages[-1].model_copy(update={"evidence": found, "reason": "memory_error"})
            over = True
        else:
            stages.append(StageResult(stage=name, status="passed", evidence=found))
    stages.append(StageResult(stage="timing", status="skipped", reason="unavailable"))
    return Evaluation(
        task=env,
        source_sha256=hashlib.sha256(source.encode()).hexdigest(),
        program="p",
        device=DeviceInfo(kind="simulator", name="ptxgym simulator", multiprocessors=132),
        stages=tuple(stages),
    )


def failure(number: int = 0, env: str = GEMM, error_class: str = "memory_error", round_: int = 0) -> Failure:
    source = KERNEL % f"{number} - 1"
    stage = {"memory_error": "memory", "incorrect": "correctness", "compile_error": "compile"}[error_class]
    return Failure(
        id=code_id(env, source),
        problem=Problem(env=env, system="You write kernels.", prompt=f"Write {env}."),
        source=source,
        feedback=f"MEMORY ERROR\n  {FINDING}",
        error_class=error_class,
        evaluation=evaluation(env, source, stage, (FINDING,) if stage == "memory" else ()),
        origin=Origin(run="run-a", model="student", trajectory=number, turn=1 + number % 5),
        round=round_,
    )


def verification(env: str, source: str) -> EvaluationRecord:
    return EvaluationRecord(
        task=env,
        source=source,
        options=EvaluationOptions(device="simulator"),
        evaluation=evaluation(env, source),
        reward=0.5,
        turn=1,
        created="2026-01-01T00:00:00+00:00",
    )


def pair(number: int = 0, env: str = GEMM, error_class: str = "memory_error", round_: int = 0) -> Pair:
    failed = None if error_class == "none" else failure(number, env, error_class, round_)
    kernel = KERNEL % number
    return Pair(
        id=content_id(env, error_class, str(number), str(round_)),
        problem=Problem(env=env, system="You write kernels.", prompt=f"Write {env}."),
        failure=failed,
        kernel=kernel,
        verification=verification(env, kernel),
        made_by="teacher" if failed else "policy",
        teacher="teacher",
        round=round_,
    )


def reasoning(
    number: int = 0,
    env: str = GEMM,
    error_class: str = "memory_error",
    round_: int = 0,
    teacher: str = "glm-5.2",
    text: str = THOUGHT,
) -> Reasoning:
    made = pair(number, env, error_class, round_)
    method = "fixit" if made.failure else "kernelgen"
    return Reasoning(
        id=content_id(made.id, method, teacher),
        method=method,
        pair=made,
        outcome="accepted",
        text=text,
        teacher=teacher,
        created="2026-01-01T00:00:00+00:00",
    )


def write_lines(path: Path, records) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for record in records:
            file.write(record.model_dump_json() + "\n")
    return path


def work_of(folder: Path, records) -> Path:
    """A work folder with these reasonings."""
    write_lines(folder / "reasons.jsonl", records)
    return folder


@functools.cache
def tokenizer(template: str | None = TEMPLATE):
    """A byte-level tokenizer, made here from the corpus that it will see."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer, tok.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
    )
    tok.train_from_iterator([KERNEL, THOUGHT], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tok, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.chat_template = template
    return fast
