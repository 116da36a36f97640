"""The judge's side of a candidate's process: start it, ask it, and end it whatever it does."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from types import TracebackType
from typing import Any, Self

from ptxgym.devices import candidate
from ptxgym.devices.lines import LineReader
from ptxgym.errors import CandidateError, InfrastructureError
from ptxgym.toolchain import Program
from ptxgym.toolchain.process import ends_within, kill_group, minimal_environment
from ptxgym.toolchain.scratch import ScratchFolder

_START_SECONDS = 60.0
_REPORT_SECONDS = 20.0
_REPLY_BYTES = 16 << 20
_CREDENTIALS = struct.Struct("iII")
"""``struct ucred``: process, user, group."""
_MOST_DIGITS = 20
"""Of an integer in a reply; nanoseconds since 1970 have 19."""
_LIMITS = {"file": 64 << 20, "files": 4096, "data": 16 << 30, "cpu": 900}
"""The last ends a process that spins on when its judge was killed and it has kept itself from noticing."""


class CandidateProcess:
    """A fresh process for one candidate, in an empty folder of its own.

    Until :meth:`load` everything that fails is the machine's fault (:class:`InfrastructureError`); from then on the
    candidate's code runs in there, and what fails is the candidate's (:class:`CandidateError`).

    Args:
        program: What will be loaded.
        environment: Variables besides the minimal ones.
        wrapper: A tool and its options that start the process, e.g. the memory checker's.
        readable: Files and folders that the candidate may read, besides its library.
        allowed: System calls that the wrapper's part in the process cannot do without.
    """

    def __init__(
        self,
        program: Program,
        environment: dict[str, str] | None = None,
        wrapper: list[str] | None = None,
        readable: list[str] | None = None,
        allowed: list[str] | None = None,
    ) -> None:
        self.program = program
        self.confinement: tuple[str, ...] = ()
        self._readable = readable or []
        self._allowed = allowed or []
        self._wrapped = bool(wrapper)
        self._loaded = self._hung = False
        self.lingered = False
        """Whether the process was told to end, had a tool's report to leave, and had to be killed."""
        self._connection: socket.socket | None = None
        self._replies: LineReader | None = None
        self._ends: list[int] = []
        """Of the tool that was started, or the process without one, and of the process inside the tool."""
        with socket.socket(socket.AF_UNIX) as listener, contextlib.ExitStack() as undo:
            self._folder = ScratchFolder()
            undo.callback(self._folder.remove)
            self._scratch = self._folder.path / "scratch"
            self._scratch.mkdir()
            self._library = self._scratch / "kernel.so"
            shutil.copyfile(program.library, self._library)
            address = str(self._folder.path / "judge")
            listener.bind(address)
            listener.listen(1)
            self._process = subprocess.Popen(
                [*(wrapper or []), sys.executable, "-I", "-S", candidate.__file__, address],
                cwd=self._scratch,
                env=minimal_environment(self._scratch) | (environment or {}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            undo.callback(self.close)
            self._connect(listener)
            undo.pop_all()

    @property
    def pid(self) -> int:
        """The process's number; where a tool wraps it, the tool's."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ask(self, op: str, timeout: float = _START_SECONDS, **request: Any) -> dict[str, Any]:
        """Send one request and wait for its reply.

        Raises:
            InfrastructureError: It failed before the candidate was loaded.
            CandidateError: It failed after: ``timeout``, ``crash``, ``exit`` or ``protocol``.
        """
        assert self._connection is not None
        assert self._replies is not None
        deadline = time.monotonic() + timeout
        try:
            self._connection.settimeout(timeout)  # who does not listen must not hold the judge up either
            self._connection.sendall(json.dumps({"op": op, **request}).encode() + b"\n")
            reply = read_reply(self._replies.read(deadline))
        except TimeoutError:
            self._hung = True
            raise self._fault("timeout", f"It did not finish within {timeout:.0f} s.") from None
        except OSError:
            raise self._ended() from None
        except ValueError:
            raise self._fault("protocol", "The process answered with something that is no reply.") from None
        if "fault" in reply:
            raise self._fault("protocol", str(reply["fault"])[:500])
        return reply

    def load(self, timeout: float = 20.0) -> None:
        """Confine the process and load the candidate's library into it.

        Raises:
            CandidateError: The library cannot be loaded, or a static constructor ended or hung the process.
        """
        reply = self.ask(
            "confine",
            limits=_LIMITS,
            allowed=self._allowed,
            readable=["/proc/self", "/sys", "/dev/null", "/dev/zero", "/dev/urandom", *self._readable],
            writable=[str(self._scratch), "/dev/null"],
        )
        self.confinement = tuple(reply["confinement"])
        self._loaded = True
        reply = self.ask("load", timeout=timeout, library=str(self._library))
        if "error" in reply:
            raise CandidateError("load_error", f"The library cannot be loaded: {str(reply['error'])[:500]}")

    def close(self) -> int:
        """End the process and remove its folder; returns its exit code as :mod:`subprocess` gives it.

        A wrapping tool is given time to write its report, unless the process hangs.
        """
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._wrapped and not self._hung:
            self.lingered |= not ends_within(self._process, _REPORT_SECONDS)  # a second close finds it ended
        kill_group(self._process)
        for end in self._ends:  # within a tool it may have left the group
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(end, signal.SIGKILL)
            os.close(end)
        self._ends = []
        self._folder.remove()
        return self._process.returncode

    def _connect(self, listener: socket.socket) -> None:
        """Wait for the process to call, and take note of who it is."""
        self._folder.belongs_to(self._process.pid)
        self._connection = self._accept(listener)
        self._ends.append(os.pidfd_open(self._process.pid))
        # A tool that was killed leaves a process behind that waits for it, and would be waited for.
        self._replies = LineReader(self._connection, _REPLY_BYTES, self._ends[0])
        credentials = self._connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        caller = _CREDENTIALS.unpack(credentials)[0]
        if caller != self._process.pid:
            with contextlib.suppress(OSError):  # gone already
                self._ends.append(os.pidfd_open(caller))

    def _accept(self, listener: socket.socket) -> socket.socket:
        listener.settimeout(0.5)
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            try:
                return listener.accept()[0]
            except TimeoutError:
                if self._process.poll() is not None:
                    break
        raise InfrastructureError(
            f"The candidate's process did not start ({' '.join(map(str, self._process.args))[:200]})."  # type: ignore[arg-type]
        )

    def _ended(self) -> CandidateError | InfrastructureError:
        """What the end of the process means."""
        code = self._exit_code()
        if code is not None and code < 0:
            return self._fault("crash", f"The process was ended by {_signal_name(-code)}.")
        return self._fault("exit", f"The process ended by itself (code {code}) before run returned.")

    def _exit_code(self) -> int | None:
        """How the process ended, once it has; it is left to `close` to wait for it."""
        if not ends_within(self._process, 5):
            return None
        ended = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        if ended is None:
            return None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    def _fault(self, reason: str, message: str) -> CandidateError | InfrastructureError:
        if self._loaded:
            return CandidateError(reason, message)
        return InfrastructureError(f"The candidate's process failed before the candidate was loaded: {message}")


def read_reply(line: bytes) -> dict[str, Any]:
    """What a candidate's process says, which may be anything.

    Raises:
        ValueError: It is no JSON object, its ``code`` or ``sync`` is no small integer, or it has what a record or a
            calculation could not take: infinite or very large numbers, text that is no Unicode, endless nesting.
    """
    try:
        reply = json.loads(line, parse_int=_small_integer)
        json.dumps(reply, allow_nan=False, ensure_ascii=False).encode("utf-8")
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(reply, dict):
        raise ValueError("no object")
    if not all(type(reply.get(key, 0)) is int for key in ("code", "sync")):
        raise ValueError("no CUDA error")
    return reply


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time one, which a candidate can raise as well
        return f"signal {number}"


def _small_integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError("no number of ours")
    return int(digits)


def environment_of_driver() -> dict[str, str]:
    """The variables that say where the driver's libraries are; nothing else of the caller's is inherited."""
    return {name: value for name in ("LD_LIBRARY_PATH",) if (value := os.environ.get(name))}
