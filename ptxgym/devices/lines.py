"""Lines from a process that may send anything, or nothing."""

from __future__ import annotations

import socket
import time


class LineReader:
    """Reads a socket line by line, each within its time and of bounded length.

    Args:
        connection: Where from; its timeout is changed.
        most: Bytes that may come without an end of line.
    """

    def __init__(self, connection: socket.socket, most: int) -> None:
        self._connection, self._most = connection, most
        self._buffer = bytearray()

    def read(self, deadline: float) -> bytes:
        """The next line, without its end.

        Args:
            deadline: By :func:`time.monotonic`.

        Raises:
            TimeoutError: It did not come in time.
            ConnectionResetError: The other end was closed.
            ValueError: It is too long.
        """
        while b"\n" not in self._buffer:
            if len(self._buffer) > self._most:
                raise ValueError("reply too long")
            self._connection.settimeout(max(0.001, deadline - time.monotonic()))
            chunk = self._connection.recv(1 << 20)
            if not chunk:
                raise ConnectionResetError
            self._buffer += chunk
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        return line
