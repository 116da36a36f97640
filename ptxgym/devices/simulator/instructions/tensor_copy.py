"""Tensor copies through tensor maps: the TMA unit (PTX ISA 9.7.9.27)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ptxgym.devices.simulator.asynchronous import bulk_groups
from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.formats import squeeze
from ptxgym.devices.simulator.instructions.bulk_copy import announce, complete, multicast_targets, reduction
from ptxgym.devices.simulator.instructions.mbarrier import flat_offsets, mbarriers
from ptxgym.devices.simulator.memory import BadAddress
from ptxgym.devices.simulator.ptx.syntax import Address
from ptxgym.devices.simulator.table import Step, UnsupportedForm, effect
from ptxgym.devices.simulator.tensor_map import NotATensorMap, TensorMapFields, decode
from ptxgym.devices.simulator.tiles import Tile, fill_pattern, load_swizzled, pad_groups, store_swizzled

_DIMENSIONS = "1d 2d 3d 4d 5d"
_LOAD = (
    f"{_DIMENSIONS} shared::cluster shared::cta global tile tile::gather4 tile::scatter4 mbarrier::complete_tx::bytes "
    "multicast::cluster cta_group::1 cta_group::2 bulk_group im2col im2col::w im2col::w::128 im2col_no_offs"
)
_ALIGNMENT = 128
"""Bytes, of a tile in shared memory."""

_decode = lru_cache(maxsize=256)(decode)


@dataclass(slots=True)
class _Request:
    """The tile copy of one thread."""

    lane: int
    position: int
    fields: TensorMapFields
    coordinates: tuple[int, ...]
    offset: int
    """Flat shared offset of the tile."""


def _fields(x: Context, address: int, where: Any, position: int) -> TensorMapFields:
    try:
        return _decode(x.batch.read_bytes(address, 128))
    except BadAddress as bad:
        raise x.fault(bad.code, where, f"tensor map: {bad.detail}", position) from None
    except NotATensorMap:
        raise x.fault("not-a-tensor-map", where, f"the 128 bytes at {address:#x} are no tensor map (is it passed as "
                      "const __grid_constant__ CUtensorMap, and was cuTensorMapEncodeTiled's result checked?)",
                      position) from None  # fmt: skip


class _Endpoints:
    """Binds the operands that loads and stores share."""

    def __init__(self, b: Any, tensor: Address, shared: Any, *, writes: bool) -> None:
        self.writes = writes
        self.rank = int(re.search(r"(\d)d", ".".join(b.form.parts))[1])  # type: ignore[index]
        self.map = b.address(Address(tensor.base, tensor.offset))
        self.coordinates = b.sources(tensor.extra[0], "s32")
        self.shared = b.address(shared)
        self.where = b.where
        self.gather = b.form.has("tile::gather4") or b.form.has("tile::scatter4")
        if any(m.startswith("im2col") for m in b.form.modifiers):
            raise UnsupportedForm("im2col tensor copies")

    def requests(self, x: Context) -> list[_Request]:
        """What the executing threads ask for, checked."""
        where = self.where
        maps = self.map(x).tolist()
        offsets = flat_offsets(x, self.shared(x), where, 16).tolist()
        coordinates = list(zip(*[x.get(slot).tolist() for slot in self.coordinates], strict=True))
        result = []
        for i, lane in enumerate(x.each_lane()):
            fields = _fields(x, maps[i], where, i)
            if fields.rank != self.rank:
                raise x.fault(
                    "tensor-rank", where, f"a {self.rank}d copy through a tensor map of rank {fields.rank}", i
                )
            if offsets[i] % _ALIGNMENT:
                raise x.fault("misaligned", where, "a tensor copy's shared address must be a multiple of "
                              f"{_ALIGNMENT}; {x.batch.shared_name(offsets[i])} is not", i)  # fmt: skip
            self._check_room(x, fields, offsets[i], i)
            if not self.gather:
                self._check_coordinates(x, fields, coordinates[i], i)
            result.append(_Request(lane, i, fields, coordinates[i], offsets[i]))
        return result

    def _check_room(self, x: Context, fields: TensorMapFields, offset: int, position: int) -> None:
        state = x.batch.state
        over = offset % state.shared_stride + fields.tile_bytes - state.shared_end
        if over > 0:
            raise x.fault("out-of-bounds", self.where, f"a tile of {fields.tile_bytes} bytes ends {over} bytes past "
                          "the CTA's shared memory", position)  # fmt: skip

    def _check_coordinates(
        self, x: Context, fields: TensorMapFields, coordinates: tuple[int, ...], position: int
    ) -> None:
        """What an H200 stops for with an illegal instruction; no manual says so, each case was tried.

        Packed types, which it lacks, follow PTX ISA 9.7.9.27.1.1.
        """
        packed = fields.packed
        if packed and coordinates[0] % (128 if packed.padded else 32):
            raise x.fault("tensor-coordinate", self.where, "a tensor copy's innermost coordinate must be a multiple of "
                          f"{128 if packed.padded else 32} elements of {fields.kind}, not {coordinates[0]}",
                          position)  # fmt: skip
        if not packed and coordinates[0] * fields.element_bytes % 16:
            raise x.fault("tensor-coordinate", self.where, "a tensor copy's innermost coordinate must be a multiple of "
                          f"16 bytes; {coordinates[0]} elements of {fields.kind} are not", position)  # fmt: skip
        if self.writes and min(coordinates) < 0:
            raise x.fault("tensor-coordinate", self.where, "a tensor store or reduction must not begin at a negative "
                          f"coordinate, only a load may; these are {coordinates}", position)  # fmt: skip


def _tiles(x: Context, request: _Request, gather: bool, where: Any) -> list[Tile]:
    plain = request.fields.plain
    column, *rows = request.fields.units(request.coordinates[0]), *request.coordinates[1:]
    try:
        if not gather:
            return [Tile(x.batch.memory, plain, (column, *rows))]
        return [Tile(x.batch.memory, plain, (column, row)) for row in rows]
    except BadAddress as bad:
        raise x.fault(bad.code, where, bad.detail, request.position) from None


@effect("cp.async.bulk.tensor", "", isa="9.7.9.27.1.2", modifiers=_LOAD, counter="tma")
def tensor_copy(b: Any) -> Step:
    """A tile from global to shared memory, or back."""
    first = b.operands[0]
    if isinstance(first, Address) and first.extra:
        return _store(b, None, None)
    return _load(b)


def _load(b: Any) -> Step:
    ends = _Endpoints(b, b.operands[1], b.operands[0], writes=False)
    barrier, where = b.address(b.operands[2]), b.where
    multicast = b.source(b.operands[3], "b16") if b.form.has("multicast::cluster") else -1

    def step(x: Context) -> None:
        requests = ends.requests(x)
        bars = flat_offsets(x, barrier(x), where).tolist()
        masks = x.get(multicast).tolist() if multicast >= 0 else None
        runs = [
            _load_one(x, r, ends.gather, bars[i], masks[i] if masks else None, where) for i, r in enumerate(requests)
        ]

        def run() -> None:
            for each in runs:
                each()

        x.batch.later(run)

    return step


def _load_one(x: Context, r: _Request, gather: bool, bar: int, mask: int | None, where: Any) -> Any:
    batch = x.batch
    tiles = _tiles(x, r, gather, where)
    places = [r.offset] if mask is None else multicast_targets(x, mask, r.offset)
    bars = [bar] if mask is None else multicast_targets(x, mask, bar)
    if mask is not None and mask >> batch.state.geometry.cluster_size:
        raise x.fault("multicast-mask", where, f"multicast mask {mask:#x} names CTAs beyond the cluster of "
                      f"{batch.state.geometry.cluster_size}", r.position)  # fmt: skip
    objects = [mbarriers(batch).get(x, offset, where) for offset in bars]
    size, room = r.fields.box_bytes * len(tiles), r.fields.tile_bytes * len(tiles)
    token = announce(batch, where, r.lane, ("shared", places), ("global", 0), room, objects)
    for observer in batch.watchers("on_tile"):
        observer.on_tile(batch, places, room, r.fields.swizzle)
    batch.launch.bytes["tma.load"] += size
    shared, fill, swizzle = batch.state.shared.bytes, fill_pattern(r.fields), r.fields.swizzle
    packed = r.fields.packed

    def run() -> None:
        data = [tile.read(fill) for tile in tiles]
        dense = data[0] if len(data) == 1 else np.concatenate(data)
        if packed and packed.padded:
            dense = pad_groups(dense, packed.bits)
        for place in places:
            store_swizzled(shared, place, dense, swizzle)
        complete(batch, token, objects)
        for barrier in objects:
            mbarriers(batch).complete(barrier, size)

    return run


def _store(b: Any, update: Any, dtype: Any) -> Step:
    ends = _Endpoints(b, b.operands[0], b.operands[1], writes=True)
    where = b.where

    def step(x: Context) -> None:
        for r in ends.requests(x):
            _store_one(x, r, ends.gather, update, dtype, where)

    return step


def _store_one(x: Context, r: _Request, gather: bool, update: Any, dtype: Any, where: Any) -> None:
    batch = x.batch
    if r.fields.kind == "b4x16_p64":
        raise x.fault("tensor-store", where, "tensor copies cannot store 4-bit elements with padding (16U4_ALIGN16B)",
                      r.position)  # fmt: skip
    tiles, packed = _tiles(x, r, gather, where), r.fields.packed
    size, room = r.fields.box_bytes * len(tiles), r.fields.tile_bytes * len(tiles)
    batch.launch.bytes["tma.store" if update is None else "tma.reduce"] += size
    token = announce(batch, where, r.lane, ("global", []), ("shared", r.offset), room, [])
    shared, unit = batch.state.shared.bytes, f"u{r.fields.plain.element_bytes}"

    def run() -> None:
        dense = load_swizzled(shared, r.offset, room, r.fields.swizzle)
        dense = (squeeze(dense) if packed and packed.padded else dense).view(unit)
        for tile, part in zip(tiles, dense.reshape(len(tiles), -1), strict=True):
            if tile.view is None:
                continue
            fresh = part.reshape(tile.shape)[tile.inside]
            if update is None:
                tile.view[...] = fresh
            else:
                old = np.ascontiguousarray(tile.view).view(dtype)
                tile.view[...] = np.asarray(update(old, np.ascontiguousarray(fresh).view(dtype))).view(tile.view.dtype)
        complete(batch, token, [])

    bulk_groups(batch).issue(r.lane, batch.later(run))


_BITWISE, _ORDERED = ("u32", "s32", "u64"), ("u32", "s32", "u64", "s64", "f16", "bf16")
_REDUCTIONS: dict[str, tuple[str, ...]] = {
    "add": ("u32", "s32", "u64", "f16", "bf16", "f32", "f32_ftz", "tf32", "tf32_ftz", "f64"),
    "min": _ORDERED,
    "max": _ORDERED,
    "inc": ("u32",),
    "dec": ("u32",),
    "and": _BITWISE,
    "or": _BITWISE,
    "xor": _BITWISE,
}
"""Element types of a tensor map by operation. An H200 stops with an illegal instruction for all others (each tried)."""


@effect("cp.reduce.async.bulk.tensor", "", isa="9.7.9.27.1.3", modifiers=f"{_LOAD} {' '.join(_REDUCTIONS)}",
        counter="tma")  # fmt: skip
def tensor_reduce(b: Any) -> Step:
    """Combine a tile with what stands in global memory; the tensor map names the element type."""
    name = b.form.one_of(tuple(_REDUCTIONS))

    def bind(kind: str) -> tuple[Any, Any]:
        short = kind.removesuffix("_ftz").replace("tf32", "f32")
        code = np.dtype(np.uint16) if short in ("f16", "bf16") else np.dtype(_numpy_name(short))
        return reduction(name, short), code

    ends = _Endpoints(b, b.operands[0], b.operands[1], writes=True)
    where = b.where

    def step(x: Context) -> None:
        for r in ends.requests(x):
            if r.fields.kind not in _REDUCTIONS[name]:
                raise x.fault("tensor-reduction", where, f"tensor copies cannot reduce {r.fields.kind} elements by "
                              f"{name}; those that can: {', '.join(_REDUCTIONS[name])}", r.position)  # fmt: skip
            update, dtype = bind(r.fields.kind)
            _store_one(x, r, False, update, dtype, where)

    return step


def _numpy_name(kind: str) -> str:
    return f"{'i' if kind[0] == 's' else kind[0]}{int(kind[1:]) // 8}"
