"""Executes one PTX instruction on arrays of operands."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxgym.devices.simulator.types import SIZES
from tests.corpus.harness import Device

_MEMORY = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}
_REGISTER = {1: "b16", 2: "b16", 4: "b32", 8: "b64"}
_FIXED = {"e4m3x2": 2}


def execute(
    text: str, result: str, inputs: list[tuple[str, Any]], *, architecture: str = "90a", threads: int = 256
) -> np.ndarray[Any, Any]:
    """Run ``text`` with ``{d}`` and ``{0}``, ``{1}``, ... replaced by registers, one thread per element.

    Args:
        text: The instruction, without its semicolon.
        result: PTX type of the destination; ``pred`` gives 0 or 1.
        inputs: PTX type and unsigned bit patterns of each operand.
        architecture: Where.
        threads: Per block.

    Returns:
        The destination's bits.
    """
    count = len(inputs[0][1])
    device = Device(architecture, checks=False)
    lines, names, addresses = [], [], []
    for i, (kind, bits) in enumerate(inputs):
        size = SIZES[kind]
        addresses.append(device.upload(np.asarray(bits).astype(f"u{size}")))
        memory, register = _MEMORY[size], _REGISTER[size]
        lines += [f".reg .{register} %s{i}; .reg .b64 %a{i};", f"ld.param.u64 %a{i}, [in{i}];",
                  f"mad.wide.u32 %a{i}, %t, {size}, %a{i};", f"ld.global.{memory} %s{i}, [%a{i}];"]  # fmt: skip
        if kind == "pred":
            lines += [f".reg .pred %p{i};", f"setp.ne.u16 %p{i}, %s{i}, 0;"]
        names.append(f"%p{i}" if kind == "pred" else f"%s{i}")
    size = SIZES[result]
    out = device.upload(np.zeros(count, f"u{size}"))
    lines += [f".reg .{_REGISTER[size]} %d; .reg .pred %dp; .reg .b64 %o;"]
    lines += [text.format(*names, d="%dp" if result == "pred" else "%d") + ";"]
    if result == "pred":
        lines += ["selp.u16 %d, 1, 0, %dp;"]
    lines += ["ld.param.u64 %o, [out];", f"mad.wide.u32 %o, %t, {size}, %o;", f"st.global.{_MEMORY[size]} [%o], %d;"]
    parameters = ", ".join([".param .u64 out", *(f".param .u64 in{i}" for i in range(len(inputs)))])
    body = "\n".join(lines)
    ptx = f""".version 9.0
.target sm_{architecture}
.address_size 64
.visible .entry k({parameters}) {{
.reg .b32 %t, %c, %n; .reg .pred %q;
mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %n, %ntid.x;
mad.lo.u32 %t, %c, %n, %t;
setp.ge.u32 %q, %t, {count};
@%q bra DONE;
{body}
DONE: ret; }}"""
    report = device.launch(ptx, "k", -(-count // threads), threads, out, *addresses)
    assert report.error is None, report.findings
    return device.array(out)
