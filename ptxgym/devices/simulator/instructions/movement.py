"""Moves, packing, and conversion between address spaces (PTX ISA 9.7.9.3-9.7.9.6, 9.7.9.20)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.memory import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW_SIZE
from ptxgym.devices.simulator.ptx.syntax import Vector
from ptxgym.devices.simulator.table import Elementwise, Form, Step, UnsupportedForm, effect, elementwise
from ptxgym.devices.simulator.types import SIZES, Array

_MOV = "pred b16 b32 b64 b128 u16 u32 u64 s16 s32 s64 f16 f16x2 bf16 bf16x2 f32 f64"


@effect("mov", _MOV, isa="9.7.9.3", counter="move")
def mov(b: Any) -> Step:
    """Copy a register, constant or address; pack or unpack a vector."""
    kind = b.form.types[0]
    target, source = b.operands
    if kind == "b128":
        return _mov_wide(b)
    if isinstance(source, Vector):
        return _pack(b, kind)
    if isinstance(target, Vector):
        return _unpack(b, kind)
    raw = kind if kind == "pred" else f"b{8 * SIZES[kind]}"
    d = b.destination(target, raw)
    s = b.source(source, kind if kind[0] == "f" and kind != "f16x2" else raw)
    # A bit copy: float views would be fine too, but must match the destination's type.
    s = b.source(source, raw) if not _is_float_literal(source) else s

    def step(x: Context) -> None:
        views = x.views
        if x.sliced:
            value = views[s]
            views[d][...] = value.view(views[d].dtype) if value.dtype != views[d].dtype else value
        else:
            value = views[s]
            x.put(d, value.view(f"u{value.dtype.itemsize}") if value.dtype.kind == "f" else value)

    return step


def _is_float_literal(operand: Any) -> bool:
    return isinstance(getattr(operand, "value", None), float)


def _pack(b: Any, kind: str) -> Step:
    items = b.operands[1].items
    bits = 8 * SIZES[kind] // len(items)
    d = b.destination(b.operands[0], f"b{8 * SIZES[kind]}")
    sources = [b.source(item, f"b{max(bits, 8)}") for item in items]
    out = np.dtype(f"u{SIZES[kind]}").type

    def step(x: Context) -> None:
        total = x.get(sources[0]).astype(out)
        for index, slot in enumerate(sources[1:], 1):
            total = total | (x.get(slot).astype(out) << out(bits * index))
        x.put(d, total)

    return step


def _unpack(b: Any, kind: str) -> Step:
    items = b.operands[0].items
    bits = 8 * SIZES[kind] // len(items)
    part = np.dtype(f"u{bits // 8}")
    destinations = [b.destination(item, f"b{bits}") for item in items]
    s = b.source(b.operands[1], f"b{8 * SIZES[kind]}")

    def step(x: Context) -> None:
        value = np.ascontiguousarray(x.get(s))
        columns = value.view(part).reshape(len(value), len(items))
        for index, slot in enumerate(destinations):
            x.put(slot, columns[:, index])

    return step


def _mov_wide(b: Any) -> Step:
    target, source = b.operands
    if isinstance(source, Vector):
        pairs = list(zip(b.wide_register(target), b.sources(source, "b64"), strict=True))
    elif isinstance(target, Vector):
        pairs = list(zip(b.destinations(target, "b64"), b.wide_register(source), strict=True))
    else:
        pairs = list(zip(b.wide_register(target), b.wide_register(source), strict=True))

    def step(x: Context) -> None:
        for d, s in pairs:
            x.put(d, x.get(s))

    return step


_WINDOWS = {"shared": SHARED_WINDOW, "shared::cta": SHARED_WINDOW, "shared::cluster": SHARED_WINDOW,
            "local": LOCAL_WINDOW, "param": PARAM_WINDOW, "param::entry": PARAM_WINDOW,
            "global": 0, "const": 0}  # fmt: skip


@elementwise("cvta", "u32 u64", isa="9.7.9.20", modifiers="to " + " ".join(_WINDOWS), signature="T:T", counter="move")
def cvta(form: Form) -> Elementwise:
    """Between a space's address and the generic one: each space is a window of the generic space."""
    window = np.uint64(_WINDOWS[form.one_of(tuple(_WINDOWS))])
    if window == 0:
        return lambda a: a
    if form.types[0] == "u32":
        raise UnsupportedForm("32-bit generic addresses")
    return (lambda a: a - window) if form.has("to") else (lambda a: a + window)


@elementwise("isspacep", "", isa="9.7.9.19", modifiers=" ".join(_WINDOWS), signature="pred:u64", counter="move")
def isspacep(form: Form) -> Elementwise:
    """Whether a generic address lies in a space."""
    window = _WINDOWS[form.one_of(tuple(_WINDOWS))]
    if window:
        return lambda a: (a >= np.uint64(window)) & (a < np.uint64(window + WINDOW_SIZE))
    return lambda a: (a < np.uint64(PARAM_WINDOW)) | (a >= np.uint64(SHARED_WINDOW + WINDOW_SIZE))


def set_rank(address: Array, rank: Array) -> Array:
    """A shared address with another CTA's rank: bits 24 and up of the 32-bit window address."""
    kind = address.dtype.type
    return (address & kind(~kind(0xFF000000))) | (rank.astype(kind) << kind(24))


@elementwise("mapa", "u32 u64", isa="9.7.9.23", modifiers="shared::cluster", signature="T:T,u32", counter="cluster")
def mapa(form: Form) -> Elementwise:
    """The address of the same variable in another CTA of the cluster."""
    return lambda a, rank: set_rank(np.asarray(a), np.asarray(rank))


@elementwise("getctarank", "u32 u64", isa="9.7.9.24", modifiers="shared::cluster", signature="u32:T",
             counter="cluster")  # fmt: skip
def getctarank(form: Form) -> Elementwise:
    """The rank of the CTA that owns a shared address."""
    return lambda a: (np.asarray(a) >> np.asarray(a).dtype.type(24)) & np.asarray(a).dtype.type(0xFF)
