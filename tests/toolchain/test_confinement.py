"""Real processes that try what they may not."""

import subprocess
import sys
from pathlib import Path

import pytest

from ptxgym.toolchain import confinement
from ptxgym.toolchain.process import Limits, run_tool

pytestmark = pytest.mark.skipif(not confinement.landlock_version(), reason="this kernel has no Landlock")

PRELUDE = f"""
import importlib.util, os, socket, sys, ctypes
spec = importlib.util.spec_from_file_location("confinement", {confinement.__file__!r})
confinement = importlib.util.module_from_spec(spec); spec.loader.exec_module(confinement)
def refused(attempt):
    try:
        attempt()
    except (OSError, PermissionError) as error:
        return True
    return False
"""


def _confined(code: str) -> str:
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-c", PRELUDE + code], capture_output=True, text=True, timeout=30, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


@pytest.mark.parametrize(
    "attempt",
    [
        "os.fork()",
        "os.execv('/bin/true', ['true'])",
        "os.posix_spawn('/bin/true', ['true'], {})",
        "socket.socket(socket.AF_INET)",
        "socket.socket(socket.AF_INET6)",
        "socket.socket(socket.AF_UNIX).connect('/tmp/nobody')",
        "os.kill(os.getppid(), 0)",
        "os.kill(-1, 0)",
        "os.pidfd_open(os.getppid())",
        "os.setpriority(os.PRIO_PROCESS, 0, 10)",
    ],
)
def test_system_calls_that_reach_out_are_refused(attempt: str):
    assert _confined(f"assert confinement.restrict_syscalls()\nprint(refused(lambda: {attempt}))") == "True"


def test_threads_and_signals_to_itself_still_work():
    code = """
import threading
assert confinement.restrict_syscalls()
done = []
thread = threading.Thread(target=lambda: done.append(1)); thread.start(); thread.join()
os.kill(os.getpid(), 0)
print(done)
"""
    assert _confined(code) == "[1]"


def test_threads_started_before_are_confined_too():
    code = """
import threading
go, result = threading.Event(), []
def late():
    go.wait()
    result.append(refused(os.fork))
thread = threading.Thread(target=late); thread.start()
assert confinement.restrict_syscalls()
go.set(); thread.join()
print(result)
"""
    assert _confined(code) == "[True]"


def test_files_outside_cannot_be_read_or_written(tmp_path: Path):
    (tmp_path / "own").mkdir()
    (tmp_path / "secret").write_text("42")
    (tmp_path / "own" / "link").symlink_to(tmp_path / "secret")
    code = f"""
assert confinement.restrict_files([], [{str(tmp_path / "own")!r}])
open({str(tmp_path / "own" / "new")!r}, "w").write("mine")
print(
    refused(lambda: open({str(tmp_path / "secret")!r})),
    refused(lambda: open({str(tmp_path / "own" / "link")!r})),
    refused(lambda: open({str(tmp_path / "other")!r}, "w")),
    refused(lambda: os.listdir("/")),
)
"""
    assert _confined(code) == "True True True True"
    assert (tmp_path / "own" / "new").read_text() == "mine"


def test_a_tool_sees_a_scrubbed_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-DCHEAT")
    result = run_tool(["/usr/bin/env"], cwd=tmp_path, readable=[Path("/usr"), Path("/lib"), Path("/lib64")])
    assert "CHEAT" not in result.output
    assert f"HOME={tmp_path}" in result.output


def test_a_tool_is_stopped_with_its_children(tmp_path: Path):
    script = "sleep 60 & echo started; sleep 60"
    result = run_tool(
        ["/bin/sh", "-c", script],
        cwd=tmp_path,
        readable=[Path("/usr"), Path("/bin"), Path("/lib"), Path("/lib64")],
        limits=Limits(seconds=1),
    )
    assert result.timed_out
    assert "started" in result.output
    assert result.seconds < 10


def test_output_beyond_the_limit_is_thrown_away(tmp_path: Path):
    result = run_tool(
        ["/bin/sh", "-c", "yes PASSED | head -c 50000000"],
        cwd=tmp_path,
        readable=[Path("/usr"), Path("/bin"), Path("/lib"), Path("/lib64")],
        limits=Limits(seconds=20, output=1000),
    )
    assert result.returncode == 0
    assert len(result.output) == 1000


def test_memory_is_limited(tmp_path: Path):
    hog = "x = bytearray(1 << 30); print('allocated')"
    result = run_tool(
        [sys.executable, "-I", "-S", "-c", hog],
        cwd=tmp_path,
        readable=[Path("/")],
        limits=Limits(seconds=20, memory=512 << 20),
    )
    assert "MemoryError" in result.output
