"""Many items at a time, each result on disk before the next item begins, and nothing done twice after a crash."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from baselines.mini_ptx_agent import EndpointError
from ptxgym.errors import MisuseError
from ptxgym.runs.journal import FolderLock, Journal
from ptxgym.runs.records import AnyRecord, read_lines

Item = TypeVar("Item")

_GRACE_SECONDS = 20.0
"""How long work that is under way may take to end once all is to end."""


class Unjudged(Exception):  # noqa: N818 not a fault of the item
    """This machine could not do its part for an item; it is left for a later run."""


@dataclass
class Progress:
    """What happened so far."""

    finished: int = 0
    """Items with a record, those found on disk included."""
    before: int = 0
    """Found on disk."""
    outcomes: Counter[str] = field(default_factory=Counter)
    """Of this process."""
    left_open: list[str] = field(default_factory=list)
    """Why items have no record; a later run does them."""

    @property
    def text(self) -> str:
        """One line."""
        parts = [f"{self.finished} done"] + [f"{number} {word}" for word, number in sorted(self.outcomes.items())]
        parts += [f"{self.before} from before"] * bool(self.before) + [f"{len(self.left_open)} open"] * bool(
            self.left_open
        )
        return ", ".join(parts)


@dataclass(frozen=True)
class Step(Generic[Item, AnyRecord]):
    """One step of the pipeline."""

    path: Path
    """The JSONL file of its records."""
    record: type[AnyRecord]
    key_of_item: Callable[[Item], str]
    key_of_record: Callable[[AnyRecord], str]
    work: Callable[[Item], AnyRecord]
    """From an item to its record. :class:`Unjudged` and :class:`EndpointError` leave the item open."""
    outcome: Callable[[AnyRecord], str]
    """A word for the count."""


def work_through(
    step: Step[Item, AnyRecord],
    items: Iterable[Item],
    *,
    concurrency: int,
    tell: Callable[[str], None] = lambda text: None,
) -> Progress:
    """Do every item that has no record yet.

    Args:
        step: What is done.
        items: Taken one by one, from one thread at a time.
        concurrency: Items at a time.
        tell: Told a line per finished item.

    Raises:
        MisuseError: Another process works in the folder, or the file has foreign lines.
        InfrastructureError: The records cannot be written.
    """
    if concurrency < 1:
        raise MisuseError(f"--concurrency {concurrency} leaves nobody to work.")
    with FolderLock(step.path.parent):
        done = {step.key_of_record(r) for r in read_lines(step.path, step.record)} if step.path.exists() else set()
        with closing(Journal(step.path, step.record)) as journal:
            return _Pool(step, iter(items), journal, done, concurrency, tell).run()


class _Pool(Generic[Item, AnyRecord]):
    def __init__(
        self,
        step: Step[Item, AnyRecord],
        items: Iterator[Item],
        journal: Journal,
        done: set[str],
        concurrency: int,
        tell: Callable[[str], None],
    ) -> None:
        self._step, self._items, self._journal, self._done, self._tell = step, items, journal, done, tell
        self._progress = Progress(finished=len(done), before=len(done))
        self._concurrency = concurrency
        self._ends = threading.Event()
        self._fault: Exception | None = None
        self._lock = threading.Lock()
        self._failures_in_a_row = 0

    def run(self) -> Progress:
        """Until nothing is left, or all is to end."""
        workers = [threading.Thread(target=self._work, daemon=True) for _ in range(self._concurrency)]
        for worker in workers:
            worker.start()
        try:
            while any(worker.is_alive() for worker in workers) and not self._ends.wait(0.05):
                pass
        finally:
            self._ends.set()  # also when interrupted: nobody begins another item
            deadline = time.monotonic() + _GRACE_SECONDS
            for worker in workers:
                worker.join(max(0.0, deadline - time.monotonic()))
        if self._fault:
            raise self._fault
        return self._progress

    def _next(self) -> Item | None:
        with self._lock:
            for item in self._items:
                key = self._step.key_of_item(item)
                if key not in self._done:
                    self._done.add(key)  # the same item may come twice
                    return item
        return None

    def _work(self) -> None:
        try:
            while not self._ends.is_set() and (item := self._next()) is not None:
                self._do(item)
        except Exception as error:  # of the files or of the step itself, not of an item
            self._fault = self._fault or error
            self._ends.set()

    def _do(self, item: Item) -> None:
        try:
            record = self._step.work(item)
        except (Unjudged, EndpointError) as error:
            self._open(self._step.key_of_item(item), error)
            return
        self._journal.append(record)
        with self._lock:
            self._failures_in_a_row = 0
            self._progress.finished += 1
            self._progress.outcomes[self._step.outcome(record)] += 1
            self._tell(f"{self._step.key_of_item(item)} {self._step.outcome(record)} ({self._progress.text})")

    def _open(self, key: str, error: Exception) -> None:
        with self._lock:
            self._progress.left_open.append(str(error))
            self._failures_in_a_row += 1
            self._tell(f"{key} is left open: {error}")
            storm = self._failures_in_a_row >= max(3, self._concurrency)
        if storm or getattr(error, "ends_run", False):  # the next item would only meet it too
            self._ends.set()
