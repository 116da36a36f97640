"""What there is to choose, and the source that a choice stands for."""

from __future__ import annotations

import itertools
import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

Choice = Mapping[str, str]
"""Head to option, e.g. ``{"tile": "128x256", "stages": "4", …}``."""

_TEMPLATE = Path(__file__).with_name("gemm.cu.template")

DEFAULTS: dict[str, str] = {
    "tile": "128x256",
    "stages": "4",
    "cluster": "2",
    "raster": "8",
    "registers": "40/232",
    "epilogue": "tma",
    "math": "wgmma",
}
"""The choice that the first version of ``gemm.cu`` made; a space's own heads take its place."""


@dataclass(frozen=True)
class Space:
    """Heads and their options; what a space does not have stays as in :data:`DEFAULTS`."""

    name: str
    heads: Mapping[str, tuple[str, ...]]

    def __len__(self) -> int:
        count = 1
        for options in self.heads.values():
            count *= len(options)
        return count

    def __iter__(self) -> Iterator[Choice]:
        """Every choice, the last head running fastest."""
        for options in itertools.product(*self.heads.values()):
            yield dict(zip(self.heads, options, strict=True))


SPACES = {
    # For a GPU. Illegal: five stages of the two larger tiles beside store buffers, and 56/240 registers.
    "full": Space(
        "full",
        {
            "tile": ("128x128", "128x256", "256x128"),
            "stages": ("3", "4", "5"),
            "cluster": ("1", "2"),
            "raster": ("1", "8"),
            "registers": ("168/168", "40/232", "56/240"),
            "epilogue": ("direct", "tma"),
        },
    ),
    # For the simulator: few kernels, of which a third is legal and a sixth does what the task asks.
    "small": Space(
        "small",
        {
            "stages": ("3", "4", "5"),
            "registers": ("40/232", "56/240"),
            "math": ("mma", "wgmma"),
        },
    ),
}


def choice_name(choice: Choice) -> str:
    """A choice in one word, e.g. ``128x256 4 2 8 40/232 tma wgmma``; the same for all that give the same source."""
    return " ".join((DEFAULTS | dict(choice)).values())


def make_source(choice: Choice) -> str:
    """The CUDA source of a choice, legal or not."""
    picked = DEFAULTS | dict(choice)
    tile_m, tile_n = map(int, picked["tile"].split("x"))
    producer, consumer = map(int, picked["registers"].split("/"))
    if producer == consumer:  # nothing changes hands
        producer = consumer = 0
    sums = tile_n // 2  # 64 x tile_n over 128 threads: the operands of one wgmma
    return string.Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        BM=tile_m,
        BN=tile_n,
        STAGES=picked["stages"],
        CLUSTER=picked["cluster"],
        RASTER=picked["raster"],
        PRODUCER_REGISTERS=producer,
        CONSUMER_REGISTERS=consumer,
        TMA_STORE=_bool(picked["epilogue"] == "tma"),
        WGMMA=_bool(picked["math"] == "wgmma"),
        OPERANDS=", ".join(f"%{i}" for i in range(sums)),
        BINDINGS=", ".join(f'"+f"(d[{i}])' for i in range(sums)),
        A_DESCRIPTOR=sums,
        B_DESCRIPTOR=sums + 1,
        ACCUMULATE=sums + 2,
    )


def _bool(value: bool) -> str:
    return "true" if value else "false"
