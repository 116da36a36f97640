"""The judge's handle on the process that simulates: start it, give it orders, end it."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from ptxgym.devices.lines import LineReader
from ptxgym.devices.simulator.runtime.arena import Arena
from ptxgym.errors import InfrastructureError
from ptxgym.toolchain.process import kill_group, minimal_environment

_SECONDS = 60.0
_REPLY_BYTES = 256 << 20


class HostProcess:
    """A fresh simulator for one candidate.

    Args:
        arena: The device's memory, which the judge made and keeps mapped.
    """

    command: tuple[str, ...] = (sys.executable, "-s", "-P", str(Path(__file__).with_name("start_host.py")))

    def __init__(self, arena: Arena) -> None:
        # Abstract, so nothing is left on disk; unguessable, open for one connection, and only to this user.
        self.address = f"ptxgym-{secrets.token_hex(16)}"
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 -- a pipe that nobody reads could fill up
        ours, theirs = socket.socketpair()
        with socket.socket(socket.AF_UNIX) as listener, theirs:
            listener.bind(f"\0{self.address}")
            listener.listen(1)
            descriptors = (theirs.fileno(), listener.fileno(), *arena.descriptors)
            self._process = subprocess.Popen(
                [*self.command, *map(str, descriptors)],
                cwd="/",
                env=minimal_environment(Path("/")) | _import_path(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                pass_fds=descriptors,
                start_new_session=True,
            )
        self._control = ours
        self._replies = LineReader(ours, _REPLY_BYTES)

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    def order(self, op: str, timeout: float = _SECONDS, **order: Any) -> dict[str, Any]:
        """Give an order and wait for the reply.

        Raises:
            InfrastructureError: It could not be carried out, or the process is gone or busy.
        """
        try:
            self._control.settimeout(timeout)
            self._control.sendall(json.dumps({"op": op, **order}).encode() + b"\n")
            reply = json.loads(self._replies.read(time.monotonic() + timeout))
        except TimeoutError:
            raise InfrastructureError(f"The simulator did not answer `{op}` within {timeout:.0f} s.") from None
        except (OSError, ValueError):
            raise InfrastructureError(f"The simulator's process ended: {self._last_words()}") from None
        if problem := reply.get("problem"):
            raise InfrastructureError(str(problem))
        return dict(reply)

    def close(self) -> None:
        """End the process."""
        self._control.close()
        kill_group(self._process)
        self._errors.close()

    def _last_words(self) -> str:
        kill_group(self._process)
        self._errors.seek(0)
        text = self._errors.read(1 << 20).decode(errors="replace").strip()
        return text.splitlines()[-1][:500] if text else f"code {self._process.returncode}"


def _import_path() -> dict[str, str]:
    """Have the process find NumPy where this one does; one thread, since the cores are for candidates."""
    where = Path(np.__file__).parents[1]
    threads = os.environ.get("OMP_NUM_THREADS", "1")
    return {
        "PYTHONPATH": str(where),
        "OMP_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
    }
