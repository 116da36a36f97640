"""Device time of kernels, by CUPTI. Loaded by the judge and, by its file, by a candidate's process.

Needs ``cupti-python`` (``pip install ptxgym[cuda]``). CUPTI allows one user per process, so a profiler that runs in
the judge's process at the same time makes timing *unknown*.
"""

from __future__ import annotations

import bisect
import math
from typing import Any

_BUFFER_BYTES = 256 << 10
"""Room for a thousand records; every flush takes a fresh buffer, and touching eight megabytes would take longer than
the kernels that are timed."""
_KINDS = {"CONCURRENT_KERNEL": "kernel", "MEMCPY": "memcpy", "MEMSET": "memset"}

Activity = tuple[str, str, int, int, int]
"""(kind, kernel's name or "", start, end, warps); times in nanoseconds, by a clock of CUPTI's own."""


class KernelTimer:
    """Records what runs in this process on the device, from each :meth:`begin` to the :meth:`end` after it.

    Raises:
        ImportError: cupti-python is not installed.
    """

    def __init__(self) -> None:
        from cupti import cupti

        self._cupti = cupti
        self._kinds = {int(getattr(cupti.ActivityKind, kind)): name for kind, name in _KINDS.items()}
        self._enabled = False
        self._begun: list[int] = []
        self._ended: list[int] = []
        self._found: list[list[Activity]] = []
        cupti.activity_register_callbacks(lambda: (_BUFFER_BYTES, 0), self._collect)

    def begin(self) -> None:
        """What ends from now on is recorded."""
        if not self._enabled:
            for kind in self._kinds:
                self._cupti.activity_enable(kind)
            self._enabled = True
        self._found.append([])
        self._begun.append(self._cupti.get_timestamp())

    def end(self) -> None:
        """What starts from now on is not recorded. The caller has waited for the device."""
        self._ended.append(self._cupti.get_timestamp())

    def records(self) -> list[list[Activity]]:
        """What was recorded since the last call, by start; a list for each :meth:`begin`.

        Takes a millisecond or two, however little there is to tell.
        """
        self._cupti.activity_flush_all(1)
        found, self._found, self._begun, self._ended = self._found, [], [], []
        return [sorted(activities, key=lambda activity: activity[2]) for activities in found]

    def close(self) -> None:
        """Stop recording; other users of CUPTI may have it."""
        if self._enabled:
            for kind in self._kinds:
                self._cupti.activity_disable(kind)
            self._enabled = False

    def _collect(self, activities: list[Any]) -> None:
        for activity in activities:
            start, end = activity.start, activity.end  # most of what ran was not asked for, and reading more takes long
            place = bisect.bisect_left(self._begun, end) - 1
            if place < 0 or (place < len(self._ended) and start > self._ended[place]):
                continue
            kind, name = self._kinds[int(activity.kind)], str(getattr(activity, "name", ""))
            self._found[place].append((kind, name, int(start), int(end), _warps(activity) if kind == "kernel" else 0))


def _warps(activity: Any) -> int:
    """Warps of a launch."""
    grid, block = (math.prod(int(getattr(activity, f"{what}_{axis}")) for axis in "xyz") for what in ("grid", "block"))
    return grid * -(-block // 32)
