"""What a check may watch.  Every method does nothing; a check overrides what it needs."""

from __future__ import annotations

from typing import Any


def watching(observers: list[Any], *events: str) -> list[Any]:
    """The observers that do something at any of these events; there are too many events to call the others."""
    return [o for o in observers if any(getattr(type(o), e) is not getattr(Observer, e) for e in events)]


class Observer:
    """Base of all checks.  ``x`` is the executing context, ``where`` the instruction's source line."""

    def __init__(self, batch: Any) -> None:
        self.batch = batch

    # -- memory --------------------------------------------------------------------------------------

    def on_access(self, x: Any, parts: Any, size: int, write: bool, where: Any) -> None:
        """A load or store of ``size`` bytes per lane."""

    def on_strong(self, x: Any, parts: Any, size: int, write: bool, where: Any) -> None:
        """A volatile, relaxed, acquiring or releasing access; by default like any other."""
        self.on_access(x, parts, size, write, where)

    def on_atomic(self, x: Any, parts: Any, size: int, where: Any) -> None:
        """An atomic operation."""

    def on_fence(self, x: Any, kind: str, where: Any) -> None:
        """A fence; ``kind`` is its modifiers."""

    def on_registers(self, x: Any, count: int, where: Any) -> None:
        """``setmaxnreg``."""

    # -- barriers ------------------------------------------------------------------------------------

    def on_exit(self, batch: Any, lanes: Any) -> None:
        """Lanes ended."""

    def on_warp_barrier(self, x: Any, where: Any) -> None:
        """``bar.warp.sync``."""

    def on_barrier(self, batch: Any, lanes: Any, number: int, where: Any) -> None:
        """A CTA barrier completed for these lanes."""

    def on_cluster_barrier(self, batch: Any, lanes: Any) -> None:
        """A cluster barrier completed."""

    def on_mbarrier_init(self, x: Any, offsets: Any, where: Any) -> None:
        """``mbarrier.init`` at these flat offsets."""

    def on_arriving(self, batch: Any, lanes: Any, barrier: Any) -> None:
        """Lanes are about to arrive."""

    def on_mbarrier_arrive(self, batch: Any, barrier: Any, where: Any) -> None:
        """A barrier counted arrivals."""

    def on_signal(self, batch: Any, lane: int, barriers: list[Any]) -> None:
        """A copy issued by this lane will signal these barriers."""

    def on_mbarrier_phase(self, batch: Any, barrier: Any) -> None:
        """A phase completed."""

    def on_mbarrier_granted(self, batch: Any, lanes: Any, barrier: Any, parity: int, where: Any) -> None:
        """Lanes that asked for a parity are told at once that its phase is complete; their wait comes next."""

    def on_mbarrier_wait(self, batch: Any, lanes: Any, barrier: Any) -> None:
        """Lanes saw a completed phase."""

    # -- asynchronous copies -------------------------------------------------------------------------

    def on_async_write(self, batch: Any, where: Any, lane: int, offset: int, size: int) -> Any:
        """A bulk copy into shared memory was issued; the result comes back in :meth:`on_async_done`."""

    def on_async_read(self, batch: Any, where: Any, lane: int, offset: int, size: int) -> Any:
        """A bulk copy out of shared memory was issued."""

    def on_async_done(self, batch: Any, tokens: list[Any], barriers: list[Any]) -> None:
        """Bulk copies are complete and signal these barriers."""

    def on_tile(self, batch: Any, places: list[int], size: int, swizzle: str) -> None:
        """A tensor copy writes a tile with this swizzle."""

    def on_bulk_commit(self, x: Any) -> None:
        """``cp.async.bulk.commit_group``."""

    def on_bulk_wait(self, x: Any, allowed: int, read_only: bool) -> None:
        """``cp.async.bulk.wait_group``."""

    def on_thread_copy(self, x: Any, targets: Any, size: int, where: Any) -> Any:
        """``cp.async`` was issued."""

    def on_thread_copy_done(self, batch: Any, token: Any) -> None:
        """``cp.async`` is complete."""

    # -- cluster launch control ----------------------------------------------------------------------

    def on_cancel_request(self, batch: Any, request: Any) -> None:
        """``clusterlaunchcontrol.try_cancel`` was issued."""

    def on_cancel_answer(self, batch: Any, request: Any) -> None:
        """Its answer is written and signals the request's barriers."""

    def on_cancel_query(self, x: Any, answers: Any, ctaid: bool, where: Any) -> None:
        """``query_cancel`` reads answers: whether they grant a cluster, or (``ctaid``) which."""

    # -- tensor cores --------------------------------------------------------------------------------

    def on_wgmma_fence(self, x: Any, lanes: Any, where: Any) -> None:
        """``wgmma.fence`` of a warpgroup."""

    def on_wgmma(self, x: Any, lanes: Any, registers: Any, inputs: Any, where: Any) -> None:
        """``wgmma.mma_async`` of a warpgroup."""

    def on_wgmma_commit(self, x: Any, lanes: Any) -> None:
        """``wgmma.commit_group`` of a warpgroup."""

    def on_wgmma_wait(self, x: Any, lanes: Any, allowed: int) -> None:
        """``wgmma.wait_group`` of a warpgroup."""

    def on_tensor_access(
        self, batch: Any, kind: str, lane: int, cta: int, sixteens: slice, columns: slice, where: Any
    ) -> None:
        """A thread touches tensor memory of a CTA: groups of 16 of its lanes, and columns.

        ``kind`` is ``ld``, ``st``, ``mma`` (D), ``operand`` (what an mma only reads), ``cp``, ``shift`` or ``dealloc``.
        """

    def on_tensor_fence(self, x: Any, after: bool) -> None:
        """``tcgen05.fence::after_thread_sync``, or ``before_thread_sync``."""

    def on_tensor_wait(self, x: Any, kind: str) -> None:
        """``tcgen05.wait::ld`` or ``wait::st``."""

    def on_tensor_commit_issue(self, batch: Any, lane: int) -> None:
        """``tcgen05.commit`` was issued; :meth:`on_tensor_commit` follows when it arrives."""

    def on_tensor_commit(self, x: Any, barriers: list[Any]) -> None:
        """``tcgen05.commit``: the thread's tensor instructions so far are over, these barriers tell it."""

    def on_operand(self, x: Any, lanes: Any, lines: Any, descriptor: Any, where: Any, name: str) -> None:
        """A tensor instruction reads a tile (numbers of 128-byte lines) of shared memory."""
