"""Loads and stores (PTX ISA 9.7.9.8-9.7.9.18)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.ptx.syntax import Address
from ptxgym.devices.simulator.table import Step, effect
from ptxgym.devices.simulator.types import SIZES, dtype_of

_TYPES = "b8 u8 s8 b16 u16 s16 b32 u32 s32 b64 u64 s64 b128 f16 bf16 f32 f64 f16x2 bf16x2"
SPACES = ("global", "shared::cta", "shared::cluster", "shared", "local", "const", "param::entry", "param::func",
          "param")  # fmt: skip
_PLACES = " ".join(SPACES)
_ACCESS = f"{_PLACES} v2 v4 v8 unified L2::evict_last L2::evict_normal L2::evict_first"


def space_of(form: Any) -> str:
    """The state space of an access, ``""`` for generic."""
    return str(form.one_of(SPACES)).split("::")[0]


@effect("ld ldu", _TYPES, isa="9.7.9.8, 9.7.9.10", modifiers=_ACCESS, counter="load")
def ld(b: Any) -> Step:
    """Load."""
    kind, space = b.form.types[0], space_of(b.form)
    if kind == "b128":
        destinations = list(b.wide_register(b.operands[0]))
        kind, width = "b64", 2
    else:
        destinations = b.destinations(b.operands[0], kind)
        width = len(destinations)
    if space == "param" and b.parameter_is_per_lane(b.operands[1]):
        return _frame_load(b, destinations, kind)
    if space == "param" and b.is_parameter(b.operands[1]):
        return _argument_load(b, destinations, kind)
    return memory_load(b, space, destinations, kind, width)


_STRONG = frozenset({"volatile", "relaxed", "acquire", "release", "mmio"})
"""Modifiers of strong operations (PTX ISA 8.3), which do not race."""


def report(x: Context, parts: Any, size: int, write: bool, where: Any, strong: bool) -> None:
    """Tell the checks about an access."""
    for observer in x.batch.access_observers:
        if strong:
            observer.on_strong(x, parts, size, write, where)
        else:
            observer.on_access(x, parts, size, write, where)


def memory_load(b: Any, space: str, destinations: list[int], kind: str, width: int) -> Step:
    """A step that loads ``width`` consecutive elements per lane."""
    address, where = b.address(b.operands[1]), b.where
    dtype = dtype_of(kind)
    size = dtype.itemsize
    shift = size.bit_length() - 1
    whole = size * width
    counter = f"{space or 'generic'}.read"
    strong = bool(b.form.modifiers & _STRONG)

    def step(x: Context) -> None:
        addresses = address(x)
        parts = x.locate(space, addresses, whole, where)
        x.batch.launch.bytes[counter] += whole * x.lanes.count
        report(x, parts, whole, False, where, strong)
        if len(parts) == 1:
            buffer, offsets, _ = parts[0]
            elements, index = buffer.typed(dtype), offsets >> shift
            for i, slot in enumerate(destinations):
                at = index + i if i else index
                # "clip" spares NumPy its own bounds pass; locate() has checked them.
                if x.sliced and slot >= 0 and x.views[slot].dtype == dtype:
                    elements.take(at, out=x.views[slot], mode="clip")
                else:
                    x.put(slot, elements.take(at, mode="clip"))
            return
        for i, slot in enumerate(destinations):
            value = np.empty(x.lanes.count, dtype)
            for buffer, offsets, chosen in parts:
                value[chosen] = buffer.typed(dtype)[(offsets >> shift) + i]
            x.put(slot, value)

    return step


def _argument_load(b: Any, destinations: list[int], kind: str) -> Step:
    """A kernel's arguments are the same for all lanes, so one element is looked up."""
    address, where = np.array([_parameter_offset(b, b.operands[1])]), b.where
    dtype = dtype_of(kind)
    whole = dtype.itemsize * len(destinations)

    def step(x: Context) -> None:
        ((buffer, (offset,), _),) = x.locate("param", address, whole, where)
        x.batch.launch.bytes["param.read"] += whole * x.lanes.count
        for i, slot in enumerate(destinations):
            x.put(slot, buffer.typed(dtype)[offset // dtype.itemsize + i])

    return step


@effect("st", _TYPES, isa="9.7.9.11", modifiers=_ACCESS, counter="store")
def st(b: Any) -> Step:
    """Store."""
    kind, space = b.form.types[0], space_of(b.form)
    if kind == "b128":
        sources = list(b.wide_register(b.operands[1]))
        kind = "b64"
    else:
        sources = b.sources(b.operands[1], kind)
    if space == "param" and b.parameter_is_per_lane(b.operands[0]):
        return _frame_store(b, sources, kind)
    return memory_store(b, space, sources, kind)


def memory_store(b: Any, space: str, sources: list[int], kind: str) -> Step:
    """A step that stores consecutive elements per lane; of lanes that store to one place the last wins."""
    address, where = b.address(b.operands[0]), b.where
    dtype = dtype_of(kind)
    size = dtype.itemsize
    shift = size.bit_length() - 1
    whole = size * len(sources)
    counter = f"{space or 'generic'}.write"
    strong = bool(b.form.modifiers & _STRONG)

    def step(x: Context) -> None:
        addresses = address(x)
        parts = x.locate(space, addresses, whole, where)
        x.batch.launch.bytes[counter] += whole * x.lanes.count
        report(x, parts, whole, True, where, strong)
        for buffer, offsets, chosen in parts:
            if getattr(buffer, "readonly", False):
                raise x.fault("write-to-constant", where, "store to constant memory")
            elements, index = buffer.typed(dtype), offsets >> shift
            for i, slot in enumerate(sources):
                value = x.get(slot)
                elements[index + i if i else index] = value if chosen is None else value[chosen]

    return step


# -- parameters of device functions, one copy per lane ------------------------------------------------


def frame_offsets(x: Context, offset: int) -> Any:
    """Byte offsets of a frame's ``.param`` variable for the executing lanes."""
    return x.lanes.index * x.frame.program.param_bytes + offset


def _parameter_offset(b: Any, operand: Address) -> int:
    found = b.program.variable(b.instruction.scope, operand.base.text)  # type: ignore[union-attr]
    variable, scope = found
    return int(b.program.param_offsets[scope.number, variable.name]) + operand.offset


def _frame_load(b: Any, destinations: list[int], kind: str) -> Step:
    start = _parameter_offset(b, b.operands[1])
    dtype = dtype_of(kind)
    size = SIZES[kind]

    def step(x: Context) -> None:
        elements = x.frame.parameters.typed(dtype)
        for i, slot in enumerate(destinations):
            x.put(slot, elements[frame_offsets(x, start + i * size) // size])

    return step


def _frame_store(b: Any, sources: list[int], kind: str) -> Step:
    start = _parameter_offset(b, b.operands[0])
    dtype = dtype_of(kind)
    size = SIZES[kind]

    def step(x: Context) -> None:
        elements = x.frame.parameters.typed(dtype)
        for i, slot in enumerate(sources):
            elements[frame_offsets(x, start + i * size) // size] = x.get(slot)

    return step


# -- hints ---------------------------------------------------------------------------------------------


@effect("prefetch prefetchu applypriority discard cp.async.bulk.prefetch cp.async.bulk.prefetch.tensor", "",
        isa="9.7.9.15 to 9.7.9.17", modifiers="", counter="hint", lenient=True)  # fmt: skip
def prefetch(b: Any) -> Step:
    """Move data nearer; nothing that a kernel can observe."""
    return lambda x: None


@effect("createpolicy", "b64", isa="9.7.9.18", modifiers="fractional range cvt L2 global L2::evict_unchanged",
        counter="hint")  # fmt: skip
def createpolicy(b: Any) -> Step:
    """A cache policy, an opaque token."""
    d = b.destination(b.operands[0], "b64")
    return lambda x: x.put(d, np.array(0x12F0000000000000, np.uint64))
