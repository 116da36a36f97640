"""What a policy reads at reset: the task, the contract, how it is judged."""

from __future__ import annotations

from ptxgym.evaluation import WORK_FRACTION_LIMIT, EvaluationOptions, StageName
from ptxgym.tasks import Task, format_shape

_PROMPT = """\
Write one CUDA C++17 source file with inline PTX for {gpu} ({architecture}, sm_{target}).

Operator {operator}: {formula}

It exports this function, which launches its own kernels on the given stream and does its own host set-up:

    {signature}

Tensors are row-major and contiguous. Outputs are preallocated and hold garbage. Return cudaSuccess, or an error code
for a shape you do not support. <cuda_runtime.h>, <cuda_bf16.h> and this declaration are included before your source;
other headers of the CUDA toolkit and <ptxgym/{header}.cuh> may be included, libraries (cuBLAS, cuDNN, CUTLASS, CUB,
Thrust) may not. Take driver functions such as cuTensorMapEncodeTiled from cudaGetDriverEntryPointByVersion.

{shape}: {workload}
{probes}
Judged in this order:
{stages}

Submit the whole source each time.
"""

_CORRECTNESS = """\
Every output is right on secret inputs: |error| ≤ {absolute:g} + {relative:g}·|reference| for every element, and
   ‖error‖ ≤ {norm:g}·‖reference − mean‖, against a higher-precision reference. Inputs must not change."""

_RULES = {
    "work": "Target instructions do the work: {family}. Tensor instructions of this family must execute at least "
    "{share:.0%} of the operator's FLOPs in bf16.",
    "paper": "A target instruction is executed: {family}.",
}


_TIMED = """\
Its time on the timed shape, cold L2, interleaved with the vendor library: speedup = library time / your time. The
   episode ends when the speedup reaches {target_speedup:g}, or after {max_turns} submissions."""

_UNTIMED = """\
Here nothing is timed: the episode ends with the first submission that passes all of this, or
   after {max_turns} submissions."""


def task_prompt(
    task: Task,
    options: EvaluationOptions,
    target_speedup: float,
    max_turns: int,
    knowledge: str,
    timed: bool = True,
) -> str:
    """The prompt of a task, followed by the knowledge that was chosen for it.

    Args:
        task: What is asked.
        options: How it is judged.
        target_speedup: Ends the episode.
        max_turns: Submissions per episode.
        knowledge: The text behind the statement.
        timed: Whether a submission can get a time where it is judged.
    """
    probes = " and ".join(format_shape(shape) for shape in task.probes)
    rule, tolerance = _RULES[options.instruction_rule], task.tolerance
    stages: dict[StageName, str] = {
        "compile": f"It compiles with nvcc -O3 -std=c++17 for compute_{task.architecture.target}.",
        "memory": "A memory checker finds no error.",
        "correctness": _CORRECTNESS.format(
            absolute=tolerance.absolute, relative=tolerance.relative, norm=tolerance.norm
        ),
        "instructions": rule.format(family=task.architecture.instructions, share=WORK_FRACTION_LIMIT),
        "timing": (_TIMED if timed else _UNTIMED).format(target_speedup=target_speedup, max_turns=max_turns),
    }
    told = [text for stage, text in stages.items() if stage in ("compile", *options.stages, "timing")]
    text = _PROMPT.format(
        gpu=task.architecture.gpu,
        architecture=task.architecture.name,
        target=task.architecture.target,
        header=task.architecture.name.lower(),
        operator=task.operator.name,
        formula=task.operator.formula,
        signature=task.operator.signature(),
        shape="Timed shape" if timed else "Shape",
        workload=format_shape(task.workload),
        probes=f"Also checked: {probes}; run may refuse one of them, not all\n" if options.shapes == "all" else "",
        stages="\n".join(f"{number}. {text}" for number, text in enumerate(told, start=1)),
    )
    return f"{text}\n{knowledge}".rstrip() + "\n"
