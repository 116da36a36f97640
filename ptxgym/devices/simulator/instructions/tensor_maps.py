"""Instructions that change a tensor map (PTX ISA 9.7.9.26, 9.7.13.16)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.instructions.access import space_of
from ptxgym.devices.simulator.table import Step, UnsupportedForm, effect
from ptxgym.devices.simulator.tensor_map import (
    FILLS,
    INTERLEAVES,
    PACKED,
    SWIZZLES,
    NotATensorMap,
    TensorMapFields,
    decode,
    encode,
)

_INDEXED = {"box_dim": "box", "global_dim": "sizes", "global_stride": "strides", "element_stride": "element_strides"}
_ELEMENT_TYPES = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32_ftz", "f64", "bf16", "tf32", "tf32_ftz",
                  *PACKED)  # fmt: skip
"""In the instruction's own order, which is not the driver's."""
_ENUMERATED = {
    "elemtype": ("kind", _ELEMENT_TYPES), "interleave_layout": ("interleave", INTERLEAVES),
    "swizzle_mode": ("swizzle", SWIZZLES[:4]), "fill_mode": ("fill", FILLS),
}  # fmt: skip
_FIELDS = f"global_address rank {' '.join(_INDEXED)} {' '.join(_ENUMERATED)}"


def changed(fields: TensorMapFields, name: str, ordinal: int, value: int) -> TensorMapFields:
    """The fields with one of them replaced."""
    if name == "global_address":
        return replace(fields, address=value)
    if name in _INDEXED:
        attribute = _INDEXED[name]
        values = list(getattr(fields, attribute))
        values[ordinal] = value
        change: dict[str, Any] = {attribute: tuple(values)}
    else:
        attribute, names = _ENUMERATED[name]
        change = {attribute: names[value]}
    return replace(fields, **change)


@effect("tensormap.replace", "b1024 b32 b64", isa="9.7.9.28",
        modifiers=f"tile global shared::cta {_FIELDS}", counter="tma")  # fmt: skip
def tensormap_replace(b: Any) -> Step:
    """Change a field of the map at an address."""
    name = b.form.one_of(tuple(_FIELDS.split()))
    if name == "rank":
        raise UnsupportedForm("changing a tensor map's rank")
    address, space, where = b.address(b.operands[0]), space_of(b.form), b.where
    ordinal = b.constant(b.operands[1]) if name in _INDEXED else 0
    value = b.source(b.operands[-1], b.form.types[-1])

    def step(x: Context) -> None:
        ((buffer, offsets, _),) = x.locate(space, address(x), 64, where)
        for offset, new in zip(offsets.tolist(), x.get(value).tolist(), strict=True):
            data = buffer.bytes[offset : offset + 128]
            try:
                fields = changed(decode(data.tobytes()), name, ordinal, new)
            except NotATensorMap:
                raise x.fault(
                    "not-a-tensor-map", where, "tensormap.replace on 128 bytes that are no tensor map"
                ) from None
            data[:] = np.frombuffer(encode(fields), np.uint8)

    return step


@effect(
    "tensormap.cp_fenceproxy", "", isa="9.7.13.16", modifiers="global shared::cta tensormap::generic", counter="tma"
)
def cp_fenceproxy(b: Any) -> Step:
    """Copy a map from shared to global memory and publish it; the whole warp executes it, the copy is one."""
    to, frm, where = b.address(b.operands[0]), b.address(b.operands[1]), b.where

    def step(x: Context) -> None:
        targets = x.locate("global", to(x), 64, where)
        ((source, offsets, _),) = x.locate("shared", frm(x), 64, where)
        for buffer, places, chosen in targets:
            rows = range(x.lanes.count) if chosen is None else chosen.tolist()
            for place, row in zip(places.tolist(), rows, strict=True):
                start = int(offsets[row])
                buffer.bytes[place : place + 128] = source.bytes[start : start + 128]

    return step
