"""In-context baselines: what a model makes of advice and of repaired kernels that are shown to it, without training.

Three kinds, each a policy of ``ptxgym run --policy in-context --option shown=…``: the expert's ``guidance``, the
``notes`` of similar failures that were repaired, and ``notes+kernel``, which shows a fixed kernel as well. The last
puts what is nearly the answer into the prompt; :mod:`baselines.retrieval.leakage` measures how nearly.
"""

from baselines.retrieval.index import Hit, Index
from baselines.retrieval.leakage import Leak, LeakageReport, leakage
from baselines.retrieval.policy import InContext, InContextPolicy, Shown, in_context_policy
from baselines.retrieval.repairs import Repair, RepairSet, read_repairs

__all__ = [
    "Hit",
    "InContext",
    "InContextPolicy",
    "Index",
    "Leak",
    "LeakageReport",
    "Repair",
    "RepairSet",
    "Shown",
    "in_context_policy",
    "leakage",
    "read_repairs",
]
