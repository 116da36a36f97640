"""The process that answers a candidate's CUDA calls: it has the device's memory and executes the PTX.

One process per candidate, beside the candidate's own, which reaches it only through the messages of
:mod:`~ptxgym.devices.simulator.runtime.protocol`. The judge tells it what to do through a socket of its own and asks
it afterwards what happened, so the evidence never passes through the candidate. Whatever a candidate sends, the worst
that it can do is to end this process, and with it its own run.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import threading
from typing import Any

from ptxgym.devices.simulator.runtime.arena import Arena
from ptxgym.devices.simulator.runtime.protocol import MemoryKind, ProtocolError, pack_reply, take_request
from ptxgym.devices.simulator.runtime.runtime import Runtime

_CHUNK = 1 << 20
_MEMORY = 12 << 30
"""Address space besides the arena's."""

_SHORTEST_WAIT = 0.02
"""Host code that waits for a processor has time left for as long as it waits."""


class Host:
    """Serves one judge and one candidate.

    Args:
        control: The judge's socket: a JSON object per line, one reply each.
        listener: Where the candidate's process connects, once.
        arena: The device's memory.
    """

    def __init__(self, control: socket.socket, listener: socket.socket, arena: Arena) -> None:
        self._control, self._listener = control, listener
        self._candidate: socket.socket | None = None
        self._requests = bytearray()
        self._orders = bytearray()
        self._arena = arena
        self._runtime: Runtime | None = None
        self._process: int | None = None
        """A descriptor of the candidate's process; its number alone could come to mean another's."""

    def serve(self) -> None:
        """Answer until the judge hangs up."""
        while True:
            # A whole request that is already here waits for no more bytes, but the judge comes first.
            ready = self._wait(0 if self._requests_waiting else self._patience())
            if self._control in ready and not self._obey():
                return
            if self._listener in ready:
                self._accept()
            if self._candidate in ready:
                self._receive()
            if self._requests_waiting:
                self._answer()
            elif not ready and self._host_seconds_left() == 0:
                self._need_runtime().note_idle_host()
                self._end_candidate()

    _requests_waiting = False

    def _patience(self) -> float | None:
        """How long to wait for the candidate's next request; None for ever."""
        left = self._host_seconds_left()
        return left if not left else max(left, _SHORTEST_WAIT)

    def _host_seconds_left(self) -> float | None:
        return self._runtime.host_seconds_left() if self._runtime is not None else None

    def _end_candidate(self) -> None:
        """Hang up, and have the judge not wait for it: end its process."""
        self._hang_up("")
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, signal.SIGKILL)

    def _wait(self, timeout: float | None) -> set[socket.socket | None]:
        watched = [self._control, self._listener if self._candidate is None else self._candidate]
        poll = select.poll()  # select knows 1024 descriptors, and the judge may have given higher ones
        by_descriptor = {each.fileno(): each for each in watched if each.fileno() >= 0}
        for descriptor in by_descriptor:
            poll.register(descriptor, select.POLLIN)
        milliseconds = None if timeout is None else int(timeout * 1000) + 1 if timeout else 0
        return {by_descriptor[descriptor] for descriptor, _ in poll.poll(milliseconds)}

    # -- the judge

    def _obey(self) -> bool:
        """Take orders; False once the judge has hung up."""
        chunk = self._control.recv(_CHUNK)
        self._orders += chunk
        while b"\n" in self._orders:
            line, _, rest = bytes(self._orders).partition(b"\n")
            self._orders = bytearray(rest)
            order = json.loads(line)
            try:
                reply: dict[str, Any] = getattr(self, f"order_{order.pop('op')}")(**order)
            except Exception as error:  # the judge decides what it means; this process goes on
                reply = {"problem": f"{type(error).__name__}: {error}"}
            self._control.sendall(json.dumps(reply).encode() + b"\n")
        return bool(chunk)

    def order_start(
        self, architecture: str, ptx: str, resources: dict[str, list[int]], checks: bool = True
    ) -> dict[str, Any]:
        """Load the program."""
        self._runtime = Runtime(self._arena, architecture, checks)
        return {"problem": problem} if (problem := self._runtime.load_program(ptx, resources)) else {}

    def order_allocate(self, size: int, label: str, initialised: bool) -> dict[str, Any]:
        """Make a buffer of the judge's."""
        memory = self._need_runtime().memory
        block = memory.allocate(size, MemoryKind.JUDGE, label, initialised=initialised)
        return {"address": block.address, "handle": memory.make_handle(block).hex()}

    def order_release(self, addresses: list[int]) -> dict[str, Any]:
        """Free buffers of the judge's."""
        memory = self._need_runtime().memory
        for address in addresses:
            memory.drop(memory.around(address))
        return {}

    def order_begin(
        self, seconds: float, poisoned: list[int], host_seconds: float | None = None, candidate: int | None = None
    ) -> dict[str, Any]:
        """Start a run: the device works from here on, ``seconds`` at most, and host code ``host_seconds``.

        A candidate's process that is named is ended when it has used them up.
        """
        runtime = self._need_runtime()
        for address in poisoned:
            runtime.memory.renew(address)
        if candidate is not None and self._process is None:
            with contextlib.suppress(ProcessLookupError):
                self._process = os.pidfd_open(candidate)
        runtime.begin(seconds, host_seconds, candidate)
        return {}

    def order_collect(self) -> dict[str, Any]:
        """End a run and tell what happened in it."""
        return self._need_runtime().collect().as_json()

    def _need_runtime(self) -> Runtime:
        if self._runtime is None:
            raise RuntimeError("not started")
        return self._runtime

    # -- the candidate

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if uid != os.getuid() or self._runtime is None:
            connection.close()
            return
        self._candidate = connection
        self._listener.close()

    def _receive(self) -> None:
        assert self._candidate is not None
        try:
            chunk = self._candidate.recv(_CHUNK)
        except OSError:
            chunk = b""
        if not chunk:
            self._hang_up("")
            return
        self._requests += chunk
        self._requests_waiting = True

    def _answer(self) -> None:
        """Answer one request, if a whole one is here."""
        runtime = self._need_runtime()
        try:
            request = take_request(self._requests)
        except ProtocolError as error:
            self._hang_up(str(error))
            return
        if request is None:
            self._requests_waiting = False
            return
        code, reply = runtime.answer(request)
        shown = runtime.arena.descriptors[1] if runtime.hands_over_memory(request, code) else None
        self._send(pack_reply(code, reply), shown)

    def _send(self, data: bytes, fd: int | None) -> None:
        """Send a reply. Whoever waits for each has room for it; whoever does not is cut off."""
        assert self._candidate is not None
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", fd))] if fd is not None else []
        try:
            sent = self._candidate.sendmsg([data], ancillary, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError:
            sent = -1
        if sent != len(data):
            self._hang_up("it does not read its replies")

    def _hang_up(self, reason: str) -> None:
        if reason and self._runtime:
            self._runtime.evidence.note(self._runtime.evidence.protocol, reason)
        if self._candidate is not None:
            self._candidate.close()
        self._requests.clear()
        self._requests_waiting = False


def end_with(control: socket.socket) -> None:
    """End this process when the judge is gone, also in the middle of a launch."""

    def watch() -> None:
        poll = select.poll()
        poll.register(control, select.POLLRDHUP)
        poll.poll()
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """Serve on the file descriptors that the judge passes: control, listener, and the arena's two."""
    control, listener = (socket.socket(fileno=int(fd)) for fd in sys.argv[1:3])
    arena = Arena((int(sys.argv[3]), int(sys.argv[4])))
    with contextlib.suppress(ValueError, OSError):
        limit = _MEMORY + arena.size
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    end_with(control)
    Host(control, listener, arena).serve()


if __name__ == "__main__":
    main()
