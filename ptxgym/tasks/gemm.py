"""Matrix multiplication C = A·Bᵀ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxgym.tasks.operator import Distribution, Library, Operator, Parameter, Shape, Tensors, draw, upcast

if TYPE_CHECKING:
    import torch


class Gemm(Operator):
    """C[M, N] = A[M, K] · B[N, K]ᵀ with bf16 inputs and output, and fp32 accumulation."""

    name = "GEMM"
    formula = "C = A·Bᵀ with A [M, K], B [N, K] and C [M, N] in bf16, accumulated in fp32."
    parameters = (
        Parameter("A", "bfloat16", "input"),
        Parameter("B", "bfloat16", "input"),
        Parameter("C", "bfloat16", "output"),
        Parameter("M", "int", "dimension"),
        Parameter("N", "int", "dimension"),
        Parameter("K", "int", "dimension"),
    )

    def dimensions(self, shape: Shape) -> dict[str, tuple[int, ...]]:
        """A [M, K], B [N, K], C [M, N]."""
        M, N, K = shape["M"], shape["N"], shape["K"]
        return {"A": (M, K), "B": (N, K), "C": (M, N)}

    def flops(self, shape: Shape) -> int:
        """2·M·N·K."""
        return 2 * shape["M"] * shape["N"] * shape["K"]

    def make_inputs(self, shape: Shape, distribution: Distribution, generator: torch.Generator) -> Tensors:
        """Draw A and B."""
        sizes = self.dimensions(shape)
        return {name: draw(sizes[name], distribution, generator) for name in ("A", "B")}

    def reference(self, inputs: Tensors) -> Tensors:
        """C before its rounding to bf16."""
        return {"C": upcast(inputs["A"]) @ upcast(inputs["B"]).T}

    def library(self, inputs: Tensors) -> Library:
        """``torch.matmul`` into a preallocated C, which is cuBLAS."""
        import torch

        A, B = inputs["A"], inputs["B"]
        C = torch.empty(A.shape[0], B.shape[0], dtype=A.dtype, device=A.device)
        version = f"CUDA {torch.version.cuda}, torch {torch.__version__}"
        return Library("cuBLAS (torch.matmul)", version, lambda: torch.matmul(A, B.T, out=C))

    def independent_axis(self, shape: Shape) -> dict[str, int]:
        """The rows of A, which are the rows of C."""
        return {"A": shape["M"], "C": shape["M"]}
