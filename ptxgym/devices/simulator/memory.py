"""Device memory: allocations at device addresses, and the windows of the generic address space.

PTX ISA 5.1 (state spaces) and 6.4.1 (generic addressing).  An address belongs to one allocation, or it is
out of bounds; nothing is promised about the distance between allocations, only that reading between them
is found.
"""

from __future__ import annotations

import bisect
from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]

SHARED_WINDOW = 0x7E00_0000_0000
LOCAL_WINDOW = 0x7D00_0000_0000
PARAM_WINDOW = 0x7C00_0000_0000
MODULE_WINDOW = 0x7B00_0000_0000
"""Where a launch puts the module's variables that nobody placed before."""
WINDOW_SIZE = 0x100_0000_0000


class BadAddress(Exception):  # noqa: N818 -- internal; becomes a DeviceFault where the thread is known
    """An access that a GPU would refuse."""

    def __init__(self, code: str, position: int, detail: str) -> None:
        self.code = code
        self.position = position
        """Which of the addresses."""
        self.detail = detail
        super().__init__(detail)


class ByteBuffer:
    """Bytes, seen as any type."""

    __slots__ = ("_typed", "bytes", "size")

    def __init__(self, data: Bytes) -> None:
        self.bytes = data
        self.size = data.size
        self._typed: dict[np.dtype[Any], npt.NDArray[Any]] = {}

    def typed(self, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """The longest prefix that holds whole elements."""
        view = self._typed.get(dtype)
        if view is None:
            whole = self.size // dtype.itemsize * dtype.itemsize
            view = self._typed[dtype] = self.bytes[:whole].view(dtype)
        return view


class Allocation(ByteBuffer):
    """A block of global or constant memory."""

    __slots__ = ("address", "initialised", "label", "readonly")

    def __init__(
        self, address: int, data: Bytes, label: str, initialised: npt.NDArray[np.bool_] | None, readonly: bool
    ) -> None:
        super().__init__(data)
        self.address = address
        self.label = label
        self.initialised = initialised
        """One flag per byte; None when nothing is known, then every byte counts as written."""
        self.readonly = readonly

    @property
    def end(self) -> int:
        """The first address after it."""
        return self.address + self.size


Part = tuple[ByteBuffer, Offsets, npt.NDArray[np.intp] | None]
"""A buffer, byte offsets into it, and which of the asked addresses they belong to (None: all of them)."""


class GlobalMemory:
    """The device's allocations."""

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._allocations: list[Allocation] = []
        self._freed: dict[int, tuple[int, str]] = {}

    def add(
        self,
        address: int,
        size: int,
        view: Bytes,
        label: str,
        *,
        initialised: npt.NDArray[np.bool_] | None = None,
        readonly: bool = False,
    ) -> Allocation:
        """Add an allocation.

        Args:
            address: Device address, a multiple of 16.
            size: Bytes.
            view: The bytes themselves, shared with whoever owns them.
            label: Name for messages.
            initialised: One flag per byte; reads of unset bytes become findings.
            readonly: Writes are faults (``.const``).

        Raises:
            ValueError: The range overlaps another allocation, or the address is not aligned.
        """
        if address % 16 or size > view.size:
            raise ValueError(f"allocation {label!r}: address {address:#x} must be a multiple of 16 and {size} "
                             f"bytes must fit its view of {view.size}")  # fmt: skip
        at = bisect.bisect_right(self._bases, address)
        before = self._allocations[at - 1] if at else None
        after = self._allocations[at] if at < len(self._allocations) else None
        if (before and before.end > address) or (after and after.address < address + size):
            raise ValueError(f"allocation {label!r} at {address:#x} overlaps another")
        allocation = Allocation(address, view[:size], label, initialised, readonly)
        self._bases.insert(at, address)
        self._allocations.insert(at, allocation)
        self._freed.pop(address, None)
        return allocation

    def remove(self, address: int) -> None:
        """Free the allocation that starts at ``address``; later accesses are found as use after free."""
        at = bisect.bisect_left(self._bases, address)
        if at == len(self._bases) or self._bases[at] != address:
            raise KeyError(f"no allocation starts at {address:#x}")
        gone = self._allocations.pop(at)
        self._bases.pop(at)
        self._freed[address] = (gone.size, gone.label)

    def allocations(self) -> tuple[Allocation, ...]:
        """All, by address."""
        return tuple(self._allocations)

    def find(self, address: int) -> Allocation | None:
        """The allocation that holds an address."""
        at = bisect.bisect_right(self._bases, address) - 1
        if at >= 0 and address < self._allocations[at].end:
            return self._allocations[at]
        return None

    def span(self, address: int, size: int) -> Bytes:
        """The bytes of a range inside one allocation.

        Raises:
            BadAddress: It is not inside one.
        """
        found = self.find(address)
        if found is None or address + size > found.end:
            raise self._explain(np.array([address], np.uint64), size)
        start = address - found.address
        return found.bytes[start : start + size]

    def locate(self, addresses: npt.NDArray[np.uint64], size: int) -> list[Part]:
        """Where accesses of ``size`` bytes at these addresses go.

        Raises:
            BadAddress: One of them is outside every allocation, or not a multiple of ``size``.
        """
        found = self.find(int(addresses[0]))
        if found is None:
            return self._locate_many(addresses, size)
        # As unsigned numbers, addresses below the allocation are beyond its end: one comparison covers both.
        offsets = addresses - np.uint64(found.address)
        # All offsets' bits together show misalignment, and no offset is larger.
        bits = int(np.bitwise_or.reduce(offsets))
        if bits + size > found.size and int(offsets.max()) + size > found.size:
            return self._locate_many(addresses, size)
        if bits & (size - 1):
            raise self._misaligned(addresses, size)
        return [(found, offsets.view(np.int64), None)]

    @staticmethod
    def _misaligned(addresses: npt.NDArray[np.uint64], size: int) -> BadAddress:
        position = int(np.flatnonzero(addresses & np.uint64(size - 1))[0])
        return BadAddress("misaligned", position, f"address {int(addresses[position]):#x} is not a multiple of {size}")

    def _locate_many(self, addresses: npt.NDArray[np.uint64], size: int) -> list[Part]:
        if int(np.bitwise_or.reduce(addresses)) & (size - 1):
            raise self._misaligned(addresses, size)
        which = np.searchsorted(np.array(self._bases, np.uint64), addresses, side="right") - 1
        parts: list[Part] = []
        for at in np.unique(which):
            chosen = np.flatnonzero(which == at)
            group = addresses[chosen]
            if at < 0 or int(group.max()) + size > self._allocations[at].end:
                raise self._explain(addresses, size)
            found = self._allocations[at]
            parts.append((found, (group - np.uint64(found.address)).view(np.int64), chosen))
        return parts

    def _explain(self, addresses: npt.NDArray[np.uint64], size: int) -> BadAddress:
        for position, address in enumerate(addresses.tolist()):
            found = self.find(address)
            if found is not None and address + size <= found.end:
                continue
            return self._explain_one(position, address, size)
        raise AssertionError("every address was valid")

    def _explain_one(self, position: int, address: int, size: int) -> BadAddress:
        for base, (length, label) in self._freed.items():
            if base <= address < base + length:
                return BadAddress("use-after-free", position, f"{size} bytes at {address:#x}, in {label} (freed)")
        at = bisect.bisect_right(self._bases, address) - 1
        near = []
        if at >= 0:
            before = self._allocations[at]
            past = address + size - before.end
            near.append((past, f"{past} bytes past the end of {before.label} ({before.size} bytes)"))
        if at + 1 < len(self._allocations):
            after = self._allocations[at + 1]
            near.append((after.address - address, f"{after.address - address} bytes before {after.label}"))
        if address < 0x1000:
            return BadAddress("out-of-bounds", position, f"{size} bytes at {address:#x}, a null pointer")
        text = min(near)[1] if near else "no allocation exists"
        return BadAddress("out-of-bounds", position, f"{size} bytes at {address:#x}, {text}")
