"""Tensor copies of every rank and bulk copies."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np

from tests.corpus.kernels import numbers
from tests.knowledge.cases import Array, Bench, Outcome, case

# Innermost first: the tensor's sizes, the box (32 floats) and the coordinates of rank 0's copy. Rank 1's box lies
# behind it along the innermost axis (SHIFT); some of both lies outside of the tensor.
SHAPES: dict[int, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
    1: ((116,), (32,), (56,)),
    2: ((20, 9), (8, 4), (4, 7)),
    3: ((12, 5, 4), (4, 4, 2), (4, 2, 3)),
    4: ((12, 5, 4, 3), (4, 2, 2, 2), (4, 1, 3, 2)),
    5: ((8, 3, 4, 3, 2), (4, 2, 2, 2, 1), (0, 2, 1, 1, 1)),
}


def box_of(tensor: Array, corner: tuple[int, ...], box: tuple[int, ...]) -> Array:
    """Element by element, zero outside; ``corner`` and ``box`` innermost first."""
    out = np.zeros(box[::-1], np.float32)
    for index in itertools.product(*map(range, box[::-1])):
        place = tuple(i + c for i, c in zip(index, corner[::-1], strict=True))
        if all(0 <= p < n for p, n in zip(place, tensor.shape, strict=True)):
            out[index] = tensor[place]
    return out


def put(tensor: Array, corner: tuple[int, ...], box: Array, combine: np.ufunc | None = None) -> None:
    """Write a box where it fits into the tensor."""
    for index in itertools.product(*map(range, box.shape)):
        place = tuple(i + c for i, c in zip(index, corner[::-1], strict=True))
        if all(0 <= p < n for p, n in zip(place, tensor.shape, strict=True)):
            tensor[place] = box[index] if combine is None else combine(tensor[place], box[index])


def _tma(b: Bench, rank: int) -> Outcome:
    sizes, box, corner = SHAPES[rank]
    shape = sizes[::-1]
    names = ("stored", "hinted", "shared", "both", "added", "least", "most")
    source = numbers(rank, *shape)
    expected = {name: numbers(10 + i, *shape) for i, name in enumerate(names)}
    addresses = [b.give(source)] + [b.give(expected[name]) for name in names]
    # Tensor reductions know no min and max of f32; the bits are compared as integers instead.
    kinds = ("f32",) * 6 + ("s32", "s32")
    maps = b"".join(
        b.device.tile_map(a, kind, shape, box[::-1], "none") for a, kind in zip(addresses, kinds, strict=True)
    )
    b.launch(2, 32, maps, *(*corner, 0, 0, 0, 0)[:5], cluster=(2, 1, 1))

    corners = [corner, (corner[0] + box[0], *corner[1:])]
    boxes = [box_of(source, c, box) for c in corners]
    for rank_, c in enumerate(corners):
        put(expected["stored"], c, boxes[rank_])
        put(expected["hinted"], c, boxes[rank_])
        put(expected["shared"], c, boxes[0])
        put(expected["both"], c, boxes[1])
        put(expected["added"], c, boxes[rank_], np.add)
        put(expected["least"].view(np.int32), c, boxes[rank_].view(np.int32), np.minimum)
        put(expected["most"].view(np.int32), c, boxes[rank_].view(np.int32), np.maximum)
    return [(b[a].reshape(shape), expected[name], 1e-6) for a, name in zip(addresses[1:], names, strict=True)]


def _covers(rank: int) -> str:
    r = f"{rank}d"
    return (
        f"tma_load_{r} tma_load_{r}_hint tma_load_{r}_multicast tma_load_{r}_multicast_hint tma_store_{r} "
        f"tma_store_{r}_hint tma_reduce_add_{r} tma_reduce_min_{r} tma_reduce_max_{r} tma_prefetch_{r} "
        "prefetch_tensormap createpolicy_evict_first createpolicy_evict_last "
        "bulk_commit_group bulk_wait_group bulk_wait_group_read"
    )


def _sass(rank: int) -> str:
    r = f"{rank}D"
    return (
        rf"UTMALDG\.{r}$ UTMALDG\.{r}\.MULTICAST UTMASTG\.{r} UTMAREDG\.{r}\.ADD UTMAREDG\.{r}\.MIN "
        rf"UTMAREDG\.{r}\.MAX UTMAPF\.L2\.{r} UTMACCTL\.PF UTMACMDFLUSH DEPBAR"
    )


for _rank in SHAPES:
    case("tma", f"tma_{_rank}d", _covers(_rank), _sass(_rank))(partial(_tma, rank=_rank))


@case("tma", "bulk",
      "bulk_load bulk_load_multicast bulk_copy_cluster bulk_store bulk_reduce_add_f32 bulk_prefetch_l2",
      r"UBLKCP\.S\.G$ UBLKCP\.S\.G\.MULTICAST UBLKCP\.S\.S UBLKCP\.G\.S UBLKRED\.G\.S\.ADD\.F32\.RN UBLKPF\.L2",
)  # fmt: skip
def bulk(b: Bench) -> Outcome:
    values, sums = numbers(1, 3, 32), numbers(2, 32)
    out, total = b.empty((2, 32), np.float32), b.give(sums)
    b.launch(2, 32, b.give(values), out, total, cluster=(2, 1, 1))
    expected = values[0] + values[2:0:-1]
    return [(b[out], expected, 0), (b[total], sums + expected.sum(0), 1e-5)]


@case("tma", "registers", "red_add_v4_f32", r"REDG\.E\.ADD\.F32x4|REDG\.E\.ADD\.F32.*")
def registers(b: Bench) -> Outcome:
    values, sums = numbers(1, 32, 4), numbers(2, 8, 4)
    total = b.give(sums)
    b.launch(1, 32, b.give(values), total)
    return [(b[total], sums + values.reshape(4, 8, 4).sum(0), 1e-5)]
