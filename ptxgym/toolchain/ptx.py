"""PTX opcodes by family: what the simulator counts, where a GPU's tools count SASS (:mod:`ptxgym.toolchain.sass`)."""

from __future__ import annotations

import re

from ptxgym.tasks.architecture import Architecture

_COPIES = {
    "tma": re.compile(r"cp\.(?:reduce\.)?async\.bulk\.tensor\b"),
    "bulk": re.compile(r"cp\.(?:reduce\.)?async\.bulk\.(?!tensor|prefetch|commit|wait)"),
    "legacy_tensor": re.compile(r"(?:mma\.(?:sp\.)?sync|wmma\.mma)\b"),
}

FAMILIES: dict[str, dict[str, re.Pattern[str]]] = {
    "90a": {"tensor": re.compile(r"wgmma\.mma_async\b"), **_COPIES},
    "100a": {
        "tensor": re.compile(r"tcgen05\.mma\b"),
        "tensor_memory": re.compile(r"tcgen05\.(?:ld|st)\b"),
        **_COPIES,
    },
}
"""Opcode families by target, with the same names as those of SASS."""


def family(opcode: str, architecture: Architecture) -> str | None:
    """The family of a PTX opcode on an architecture, None for all the others."""
    for name, pattern in FAMILIES[architecture.target].items():
        if pattern.match(opcode):
            return name
    return None
