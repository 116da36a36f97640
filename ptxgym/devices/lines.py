"""Lines from a process that may send anything, or nothing."""

from __future__ import annotations

import select
import socket
import time


class LineReader:
    """Reads a socket line by line, each within its time and of bounded length.

    Args:
        connection: Where from.
        most: Bytes that may come without an end of line.
        sender: A process as :func:`os.pidfd_open` gives it, after whose end nothing more is waited for, though others
            may hold the connection.
    """

    def __init__(self, connection: socket.socket, most: int, sender: int | None = None) -> None:
        self._connection, self._most = connection, most
        self._buffer = bytearray()
        self._poll = select.poll()
        for descriptor in (connection.fileno(), sender):
            if descriptor is not None:
                self._poll.register(descriptor, select.POLLIN)

    def read(self, deadline: float) -> bytes:
        """The next line, without its end.

        Args:
            deadline: By :func:`time.monotonic`.

        Raises:
            TimeoutError: It did not come in time.
            ConnectionResetError: The other end was closed, or the sender has ended.
            ValueError: It is too long.
        """
        while b"\n" not in self._buffer:
            if len(self._buffer) > self._most:
                raise ValueError("reply too long")
            ready = self._poll.poll(1000 * max(0.001, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
            chunk = b""
            if self._connection.fileno() in (descriptor for descriptor, _ in ready):  # what it said before its end
                chunk = self._connection.recv(1 << 20)
            if not chunk:
                raise ConnectionResetError
            self._buffer += chunk
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        return line
