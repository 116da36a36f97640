"""Tiles of a tensor in global memory, by the rules of tensor maps (PTX ISA 5.5)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxgym.devices.simulator.layouts import CHUNK, SWIZZLES, tile_chunks
from ptxgym.devices.simulator.memory import BadAddress, GlobalMemory
from ptxgym.devices.simulator.tensor_map import TensorMapFields
from ptxgym.devices.simulator.types import Array


def pad_groups(data: Array, bits: int) -> Array:
    """Packed elements as a padded type has them in shared memory: sixteen, then zeros up to 16 bytes."""
    groups = np.ascontiguousarray(data).reshape(-1).view(np.uint8).reshape(-1, 2 * bits)
    padded = np.zeros((len(groups), 16), np.uint8)
    padded[:, : 2 * bits] = groups
    return padded


class Tile:
    """The part of a box that lies inside the tensor, as a strided view, and where it sits in the box."""

    __slots__ = ("_dtype", "inside", "shape", "view")

    def __init__(self, memory: GlobalMemory, fields: TensorMapFields, coordinates: tuple[int, ...]) -> None:
        size = fields.element_bytes
        self._dtype = np.dtype(f"u{size}")
        byte_strides = (size, *fields.strides)
        self.shape: tuple[int, ...] = ()
        inside: list[slice] = []
        start = fields.address
        extents: list[int] = []
        steps: list[int] = []
        for axis in reversed(range(fields.rank)):
            step = fields.element_strides[axis]
            count = -(-fields.box[axis] // step)
            at = coordinates[axis]
            first = -(at // step) if at < 0 else 0
            last = min(count, -(-(fields.sizes[axis] - at) // step))
            self.shape += (count,)
            inside.append(slice(first, max(first, last)))
            start += (at + first * step) * byte_strides[axis]
            extents.append(max(0, last - first))
            steps.append(step * byte_strides[axis])
        self.inside = tuple(inside)
        self.view = _strided(memory, start, tuple(extents), tuple(steps), size)

    def read(self, fill: int) -> Array:
        """The whole box, elements outside filled with a bit pattern."""
        if self.view is None:
            return np.full(self.shape, fill, self._dtype)
        if self.view.shape == self.shape:
            return np.ascontiguousarray(self.view)
        tile = np.full(self.shape, fill, self._dtype)
        tile[self.inside] = self.view
        return tile


def _strided(memory: GlobalMemory, start: int, extents: tuple[int, ...], steps: tuple[int, ...], size: int) -> Any:
    if 0 in extents:
        return None
    last = start + sum((n - 1) * s for n, s in zip(extents, steps, strict=True)) + size
    found = memory.find(start)
    if found is None or last > found.end:
        owner = f"{found.label} ({found.size} bytes)" if found else "no allocation"
        raise BadAddress("out-of-bounds", 0, f"{last - start} bytes at {start:#x}, of {owner}, through a tensor map "
                         "whose size or strides exceed the allocation")  # fmt: skip
    return np.ndarray(extents, f"u{size}", buffer=found.bytes, offset=start - found.address, strides=steps)


FILL_NAN = {2: 0x7FFF, 4: 0x7FFFFFFF, 8: 0x7FFFFFFFFFFFFFFF}


def fill_pattern(fields: TensorMapFields) -> int:
    """What stands for elements outside of the tensor."""
    return FILL_NAN[fields.element_bytes] if fields.fill == "nan" else 0


def store_swizzled(shared: Array, offset: int, data: Array, swizzle: str) -> None:
    """Write dense tile bytes to shared memory; ``offset`` is a multiple of 16."""
    chunks = data.reshape(-1).view(np.uint8).view(CHUNK)
    if swizzle == "none":
        shared.view(CHUNK)[offset >> 4 : (offset >> 4) + len(chunks)] = chunks
        return
    phase = offset & 1023
    shared.view(CHUNK)[(offset - phase) // 16 + tile_chunks(phase, len(chunks), swizzle)] = chunks


def load_swizzled(shared: Array, offset: int, size: int, swizzle: str) -> Array:
    """Read a tile's bytes back in dense order."""
    count = size // 16
    phase = offset & 1023
    return shared.view(CHUNK)[(offset - phase) // 16 + tile_chunks(phase, count, swizzle)].view(np.uint8)


assert set(SWIZZLES) >= {"none", "32B", "64B", "128B"}
