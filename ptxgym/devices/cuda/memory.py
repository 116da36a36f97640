"""Device memory that the judge owns and lends to a candidate's process by CUDA IPC."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ptxgym.devices.candidate import IpcHandle
from ptxgym.errors import InfrastructureError

if TYPE_CHECKING:
    import torch

_ALIGNMENT = 2 << 20
"""An IPC handle shares whole driver blocks of 2 MiB; a buffer fills its own so that nothing else is lent with it."""
_GUARD = 64 << 10
_POISON = 0xFF
"""Bytes of a NaN in bf16 and fp32, so that an output that was not written cannot be right."""
_GUARD_BYTE = 0xA5


class Driver:
    """The few calls of the CUDA driver API that torch does not offer, on one device's primary context.

    Args:
        index: The device as torch counts it.

    Raises:
        InfrastructureError: The driver's library is missing or refuses.
    """

    def __init__(self, index: int) -> None:
        import torch

        torch.cuda.init()
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise InfrastructureError(f"The CUDA driver cannot be loaded: {error}") from None
        device = ctypes.c_int()
        self._context = ctypes.c_void_p()
        self._call("cuDeviceGet", ctypes.byref(device), index)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)

    def allocate(self, size: int) -> int:
        """The address of fresh device memory."""
        self._make_current()
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def free(self, address: int) -> None:
        """Give memory back; an error is passed over, since nothing can be done about it."""
        self._make_current()
        self._library.cuMemFree_v2(ctypes.c_uint64(address))

    def handle(self, address: int) -> str:
        """The IPC handle of an allocation, in hexadecimal."""
        self._make_current()
        handle = IpcHandle()
        self._call("cuIpcGetMemHandle", ctypes.byref(handle), ctypes.c_uint64(address))
        return bytes(handle).hex()

    def _make_current(self) -> None:
        self._call("cuCtxSetCurrent", self._context)

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            raise InfrastructureError(f"{name} returned CUDA error {code}.")


class SharedBuffer:
    """Device memory with a guard behind its end, which torch sees and another process can open.

    Args:
        driver: Of the device.
        index: The device as torch counts it.
        size: Bytes that are lent.
    """

    def __init__(self, driver: Driver, index: int, size: int) -> None:
        import torch

        self._driver = driver
        self.size = size
        self._allocated = -(-(size + _GUARD) // _ALIGNMENT) * _ALIGNMENT
        self._address = driver.allocate(self._allocated)
        self.handle = driver.handle(self._address)
        self._bytes = torch.as_tensor(_Span(self._address, self._allocated), device=f"cuda:{index}")
        self.guard.fill_(_GUARD_BYTE)

    def view(self, dtype: torch.dtype, size: tuple[int, ...]) -> torch.Tensor:
        """The lent bytes as a tensor."""
        return self._bytes[: self.size].view(dtype).view(size)

    def poison(self) -> None:
        """Fill with bytes that no right output has."""
        self._bytes[: self.size].fill_(_POISON)

    def free(self) -> None:
        """Give the memory back; no view may be used any more."""
        self._driver.free(self._address)

    @property
    def guard(self) -> torch.Tensor:
        """The bytes behind the end, which nobody may write."""
        return self._bytes[self.size : self.size + _GUARD]


def overrun(buffers: Sequence[SharedBuffer]) -> list[bool]:
    """Behind the end of which buffers something was written; their guards are then made good."""
    import torch

    damaged: list[bool] = (torch.stack([buffer.guard for buffer in buffers]) != _GUARD_BYTE).any(dim=1).tolist()
    for buffer, is_damaged in zip(buffers, damaged, strict=True):
        if is_damaged:
            buffer.guard.fill_(_GUARD_BYTE)
    return damaged


class _Span:
    """Device memory as other libraries may wrap it (the CUDA array interface, version 3)."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }
