"""Tensor maps: what ``cuTensorMapEncodeTiled`` writes into its 128 opaque bytes, in our own encoding.

CUDA driver API, "Tensor Map Object Management"; PTX ISA 5.5.  The encoding is private: 128 bytes with a magic,
so that a kernel that uses memory which is no map is found, and with plain fields, so that
``tensormap.replace`` can change one.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from functools import cached_property

ELEMENT_BYTES: dict[str, int] = {
    "u8": 1, "u16": 2, "u32": 4, "s32": 4, "u64": 8, "s64": 8, "f16": 2, "f32": 4, "f64": 8, "bf16": 2,
    "f32_ftz": 4, "tf32": 4, "tf32_ftz": 4,
}  # fmt: skip
"""Element types in the order of ``CUtensorMapDataType``."""


@dataclass(frozen=True, slots=True)
class Packed:
    """An element type of less than a byte (PTX ISA 5.5.1.1)."""

    bits: int
    """Bits of an element in global memory, where nothing separates elements."""
    unit: str
    """The plain type in which rows of them are copied."""
    padded: bool
    """In shared memory 16 elements fill 16 bytes, whose end is not initialised."""


PACKED = {"b4x16": Packed(4, "u8", False), "b4x16_p64": Packed(4, "u32", True), "b6x16_p32": Packed(6, "u32", True)}
"""16U4_ALIGN8B, 16U4_ALIGN16B and 16U6_ALIGN16B, after the plain types in ``CUtensorMapDataType``."""

KINDS = (*ELEMENT_BYTES, *PACKED)
SWIZZLES = ("none", "32B", "64B", "128B", "128B_atom_32B", "128B_atom_32B_flip_8B", "128B_atom_64B")
"""In the order of ``CUtensorMapSwizzle``."""
INTERLEAVES = ("none", "16B", "32B")
FILLS = ("none", "nan")
"""In the order of ``CUtensorMapFloatOOBfill``."""
SWIZZLE_SPAN = {"32B": 32, "64B": 64, "128B": 128, "128B_atom_32B": 128, "128B_atom_32B_flip_8B": 128,
                "128B_atom_64B": 128}  # fmt: skip

MAGIC = b"ptxgymTM"
BYTES = 128
_LAYOUT = struct.Struct("<8sBBBBBBBBQ5I5I4Q5H")
# 8 magic, 8 small fields, 8 address, 20 sizes, 20 box and element strides packed below, 32 strides ...
assert _LAYOUT.size <= BYTES


@dataclass(frozen=True)
class TensorMapFields:
    """The arguments of ``cuTensorMapEncodeTiled``, innermost dimension first."""

    kind: str
    """Element type, one of :data:`KINDS`."""
    address: int
    """Device address of the tensor."""
    sizes: tuple[int, ...]
    """Elements per dimension."""
    strides: tuple[int, ...]
    """Bytes between neighbours, for every dimension but the innermost."""
    box: tuple[int, ...]
    """Elements of the tile per dimension."""
    element_strides: tuple[int, ...]
    """Traversal stride per dimension."""
    interleave: str = "none"
    """One of :data:`INTERLEAVES`."""
    swizzle: str = "none"
    """One of :data:`SWIZZLES`."""
    l2_promotion: int = 0
    """``CUtensorMapL2promotion``; no effect here."""
    fill: str = "none"
    """What stands for elements outside the tensor: zero, or NaN (``nan``)."""

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.sizes)

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return ELEMENT_BYTES[self.kind]

    @property
    def packed(self) -> Packed | None:
        """What is special about the element type, if it is a packed one."""
        return PACKED.get(self.kind)

    def units(self, elements: int) -> int:
        """Elements of the innermost dimension, counted in those of :attr:`plain`."""
        packed = self.packed
        return elements if packed is None else elements * packed.bits // (8 * ELEMENT_BYTES[packed.unit])

    @property
    def plain(self) -> TensorMapFields:
        """A map of the same bytes of global memory whose elements are whole bytes or words."""
        packed = self.packed
        if packed is None:
            return self
        inner, extent = self.units(self.sizes[0]), self.units(self.box[0])
        return replace(self, kind=packed.unit, sizes=(inner, *self.sizes[1:]), box=(extent, *self.box[1:]),
                       element_strides=(1, *self.element_strides[1:]))  # fmt: skip

    @cached_property
    def tile_bytes(self) -> int:
        """Bytes of shared memory that a tile fills."""
        packed = self.packed
        return self.box_bytes * 8 // packed.bits if packed and packed.padded else self.box_bytes

    @cached_property
    def box_bytes(self) -> int:
        """Bytes that a tile transfers, elements outside the tensor included.

        The padding of packed types is not: CUTLASS's ``TmaTransactionBytes`` counts their bits.
        """
        if self.packed:
            return self.plain.box_bytes
        total = self.element_bytes
        for extent, stride in zip(self.box, self.element_strides, strict=True):
            total *= -(-extent // stride)
        return total


def validate(fields: TensorMapFields) -> str | None:
    """The first rule of ``cuTensorMapEncodeTiled`` that the fields break, or None.

    A broken rule is ``CUDA_ERROR_INVALID_VALUE`` from the driver.
    """
    return (
        _validate_names(fields)
        or _validate_rank(fields)
        or _validate_address(fields)
        or _validate_extents(fields)
        or _validate_inner(fields)
    )


def _validate_names(f: TensorMapFields) -> str | None:
    for value, names, what in (
        (f.kind, KINDS, "element type"), (f.swizzle, SWIZZLES, "swizzle"), (f.interleave, INTERLEAVES, "interleave"),
        (f.fill, FILLS, "out-of-bounds fill"),
    ):  # fmt: skip
        if value not in names:
            return f"{what} {value!r} does not exist"
    if f.fill == "nan" and f.kind[0] in "us":
        return f"NaN fill needs a floating-point element type, not {f.kind}"
    return None


def _validate_rank(f: TensorMapFields) -> str | None:
    if not 1 <= f.rank <= 5:
        return f"rank {f.rank} is not between 1 and 5"
    if f.interleave != "none" and f.rank < 3:
        return "an interleaved layout needs a rank of at least 3"
    if not len(f.box) == len(f.element_strides) == f.rank or len(f.strides) != f.rank - 1:
        return "box and elementStrides need one entry per dimension, globalStrides one fewer"
    return None


def _validate_address(f: TensorMapFields) -> str | None:
    unit = 32 if f.interleave == "32B" else 16
    if f.address == 0 or f.address % unit:
        return f"globalAddress {f.address:#x} is not a multiple of {unit}"
    for axis, stride in enumerate(f.strides):
        if stride % unit or not 0 < stride < 1 << 40:
            return f"globalStrides[{axis}] = {stride} is not a multiple of {unit} below 2^40"
        if f.interleave == "none" and axis and stride % f.strides[axis - 1]:
            # The driver documents this only for interleaved layouts; overlapping strides are legal otherwise.
            continue
    return None


def _validate_extents(f: TensorMapFields) -> str | None:
    for axis, (size, extent, stride) in enumerate(zip(f.sizes, f.box, f.element_strides, strict=True)):
        if not 0 < size <= 1 << 32:
            return f"globalDim[{axis}] = {size} is not between 1 and 2^32"
        if not 0 < extent <= 256:
            return f"boxDim[{axis}] = {extent} is not between 1 and 256"
        if not 0 < stride <= 8:
            return f"elementStrides[{axis}] = {stride} is not between 1 and 8"
    return None


def _validate_inner(f: TensorMapFields) -> str | None:
    inner = f.box[0] * (1 if f.packed and f.packed.padded else f.plain.element_bytes)
    if f.interleave == "none" and inner % 16:
        return f"boxDim[0] is {inner} bytes, not a multiple of 16"
    if f.swizzle == "none":
        return None
    span = SWIZZLE_SPAN[f.swizzle]
    if f.interleave == "none" and inner > span:
        return f"boxDim[0] is {inner} bytes, more than the {span} bytes of swizzle {f.swizzle}"
    if f.interleave == "32B" and f.swizzle != "32B":
        return "interleave 32B needs swizzle 32B"
    return None


def encode(fields: TensorMapFields) -> bytes:
    """The 128 bytes of a map; the fields are not validated."""
    pad5 = (0,) * (5 - fields.rank)
    packed = _LAYOUT.pack(
        MAGIC, KINDS.index(fields.kind), fields.rank, INTERLEAVES.index(fields.interleave),
        SWIZZLES.index(fields.swizzle), fields.l2_promotion, FILLS.index(fields.fill), 0, 0, fields.address,
        *(s - 1 for s in fields.sizes), *pad5, *_strides(fields, pad5), *_high(fields),
        *(box | (stride << 9) for box, stride in zip(fields.box, fields.element_strides, strict=True)), *pad5,
    )  # fmt: skip
    return packed.ljust(BYTES, b"\0")


def _strides(fields: TensorMapFields, pad: tuple[int, ...]) -> tuple[int, ...]:
    """Low 32 bits, one per dimension (the innermost is unused)."""
    return tuple(s & 0xFFFFFFFF for s in (0, *fields.strides)) + pad


def _high(fields: TensorMapFields) -> tuple[int, ...]:
    return tuple(s >> 32 for s in fields.strides) + (0,) * (4 - len(fields.strides))


class NotATensorMap(ValueError):  # noqa: N818
    """The bytes were not written by :func:`encode`."""


def decode(data: bytes) -> TensorMapFields:
    """The fields of a map.

    Raises:
        NotATensorMap: The magic is missing.
    """
    if len(data) < BYTES or data[:8] != MAGIC:
        raise NotATensorMap("these 128 bytes are no tensor map")
    (_, kind, rank, interleave, swizzle, promotion, fill, _, _, address, *rest) = _LAYOUT.unpack_from(data)
    sizes, low, high, packed = rest[:5], rest[5:10], rest[10:14], rest[14:19]
    return TensorMapFields(
        kind=KINDS[kind],
        address=address,
        sizes=tuple(s + 1 for s in sizes[:rank]),
        strides=tuple(low[i + 1] | (high[i] << 32) for i in range(rank - 1)),
        box=tuple(p & 0x1FF for p in packed[:rank]),
        element_strides=tuple(p >> 9 for p in packed[:rank]),
        interleave=INTERLEAVES[interleave],
        swizzle=SWIZZLES[swizzle],
        l2_promotion=promotion,
        fill=FILLS[fill],
    )
