"""The messages between the candidate's process and the simulator; ``csrc/protocol.h`` is the other side.

The sender may be hostile. Everything is bounded here, and nothing is believed before it was checked.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

VERSION = 1
MOST_WORDS = 40
MOST_BYTES = 16 << 20
BOUNCE_BYTES = 4 << 20
HANDLE_BYTES = 64
ATTRIBUTES = 256

REQUEST = struct.Struct("=IIQ")
REPLY = struct.Struct("=iIQ")
PARAMETER = struct.Struct("=II")
"""Offset and size of a kernel's parameter."""


class Operation(IntEnum):
    """What is asked; the arguments stand in ``csrc/protocol.h``."""

    HELLO = 1
    ALLOCATE = 2
    FREE = 3
    OPEN_HANDLE = 4
    CLOSE_HANDLE = 5
    POINTER = 6
    MEMORY_INFO = 7
    CHECK = 8
    COPY = 9
    FILL = 10
    LOAD_MODULE = 11
    UNLOAD_MODULE = 12
    FUNCTION = 13
    VARIABLE = 14
    GET_ATTRIBUTE = 15
    SET_ATTRIBUTE = 16
    LAUNCH = 17
    OCCUPANCY = 18
    CLUSTER_OCCUPANCY = 19
    AVAILABLE_SHARED = 20
    ENCODE_TILED = 21
    ENCODE_IM2COL = 22
    REPLACE_ADDRESS = 23
    REFUSED = 24
    UPLOAD = 25
    DOWNLOAD = 26


class MemoryKind(IntEnum):
    """Whose an allocation is."""

    UNKNOWN = 0
    DEVICE = 1
    PINNED = 2
    MANAGED = 3
    JUDGE = 4
    VARIABLE = 5


class Code(IntEnum):
    """The ``CUresult`` values that are used here."""

    SUCCESS = 0
    INVALID_VALUE = 1
    OUT_OF_MEMORY = 2
    INVALID_IMAGE = 200
    INVALID_PTX = 218
    INVALID_HANDLE = 400
    NOT_FOUND = 500
    ILLEGAL_ADDRESS = 700
    LAUNCH_OUT_OF_RESOURCES = 701
    LAUNCH_TIMEOUT = 702
    ASSERT = 710
    ILLEGAL_INSTRUCTION = 715
    MISALIGNED_ADDRESS = 716
    LAUNCH_FAILED = 719
    COOPERATIVE_LAUNCH_TOO_LARGE = 720
    NOT_PERMITTED = 800
    NOT_SUPPORTED = 801
    DRIVER_MISMATCH = 803
    INVALID_CLUSTER_SIZE = 912
    UNKNOWN = 999


class RequestError(Exception):
    """A request that is answered with an error.

    Args:
        code: What the host code gets.
        hint: What was wrong, for the kernel's writer.
        refused: What this runtime lacks, when that is the reason.
    """

    def __init__(self, code: Code, hint: str = "", refused: str = "") -> None:
        super().__init__(code.name)
        self.code, self.hint, self.refused = code, hint, refused


class ProtocolError(Exception):
    """A message that no shim of ours sends; the connection is closed."""


@dataclass(frozen=True, slots=True)
class Request:
    """One question."""

    operation: int
    words: tuple[int, ...]
    data: bytes

    def word(self, index: int) -> int:
        """An argument, zero where the sender left it out."""
        return self.words[index] if index < len(self.words) else 0

    def signed(self, index: int) -> int:
        """An argument that may be negative."""
        value = self.word(index)
        return value - (1 << 64) if value >> 63 else value

    def text(self) -> str:
        """The data as a name.

        Raises:
            RequestError: It is none.
        """
        try:
            return self.data.decode("utf-8")
        except UnicodeDecodeError:
            raise RequestError(Code.NOT_FOUND) from None


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer."""

    words: tuple[int, ...] = ()
    data: bytes = b""


def take_request(buffer: bytearray) -> Request | None:
    """Take one whole request off the front of a buffer; None while it is incomplete.

    Raises:
        ProtocolError: It is too long.
    """
    if len(buffer) < REQUEST.size:
        return None
    operation, words, size = REQUEST.unpack_from(buffer)
    if words > MOST_WORDS or size > MOST_BYTES:
        raise ProtocolError(f"a request of {words} words and {size} bytes")
    start = REQUEST.size + 8 * words
    if len(buffer) < start + size:
        return None
    arguments = struct.unpack_from(f"={words}Q", buffer, REQUEST.size)
    request = Request(operation, arguments, bytes(buffer[start : start + size]))
    del buffer[: start + size]
    return request


def pack_reply(code: int, reply: Reply) -> bytes:
    """A reply as bytes."""
    words = [word & (1 << 64) - 1 for word in reply.words]
    return REPLY.pack(code, len(words), len(reply.data)) + struct.pack(f"={len(words)}Q", *words) + reply.data
