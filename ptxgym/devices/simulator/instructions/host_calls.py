"""Functions that CUDA's device runtime provides: ``vprintf``, ``malloc``, ``free``, ``__assertfail``."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

import numpy as np

from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.findings import SourceLine
from ptxgym.devices.simulator.lanes import LaneSet

HostFunction = Callable[[Context, int, list[int], SourceLine], int]

_SPECIFIER = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?(hh|h|ll|l|j|z|t|L)?([diouxXeEfFgGaAcsp%])")
MAX_OUTPUT = 1 << 20
HEAP_WINDOW = 0x7A00_0000_0000


def read_bytes(x: Context, lane: int, address: int, size: int, where: SourceLine) -> bytes:
    """Bytes at a generic address, for one lane."""
    whole = x.lanes
    try:
        x.lanes = LaneSet(np.array([lane], np.intp))
        data = bytearray()
        for offset in range(size):
            ((buffer, offsets, _),) = x.locate("", np.array([address + offset], np.uint64), 1, where)
            data.append(int(buffer.bytes[int(offsets[0])]))
        return bytes(data)
    finally:
        x.lanes = whole


def read_string(x: Context, lane: int, address: int, where: SourceLine, limit: int = 4096) -> str:
    """A zero-terminated string."""
    data = bytearray()
    while len(data) < limit:
        (byte,) = read_bytes(x, lane, address + len(data), 1, where)
        if byte == 0:
            break
        data.append(byte)
    return data.decode("utf-8", "replace")


def vprintf(x: Context, lane: int, arguments: list[int], where: SourceLine) -> int:
    """Format into the launch's output."""
    text = read_string(x, lane, arguments[0], where)
    output = x.batch.launch.output
    if sum(map(len, output[-1:])) < MAX_OUTPUT and len(output) < 65536:
        output.append(_Formatter(x, lane, arguments[1], where).format(text))
    return 0


class _Formatter:
    """Reads variadic arguments, each aligned to its own size, from the buffer that nvcc builds."""

    def __init__(self, x: Context, lane: int, buffer: int, where: SourceLine) -> None:
        self._x, self._lane, self._at, self._where = x, lane, buffer, where
        self._base = buffer

    def _take(self, size: int) -> bytes:
        self._at = self._base + -(-(self._at - self._base) // size) * size
        data = read_bytes(self._x, self._lane, self._at, size, self._where)
        self._at += size
        return data

    def format(self, text: str) -> str:
        return _SPECIFIER.sub(self._one, text)

    def _one(self, found: re.Match[str]) -> str:
        flags, width, precision, length, kind = found.groups()
        if kind == "%":
            return "%"
        width = str(struct.unpack("<i", self._take(4))[0]) if width == "*" else width or ""
        if precision == "*":
            precision = str(struct.unpack("<i", self._take(4))[0])
        spec = f"%{flags}{width}" + (f".{precision}" if precision is not None else "")
        return self._convert(spec, length, kind)

    def _convert(self, spec: str, length: str | None, kind: str) -> str:
        if kind in "eEfFgGaA":
            value = struct.unpack("<d", self._take(8))[0]
            return value.hex() if kind in "aA" else str((spec + kind) % value)
        if kind == "s":
            (pointer,) = struct.unpack("<Q", self._take(8))
            return str((spec + "s") % read_string(self._x, self._lane, pointer, self._where))
        if kind == "p":
            return str("0x%x" % struct.unpack("<Q", self._take(8))[0])  # noqa: UP031
        if kind == "c":
            return str((spec + "c") % chr(self._take(4)[0]))
        size = 8 if length in ("l", "ll", "j", "z", "t") else 4
        code = {4: "i", 8: "q"}[size]
        code = code if kind in "di" else code.upper()
        return str((spec + kind) % struct.unpack(f"<{code}", self._take(size))[0])


def malloc(x: Context, lane: int, arguments: list[int], where: SourceLine) -> int:
    """Device heap: a fresh allocation, or null when the heap's 8 MB are used up."""
    heap: dict[str, int] = x.batch.launch.heap
    size = arguments[0]
    if size == 0 or heap["used"] + size > 8 << 20:
        return 0
    address = HEAP_WINDOW + heap["next"]
    heap["next"] += -(-size // 256) * 256 + 256
    heap["used"] += size
    x.batch.memory.add(address, size, np.zeros(size, np.uint8), "device malloc")
    return address


def free(x: Context, lane: int, arguments: list[int], where: SourceLine) -> int:
    """Give a device allocation back."""
    if arguments[0]:
        try:
            x.batch.memory.remove(arguments[0])
        except KeyError:
            raise x.fault("bad-free", where, f"free of {arguments[0]:#x}, which malloc did not return") from None
    return 0


def assertfail(x: Context, lane: int, arguments: list[int], where: SourceLine) -> int:
    """A failed ``assert``."""
    message = read_string(x, lane, arguments[0], where)
    file = read_string(x, lane, arguments[1], where)
    place = x.batch.state.place(lane)
    x.batch.launch.output.append(f"{file}:{arguments[2]}: {place} Assertion `{message}` failed.\n")
    raise x.fault("assertion", where, f"assertion `{message}` failed")


HOST_FUNCTIONS: dict[str, HostFunction] = {
    "vprintf": vprintf,
    "malloc": malloc,
    "free": free,
    "__assertfail": assertfail,
}
