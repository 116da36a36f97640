"""The pool of another process, used as if it were here."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import os
import queue
import socket
import threading
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from ptxgym.devices import DeviceInfo
from ptxgym.errors import InfrastructureError, MisuseError
from ptxgym.evaluation.evaluator import EvaluationOptions
from ptxgym.evaluation.pool_server import Reply, Request
from ptxgym.evaluation.records import STAGES, Evaluation, StageResult
from ptxgym.tasks import Task
from ptxgym.toolchain import MAX_SOURCE_BYTES

_LOST = "The evaluation pool's process has ended, or closed the connection."


class PoolClient:
    """Submits to a :class:`PoolServer`, with the interface of :class:`EvaluationPool`.

    Trajectories of two clients never meet, whatever their names. When this process ends, however it does, what it had
    submitted is freed. When the server's ends, every evaluation that is missing comes out *unknown*, and so does every
    later one: a training run goes on and masks them.

    A client belongs to the process that made it; a pickled one connects anew where it is unpickled.

    Args:
        path: The server's socket.

    Raises:
        MisuseError: No server is there.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._pid = os.getpid()
        self._lock, self._sending = threading.Lock(), threading.Lock()
        self._numbers = itertools.count(1)
        self._submitted: dict[int, _Submitted] = {}
        self._lost = False
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(str(self.path))
        except OSError as error:
            self._socket.close()
            raise MisuseError(
                f"No evaluation pool answers at {self.path} ({error.strerror}). Start one first."
            ) from None
        self._reader = threading.Thread(target=self._read, name="ptxgym-pool-client", daemon=True)
        self._reader.start()

    def submit(
        self,
        source: object,
        task: str | Task,
        options: EvaluationOptions | None = None,
        *,
        trajectory: str = "",
        timeout: float | None = None,
    ) -> Future[Evaluation]:
        """Hand in a submission; see :meth:`EvaluationPool.submit`.

        A task of your own goes by its id: give it to the server too.

        Raises:
            queue.Full: There was no room in time.
            CancelledError: The trajectory was cancelled while this waited for room.
            MisuseError: There is no such task or device, or the client belongs to another process.
        """
        if os.getpid() != self._pid:
            raise MisuseError(
                "A PoolClient belongs to the process that made it: make one after the fork, or start processes by "
                "spawn (Gymnasium's AsyncVectorEnv: context='spawn'), where a pickled one connects anew."
            )
        request = Request(
            operation="submit",
            number=next(self._numbers),
            trajectory=trajectory,
            task=task if isinstance(task, str) else task.id,
            options=options or EvaluationOptions(),
            source=_text(source),
            timeout=timeout,
        )
        entry = _Submitted(request)
        with self._lock:
            if self._lost:
                entry.future.set_result(_unknown(request))
                return entry.future
            self._submitted[request.number] = entry
        entry.future.add_done_callback(functools.partial(self._settled, request.number))
        self._send(request)
        try:
            entry.taken.result()
        except BaseException:
            entry.future.cancel()
            raise
        return entry.future

    def cancel(self, trajectory: str) -> None:
        """Cancel everything that a trajectory waits for."""
        self._send(Request(operation="cancel_trajectory", trajectory=trajectory))
        with self._lock:
            own = [entry for entry in self._submitted.values() if entry.request.trajectory == trajectory]
        for entry in own:
            if entry.taken.done():  # otherwise submit itself will hear of it
                entry.future.cancel()

    def close(self) -> None:
        """Part with the server; what was submitted is cancelled and freed."""
        with self._lock:
            entries = list(self._submitted.values())
        for entry in entries:
            entry.future.cancel()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._reader.join()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __deepcopy__(self, memo: object) -> Self:
        """A copied environment uses the same connection."""
        return self

    def __reduce__(self) -> Any:
        return PoolClient, (self.path,)

    def _send(self, request: Request) -> None:
        line = request.model_dump_json().encode() + b"\n"
        with contextlib.suppress(OSError), self._sending:  # the reader hears of a lost connection, and deals with it
            self._socket.sendall(line)

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValidationError), self._socket.makefile("rb") as lines:
            for line in lines:
                self._handle(Reply.model_validate_json(line))
        with self._lock:
            self._lost = True
            entries = [self._submitted.pop(number) for number in list(self._submitted)]
        for entry in entries:
            if not entry.taken.done():
                entry.taken.set_result(None)
            _resolve(entry.future, _unknown(entry.request))

    def _handle(self, reply: Reply) -> None:
        """Whoever takes an entry out of the table is the one to resolve its future."""
        with self._lock:
            entry = self._submitted.get(reply.number)
            if entry is not None and entry.taken.done():
                del self._submitted[reply.number]
        if entry is None:  # cancelled meanwhile
            return
        match reply.kind:
            case "taken":
                entry.taken.set_result(None)
            case "full":
                entry.taken.set_exception(queue.Full(reply.message))
            case "misuse":
                entry.taken.set_exception(MisuseError(reply.message))
            case "cancelled" if not entry.taken.done():
                entry.taken.set_exception(CancelledError())
            case "cancelled":
                entry.future.cancel()
                entry.future.set_running_or_notify_cancel()
            case _:
                _resolve(entry.future, reply.evaluation or InfrastructureError(reply.message))

    def _settled(self, number: int, future: Future[Evaluation]) -> None:
        with self._lock:
            mine = self._submitted.pop(number, None) is not None
        if mine and future.cancelled():
            future.set_running_or_notify_cancel()
            self._send(Request(operation="cancel", number=number))


class _Submitted:
    """A submission without a result."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.future: Future[Evaluation] = Future()
        self.taken: Future[None] = Future()
        """Whether the server has it in its queue."""


def _resolve(future: Future[Evaluation], outcome: Evaluation | InfrastructureError) -> None:
    if not future.set_running_or_notify_cancel():
        return
    if isinstance(outcome, Evaluation):
        future.set_result(outcome)
    else:
        future.set_exception(outcome)


def _text(source: object) -> str | None:
    """What can travel; what cannot is no source anyway."""
    if not isinstance(source, str):
        return None
    try:
        source.encode("utf-8")
    except UnicodeEncodeError:
        return None
    return source[: MAX_SOURCE_BYTES + 1]


def _unknown(request: Request) -> Evaluation:
    """The evaluation of a submission whose server is gone."""
    first, *rest = STAGES
    lost = StageResult(stage=first, status="unknown", reason="infrastructure", message=_LOST)
    skipped = (StageResult(stage=stage, status="skipped", reason="not_requested") for stage in rest)
    return Evaluation(
        task=request.task,
        source_sha256=hashlib.sha256((request.source or "").encode("utf-8")).hexdigest(),
        program="",
        device=DeviceInfo(kind="none", name="no device"),
        stages=(lost, *skipped),
    )
