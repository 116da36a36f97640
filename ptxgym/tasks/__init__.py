"""What is asked: operators, workloads, architectures, and the catalogue of tasks."""

from ptxgym.tasks.architecture import ARCHITECTURES, BLACKWELL, HOPPER, Architecture
from ptxgym.tasks.catalogue import TASKS, get_task, on_probes
from ptxgym.tasks.operator import DISTRIBUTIONS, Distribution, Library, Operator, Parameter, Shape, Tensors
from ptxgym.tasks.task import Task, Tolerance, format_shape

__all__ = [
    "ARCHITECTURES",
    "BLACKWELL",
    "DISTRIBUTIONS",
    "HOPPER",
    "TASKS",
    "Architecture",
    "Distribution",
    "Library",
    "Operator",
    "Parameter",
    "Shape",
    "Task",
    "Tensors",
    "Tolerance",
    "format_shape",
    "get_task",
    "on_probes",
]
