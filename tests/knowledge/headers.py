"""What the headers define, after the preprocessor has expanded their macros."""

from __future__ import annotations

import functools
import re
import subprocess

from ptxgym.toolchain.toolkit import find_toolkit
from tests.knowledge.harness import INCLUDE

MAIN = {"90a": "hopper", "100a": "blackwell"}
_FUNCTION = re.compile(r"__device__\s[^;{}(]*?\b(\w+)\s*\(")


@functools.cache
def device_functions(architecture: str) -> frozenset[str]:
    """Names of all device functions that the architecture's main header brings."""
    compiler = find_toolkit().host_compiler
    text = subprocess.run(
        [compiler, "-E", "-x", "c++", "-std=c++17", "-D__device__=__device__", "-D__forceinline__=__forceinline__",
         f"-I{INCLUDE}", "-"],
        input=_without_system_headers(MAIN[architecture]), capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return frozenset(_FUNCTION.findall(text))


def _without_system_headers(main: str) -> str:
    """The headers of the folder, in order of inclusion, each once, without what they take from the toolkit."""
    seen: list[str] = []

    def add(name: str) -> None:
        for included in re.findall(r'^#include "([^"]*)"', (INCLUDE / "ptxgym" / name).read_text(), re.M):
            add(included)
        if name not in seen:
            seen.append(name)

    add(f"{main}.cuh")
    texts = [(INCLUDE / "ptxgym" / name).read_text() for name in seen]
    return re.sub(r"^#(include|pragma).*$", "", "\n".join(texts), flags=re.M)
