"""Run a tool on text that a candidate wrote: bounded in time, memory and output, in an environment of its own."""

from __future__ import annotations

import contextlib
import json
import os
import select
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ptxgym.toolchain import confinement

_GiB = 1 << 30


@dataclass(frozen=True, slots=True)
class Limits:
    """What one tool may use."""

    seconds: float = 60.0
    """Wall-clock time, after which its whole process group is killed."""
    memory: int = 8 * _GiB
    """Address space in bytes."""
    file: int = _GiB
    """Size of any file it writes, in bytes."""
    output: int = 1 << 20
    """Bytes of stdout and stderr kept; the rest is read and thrown away."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """How a tool ended."""

    returncode: int
    """As :mod:`subprocess` gives it; negative for a signal."""
    output: str
    """Stdout and stderr together, as far as the limit."""
    seconds: float
    timed_out: bool


def run_tool(
    command: list[str],
    *,
    cwd: Path,
    readable: Iterable[Path],
    environment: Mapping[str, str] | None = None,
    limits: Limits = Limits(),
) -> ToolResult:
    """Run a command that reads only ``readable`` and its own folder, and writes only there.

    Args:
        command: The program, by absolute path, and its arguments.
        cwd: Its working folder, readable and writable.
        readable: Other folders and files it may read.
        environment: Variables besides a minimal ``PATH``, ``HOME`` and ``TMPDIR``; nothing else is inherited.
        limits: Time, memory and output.
    """
    settings = {
        "limits": {"cpu": int(limits.seconds) + 1, "memory": limits.memory, "file": limits.file},
        "readable": [str(path) for path in readable],
        "writable": [str(cwd), "/dev/null"],
    }
    launcher = [sys.executable, "-I", "-S", confinement.__file__, json.dumps(settings)]
    start = time.monotonic()
    process = subprocess.Popen(
        [*launcher, *command],
        cwd=cwd,
        env=minimal_environment(cwd) | dict(environment or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        output, timed_out = _drain(process.stdout, start + limits.seconds, limits.output)
        if not timed_out:
            timed_out = not ends_within(process, start + limits.seconds - time.monotonic())
    finally:
        kill_group(process)
        process.stdout.close()
    text = output.decode("utf-8", errors="replace")
    return ToolResult(process.returncode, text, time.monotonic() - start, timed_out)


def minimal_environment(home: Path) -> dict[str, str]:
    """The environment of every tool and candidate: nothing of the caller's but where programs are."""
    return {"PATH": "/usr/bin:/bin", "HOME": str(home), "TMPDIR": str(home), "LANG": "C.UTF-8"}


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """End a process started in its own session, with all of its group, and wait for it.

    Once it has been waited for, its number may be another's: then nothing is done.
    """
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def ends_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether a process ends in time; it is not waited for, so that its number stays its own for `kill_group`."""
    if process.returncode is not None:
        return True
    descriptor, poll = os.pidfd_open(process.pid), select.poll()
    poll.register(descriptor, select.POLLIN)
    try:
        return bool(poll.poll(1000 * max(0.0, seconds)))
    finally:
        os.close(descriptor)


def _drain(stream: IO[bytes], deadline: float, limit: int) -> tuple[bytes, bool]:
    """Read to the end or the deadline; keep ``limit`` bytes. Returns (kept, deadline passed)."""
    kept = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0:
            if not selector.select(left):
                continue
            chunk = os.read(stream.fileno(), 1 << 16)
            if not chunk:
                return bytes(kept), False
            kept += chunk[: limit - len(kept)]
    return bytes(kept), True
