"""A task: an operator, a fixed workload, an architecture, and how close a result must be."""

from __future__ import annotations

from dataclasses import dataclass, field

from ptxgym.errors import MisuseError
from ptxgym.tasks.architecture import Architecture
from ptxgym.tasks.operator import Distribution, Operator, Shape


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far an output may be from the higher-precision reference. Both rules must hold.

    Pointwise (the paper's): ``|out − ref| ≤ absolute + relative·|ref|`` for every element, nothing non-finite.
    Norm: ``‖out − ref‖ ≤ norm·‖ref − mean(ref)‖``. Honest bf16 reaches 0.002 to 0.003; an 8-bit operand 0.037 and
    more, which the pointwise rule alone lets pass for attention at length 2048. The mean is taken off so that an
    output that hardly varies, such as LSE, cannot be answered with a constant.
    """

    absolute: float = 1e-2
    relative: float = 1e-2
    norm: float = 1e-2
    spiky_slack: float = 3.0
    """Factor on the pointwise limit for spiky inputs, where errors grow with the outliers they were multiplied by."""
    spiky_share: float = 1e-5
    """Share of finite elements that may still exceed it. cuDNN's backward pass does in 2e-7 of them at the workloads
    (H200, cuDNN 9.19), an 8-bit operand in 4e-2; the norm rule holds for both distributions."""
    stray_share: float = 0.0
    """Share of elements of an output that may exceed the limit for normal inputs, at least one where it is not 0, and
    none by more than :attr:`stray_excess`."""
    stray_excess: float = 2.0
    """As a multiple of the limit."""

    def pointwise(self, distribution: Distribution) -> tuple[float, float]:
        """(absolute, relative) for inputs of this distribution."""
        slack = self.spiky_slack if distribution == "spiky" else 1.0
        return self.absolute * slack, self.relative * slack

    def allowed_bad(self, distribution: Distribution, elements: int, worst: float) -> int:
        """How many elements may exceed the pointwise limit when the worst error is so many times the limit."""
        if distribution == "spiky":
            return int(self.spiky_share * elements)
        if not self.stray_share or worst > self.stray_excess:
            return 0
        return max(1, int(self.stray_share * elements))


@dataclass(frozen=True, slots=True)
class Task:
    """One instance of the benchmark.

    Raises:
        MisuseError: A shape lacks a dimension of the operator, has another, or an extent that is no positive integer.
    """

    id: str
    """E.g. ``PTXBench-GEMM-H100``; also the Gymnasium id."""
    operator: Operator = field(compare=False)
    architecture: Architecture
    workload: Shape = field(compare=False)
    """The shape that is timed."""
    probes: tuple[Shape, ...] = field(compare=False)
    """Small shapes for the simulator, the memory checker and a second correctness check."""
    tolerance: Tolerance = Tolerance()

    def __post_init__(self) -> None:
        for shape in self.shapes():
            _check_shape(shape, self)

    def shapes(self) -> tuple[Shape, ...]:
        """The probes, then the workload."""
        return (*self.probes, self.workload)


def _check_shape(shape: Shape, task: Task) -> None:
    wanted = [parameter.name for parameter in task.operator.parameters if parameter.role == "dimension"]
    if set(shape) != set(wanted):
        raise MisuseError(
            f"{task.id}: a shape of {task.operator.name} has {', '.join(wanted)}, not {', '.join(map(str, shape))}."
        )
    for name, extent in shape.items():
        if type(extent) is not int or extent < 1:
            raise MisuseError(f"{task.id}: {name}={extent!r} is no positive integer.")


def format_shape(shape: Shape) -> str:
    """A shape as people write it: ``M=8192 N=7168 K=5120``."""
    return " ".join(f"{name}={extent}" for name, extent in shape.items())
