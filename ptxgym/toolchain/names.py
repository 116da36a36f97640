"""Names of kernels as their writers know them."""

from __future__ import annotations

import re


def source_name(mangled: str) -> str:
    """``gemm`` for ``_Z4gemmPKf``, ``ns::gemm`` for one in a namespace; parameters and template arguments are left out.

    What is not mangled, or in a way that this does not read, stays as it is.
    """
    start = re.match(r"_Z(N?)[rVK]*", mangled)
    if start is None:
        return mangled
    parts, at = [], start.end()
    while length := re.match(r"\d+", mangled[at:]):
        begin = at + length.end()
        at = begin + int(length[0])
        parts.append(mangled[begin:at])
        if not start[1]:
            break
    named = [part for part in parts if part and not part.startswith("_GLOBAL__N")]
    return "::".join(named) or mangled
