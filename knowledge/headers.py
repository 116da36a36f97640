"""The wrapper headers: where they are, and how a prompt quotes them."""

from __future__ import annotations

import re
from pathlib import Path

INCLUDE = Path(__file__).parent / "include"
"""The folder to give to nvcc with ``-I``; sources include ``<ptxgym/hopper.cuh>`` or ``<ptxgym/blackwell.cuh>``."""

MAIN = {"Hopper": "hopper", "Blackwell": "blackwell"}
"""The header that brings all others, by the architecture's name."""

_NOT_QUOTED = ("wgmma_operands.cuh", "tcgen05_registers.cuh")
"""Long lists of operands: every line follows from the one before it."""


def header(name: str) -> str:
    """The text of a header, e.g. ``mbarrier.cuh``."""
    return (INCLUDE / "ptxgym" / name).read_text(encoding="utf-8")


def included(name: str) -> list[str]:
    """The folder's headers that a header needs, itself last, each once."""
    order: list[str] = []

    def visit(current: str) -> None:
        for other in re.findall(r'^#include "([\w.]+)"', header(current), re.MULTILINE):
            visit(other)
        if current not in order:
            order.append(current)

    visit(name)
    return order


def quote(architecture: str) -> str:
    """All headers of an architecture as one text for a prompt: comments and functions, without the scaffolding."""
    main = f"{MAIN[architecture]}.cuh"
    names = [name for name in included(main) if name != main and name not in _NOT_QUOTED]
    return "\n".join(f"// ---- ptxgym/{name}\n{_condensed(header(name))}" for name in names)


def _condensed(text: str) -> str:
    """Without include guards, inclusions and namespace lines, and without the columns of spaces inside macros."""
    text = re.sub(r"^(#pragma once|#include .*|namespace ptxgym \{|\}  // namespace ptxgym|#undef .*)\n", "", text,
                  flags=re.MULTILINE)  # fmt: skip
    text = re.sub(r"[ \t]+\\$", r" \\", text, flags=re.MULTILINE)
    return re.sub(r"\n{2,}", "\n", text).strip() + "\n"
