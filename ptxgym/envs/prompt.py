"""What a policy reads at reset: the task, the contract, how it is judged."""

from __future__ import annotations

from ptxgym.evaluation import WORK_FRACTION_LIMIT, EvaluationOptions
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
1. It compiles with nvcc -O3 -std=c++17 for compute_{target}.
2. A memory checker finds no error.
3. Every output is right on secret inputs: |error| ≤ {absolute:g} + {relative:g}·|reference| for every element, and
   ‖error‖ ≤ {norm:g}·‖reference − mean‖, against a higher-precision reference. Inputs must not change.
4. {instructions}
5. {timing}

Submit the whole source each time.
"""

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
        probes=f"Also checked, unless run returns an error for it: {probes}\n" if options.shapes == "all" else "",
        absolute=task.tolerance.absolute,
        relative=task.tolerance.relative,
        norm=task.tolerance.norm,
        instructions=_RULES[options.instruction_rule].format(
            family=task.architecture.instructions, share=WORK_FRACTION_LIMIT
        ),
        timing=(_TIMED if timed else _UNTIMED).format(target_speedup=target_speedup, max_turns=max_turns),
    )
    return f"{text}\n{knowledge}".rstrip() + "\n"
