"""The rows: one module per section of the PTX ISA, one small typed function per instruction."""

from __future__ import annotations

import importlib

_MODULES = (
    "carry", "integer", "floating", "half", "logic", "comparison", "conversion", "movement", "access", "atomics",
    "control", "warp", "barrier", "memory_order", "host_calls", "mbarrier",
    "bulk_copy", "tensor_copy", "tensor_maps", "async_copy", "launch_control",
    "wgmma", "matrix", "mma", "wmma", "registers", "tcgen05_memory", "tcgen05_copy", "tcgen05_mma",
)  # fmt: skip


def load() -> None:
    """Fill the table; importing a module of rows adds them, once."""
    for name in _MODULES:
        importlib.import_module(f"{__name__}.{name}")
