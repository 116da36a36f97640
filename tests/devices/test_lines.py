"""Lines from a process that says something, ends, or leaves its connection to another."""

import os
import socket
import subprocess
import time

import pytest

from ptxgym.devices.lines import LineReader


@pytest.fixture
def reader():
    """Start a shell; returns the reader of what it says."""
    started = []

    def start(script: str, watched: bool = True):
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(["/bin/sh", "-c", script], stdout=theirs, start_new_session=True)
        end = os.pidfd_open(process.pid)
        started.append((ours, process, end))
        return LineReader(ours, 100, end if watched else None)

    yield start
    for ours, process, end in started:
        os.killpg(process.pid, 9)
        process.wait()
        ours.close()
        os.close(end)


def test_lines_that_came_before_the_end_are_read_and_then_nothing_is_waited_for(reader):
    # The sleeper holds the connection, as what a killed tool leaves behind does.
    lines = reader("printf 'one\\ntwo\\nthr'; sleep 60 & exit 0")
    time.sleep(0.5)
    start = time.monotonic()
    assert [lines.read(start + 20), lines.read(start + 20)] == [b"one", b"two"]
    with pytest.raises(ConnectionResetError):
        lines.read(start + 20)
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("watched", [True, False])
def test_a_line_that_does_not_come_is_waited_for_until_its_time(reader, watched):
    lines = reader("sleep 60", watched)
    start = time.monotonic()
    with pytest.raises(TimeoutError):
        lines.read(start + 0.3)
    assert 0.3 <= time.monotonic() - start < 10


def test_a_line_without_an_end_is_cut_off(reader):
    lines = reader("yes | tr -d '\\n'")
    with pytest.raises(ValueError, match="too long"):
        lines.read(time.monotonic() + 20)
