"""Multi-head and grouped-query attention, forward and backward.

Conventions: tensors are ``[batch, heads, seqlen, head_dim]``, the softmax scale is ``1/√head_dim``, ``LSE`` is the
natural logarithm of the softmax denominator in fp32 ``[batch, heads, seqlen]``, and causal means lower triangular.
Backward is Dao, "FlashAttention-2" (arXiv 2307.08691), Algorithm 2: with P = exp(scale·QKᵀ − LSE) and
D = rowsum(O∘dO),  dV = PᵀdO,  dS = P∘(dO·Vᵀ − D),  dQ = scale·dS·K,  dK = scale·dSᵀ·Q.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ptxgym.tasks.operator import Distribution, Library, Operator, Parameter, Shape, Tensors, draw, upcast

if TYPE_CHECKING:
    import torch

_SCORES_AT_ONCE = 1 << 28
"""Elements of one block of scores in the reference: 1 GiB in fp32, so that a workload fits beside its tensors."""

_DIMENSIONS = ("batch", "heads", "seqlen")


class _Attention(Operator):
    """What forward and backward share.

    Args:
        name: The operator's part of the task id.
        head_dim: Size of one head; a constant of the task, not a run-time argument.
        causal: Whether row i sees columns 0…i only.
        grouped: Whether ``kv_heads`` is an argument of its own (grouped-query attention).
    """

    def __init__(self, name: str, head_dim: int = 128, causal: bool = False, grouped: bool = False) -> None:
        self.name = name
        self.head_dim = head_dim
        self.causal = causal
        self.grouped = grouped
        names = ("batch", "heads", "kv_heads", "seqlen") if grouped else _DIMENSIONS
        self._dimension_parameters = tuple(Parameter(name, "int", "dimension") for name in names)

    def _kv_heads(self, shape: Shape) -> int:
        return shape["kv_heads"] if self.grouped else shape["heads"]

    def dimensions(self, shape: Shape) -> dict[str, tuple[int, ...]]:
        """Q-like tensors [batch, heads, seqlen, head_dim]; K-like ones have kv_heads; LSE has no head_dim."""
        batch, heads, seqlen = (shape[name] for name in _DIMENSIONS)
        query = (batch, heads, seqlen, self.head_dim)
        key = (batch, self._kv_heads(shape), seqlen, self.head_dim)
        sizes: dict[str, tuple[int, ...]] = dict.fromkeys(("Q", "O", "dO", "dQ"), query)
        sizes |= dict.fromkeys(("K", "V", "dK", "dV"), key)
        sizes["LSE"] = (batch, heads, seqlen)
        sizes["workspace"] = (batch * heads * seqlen * (self.head_dim + 4),)
        return {p.name: sizes[p.name] for p in self.tensors()}

    def _matmul_flops(self, shape: Shape) -> int:
        """One product of the score matrix: 2·batch·heads·seqlen²·head_dim, half of it when causal."""
        flops = 2 * shape["batch"] * shape["heads"] * shape["seqlen"] ** 2 * self.head_dim
        return flops // 2 if self.causal else flops

    def independent_axis(self, shape: Shape) -> dict[str, int]:
        """Batch and head together; with grouped heads a block is one kv head and its query heads."""
        blocks = shape["batch"] * self._kv_heads(shape)
        return {p.name: blocks for p in self.tensors("input", "output")}

    def _expand(self, tensor: torch.Tensor, heads: int) -> torch.Tensor:
        """Repeat kv heads so that every query head has its own; a no-op without grouping."""
        return tensor.repeat_interleave(heads // tensor.shape[1], dim=1)

    def _blocks(self, Q: torch.Tensor) -> range:
        """Starts of the batch-head blocks that the reference handles at once."""
        rows, seqlen = Q.shape[0] * Q.shape[1], Q.shape[2]
        return range(0, rows, max(1, _SCORES_AT_ONCE // seqlen**2))

    def _scores(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        """scale·QKᵀ of one block ``[n, seqlen, seqlen]``, masked to −inf above the diagonal when causal."""
        import torch

        scores = (q @ k.mT).mul_(1 / math.sqrt(self.head_dim))
        if self.causal:
            seqlen = scores.shape[-1]
            hidden = torch.ones(seqlen, seqlen, dtype=torch.bool, device=scores.device).triu_(1)
            scores.masked_fill_(hidden, float("-inf"))
        return scores

    def _forward(self, inputs: Tensors) -> Tensors:
        import torch

        Q = inputs["Q"]
        batch, heads, seqlen, _ = Q.shape
        q = Q.flatten(0, 1)
        k, v = (self._expand(inputs[name], heads).flatten(0, 1) for name in ("K", "V"))
        outputs, lse = [], []
        for start in self._blocks(Q):
            block = slice(start, start + self._blocks(Q).step)
            scores = self._scores(upcast(q[block]), upcast(k[block]))
            lse.append(scores.logsumexp(-1))
            outputs.append(scores.sub_(lse[-1].unsqueeze(-1)).exp_() @ upcast(v[block]))
        return {
            "O": torch.cat(outputs).view(batch, heads, seqlen, -1),
            "LSE": torch.cat(lse).view(batch, heads, seqlen),
        }

    def _title(self) -> str:
        mask = "causal (lower triangular)" if self.causal else "no mask"
        return f"head_dim {self.head_dim}, {mask}, softmax scale 1/√{self.head_dim}"


class AttentionForward(_Attention):
    """O = softmax(scale·QKᵀ)·V, and the LSE of its rows."""

    def __init__(self, name: str, head_dim: int = 128, causal: bool = False, grouped: bool = False) -> None:
        super().__init__(name, head_dim, causal, grouped)
        self.parameters = (
            Parameter("Q", "bfloat16", "input"),
            Parameter("K", "bfloat16", "input"),
            Parameter("V", "bfloat16", "input"),
            Parameter("O", "bfloat16", "output"),
            Parameter("LSE", "float32", "output"),
            *self._dimension_parameters,
        )
        grouping = " Query head h reads kv head h / (heads / kv_heads)." if grouped else ""
        self.formula = (
            "O = softmax(scale·QKᵀ)·V and LSE = natural log of the softmax denominator in fp32 "
            f"[batch, heads, seqlen]; {self._title()}.{grouping}"
        )

    def flops(self, shape: Shape) -> int:
        """Two products of the score matrix."""
        return 2 * self._matmul_flops(shape)

    def make_inputs(self, shape: Shape, distribution: Distribution, generator: torch.Generator) -> Tensors:
        """Draw Q, K and V."""
        sizes = self.dimensions(shape)
        return {name: draw(sizes[name], distribution, generator) for name in ("Q", "K", "V")}

    def reference(self, inputs: Tensors) -> Tensors:
        """O and LSE."""
        return self._forward(inputs)

    def library(self, inputs: Tensors) -> Library:
        """CuDNN's fused attention with LSE, through torch."""
        import torch

        forward = torch.ops.aten._scaled_dot_product_cudnn_attention
        Q, K, V = (inputs[name] for name in ("Q", "K", "V"))
        return Library(
            "cuDNN (aten::_scaled_dot_product_cudnn_attention)",
            _cudnn_version(),
            lambda: forward(Q, K, V, None, True, 0.0, self.causal, False),
        )


