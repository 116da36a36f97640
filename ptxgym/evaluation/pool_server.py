"""A pool for the other processes of this host: lines of JSON over a Unix socket.

A socket, because the kernel closes it however a client ends, so that a killed worker's submissions are freed at once.
JSON rather than pickled objects, because nothing that a client sends can then execute here, and because clients may
live in other Python environments, as RL frameworks that do not install beside each other ask for. The socket lies in a
folder that only its owner may enter.
"""

from __future__ import annotations

import contextlib
import queue
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterable
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Literal, Self

from pydantic import ValidationError

from ptxgym.errors import MisuseError
from ptxgym.evaluation.evaluator import EvaluationOptions
from ptxgym.evaluation.pool import EvaluationPool
from ptxgym.evaluation.records import Evaluation
from ptxgym.tasks import Task, get_task
from ptxgym.toolchain import Record

_LONGEST_PATH = 107
"""Bytes of a Unix socket's address (unix(7))."""


class Request(Record):
    """From a client, one line."""

    operation: Literal["submit", "cancel", "cancel_trajectory"]
    number: int = 0
    """The submission's, unique for the client."""
    trajectory: str = ""
    task: str = ""
    options: EvaluationOptions = EvaluationOptions()
    source: str | None = None
    """None stands for what is no text, and is an invalid action."""
    timeout: float | None = None


class Reply(Record):
    """To a client, one line: first whether the submission was taken, then what became of it."""

    number: int
    kind: Literal["taken", "full", "misuse", "evaluation", "fault", "cancelled"]
    message: str = ""
    evaluation: Evaluation | None = None


class PoolServer:
    """Lends a pool to clients in other processes. A context manager.

    Args:
        pool: The pool; it stays usable here, and open when the server is closed.
        path: Of the socket; by default in a new folder of its own.
        tasks: Tasks of your own that clients may name, besides the registered ones.

    Raises:
        MisuseError: The path is too long for a socket, or something is there already.
    """

    def __init__(self, pool: EvaluationPool, path: Path | str | None = None, tasks: Iterable[Task] = ()) -> None:
        self.pool = pool
        self._own = {task.id: task for task in tasks}
        self._folder = None if path else Path(tempfile.mkdtemp(prefix="ptxgym-pool-"))
        self.path = Path(path) if path else Path(self._folder or "", "socket")
        """Where clients connect."""
        if len(str(self.path).encode()) > _LONGEST_PATH:
            raise MisuseError(f"{self.path} is longer than the {_LONGEST_PATH} bytes of a socket's path.")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.bind(str(self.path))
        except OSError as error:
            self._socket.close()
            raise MisuseError(f"No socket can be made at {self.path}: {error.strerror}.") from None
        self._socket.listen(128)
        self._sessions: set[_Session] = set()
        self._accepting = threading.Thread(target=self._accept, name="ptxgym-pool-server", daemon=True)
        self._accepting.start()

    def task(self, name: str) -> Task:
        """A task that clients may name."""
        return self._own.get(name) or get_task(name)

    def close(self) -> None:
        """Part with every client, and free what they waited for."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes accept
        self._socket.close()
        self._accepting.join()
        for session in list(self._sessions):
            session.close()
        self.path.unlink(missing_ok=True)
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        number = 0
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed
                return
            number += 1
            session = _Session(self, connection, f"client-{number}/")
            self._sessions.add(session)
            session.start()

    def _ended(self, session: _Session) -> None:
        self._sessions.discard(session)


class _Session:
    """One client: a thread that reads, one that writes, and one for each submission that waits for room."""

    def __init__(self, server: PoolServer, connection: socket.socket, prefix: str) -> None:
        self._server = server
        self._connection = connection
        self._prefix = prefix
        self._lock = threading.Lock()
        self._futures: dict[int, Future[Evaluation]] = {}
        self._blocked: dict[int, str] = {}
        """Submissions that wait for room, and their trajectories."""
        self._revoked: set[int] = set()
        """Those of them that were cancelled."""
        self._gone = False
        self._replies: queue.SimpleQueue[Reply | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=work, name=f"ptxgym-pool-{work.__name__}", daemon=True)
            for work in (self._read, self._write)
        ]

    def start(self) -> None:
        """Begin to serve."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End the connection and wait until everything is freed."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _read(self) -> None:
        with self._connection.makefile("rb") as lines, contextlib.suppress(OSError):
            for line in lines:
                try:
                    self._handle(Request.model_validate_json(line))
                except ValidationError:  # not one of our clients, or cut off by its death
                    break
        self._leave()

    def _leave(self) -> None:
        """The client has gone: nobody waits for its submissions any more."""
        with self._lock:
            self._gone = True
            futures, blocked = list(self._futures.values()), set(self._blocked.values())
        for trajectory in blocked:
            self._server.pool.cancel(trajectory)
        for future in futures:
            future.cancel()
        self._replies.put(None)
        self._server._ended(self)

    def _write(self) -> None:
        with self._connection:
            while (reply := self._replies.get()) is not None:
                try:
                    self._connection.sendall(reply.model_dump_json().encode() + b"\n")
                except OSError:  # the reader notices too
                    continue

    def _handle(self, request: Request) -> None:
        trajectory = self._prefix + request.trajectory
        match request.operation:
            case "cancel":
                with self._lock:
                    future = self._futures.get(request.number)
                    if request.number in self._blocked:
                        self._revoked.add(request.number)
                if future is not None:
                    future.cancel()
            case "cancel_trajectory":
                self._server.pool.cancel(trajectory)
            case "submit":
                try:
                    self._submit(request, trajectory, timeout=0)
                except queue.Full as error:
                    if request.timeout == 0:
                        self._replies.put(Reply(number=request.number, kind="full", message=str(error)))
                        return
                    with self._lock:  # cancellations must still be heard: another thread waits
                        self._blocked[request.number] = trajectory
                    threading.Thread(target=self._submit_later, args=(request, trajectory), daemon=True).start()

    def _submit_later(self, request: Request, trajectory: str) -> None:
        try:
            self._submit(request, trajectory, request.timeout)
        except queue.Full as error:
            self._replies.put(Reply(number=request.number, kind="full", message=str(error)))
        finally:
            with self._lock:
                self._blocked.pop(request.number, None)
                self._revoked.discard(request.number)

    def _submit(self, request: Request, trajectory: str, timeout: float | None) -> None:
        number = request.number
        try:
            task = self._server.task(request.task)
            future = self._server.pool.submit(
                request.source, task, request.options, trajectory=trajectory, timeout=timeout
            )
        except CancelledError:
            self._replies.put(Reply(number=number, kind="cancelled"))
            return
        except MisuseError as error:
            self._replies.put(Reply(number=number, kind="misuse", message=str(error)))
            return
        with self._lock:
            self._futures[number] = future
            unwanted = self._gone or number in self._revoked
        self._replies.put(Reply(number=number, kind="taken"))
        future.add_done_callback(lambda future: self._done(number, future))
        if unwanted:
            future.cancel()

    def _done(self, number: int, future: Future[Evaluation]) -> None:
        with self._lock:
            self._futures.pop(number, None)
        if future.cancelled():
            self._replies.put(Reply(number=number, kind="cancelled"))
        elif error := future.exception():
            self._replies.put(Reply(number=number, kind="fault", message=f"{type(error).__name__}: {error}"))
        else:
            self._replies.put(Reply(number=number, kind="evaluation", evaluation=future.result()))
