"""Device memory: two sparse memory files behind one range of device addresses.

The judge and the simulator map the first, which holds what a GPU would hold. The second holds pinned and managed
memory; the candidate's process may map it too, and nothing else.
"""

from __future__ import annotations

import bisect
import contextlib
import fcntl
import mmap
import os
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ptxgym.devices.simulator.runtime.protocol import MemoryKind

BASE = 0x2000_0000_0000
"""The device address of the first byte, the same in every process: far from where Linux puts libraries, heaps and
stacks, and from the windows of :mod:`ptxgym.devices.simulator.memory`."""

HIDDEN_BYTES = 4 << 30
"""Sparse: only what is written takes memory. It also bounds what a hostile candidate can take."""
SHOWN_BYTES = 1 << 30

_PAGE = 4096
_RED_ZONE = 64 << 10
"""Between allocations, so that a small overrun meets no neighbour."""
_MOST_ALLOCATIONS = 16384


class Arena:
    """The memory files, mapped into this process.

    Args:
        descriptors: Of files that another process made; new ones without.
    """

    def __init__(self, descriptors: tuple[int, int] | None = None) -> None:
        self.descriptors = descriptors or (_memory_file(HIDDEN_BYTES), _memory_file(SHOWN_BYTES))
        self._maps = [mmap.mmap(fd, os.fstat(fd).st_size) for fd in self.descriptors]
        self._bytes: list[npt.NDArray[np.uint8]] = [np.frombuffer(each, np.uint8) for each in self._maps]
        self.start = BASE
        self.hidden_size, self.shown_size = (each.size for each in self._bytes)
        self.shown_start = BASE + self.hidden_size
        self.size = self.hidden_size + self.shown_size

    def view(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        """The bytes at a device address, which the caller has checked."""
        part, start = self._place(address)
        return self._bytes[part][start : start + size]

    def forget(self, address: int, size: int) -> None:
        """Give the memory of whole pages back to the system."""
        part, start = self._place(address)
        first, last = -(-start // _PAGE), (start + size) // _PAGE
        if last > first:
            with contextlib.suppress(OSError):  # a kernel that cannot keeps the bytes, which is legal too
                self._maps[part].madvise(mmap.MADV_REMOVE, first * _PAGE, (last - first) * _PAGE)

    def close(self) -> None:
        """Close the files and end the mappings; no view may be used any more."""
        self._bytes.clear()
        self._maps.clear()
        for fd in self.descriptors:
            os.close(fd)

    def _place(self, address: int) -> tuple[int, int]:
        shown = address >= self.shown_start
        return int(shown), address - (self.shown_start if shown else self.start)


def _memory_file(size: int) -> int:
    fd = os.memfd_create("ptxgym-arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    # Whoever maps it could otherwise shorten it, and the others would end with SIGBUS.
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return fd


@dataclass(slots=True)
class Block:
    """One allocation."""

    address: int
    size: int
    kind: MemoryKind
    label: str
    opened: int = 0
    """How often the candidate has it open (the judge's buffers)."""

    @property
    def end(self) -> int:
        """The first address after it."""
        return self.address + self.size


class Allocator:
    """Decides where allocations lie. Addresses are reused as late as possible, so that use after free shows."""

    def __init__(self, start: int, size: int) -> None:
        self._size = size
        self._end = start + size
        self._starts: list[int] = []
        self._blocks: dict[int, Block] = {}
        self._first = self._next = start + _RED_ZONE

    def allocate(self, size: int, kind: MemoryKind, label: str) -> Block | None:
        """Place an allocation on a page of its own; None when there is no room."""
        if len(self._starts) >= _MOST_ALLOCATIONS or size > self._size:
            return None
        for start in (self._next, self._first):
            address = self._gap(start, size)
            if address is not None:
                block = Block(address, size, kind, label)
                bisect.insort(self._starts, address)
                self._blocks[address] = block
                self._next = _behind(block)
                return block
        return None

    def release(self, block: Block) -> None:
        """Forget an allocation."""
        self._starts.remove(block.address)
        del self._blocks[block.address]

    def at(self, address: int) -> Block | None:
        """The allocation that starts here."""
        return self._blocks.get(address)

    def around(self, address: int) -> Block | None:
        """The allocation that holds an address."""
        index = bisect.bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        block = self._blocks[self._starts[index]]
        return block if address < block.end else None

    @property
    def free(self) -> int:
        """Bytes not allocated."""
        return self._size - sum(block.size for block in self._blocks.values())

    def _gap(self, start: int, size: int) -> int | None:
        """The first place from ``start`` on with room."""
        index = bisect.bisect_left(self._starts, start)
        if index:
            start = max(start, _behind(self._blocks[self._starts[index - 1]]))
        for following in self._starts[index:]:
            if start + size + _RED_ZONE <= following:
                return start
            start = _behind(self._blocks[following])
        return start if start + size + _RED_ZONE <= self._end else None


def _behind(block: Block) -> int:
    return -(-(block.end + _RED_ZONE) // _PAGE) * _PAGE
