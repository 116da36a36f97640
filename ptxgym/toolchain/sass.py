"""SASS: disassembly into opcodes, the families that matter, and the FLOPs of a tensor instruction.

The opcodes of each PTX instruction were found by compiling one-instruction kernels with ptxas 13.0 for sm_90a and
sm_100a and disassembling them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

from ptxgym.errors import InfrastructureError
from ptxgym.tasks.architecture import Architecture
from ptxgym.toolchain.process import Limits, run_tool
from ptxgym.toolchain.program import KernelInstructions

FAMILIES: dict[str, dict[str, re.Pattern[str]]] = {
    "90a": {
        # BGMMA, IGMMA and QGMMA are the 1-bit, 8-bit integer and fp8 forms of HGMMA.
        "tensor": re.compile(r"[BHIQ]GMMA\b"),
        "tma": re.compile(r"(UTMALDG|UTMASTG|UTMAREDG)\b"),
        "bulk": re.compile(r"(UBLKCP|UBLKRED)\b"),
        "legacy_tensor": re.compile(r"[DHIQ]MMA\b"),
    },
    "100a": {
        "tensor": re.compile(r"UTC[A-Z]MMA\b"),
        "tensor_memory": re.compile(r"(LDTM|STTM)\b"),
        "tma": re.compile(r"(UTMALDG|UTMASTG|UTMAREDG)\b"),
        "bulk": re.compile(r"(UBLKCP|UBLKRED)\b"),
        "legacy_tensor": re.compile(r"[DHIQ]MMA\b"),
    },
}
"""Opcode families by target. ``legacy_tensor`` is the warp-wide mma.sync of older architectures."""

TARGET_FAMILIES = {"90a": ("tensor", "tma"), "100a": ("tensor", "tensor_memory")}
"""Families that the paper's rule counts, by target. An allocation or a commit of tensor memory alone does not count,
where the original counts it."""

_HGMMA = re.compile(r"HGMMA\.64x(\d+)x(\d+)\.F32\.BF16\b")
_WARPS_PER_WGMMA = 4


def family(opcode: str, architecture: Architecture) -> str | None:
    """The family of an opcode on an architecture, None for all the others."""
    for name, pattern in FAMILIES[architecture.target].items():
        if pattern.match(opcode):
            return name
    return None


def flops_per_thread(opcode: str, architecture: Architecture) -> float | None:
    """BF16 FLOPs per predicate-true thread of one execution of a tensor instruction.

    Zero for every opcode that is not a dense bf16 tensor instruction of the architecture. None where the opcode does
    not tell: on Blackwell the tile lies in a register operand, the instruction descriptor.

    Hopper: ``wgmma.m64nNkK`` is 2·64·N·K FLOPs, executed by four warps of 32 threads (PTX ISA, wgmma.mma_async).
    """
    if architecture.target != "90a":
        return None if family(opcode, architecture) == "tensor" else 0.0
    match = _HGMMA.match(opcode)
    return 2 * 64 * int(match[1]) * int(match[2]) / (32 * _WARPS_PER_WGMMA) if match else 0.0


def most_other_flops_per_thread(opcode: str, architecture: Architecture) -> float:
    """FLOPs per thread that one execution of an instruction can do at most, without the dense bf16 tensor ones.

    Generous, since it tells what could have been done without those: a packed multiply-add does four, a warp's
    ``mma.sync`` 16·8·64·2 over 32 threads, and other forms of ``wgmma`` 64·256·64·2 over 128.
    """
    if flops_per_thread(opcode, architecture):
        return 0.0
    name = family(opcode, architecture)
    return {"tensor": 16384.0, "legacy_tensor": 512.0}.get(name or "", 4.0)


def disassemble(cubin: Path, nvdisasm: Path) -> tuple[KernelInstructions, ...]:
    """Count the instructions of every function in a cubin.

    Raises:
        InfrastructureError: The disassembler failed.
    """
    result = run_tool(
        [str(nvdisasm), "-json", cubin.name],
        cwd=cubin.parent,
        readable=[
            nvdisasm.parent.parent,
            Path("/usr/lib"),
            Path("/lib"),
            Path("/lib64"),
            Path("/etc/ld.so.cache"),
        ],
        limits=Limits(seconds=30, output=1 << 28),
    )
    try:
        return parse_disassembly(result.output)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise InfrastructureError(f"nvdisasm gave no disassembly of {cubin.name}: {result.output[:300]}") from error


def parse_disassembly(text: str) -> tuple[KernelInstructions, ...]:
    """Parse the JSON of ``nvdisasm -json``: a header, then a list of functions."""
    _, functions = json.loads(text)
    return tuple(
        KernelInstructions(
            name=function["function-name"],
            opcodes=dict(Counter(line["opcode"] for line in function["sass-instructions"])),
        )
        for function in functions
    )
