"""The device's memory as host code uses it: allocations, copies and fills, kept in step with the executor's view."""

from __future__ import annotations

import secrets
import struct
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ptxgym.devices.simulator.memory import Allocation, GlobalMemory
from ptxgym.devices.simulator.runtime.arena import Allocator, Arena, Block
from ptxgym.devices.simulator.runtime.protocol import BOUNCE_BYTES, HANDLE_BYTES, Code, MemoryKind, RequestError

_CANDIDATES = (MemoryKind.DEVICE, MemoryKind.PINNED, MemoryKind.MANAGED)
_SHOWN = (MemoryKind.PINNED, MemoryKind.MANAGED)
"""What host code may follow a pointer into."""
_MOST_ROWS = 1 << 20
_LARGEST = 1 << 48


class DeviceMemory:
    """Allocations in the arena.

    Args:
        arena: The bytes.
        executor: The executor's memory, which is told of every allocation.
    """

    def __init__(self, arena: Arena, executor: GlobalMemory) -> None:
        self.arena = arena
        self._executor = executor
        self._hidden = Allocator(arena.start, arena.hidden_size)
        self._shown = Allocator(arena.shown_start + BOUNCE_BYTES, arena.shown_size - BOUNCE_BYTES)
        self._handles: dict[bytes, Block] = {}
        self._count = 0
        self.exhausted = ""
        """What did not fit here though the GPU would have had room."""

    # -- allocations

    def allocate(
        self,
        size: int,
        kind: MemoryKind,
        label: str = "",
        *,
        initialised: bool | None = None,
        readonly: bool = False,
        most: int | None = None,
    ) -> Block:
        """Make an allocation.

        Args:
            size: Bytes.
            kind: Whose it is.
            label: For messages; by default numbered by kind.
            initialised: Whether its content counts as written; by default only memory that the host can reach does.
            readonly: Kernels may not write it.
            most: What the GPU would have; more is out of memory there too.

        Raises:
            RequestError: There is no room.
        """
        if size <= 0:
            raise RequestError(Code.INVALID_VALUE)
        if most is not None and size > most:
            raise RequestError(Code.OUT_OF_MEMORY)
        self._count += 1
        label = label or f"{kind.name.lower()} allocation {self._count}"
        block = (self._shown if kind in _SHOWN else self._hidden).allocate(size, kind, label)
        if block is None:
            self.exhausted = self.exhausted or f"an allocation of {size:,} bytes ({self.free_bytes():,} are free)"
            raise RequestError(Code.OUT_OF_MEMORY)
        if initialised is None:
            initialised = kind is not MemoryKind.DEVICE
        flags = None if initialised else np.zeros(size, np.bool_)
        self._executor.add(
            block.address, size, self.arena.view(block.address, size), label, initialised=flags, readonly=readonly
        )
        return block

    def free(self, address: int, kind: MemoryKind) -> None:
        """Free what the candidate allocated. ``kind`` says by which call: pinned memory has its own.

        Raises:
            RequestError: Nothing of that kind starts there.
        """
        block = self._hidden.at(address) or self._shown.at(address)
        pinned = kind is MemoryKind.PINNED
        if block is None or block.kind not in _CANDIDATES or (block.kind is MemoryKind.PINNED) != pinned:
            raise RequestError(Code.INVALID_VALUE)
        self.drop(block)

    def drop(self, block: Block) -> None:
        """Free an allocation of anyone's."""
        self._executor.remove(block.address)
        (self._shown if block.kind in _SHOWN else self._hidden).release(block)
        self.arena.forget(block.address, block.size)
        self._handles = {handle: other for handle, other in self._handles.items() if other is not block}

    def around(self, address: int) -> Block:
        """The allocation that holds an address.

        Raises:
            RequestError: There is none.
        """
        block = self._hidden.around(address) or self._shown.around(address)
        if block is None:
            raise RequestError(Code.INVALID_VALUE)
        return block

    def free_bytes(self) -> int:
        """Bytes that could still be allocated."""
        return self._hidden.free

    # -- the judge's buffers

    def make_handle(self, block: Block) -> bytes:
        """A ``CUipcMemHandle`` that opens a buffer of the judge's."""
        handle = struct.pack("=QQ", block.address, block.size) + secrets.token_bytes(HANDLE_BYTES - 16)
        self._handles[handle] = block
        return handle

    def open_handle(self, handle: bytes) -> int:
        """The address that a handle stands for.

        Raises:
            RequestError: It is no handle that was given out.
        """
        block = self._handles.get(handle)
        if block is None:
            raise RequestError(Code.INVALID_VALUE)
        block.opened += 1
        return block.address

    def close_handle(self, address: int) -> None:
        """Undo one opening; the judge frees the buffer.

        Raises:
            RequestError: Nothing is open there.
        """
        block = self._hidden.at(address) or self._shown.at(address)
        if block is None or not block.opened:
            raise RequestError(Code.INVALID_VALUE)
        block.opened -= 1

    def renew(self, address: int) -> None:
        """Let a buffer's content count as not written; the judge has poisoned it."""
        allocation = self._executor.find(address)
        if allocation is not None and allocation.initialised is not None:
            allocation.initialised[:] = False

    # -- access

    def check(self, address: int, pitch: int, width: int, height: int) -> None:
        """See that rows lie in one allocation.

        Raises:
            RequestError: They do not.
        """
        self._range(address, pitch, width, height)

    def upload(self, address: int, pitch: int, width: int, height: int) -> int:
        """Copy rows out of the bounce buffer; returns their bytes.

        Raises:
            RequestError: They are not inside one allocation, or more than the buffer.
        """
        allocation = self._range(address, pitch, width, height)
        packed = self._bounced(width, height)
        for row, start in enumerate(_rows(address - allocation.address, pitch, height)):
            allocation.bytes[start : start + width] = packed[row]
            if allocation.initialised is not None:
                allocation.initialised[start : start + width] = True
        return width * height

    def download(self, address: int, pitch: int, width: int, height: int) -> int:
        """Copy rows into the bounce buffer; returns their bytes.

        Raises:
            RequestError: They are not inside one allocation, or more than the buffer.
        """
        allocation = self._range(address, pitch, width, height)
        packed = self._bounced(width, height)
        for row, start in enumerate(_rows(address - allocation.address, pitch, height)):
            packed[row] = allocation.bytes[start : start + width]
        return width * height

    def _bounced(self, width: int, height: int) -> npt.NDArray[np.uint8]:
        if width * height > BOUNCE_BYTES:
            raise RequestError(Code.INVALID_VALUE)
        return self.arena.view(self.arena.shown_start, width * height).reshape(height, width)

    def copy(self, target: int, target_pitch: int, source: int, source_pitch: int, width: int, height: int) -> None:
        """Copy rows on the device.

        Raises:
            RequestError: One end is not inside one allocation.
        """
        to = self._range(target, target_pitch, width, height)
        origin = self._range(source, source_pitch, width, height)
        starts = zip(
            _rows(target - to.address, target_pitch, height),
            _rows(source - origin.address, source_pitch, height),
            strict=True,
        )
        for there, here in starts:
            to.bytes[there : there + width] = origin.bytes[here : here + width]
            if to.initialised is not None:
                known = True if origin.initialised is None else origin.initialised[here : here + width]
                to.initialised[there : there + width] = known

    def fill(self, target: int, pitch: int, value: int, size: int, width: int, height: int) -> None:
        """Fill rows of ``width`` elements of ``size`` bytes.

        Raises:
            RequestError: It is not inside one allocation, or misaligned.
        """
        if size not in (1, 2, 4) or target % size or width > _LARGEST:
            raise RequestError(Code.INVALID_VALUE)
        allocation = self._range(target, pitch, width * size, height)
        element = np.frombuffer((value & (1 << 8 * size) - 1).to_bytes(size, "little"), np.uint8)
        for start in _rows(target - allocation.address, pitch, height):
            row: npt.NDArray[np.uint8] = allocation.bytes[start : start + width * size]
            row.reshape(width, size)[:] = element
            if allocation.initialised is not None:
                allocation.initialised[start : start + width * size] = True

    def _range(self, address: int, pitch: int, width: int, height: int) -> Allocation:
        """The allocation that holds all rows."""
        if not (0 < width <= _LARGEST and 0 < height <= _MOST_ROWS and pitch <= _LARGEST):
            raise RequestError(Code.INVALID_VALUE)
        if height > 1 and pitch < width:
            raise RequestError(Code.INVALID_VALUE)
        allocation = self._executor.find(address)
        if allocation is None or address + pitch * (height - 1) + width > allocation.end:
            raise RequestError(Code.INVALID_VALUE)
        return allocation


def _rows(start: int, pitch: int, height: int) -> Iterator[int]:
    return (start + row * pitch for row in range(height))
