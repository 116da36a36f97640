"""Operations that complete later than they are issued.

They complete as late as a correct program can tell: when a thread waits for their group, or when nothing
else can execute.  A kernel that forgets to wait therefore sees old data.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any


class Operation:
    """Something issued; runs once."""

    __slots__ = ("_run", "done")

    def __init__(self, run: Callable[[], None]) -> None:
        self._run = run
        self.done = False

    def finish(self) -> None:
        """Complete it, if it is not complete yet."""
        if not self.done:
            self.done = True
            self._run()


class Groups:
    """Commit groups of every lane: ``cp.async`` and bulk copies each have their own."""

    def __init__(self, batch: Any) -> None:
        self._open: dict[int, list[Operation]] = defaultdict(list)
        self._closed: dict[int, list[list[Operation]]] = defaultdict(list)

    def issue(self, lane: int, operation: Operation) -> None:
        """Add to the lane's open group."""
        self._open[lane].append(operation)

    def commit(self, lane: int) -> None:
        """Close the open group."""
        self._closed[lane].append(self._open.pop(lane, []))

    def wait(self, lane: int, allowed: int) -> None:
        """Finish all groups but the ``allowed`` newest."""
        groups = self._closed.get(lane)
        if not groups:
            return
        for group in groups[: len(groups) - allowed]:
            for operation in group:
                operation.finish()
        self._closed[lane] = groups[len(groups) - allowed :] if allowed else []

    def wait_all(self, lane: int) -> None:
        """Finish everything, committed or not."""
        self.wait(lane, 0)
        for operation in self._open.pop(lane, []):
            operation.finish()

    def uncommitted(self, lane: int) -> list[Operation]:
        """Operations of the open group."""
        return self._open.get(lane, [])

    def outstanding(self) -> dict[int, int]:
        """Lanes with unfinished operations, and how many."""
        result: dict[int, int] = {}
        for lane, groups in self._closed.items():
            count = sum(not o.done for g in groups for o in g)
            if count:
                result[lane] = count
        for lane, operations in self._open.items():
            count = sum(not o.done for o in operations)
            if count:
                result[lane] = result.get(lane, 0) + count
        return result


def bulk_groups(batch: Any) -> Groups:
    """Groups of ``cp.async.bulk`` stores."""
    found: Groups = batch.extension("bulk_groups", Groups)
    return found


def copy_groups(batch: Any) -> Groups:
    """Groups of ``cp.async``."""
    found: Groups = batch.extension("copy_groups", Groups)
    return found
