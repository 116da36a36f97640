"""A client that speaks the protocol by itself, so that it can also speak it wrong."""

from __future__ import annotations

import array
import socket
import struct

from ptxgym.devices.simulator.runtime.protocol import REPLY, REQUEST, VERSION, Operation


class HostileClient:
    """A connection to a simulator."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        try:
            self.socket.connect(f"\0{address}")
        except OSError:
            self.socket.close()
            raise

    def __enter__(self) -> HostileClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def hello(self) -> tuple[list[int], int]:
        """Greet; the words and the file descriptor that come back."""
        self.send(Operation.HELLO, VERSION)
        header, ancillary, _, _ = self.socket.recvmsg(REPLY.size, socket.CMSG_SPACE(4))
        descriptors = array.array("i")
        for _, _, data in ancillary:
            descriptors.frombytes(data[:4])
        code, words, size = REPLY.unpack(header)
        assert code == 0
        values = list(struct.unpack(f"={words}Q", self.exactly(8 * words)))
        self.exactly(size)
        return values, descriptors[0]

    def ask(self, operation: int, *words: int, data: bytes = b"") -> tuple[int, list[int], bytes]:
        """Code, words and data of the reply."""
        self.send(operation, *words, data=data)
        code, count, size = REPLY.unpack(self.exactly(REPLY.size))
        return code, list(struct.unpack(f"={count}Q", self.exactly(8 * count))), self.exactly(size)

    def send(self, operation: int, *words: int, data: bytes = b"") -> None:
        """Send a request and do not wait."""
        packed = struct.pack(f"={len(words)}Q", *(word & (1 << 64) - 1 for word in words))
        self.socket.sendall(REQUEST.pack(operation, len(words), len(data)) + packed + data)

    def exactly(self, size: int) -> bytes:
        """So many bytes.

        Raises:
            ConnectionError: The other side hung up.
        """
        data = b""
        while len(data) < size:
            chunk = self.socket.recv(size - len(data))
            if not chunk:
                raise ConnectionResetError
            data += chunk
        return data
