"""The attention kernels for other head dimensions, masks and groups, made from mha_forward.cu and mha_backward.cu.

A submission is one file, so each variant is a whole file; it differs from its source in the constants at the top and,
where query heads share a head of keys, in the parameters of ``run``. Run this script after a change to a source, or
with ``--check`` to learn whether the files are up to date.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Variant:
    """One file to make."""

    source: str
    title: str
    """What it computes, for the first line."""
    constants: dict[str, str] = field(default_factory=dict)
    """New values for constants at the top of the source."""
    grouped: bool = False
    """Whether ``run`` is told a number of heads of keys."""


CAUSAL = {"CAUSAL": "true"}
FORWARD_64 = {"HEAD_DIM": "64", "CONSUMERS": "3", "STAGES": "3", "O_SLABS": "1"}
FORWARD_96 = {"HEAD_DIM": "96"}
LONG_BLOCKS = {"KEYS": "160", "Q_STAGES": "1"}
BACKWARD_64 = {"HEAD_DIM": "64", "QUERIES": "128"}
BACKWARD_96 = {"HEAD_DIM": "96"}

VARIANTS = {
    "mha_forward_causal": Variant("mha_forward", "head_dim 128, causal", CAUSAL),
    "mha_forward_d64": Variant("mha_forward", "head_dim 64", FORWARD_64),
    "mha_forward_causal_d64": Variant("mha_forward", "head_dim 64, causal", FORWARD_64 | CAUSAL),
    "mha_forward_d96": Variant("mha_forward", "head_dim 96", FORWARD_96 | LONG_BLOCKS),
    "mha_forward_causal_d96": Variant("mha_forward", "head_dim 96, causal", FORWARD_96 | CAUSAL),
    "gqa_forward": Variant("mha_forward", "head_dim 128, grouped queries", grouped=True),
    "gqa_forward_causal": Variant("mha_forward", "head_dim 128, grouped queries, causal", CAUSAL, grouped=True),
    "mha_backward_causal": Variant("mha_backward", "head_dim 128, causal", CAUSAL),
    "mha_backward_d64": Variant("mha_backward", "head_dim 64", BACKWARD_64),
    "mha_backward_causal_d64": Variant("mha_backward", "head_dim 64, causal", BACKWARD_64 | CAUSAL),
    "mha_backward_d96": Variant("mha_backward", "head_dim 96", BACKWARD_96),
    "mha_backward_causal_d96": Variant("mha_backward", "head_dim 96, causal", BACKWARD_96 | CAUSAL),
}


def text(variant: Variant) -> str:
    """The variant's file."""
    made = (HERE / f"{variant.source}.cu").read_text(encoding="utf-8")
    made = _once(made, r"^(// .*): head_dim 128\.\n//\n", rf"\1: {variant.title}.\n{_origin(variant)}//\n")
    for name, value in variant.constants.items():
        made = _once(made, rf"^(constexpr (?:bool|int) {name} = )[^;]*", rf"\g<1>{value}")
    if variant.grouped:
        made = _once(made, r"int heads, (?=int seqlen, cudaStream_t)", "int heads, int kv_heads, ")
        made = _once(made, r"    const int kv_heads = heads;\n", "")
    return made


def _origin(variant: Variant) -> str:
    return f"// Made from {variant.source}.cu by generate.py: to change it, change that file and run the script.\n"


def _once(text: str, pattern: str, replacement: str) -> str:
    made, count = re.subn(pattern, replacement, text, flags=re.MULTILINE)
    if count != 1:
        raise ValueError(f"{pattern!r} stands {count} times in the source, not once")
    return made


def outdated() -> list[str]:
    """Names of the files that are not what this script would write."""
    files = {name: HERE / f"{name}.cu" for name in VARIANTS}
    return [
        name
        for name, path in files.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text(VARIANTS[name])
    ]


def main() -> None:
    """Write what is not up to date; with ``--check``, say so and exit with 1."""
    changed = outdated()
    for name in changed:
        print(f"{name}.cu")
        if "--check" not in sys.argv:
            (HERE / f"{name}.cu").write_text(text(VARIANTS[name]), encoding="utf-8")
    sys.exit(1 if changed and "--check" in sys.argv else 0)


if __name__ == "__main__":
    main()
