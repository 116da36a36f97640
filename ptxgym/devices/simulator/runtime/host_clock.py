"""What a candidate's host code has used of its time, apart from what a busy machine took from it.

Time counts while one of these is true: the process computes, or its first thread sleeps. Time in which that thread
wants a processor and gets none does not count, as far as the kernel tells (``schedstat``); where it does not, all time
counts. Many threads cannot hide behind each other: their processor time counts in full.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

WALL_FACTOR = 10
"""How much longer than its limit by processor time anything may take by the clock, before the machine is too busy."""

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class ProcessTime:
    """What the kernel says of a process, in seconds."""

    wall: float
    processor: float
    """Of all its threads."""
    waiting: float
    """What its first thread waited for a processor."""

    @classmethod
    def read(cls, process: int | None) -> ProcessTime:
        """Look; zeros where there is nothing to see."""
        processor = waiting = 0.0
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            processor = (int(fields[11]) + int(fields[12])) / _TICKS
            waiting = int(Path(f"/proc/{process}/task/{process}/schedstat").read_text().split()[1]) / 1e9
        except (OSError, ValueError, IndexError):
            pass
        return cls(time.monotonic(), processor, waiting)


class HostClock:
    """Counts the time of host code from now on.

    Args:
        process: The candidate's; None counts all time.
        seconds: What it has.
    """

    def __init__(self, process: int | None, seconds: float) -> None:
        self._process, self._seconds = process, seconds
        self._begun = ProcessTime.read(process)
        self._answered = 0.0

    def pause(self, seconds: float) -> None:
        """Take off what an answer took."""
        self._answered += seconds

    def left(self) -> float:
        """What is left; 0 when it is used up, by its own fault or by the machine's."""
        return max(0.0, min(self._seconds - self.used(), WALL_FACTOR * self._seconds - self._wall()))

    def used(self) -> float:
        """What counts."""
        now, begun = ProcessTime.read(self._process), self._begun
        return max(now.processor - begun.processor, self._wall() - max(0.0, now.waiting - begun.waiting))

    @property
    def starved(self) -> bool:
        """Whether, with nothing left, it was the machine that had no time for it."""
        return self.used() < self._seconds

    def _wall(self) -> float:
        return time.monotonic() - self._begun.wall - self._answered
