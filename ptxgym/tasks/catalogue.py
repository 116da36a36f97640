"""Every task, by id.

Ids are ``PTXBench-{operator}-{gpu}``. The paper's ten: five operators on two architectures. The generalisation
variants: head dimensions 64 and 96 of the four attention operators, and dense grouped-query attention forward.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from types import MappingProxyType

from ptxgym.errors import UnknownTaskError
from ptxgym.tasks.architecture import ARCHITECTURES
from ptxgym.tasks.attention import AttentionBackward, AttentionForward
from ptxgym.tasks.gemm import Gemm
from ptxgym.tasks.operator import Operator, Shape
from ptxgym.tasks.task import Task, Tolerance

_GEMM = {"M": 8192, "N": 7168, "K": 5120}
_MHA = {"batch": 4, "heads": 48, "seqlen": 4096}
_GQA = {"batch": 4, "heads": 32, "kv_heads": 4, "seqlen": 4096}

# Probes are legal for the usual tilings (multiples of 256 in M and N, of 128 in seqlen, of 64 in K), have more than
# one tile per axis, no two axes alike, and enough steps to wrap a pipeline of four stages twice.
_GEMM_PROBES = ({"M": 512, "N": 768, "K": 640}, {"M": 768, "N": 256, "K": 1152})
_MHA_PROBES = ({"batch": 1, "heads": 2, "seqlen": 256}, {"batch": 2, "heads": 1, "seqlen": 640})
_GQA_PROBES = (
    {"batch": 1, "heads": 4, "kv_heads": 2, "seqlen": 256},
    {"batch": 2, "heads": 2, "kv_heads": 1, "seqlen": 640},
)

_STRAY = Tolerance(stray_share=1e-7)
"""For the causal backward pass. Its first queries see few keys, so single products of dS and K are large and cancel;
with dS rounded to bf16 once, 1 element in 2·10⁹ at the workload is wrong by more than the limit, and the paper's rule
fails one honest run in twenty."""


def _operators() -> Iterator[tuple[Operator, Shape, tuple[Shape, ...]]]:
    yield Gemm(), _GEMM, _GEMM_PROBES
    for head_dim in (128, 64, 96):
        suffix = "" if head_dim == 128 else f"-D{head_dim}"
        for causal in (False, True):
            mask = "Causal" if causal else ""
            yield AttentionForward(f"MHAForward{mask}{suffix}", head_dim, causal), _MHA, _MHA_PROBES
            yield AttentionBackward(f"MHABackward{mask}{suffix}", head_dim, causal), _MHA, _MHA_PROBES
    for causal in (False, True):
        name = "GQAForwardCausal" if causal else "GQAForward"
        yield AttentionForward(name, causal=causal, grouped=True), _GQA, _GQA_PROBES


def _tasks() -> Iterator[Task]:
    for architecture in ARCHITECTURES:
        for operator, workload, probes in _operators():
            # The head dimension follows the GPU, as in PTXBench-MHAForward-H100-D64.
            name, _, variant = operator.name.partition("-")
            task_id = "-".join(filter(None, ("PTXBench", name, architecture.gpu, variant)))
            stray = isinstance(operator, AttentionBackward) and operator.causal
            yield Task(task_id, operator, architecture, workload, probes, _STRAY if stray else Tolerance())


TASKS = MappingProxyType({task.id: task for task in _tasks()})
"""All tasks by id, in the order they are listed."""


_ON_PROBES = "@probes"


def get_task(task_id: str) -> Task:
    """The task of this id; with ``@probes`` behind it, that of :func:`on_probes`.

    Raises:
        UnknownTaskError: There is none; the message offers the nearest id.
    """
    name = task_id.removesuffix(_ON_PROBES)
    if name not in TASKS:
        raise UnknownTaskError(task_id, TASKS)
    return TASKS[name] if name == task_id else on_probes(TASKS[name])


def on_probes(task: Task) -> Task:
    """The task with its last probe shape in the workload's place, under an id of its own: small on any device."""
    return dataclasses.replace(task, id=f"{task.id}{_ON_PROBES}", workload=task.probes[-1])
