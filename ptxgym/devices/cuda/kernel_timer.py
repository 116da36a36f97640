"""Device time of kernels, by CUPTI. Loaded by the judge and, by its file, by a candidate's process.

Needs ``cupti-python`` (``pip install ptxgym[cuda]``). CUPTI allows one user per process, so a profiler that runs in
the judge's process at the same time makes timing *unknown*.
"""

from __future__ import annotations

import math
from typing import Any

_BUFFER_BYTES = 256 << 10
"""Room for a thousand records; every flush takes a fresh buffer, and touching eight megabytes would take longer than
the kernels that are timed."""
_KINDS = ("CONCURRENT_KERNEL", "MEMCPY", "MEMSET")


class KernelTimer:
    """Records every kernel, copy and fill of this process between ``start`` and ``stop``.

    Raises:
        ImportError: cupti-python is not installed.
    """

    def __init__(self) -> None:
        from cupti import cupti

        self._cupti = cupti
        self._records: list[tuple[str, str, int, int, int]] = []
        self._enabled = False
        cupti.activity_register_callbacks(lambda: (_BUFFER_BYTES, 0), self._collect)

    def start(self) -> None:
        """Forget what was recorded, also what CUPTI has not yet told; record from now on."""
        if not self._enabled:
            for kind in _KINDS:
                self._cupti.activity_enable(getattr(self._cupti.ActivityKind, kind))
            self._enabled = True
        self._cupti.activity_flush_all(1)
        self._records.clear()

    def stop(self) -> list[tuple[str, str, int, int, int]]:
        """(kind, kernel name or "", start, end, warps) of everything that ran, in nanoseconds, by start.

        The caller has waited for the device.
        """
        self._cupti.activity_flush_all(1)
        return sorted(self._records, key=lambda record: record[2])

    def close(self) -> None:
        """Stop recording; other users of CUPTI may have it."""
        if self._enabled:
            for kind in _KINDS:
                self._cupti.activity_disable(getattr(self._cupti.ActivityKind, kind))
            self._enabled = False

    def _collect(self, activities: list[Any]) -> None:
        for activity in activities:
            kind = self._cupti.ActivityKind(activity.kind).name.lower().removeprefix("concurrent_")
            name = str(getattr(activity, "name", ""))
            self._records.append((kind, name, activity.start, activity.end, _warps(activity)))


def _warps(activity: Any) -> int:
    """Warps of a launch; 0 for what is none."""
    grid, block = (
        math.prod(int(getattr(activity, f"{what}_{axis}", 0)) for axis in "xyz") for what in ("grid", "block")
    )
    return grid * -(-block // 32)
