"""The report of ``ptxas -v``: registers, spills, shared memory, and what its advisories mean for the writer."""

from __future__ import annotations

import re

from ptxgym.toolchain.program import Advisory, KernelResources

# Each was reproduced with ptxas 13.0 from the pattern that the sentence names. Other codes keep ptxas's own words.
_MEANINGS = {
    "C7508": "setmaxnreg was ignored: the register count at entry is unknown. Give the kernel "
    "__launch_bounds__(threads, 1), with the 1.",
    "C7510": "wgmma was serialised because its pipeline crosses a function that is not inlined: __forceinline__ it.",
    "C7511": "wgmma was serialised: accumulators and temporaries exceed the registers of the pipeline. Use a smaller "
    "tile per warpgroup, or setmaxnreg.inc before the accumulators first appear.",
    "C7512": "wgmma was serialised: the function runs out of registers. Use a smaller tile per warpgroup or raise the "
    "register count.",
    "C7514": "wgmma was serialised: accumulator registers are read or written while a wgmma is in flight. Wait first.",
    "C7517": "A wait was inserted: accumulators are read before wgmma.wait_group. The result is right, but slower.",
    "C7519": "A wgmma.fence was inserted: registers were written after the last one. Harmless, but say it yourself.",
    "C7520": "wgmma was serialised: the fence stands in another branch than the wgmma.",
}

_ENTRY = re.compile(r"^ptxas info\s*: Compiling entry function '([^']+)'")
_STACK = re.compile(r"^\s*(\d{1,9}) bytes stack frame, (\d{1,9}) bytes spill stores, (\d{1,9}) bytes spill loads")
_USED = re.compile(r"^ptxas info\s*: Used (\d{1,9}) registers(.*)")
_SHARED = re.compile(r"(\d{1,9}) bytes smem")
_ADVISORY = re.compile(r"\((C75\d\d)\)\s*:?\s*(.*)")


def parse_resources(report: str) -> tuple[KernelResources, ...]:
    """What every kernel uses, in the order of the report; unknown lines are passed over."""
    kernels = []
    name, stack, spills = None, 0, (0, 0)
    for line in report.splitlines():
        if match := _ENTRY.match(line):
            name, stack, spills = match[1], 0, (0, 0)
        elif match := _STACK.match(line):
            stack, spills = int(match[1]), (int(match[2]), int(match[3]))
        elif name and (match := _USED.match(line)):
            shared = _SHARED.search(match[2])
            kernels.append(
                KernelResources(
                    name=name,
                    registers=int(match[1]),
                    stack_bytes=stack,
                    spill_store_bytes=spills[0],
                    spill_load_bytes=spills[1],
                    static_shared_bytes=int(shared[1]) if shared else 0,
                )
            )
            name = None
    return tuple(kernels)


def parse_advisories(report: str) -> tuple[Advisory, ...]:
    """Each advisory once, with what it means."""
    found: dict[str, Advisory] = {}
    for line in report.splitlines():
        if line.startswith("ptxas") and (match := _ADVISORY.search(line)):
            found.setdefault(match[1], Advisory(code=match[1], meaning=_MEANINGS.get(match[1], match[2].strip())))
    return tuple(found.values())
