"""One evaluator for many rollouts: bounded, fair, in order, and nothing judged twice at a time.

Threads suffice, because compilers, simulators and candidates are processes of their own. A pool does not schedule
processors or GPUs: compilers already wait for a processor, and runs for the device, where they begin. It decides only
whose submission begins next.

Not promised: that an evaluation which nobody waits for any more stops at once. It ends with the stage that is running.
"""

from __future__ import annotations

import functools
import os
import queue
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Hashable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from typing import Any, NoReturn, Self

from ptxgym.errors import MisuseError
from ptxgym.evaluation.evaluator import EvaluationOptions, Evaluator
from ptxgym.evaluation.records import Evaluation, StageName, StageResult
from ptxgym.tasks import Task, get_task


@dataclass(frozen=True, slots=True)
class PoolLoad:
    """What a pool has to do, and has done."""

    queued: int
    """Submissions that nothing has begun for."""
    running: int
    """Evaluations that have begun."""
    judged: int
    """Evaluations that came to their end."""
    joined: int
    """Submissions that were answered by the evaluation of another, which was in flight."""
    abandoned: int
    """Evaluations that were stopped because nobody waited any more."""


class EvaluationPool:
    """Judges submissions of many trajectories, side by side.

    Trajectories take turns: the next evaluation to begin is that of the one that has waited longest for its turn,
    however many submissions another has handed in. Within a trajectory results come in the order of submission. Equal
    submissions (source, task and options) share one evaluation while it is in flight; later the cache answers. With
    ``EvaluationOptions(cache=False)`` each is judged for itself.

    The futures are :class:`concurrent.futures.Future`, so ``asyncio.wrap_future`` awaits them. ``future.cancel()``
    works until the result is there, also while the evaluation runs: it is taken out of the queue, or ends with its
    present stage, unless somebody else waits for it. Callbacks run in the pool's threads and must not block.

    >>> from ptxgym import EvaluationOptions
    >>> with EvaluationPool(workers=1) as pool:
    ...     future = pool.submit("", "PTXBench-GEMM-H100", EvaluationOptions(device="none"))
    ...     future.result().status
    'invalid_action'

    Args:
        workers: Evaluations at a time; by default two more than processors, so that compilers fill the processors while
            others are at the device.
        capacity: Submissions that may wait in all. Beyond it ``submit`` blocks: a trainer is no faster than its judge.
        share: Submissions that may wait of one trajectory, so that one cannot fill the queue.
    """

    def __init__(self, workers: int | None = None, capacity: int = 256, share: int = 32) -> None:
        workers = workers if workers is not None else (os.cpu_count() or 1) + 2
        if min(workers, capacity, share) < 1:
            raise MisuseError("A pool needs at least one worker, and room for one submission.")
        self.workers, self.capacity, self.share = workers, capacity, share
        self._lock = threading.RLock()
        self._work_came = threading.Condition(self._lock)
        self._room_came = threading.Condition(self._lock)
        self._evaluators: dict[Hashable, Evaluator] = {}
        self._works: dict[Hashable, _Work] = {}
        self._trajectories: OrderedDict[str, _Trajectory] = OrderedDict()
        self._blocked: list[_Blocked] = []
        self._queued = self._running = self._judged = self._joined = self._abandoned = 0
        self._threads: list[threading.Thread] = []
        self._closed = False

    @property
    def load(self) -> PoolLoad:
        """A look at the pool."""
        with self._lock:
            return PoolLoad(self._queued, self._running, self._judged, self._joined, self._abandoned)

    def submit(
        self,
        source: object,
        task: str | Task,
        options: EvaluationOptions | None = None,
        *,
        trajectory: str = "",
        timeout: float | None = None,
    ) -> Future[Evaluation]:
        """Hand in a submission.

        Args:
            source: The action; anything but a source is an invalid action, as for :meth:`Evaluator.evaluate`.
            task: A task or its id.
            options: How it is judged.
            trajectory: Whose it is: takes turns with others, and gets its results in order.
            timeout: Seconds to wait for room in the queue; None waits as long as it takes, 0 not at all.

        Raises:
            queue.Full: There was no room in time.
            CancelledError: The trajectory was cancelled, or the pool closed, while this waited for room.
            MisuseError: There is no such task or device, or the pool is closed.
        """
        task = get_task(task) if isinstance(task, str) else task
        options = options or EvaluationOptions()
        with self._lock:
            if self._closed:
                raise MisuseError("The pool is closed; make another.")
            self._start()
            evaluator = self._evaluators.get((task, options)) or Evaluator(task, options)
            self._evaluators[task, options] = evaluator
            self._wait_for_room(trajectory, timeout)
            ticket = self._admit(source, evaluator, trajectory)
        ticket.future.add_done_callback(functools.partial(self._settled, ticket))
        return ticket.future

    def cancel(self, trajectory: str) -> None:
        """Cancel everything that a trajectory waits for."""
        with self._lock:
            for blocked in self._blocked:
                blocked.cancelled |= blocked.trajectory == trajectory
            self._room_came.notify_all()
            tickets = list(self._trajectories[trajectory].undelivered) if trajectory in self._trajectories else []
        for ticket in tickets:
            ticket.future.cancel()

    def close(self) -> None:
        """Cancel everything and end the workers, each with the stage that it is in."""
        with self._lock:
            self._closed = True
            for blocked in self._blocked:
                blocked.cancelled = True
            trajectories = list(self._trajectories)
            self._work_came.notify_all()
            self._room_came.notify_all()
        for trajectory in trajectories:
            self.cancel(trajectory)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __deepcopy__(self, memo: object) -> Self:
        """A copied environment uses the same pool."""
        return self

    def __reduce__(self) -> NoReturn:
        raise MisuseError("An EvaluationPool stays in its process: lend it with PoolServer, and pickle a PoolClient.")

    # The queue. All of it is called with the lock held.

    def _start(self) -> None:
        while len(self._threads) < self.workers:
            name = f"ptxgym-evaluation-{len(self._threads)}"
            self._threads.append(threading.Thread(target=self._serve, name=name, daemon=True))
            self._threads[-1].start()

    def _wait_for_room(self, trajectory: str, timeout: float | None) -> None:
        """Return when it is this submission's turn to enter the queue: those that came earlier and fit go first."""
        blocked = _Blocked(trajectory)
        self._blocked.append(blocked)
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            while not blocked.cancelled:
                if next((b for b in self._blocked if self._fits(b.trajectory)), None) is blocked:
                    return
                if not self._room_came.wait(None if deadline is None else deadline - time.monotonic()):
                    raise queue.Full(f"{self._queued} submissions are waiting.")
            raise CancelledError
        finally:
            self._blocked.remove(blocked)
            self._room_came.notify_all()

    def _fits(self, trajectory: str) -> bool:
        own = self._trajectories.get(trajectory)
        return self._queued < self.capacity and (own is None or len(own.queue) < self.share)

    def _admit(self, source: object, evaluator: Evaluator, trajectory: str) -> _Ticket:
        same = isinstance(source, str) and evaluator.options.cache
        key: Hashable = (source, evaluator.task, evaluator.options) if same else object()
        work = self._works.setdefault(key, _Work(key, source, evaluator))
        own = self._trajectories.setdefault(trajectory, _Trajectory(trajectory))
        ticket = _Ticket(own, work)
        own.undelivered.append(ticket)
        self._joined += bool(work.tickets)
        work.tickets.append(ticket)
        if not work.begun:
            own.queue.append(ticket)
            self._queued += 1
            self._work_came.notify()
        return ticket

    def _take(self) -> _Work | None:
        """The next to begin; None when nothing waits."""
        own = next((t for t in self._trajectories.values() if t.queue), None)
        if own is None:
            return None
        self._trajectories.move_to_end(own.name)  # it has had its turn
        work = own.queue[0].work
        work.begun = True
        for ticket in work.tickets:
            self._unqueue(ticket)
        self._running += 1
        return work

    def _unqueue(self, ticket: _Ticket) -> None:
        if ticket in ticket.trajectory.queue:
            ticket.trajectory.queue.remove(ticket)
            self._queued -= 1
            self._room_came.notify_all()

    def _forget(self, own: _Trajectory) -> None:
        over = not own.undelivered and not own.delivering
        if over and self._trajectories.get(own.name) is own:  # another may have begun under the same name
            del self._trajectories[own.name]

    # The workers.

    def _serve(self) -> None:
        while True:
            with self._lock:
                while (work := self._take()) is None:
                    if self._closed:
                        return
                    self._work_came.wait()
            outcome: Evaluation | Exception
            try:
                outcome = work.evaluator.evaluate(work.source, functools.partial(self._still_wanted, work))
            except _AbandonedError:
                continue
            except Exception as error:  # a fault of ours; whoever waits shall hear of it
                outcome = error
            with self._lock:
                self._works.pop(work.key, None)
                self._running -= 1
                self._judged += 1
                tickets = list(work.tickets)
                for ticket in tickets:
                    ticket.outcome = outcome
            for ticket in tickets:
                self._deliver(ticket.trajectory)

    def _still_wanted(self, work: _Work, stage: StageName, result: StageResult | None) -> None:
        """Before every stage: stop where nobody waits any more."""
        with self._lock:
            if result is not None or work.tickets:
                return
            self._works.pop(work.key, None)
            self._running -= 1
            self._abandoned += 1
        raise _AbandonedError

    def _deliver(self, own: _Trajectory) -> None:
        """Resolve what is ready at the head of a trajectory, in order; by one thread at a time, without the lock."""
        with self._lock:
            if own.delivering:
                return  # whoever delivers will see what has just become ready
            own.delivering = True
        while True:
            with self._lock:
                if not own.undelivered or own.undelivered[0].outcome is None:
                    own.delivering = False
                    self._forget(own)
                    return
                ticket = own.undelivered.popleft()
            if not ticket.future.set_running_or_notify_cancel():
                continue
            if isinstance(ticket.outcome, Evaluation):
                ticket.future.set_result(ticket.outcome)
            else:
                ticket.future.set_exception(ticket.outcome)

    def _settled(self, ticket: _Ticket, future: Future[Evaluation]) -> None:
        """Free what a cancelled submission held."""
        own, work = ticket.trajectory, ticket.work
        with self._lock:
            if not future.cancelled() or ticket not in own.undelivered:
                return
            own.undelivered.remove(ticket)
            self._unqueue(ticket)
            work.tickets.remove(ticket)
            if not work.tickets and not work.begun:
                self._works.pop(work.key, None)
        future.set_running_or_notify_cancel()  # those in concurrent.futures.wait learn of it
        self._deliver(own)


@dataclass(eq=False, slots=True)
class _Trajectory:
    """Whose turn it is, and in which order its results come."""

    name: str
    queue: deque[_Ticket] = field(default_factory=deque)
    """Submissions whose evaluation has not begun."""
    undelivered: deque[_Ticket] = field(default_factory=deque)
    """All submissions without a result, in order."""
    delivering: bool = False


@dataclass(eq=False, slots=True)
class _Work:
    """One evaluation, and all who wait for it."""

    key: Hashable
    source: Any
    evaluator: Evaluator
    tickets: list[_Ticket] = field(default_factory=list)
    begun: bool = False


@dataclass(eq=False, slots=True)
class _Ticket:
    """One submission."""

    trajectory: _Trajectory
    work: _Work
    future: Future[Evaluation] = field(default_factory=Future)
    outcome: Evaluation | Exception | None = None


@dataclass(eq=False, slots=True)
class _Blocked:
    """A submitter that waits for room."""

    trajectory: str
    cancelled: bool = False


class _AbandonedError(BaseException):
    """Passes through the evaluator, which turns every Exception into a result."""