class AttentionBackward(_Attention):
    """dQ, dK and dV from Q, K, V, O, dO and LSE."""

    def __init__(self, name: str, head_dim: int = 128, causal: bool = False) -> None:
        super().__init__(name, head_dim, causal)
        self.parameters = (
            *(Parameter(tensor, "bfloat16", "input") for tensor in ("Q", "K", "V", "O", "dO")),
            Parameter("LSE", "float32", "input"),
            *(Parameter(tensor, "bfloat16", "output") for tensor in ("dQ", "dK", "dV")),
            Parameter("workspace", "float32", "workspace"),
            *self._dimension_parameters,
        )
        self.formula = (
            "Gradients of attention: with P = exp(scale·QKᵀ − LSE) and D = rowsum(O∘dO), dV = PᵀdO, "
            f"dS = P∘(dO·Vᵀ − D), dQ = scale·dS·K, dK = scale·dSᵀ·Q; {self._title()}. LSE is the natural "
            "logarithm, fp32 [batch, heads, seqlen]. workspace holds batch·heads·seqlen·(head_dim+4) floats of "
            "undefined content."
        )

    def flops(self, shape: Shape) -> int:
        """Five products of the score matrix: QKᵀ, dO·Vᵀ, PᵀdO, dS·K and dSᵀ·Q."""
        return 5 * self._matmul_flops(shape)

    def make_inputs(self, shape: Shape, distribution: Distribution, generator: torch.Generator) -> Tensors:
        """Draw Q, K, V and dO; O and LSE are the higher-precision forward pass, O rounded to bf16."""
        import torch

        sizes = self.dimensions(shape)
        inputs = {name: draw(sizes[name], distribution, generator) for name in ("Q", "K", "V", "dO")}
        forward = self._forward(inputs)
        return {**inputs, "O": forward["O"].to(torch.bfloat16), "LSE": forward["LSE"].to(torch.float32)}

    def redraw(self, inputs: Tensors, shape: Shape, generator: torch.Generator) -> Tensors:
        """A new dO, on which all outputs depend, and the others rotated: their O and LSE would take a forward pass."""
        import torch

        blocks = self.independent_axis(shape)["Q"]
        shift = int(torch.randint(blocks, (), generator=generator, device=generator.device))
        return {**self.rotate(inputs, shape, shift), "dO": draw(self.dimensions(shape)["dO"], "normal", generator)}

    def reference(self, inputs: Tensors) -> Tensors:
        """DQ, dK and dV, by the formulas in the module's docstring."""
        import torch

        shape, scale = inputs["Q"].shape, 1 / math.sqrt(self.head_dim)
        flat = {name: tensor.flatten(0, 1) for name, tensor in inputs.items()}
        gradients: dict[str, list[torch.Tensor]] = {"dQ": [], "dK": [], "dV": []}
        for start in self._blocks(inputs["Q"]):
            block = slice(start, start + self._blocks(inputs["Q"]).step)
            q, k, v, o, do, lse = (upcast(flat[name][block]) for name in ("Q", "K", "V", "O", "dO", "LSE"))
            p = self._scores(q, k).sub_(lse.unsqueeze(-1)).exp_()
            gradients["dV"].append(p.mT @ do)
            ds = (do @ v.mT).sub_((o * do).sum(-1, keepdim=True)).mul_(p)
            gradients["dQ"].append((ds @ k).mul_(scale))
            gradients["dK"].append((ds.mT @ q).mul_(scale))
        return {name: torch.cat(parts).view(shape) for name, parts in gradients.items()}

    def library(self, inputs: Tensors) -> Library:
        """CuDNN's fused attention backward, through torch."""
        import torch

        Q, K, V, O, dO = (inputs[name] for name in ("Q", "K", "V", "O", "dO"))  # noqa: E741
        lse = inputs["LSE"].unsqueeze(-1)
        seqlen = Q.shape[2]
        seed = torch.zeros((), dtype=torch.int64, device=Q.device)
        backward = torch.ops.aten._scaled_dot_product_cudnn_attention_backward
        arguments = (dO, Q, K, V, O, lse, seed, seed, None, None, None, seqlen, seqlen, 0.0, self.causal)
        return Library(
            "cuDNN (aten::_scaled_dot_product_cudnn_attention_backward)",
            _cudnn_version(),
            lambda: backward(*arguments),
        )


def _cudnn_version() -> str:
    import torch

    number = torch.backends.cudnn.version() or 0
    return f"cuDNN {number // 10000}.{number // 100 % 100}.{number % 100}, torch {torch.__version__}"
