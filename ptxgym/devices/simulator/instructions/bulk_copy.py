"""Bulk copies without a tensor map, and bulk groups (PTX ISA 9.7.9.25)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxgym.devices.simulator.asynchronous import bulk_groups
from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.instructions.mbarrier import flat_offsets, mbarriers
from ptxgym.devices.simulator.memory import BadAddress
from ptxgym.devices.simulator.table import Step, effect
from ptxgym.devices.simulator.types import Array, dtype_of

_FORMS = "shared::cluster shared::cta global mbarrier::complete_tx::bytes bulk_group multicast::cluster cp_mask"
_REDUCTIONS = "add min max inc dec and or xor noftz"


def endpoint(x: Context, space: str, addresses: Array, where: Any) -> Array:
    """Checked addresses of a bulk copy: 16-byte aligned."""
    if int(np.bitwise_or.reduce(addresses)) & 15:
        position = int(np.flatnonzero(addresses & addresses.dtype.type(15))[0])
        raise x.fault("misaligned", where, f"bulk copy: {space} address {int(addresses[position]):#x} is not a "
                      "multiple of 16", position)  # fmt: skip
    return flat_offsets(x, addresses, where, 16) if space == "shared" else addresses


def global_span(x: Context, address: int, size: int, where: Any, position: int, *, write: bool) -> Array:
    """Bytes of global memory that a copy touches."""
    try:
        found: Array = x.batch.memory.span(address, size)
    except BadAddress as bad:
        kind = "writes" if write else "reads"
        raise x.fault(bad.code, where, f"bulk copy {kind} {bad.detail}", position) from None
    return found


def shared_span(x: Context, offset: int, size: int, where: Any) -> Array:
    """Bytes of shared memory that a copy touches."""
    state = x.batch.state
    inside = offset % state.shared_stride
    if inside + size > state.shared_end:
        over = inside + size - state.shared_end
        raise x.fault("out-of-bounds", where, f"bulk copy of {size} bytes ends {over} bytes past shared memory")
    found: Array = state.shared.bytes[offset : offset + size]
    return found


def multicast_targets(x: Context, mask: int, offset: int) -> list[int]:
    """The same place in every CTA of a mask, as flat offsets."""
    state = x.batch.state
    cta, inside = divmod(offset, state.shared_stride)
    leader = cta - int(state.rank_of[cta * state.geometry.stride])
    return [(leader + rank) * state.shared_stride + inside for rank in range(16) if mask >> rank & 1]


@effect("cp.async.bulk", "", isa="9.7.9.25.4.1", modifiers=_FORMS, counter="tma")
def bulk(b: Any) -> Step:
    """Copy a run of bytes."""
    where = b.where
    spaces = [p.split("::")[0] for p in b.form.parts if p.split("::")[0] in ("shared", "global")]
    target, source = spaces[0], spaces[1]
    to, frm, size = b.address(b.operands[0]), b.address(b.operands[1]), b.source(b.operands[2], "u32")
    signals = b.form.has("mbarrier::complete_tx::bytes")
    barrier = b.address(b.operands[3]) if signals else None
    multicast = b.source(b.operands[4], "b16") if b.form.has("multicast::cluster") else -1
    if b.form.has("cp_mask"):
        raise b.unknown(".cp_mask")

    def step(x: Context) -> None:
        targets = endpoint(x, target, to(x), where).tolist()
        sources = endpoint(x, source, frm(x), where).tolist()
        sizes = x.get(size).tolist()
        masks = x.get(multicast).tolist() if multicast >= 0 else [0] * len(sizes)
        bars = flat_offsets(x, barrier(x), where).tolist() if barrier is not None else [None] * len(sizes)
        for i, lane in enumerate(x.each_lane()):
            if sizes[i] % 16:
                raise x.fault("bulk-size", where, f"bulk copy of {sizes[i]} bytes, not a multiple of 16", i)
            places = multicast_targets(x, masks[i], targets[i]) if multicast >= 0 else [targets[i]]
            _issue(x, where, lane, i, (target, places), (source, sources[i]), sizes[i], bars[i], masks[i])

    return step


def _issue(
    x: Context, where: Any, lane: int, position: int, to: tuple[str, list[int]], frm: tuple[str, int], size: int,
    bar: int | None, mask: int,
) -> None:  # fmt: skip
    batch = x.batch
    if frm[0] == "shared":
        data = shared_span(x, frm[1], size, where)
    else:
        data = global_span(x, frm[1], size, where, position, write=False)
    if to[0] == "shared":
        out = [shared_span(x, place, size, where) for place in to[1]]
    else:
        out = [global_span(x, to[1][0], size, where, position, write=True)]
    batch.launch.bytes["tma.load" if frm[0] == "global" else "tma.store" if to[0] == "global" else "tma.shared"] += size
    bars = [] if bar is None else multicast_targets(x, mask, bar) if mask else [bar]
    objects = [mbarriers(batch).get(x, offset, where) for offset in bars]
    token = announce(batch, where, lane, to, frm, size, objects)

    def run() -> None:
        for place in out:
            place[:] = data
        complete(batch, token, objects)
        for barrier in objects:
            mbarriers(batch).complete(barrier, size)

    operation = batch.later(run)
    if bar is None:
        bulk_groups(batch).issue(lane, operation)


def announce(
    batch: Any, where: Any, lane: int, to: tuple[str, list[int]], frm: tuple[str, int], size: int, barriers: list[Any]
) -> list[Any]:
    """Tell the checks about an asynchronous copy that will signal barriers; returns their tokens."""
    tokens = []
    for observer in batch.watchers("on_signal", "on_async_write", "on_async_read"):
        observer.on_signal(batch, lane, barriers)
        if to[0] == "shared":
            tokens += [observer.on_async_write(batch, where, lane, place, size) for place in to[1]]
        if frm[0] == "shared":
            tokens.append(observer.on_async_read(batch, where, lane, frm[1], size))
    return tokens


def complete(batch: Any, tokens: list[Any], barriers: list[Any]) -> None:
    """Tell the checks that an asynchronous copy is done."""
    for observer in batch.watchers("on_async_done"):
        observer.on_async_done(batch, tokens, barriers)


_REDUCE_TYPES = "u32 s32 u64 s64 b32 b64 f16 bf16 f32 f64"


def reduction(name: str, kind: str) -> Any:
    """``(old, new) -> value`` of a bulk reduction, in place of raw arrays."""
    from ptxgym.devices.simulator.instructions.atomics import operation

    return operation(name, kind)


@effect("cp.reduce.async.bulk", _REDUCE_TYPES, isa="9.7.9.25.4.2", modifiers=f"{_FORMS} {_REDUCTIONS}", counter="tma")
def bulk_reduce(b: Any) -> Step:
    """Copy a run of bytes and combine it with what stands there."""
    where = b.where
    spaces = [p.split("::")[0] for p in b.form.parts if p.split("::")[0] in ("shared", "global")]
    target = spaces[0]
    kind = b.form.types[0]
    update = reduction(b.form.one_of(("add", "min", "max", "inc", "dec", "and", "or", "xor")), kind)
    dtype = np.dtype(np.uint16) if kind in ("f16", "bf16") else dtype_of(kind)
    to, frm, size = b.address(b.operands[0]), b.address(b.operands[1]), b.source(b.operands[2], "u32")
    barrier = b.address(b.operands[3]) if b.form.has("mbarrier::complete_tx::bytes") else None

    def step(x: Context) -> None:
        targets = endpoint(x, target, to(x), where).tolist()
        sources = endpoint(x, "shared", frm(x), where).tolist()
        bars = flat_offsets(x, barrier(x), where).tolist() if barrier is not None else [None] * len(sources)
        for i, lane in enumerate(x.each_lane()):
            n = int(x.get(size)[i])
            data = shared_span(x, sources[i], n, where)
            if target == "shared":
                out = shared_span(x, targets[i], n, where)
            else:
                out = global_span(x, targets[i], n, where, i, write=True)
            _issue_reduction(x, where, lane, (target, targets[i], out), (sources[i], data), (update, dtype), bars[i])

    return step


def _issue_reduction(
    x: Context, where: Any, lane: int, to: tuple[str, int, Array], frm: tuple[int, Array], how: tuple[Any, Any],
    bar: int | None,
) -> None:  # fmt: skip
    batch = x.batch
    update, dtype = how
    size = frm[1].size
    batch.launch.bytes["tma.reduce"] += size
    objects = [mbarriers(batch).get(x, bar, where)] if bar is not None else []
    token = announce(batch, where, lane, (to[0], [to[1]]), ("shared", frm[0]), size, objects)

    def run() -> None:
        old = to[2].view(dtype)
        old[:] = update(old.copy(), frm[1].view(dtype))
        complete(batch, token, objects)
        for barrier in objects:
            mbarriers(batch).complete(barrier, size)

    operation = batch.later(run)
    if bar is None:
        bulk_groups(batch).issue(lane, operation)


@effect("cp.async.bulk.commit_group", "", isa="9.7.9.27.2.1", counter="tma")
def commit(b: Any) -> Step:
    """Close the group of bulk stores."""

    def step(x: Context) -> None:
        groups = bulk_groups(x.batch)
        for lane in x.each_lane():
            groups.commit(lane)
        for observer in x.batch.watchers("on_bulk_commit"):
            observer.on_bulk_commit(x)

    return step


@effect("cp.async.bulk.wait_group", "", isa="9.7.9.27.2.2", modifiers="read", counter="tma")
def wait(b: Any) -> Step:
    """Wait until at most N groups are unfinished."""
    allowed = b.constant(b.operands[0])
    read_only = b.form.has("read")

    def step(x: Context) -> None:
        groups = bulk_groups(x.batch)
        for lane in x.each_lane():
            groups.wait(lane, allowed)
        for observer in x.batch.watchers("on_bulk_wait"):
            observer.on_bulk_wait(x, allowed, read_only)

    return step


@effect("st.async", "b32 b64 u32 u64 s32 s64 f32 f64", isa="9.7.9.12",
        modifiers="shared::cluster mbarrier::complete_tx::bytes v2 v4", counter="cluster")  # fmt: skip
def st_async(b: Any) -> Step:
    """Store to a CTA of the cluster and signal its barrier."""
    kind = b.form.types[0]
    address, values, barrier = b.address(b.operands[0]), b.sources(b.operands[1], kind), b.address(b.operands[2])
    where, dtype = b.where, dtype_of(kind)
    size = dtype.itemsize * len(values)

    def step(x: Context) -> None:
        offsets = flat_offsets(x, address(x), where, size)
        bars = [mbarriers(x.batch).get(x, o, where) for o in flat_offsets(x, barrier(x), where).tolist()]
        data = [np.array(x.get(v)) for v in values]
        batch = x.batch
        tokens = [
            announce(batch, where, lane, ("shared", [o]), ("register", 0), size, [bar])
            for lane, o, bar in zip(x.each_lane(), offsets.tolist(), bars, strict=True)
        ]

        def run() -> None:
            elements = batch.state.shared.typed(dtype)
            for i, value in enumerate(data):
                elements[offsets // dtype.itemsize + i] = value
            for token, bar in zip(tokens, bars, strict=True):
                complete(batch, token, [bar])
                mbarriers(batch).complete(bar, size)

        batch.later(run)

    return step


@effect("red.async", "u32 s32 u64 b32", isa="9.7.13.7",
        modifiers=f"shared::cluster mbarrier::complete_tx::bytes {_REDUCTIONS}", counter="cluster")  # fmt: skip
def red_async(b: Any) -> Step:
    """Reduce into a CTA of the cluster and signal its barrier."""
    kind = b.form.types[0]
    address, value, barrier = b.address(b.operands[0]), b.source(b.operands[1], kind), b.address(b.operands[2])
    update = reduction(b.form.one_of(("add", "min", "max", "inc", "dec", "and", "or", "xor")), kind)
    where, dtype = b.where, dtype_of(kind)

    def step(x: Context) -> None:
        offsets = flat_offsets(x, address(x), where, dtype.itemsize)
        bars = [mbarriers(x.batch).get(x, o, where) for o in flat_offsets(x, barrier(x), where).tolist()]
        data, batch = np.array(x.get(value)), x.batch

        def run() -> None:
            from ptxgym.devices.simulator.instructions.atomics import apply

            apply(batch.state.shared.typed(dtype), offsets // dtype.itemsize, update, [data])
            for bar in bars:
                mbarriers(batch).complete(bar, dtype.itemsize)

        batch.later(run)

    return step
