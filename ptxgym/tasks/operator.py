"""What an operator is: its signature, its reference, its cost, and the library it is timed against."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

Shape = Mapping[str, int]
"""The run-time dimensions of one call, e.g. ``{"M": 8192, "N": 7168, "K": 5120}``."""

Tensors = dict[str, "torch.Tensor"]
"""Tensors by parameter name."""

Distribution = Literal["normal", "spiky"]
"""How input values are drawn; see :func:`draw`."""

DISTRIBUTIONS: tuple[Distribution, ...] = ("normal", "spiky")

Role = Literal["input", "output", "workspace", "dimension"]

_C_TYPES = {"bfloat16": "__nv_bfloat16*", "float32": "float*", "int": "int"}
_BYTES = {"bfloat16": 2, "float32": 4}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of ``run``, in order."""

    name: str
    dtype: Literal["bfloat16", "float32", "int"]
    role: Role
    """Inputs are ``const``; outputs arrive poisoned; workspaces have undefined content."""

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return _BYTES[self.dtype]

    def declaration(self) -> str:
        """The parameter as C declares it, e.g. ``const __nv_bfloat16* A``."""
        const = "const " if self.role == "input" else ""
        return f"{const}{_C_TYPES[self.dtype]} {self.name}"


@dataclass(frozen=True, slots=True)
class Library:
    """The vendor implementation that candidates are timed against."""

    name: str
    """Library and entry point, e.g. ``cuBLAS (torch.matmul)``."""
    version: str
    call: Callable[[], object]
    """Computes the operator once, on the current stream, from the inputs it was prepared with."""


class Operator(ABC):
    """An operator of the benchmark, e.g. matrix multiplication.

    Tensors are row-major and contiguous. Inputs are bf16 unless a parameter says otherwise.
    """

    name: str
    """The operator's part of a task id, e.g. ``GEMM``."""
    formula: str
    """One sentence that says what is computed, for the prompt."""
    parameters: tuple[Parameter, ...]
    """The parameters of ``run`` in order, without the trailing stream."""

    @abstractmethod
    def dimensions(self, shape: Shape) -> dict[str, tuple[int, ...]]:
        """The size of every tensor parameter, by name."""

    @abstractmethod
    def flops(self, shape: Shape) -> int:
        """Floating-point operations of the matrix products alone; a multiply-add counts two."""

    @abstractmethod
    def make_inputs(self, shape: Shape, distribution: Distribution, generator: torch.Generator) -> Tensors:
        """Draw one set of inputs on the generator's device."""

    @abstractmethod
    def reference(self, inputs: Tensors) -> Tensors:
        """The outputs in higher precision than bf16: fp64 on a CPU, fp32 on a GPU.

        The inputs are what the candidate reads, bf16 values included, so the difference is the candidate's.
        """

    @abstractmethod
    def library(self, inputs: Tensors) -> Library:
        """Prepare the vendor library on these inputs; needs a CUDA device."""

    @abstractmethod
    def independent_axis(self, shape: Shape) -> dict[str, int]:
        """Per tensor, how many equal leading blocks may be rotated together without changing the mathematics.

        Rotating every named tensor by the same number of blocks rotates the outputs alike. The judge uses it
        to give each timed call inputs that it has never seen, whose outputs are known without recomputing.
        Tensors that are not named stay as they are.
        """

    def parameter(self, name: str) -> Parameter:
        """The parameter of this name."""
        return next(parameter for parameter in self.parameters if parameter.name == name)

    def tensors(self, *roles: Role) -> tuple[Parameter, ...]:
        """The tensor parameters with one of these roles, in order; all of them without an argument."""
        wanted = roles or ("input", "output", "workspace")
        return tuple(parameter for parameter in self.parameters if parameter.role in wanted)

    def bytes(self, shape: Shape) -> int:
        """The fewest bytes to move through device memory: each input read once, each output written once."""
        dimensions = self.dimensions(shape)
        return sum(p.itemsize * _product(dimensions[p.name]) for p in self.tensors("input", "output"))

    def rotate(self, tensors: Tensors, shape: Shape, blocks: int) -> Tensors:
        """Rotate the tensors that :meth:`independent_axis` names by so many blocks; the others are returned as is."""
        axes = self.independent_axis(shape)
        return {
            name: tensor.reshape(axes[name], -1).roll(blocks, 0).reshape(tensor.shape) if name in axes else tensor
            for name, tensor in tensors.items()
        }

    def redraw(self, inputs: Tensors, shape: Shape, generator: torch.Generator) -> Tensors:
        """Other normal inputs, drawn in about a millisecond, so that every timed call has its own.

        Args:
            inputs: A set of :meth:`make_inputs`, for operators with inputs that take long to make.
            shape: Its shape.
            generator: Its device.
        """
        return self.make_inputs(shape, "normal", generator)

    def blocks(self, tensors: Tensors, shape: Shape, chosen: torch.Tensor) -> Tensors:
        """The same problem with some of the blocks of :meth:`independent_axis` alone: inputs and outputs agree.

        Args:
            tensors: Inputs or outputs, by name.
            shape: Their shape.
            chosen: Numbers of blocks, as integers on the tensors' device.
        """
        axes = self.independent_axis(shape)
        return {
            name: _blocks(tensor, axes[name], chosen) if name in axes else tensor for name, tensor in tensors.items()
        }

    def signature(self) -> str:
        """The C declaration of ``run``."""
        parameters = [p.declaration() for p in self.parameters]
        return f'extern "C" cudaError_t run({", ".join(parameters)}, cudaStream_t stream);'


def draw(size: tuple[int, ...], distribution: Distribution, generator: torch.Generator) -> torch.Tensor:
    """Draw a bf16 tensor.

    ``normal`` is N(0, 1), the paper's. ``spiky`` adds N(0, 100) to one value in a thousand, as activations have
    it: 8-bit formats lose the small values beside the outliers, bf16 does not.
    """
    import torch

    device = generator.device
    values = torch.randn(size, generator=generator, device=device, dtype=torch.float32)
    if distribution == "spiky":
        spikes = torch.rand(size, generator=generator, device=device) < 1e-3
        values += spikes * 10 * torch.randn(size, generator=generator, device=device)
    return values.to(torch.bfloat16)


def upcast(tensor: torch.Tensor) -> torch.Tensor:
    """To the reference's precision: fp32 on a GPU, where fp64 would take seconds, else fp64."""
    import torch

    return tensor.to(torch.float32 if tensor.is_cuda else torch.float64)


def _blocks(tensor: torch.Tensor, blocks: int, chosen: torch.Tensor) -> torch.Tensor:
    """Leading blocks that may span two axes, e.g. batch and head; the number of axes stays."""
    size = tuple(tensor.shape)
    if size[0] % blocks == 0:
        return tensor.reshape(blocks, size[0] // blocks, *size[1:])[chosen].flatten(0, 1)
    return tensor.reshape(blocks, size[0] * size[1] // blocks, *size[2:])[chosen]


def _product(size: tuple[int, ...]) -> int:
    product = 1
    for extent in size:
        product *= extent
    return product
