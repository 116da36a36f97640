"""OpenEnv: a server of sessions, each one trajectory at a time.

An action is one text: a source, or a model's whole answer with the source in a fenced block. An evaluation may take
longer than a client waits (60 s unless it is told otherwise), so that a step answers within ``wait_s`` in any case,
with the verdict or with a *ticket*. The ticket is the next action, and fetches the verdict; until then nothing else is
submitted.

Run a server with ``python -m ptxgym.integrations.openenv --device simulator``; in a program::

    app = create_server(EpisodeSettings(task="PTXBench-GEMM-H100"), max_sessions=16)

Sessions live over ``/ws``; OpenEnv's ``POST /step`` makes a fresh environment for every request, which has no episode.
A verdict that this machine could not give comes with ``reward`` None and ``valid`` False.
"""

from __future__ import annotations

import functools
import sys
import threading
from concurrent.futures import Future, wait
from typing import Annotated, Any, cast
from uuid import uuid4

import typer

from ptxgym.errors import MisuseError
from ptxgym.integrations.dataset import SPLITS, Row, make_rows
from ptxgym.integrations.episode import Episode, EpisodeSettings, Turn
from ptxgym.integrations.extras import missing_extra

try:
    from openenv.core.env_server import Action, ConcurrencyConfig, Environment, Observation, State, create_app
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "openenv":
        raise
    raise missing_extra("openenv", "openenv") from None

_PENDING = "PENDING: {ticket} is being judged. Send {ticket} as the next action to fetch the verdict."
_NOT_SUBMITTED = " This action was not submitted."


class KernelAction(Action):
    """One submission, or a ticket."""

    source: str
    """A source, a model's answer with the source in a fenced block, or the ticket of a pending evaluation."""


class KernelObservation(Observation):
    """What came of an action; ``reward`` is what it adds to the trajectory's, None while it is not known."""

    text: str = ""
    """The prompt after a reset, then feedback."""
    status: str = ""
    """As :data:`ptxgym.evaluation.STATUSES`, or ``pending``; empty after a reset."""
    ticket: str = ""
    """Of a pending evaluation."""
    valid: bool = True
    """False when this machine could not judge: mask the trajectory."""
    turn: int = 0
    """Submissions judged so far."""


class KernelEnvironment(Environment[KernelAction, KernelObservation, State]):
    """One session.

    Args:
        settings: How episodes are played; ``reset`` may name ``task_id``, ``phase``, ``level``, ``variant`` and
            ``max_turns`` instead, or a ``split`` and an ``index`` of the data set.
        wait_s: The longest that a step takes to answer.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, settings: EpisodeSettings | None = None, wait_s: float = 20.0) -> None:
        super().__init__()
        self._settings = settings or EpisodeSettings()
        self._wait_s = wait_s
        self._episode: Episode | None = None
        self._pending: tuple[str, Future[Turn]] | None = None
        self._state = State(step_count=0)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **row: Any) -> KernelObservation:
        """Begin an episode. A pending evaluation is given up: its verdict goes nowhere.

        Args:
            seed: Not used; the judge's inputs come from seeds that nobody is told.
            episode_id: Of the client's own choice.
            **row: What the episode is about.
        """
        self.close()
        if "index" in row:
            row = self.get_task(str(row.get("split", SPLITS[0])), int(row["index"])) | row
        self._episode = Episode(self._settings.for_row(row))
        self._state = State(episode_id=episode_id or uuid4().hex, step_count=0)
        return KernelObservation(text=self._episode.prompt)

    def step(self, action: KernelAction, timeout_s: float | None = None, **kwargs: Any) -> KernelObservation:
        """Submit, or fetch the verdict of what is pending.

        Raises:
            MisuseError: The episode is over, or was not begun.
        """
        episode = self._episode
        if episode is None or (episode.done and self._pending is None):
            raise MisuseError("The episode is over or was not begun; reset first.")
        text, notice = action.source, ""
        if self._pending is None:
            self._pending = (f"ticket-{uuid4().hex[:8]}", _in_thread(episode, text))
        elif text.strip() != self._pending[0]:
            notice = _NOT_SUBMITTED
        ticket, future = self._pending
        wait([future], self._wait_s if timeout_s is None else min(timeout_s, self._wait_s))
        if not future.done():
            return self._observe(_PENDING.format(ticket=ticket) + notice, status="pending", ticket=ticket)
        self._pending = None
        turn = future.result()
        self._state.step_count = len(episode.turns)
        text = f"{turn.feedback}\n{notice.strip()}".rstrip()
        return self._observe(
            text,
            status=turn.evaluation.status,
            valid=turn.valid,
            reward=turn.gain if turn.valid else None,
            done=turn.done,
            metadata={"trajectory_reward": episode.reward, **episode.metrics()},
        )

    @property
    def state(self) -> State:
        """The episode's id and the submissions judged."""
        return self._state

    def close(self) -> None:
        """End the session; an evaluation that is under way ends by its own limits and is not waited for."""
        self._pending = None
        if self._episode is not None:
            self._episode.close()
            self._episode = None

    def list_splits(self) -> list[str]:
        """The data set's splits."""
        return list(SPLITS)

    def num_tasks(self, split: str) -> int:
        """How many rows a split has."""
        return len(_rows(split))

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """A split's rows without their prompts, from easy to hard."""
        return [self.get_task(split, index) for index in range(self.num_tasks(split))]

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """One row without its prompt."""
        row = _rows(split)[index]
        return {name: row[name] for name in ("id", "task_id", "phase", "level", "variant", "family", "difficulty")}

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[dict[str, Any]]:
        """Rows by Python's rules for slices."""
        return self.list_tasks(split)[start:stop]

    def _observe(self, text: str, **fields: Any) -> KernelObservation:
        return KernelObservation(text=text, turn=self._state.step_count, **fields)


@functools.cache
def _rows(split: str) -> tuple[Row, ...]:
    return tuple(make_rows(splits=(split,)))


def _in_thread(episode: Episode, text: str) -> Future[Turn]:
    """Judge in a thread that does not keep the server from ending."""
    future: Future[Turn] = Future()

    def judge() -> None:
        try:
            future.set_result(episode.answer(text) if "```" in text else episode.submit(text))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=judge, name="ptxgym", daemon=True).start()
    return future


def create_server(
    settings: EpisodeSettings | None = None,
    *,
    max_sessions: int = 32,
    session_timeout_s: float = 3600.0,
    wait_s: float = 20.0,
) -> Any:
    """An ASGI application of OpenEnv.

    Args:
        settings: How episodes are played.
        max_sessions: Sessions at a time; one more is told so.
        session_timeout_s: A session without a step for so long is closed.
        wait_s: The longest that a step takes to answer; well under the clients' 60 s.
    """
    make = functools.partial(KernelEnvironment, settings, wait_s)
    return create_app(
        cast("Any", make),
        KernelAction,
        KernelObservation,
        env_name="ptxgym",
        concurrency_config=ConcurrencyConfig(max_concurrent_envs=max_sessions, session_timeout=session_timeout_s),
    )


def serve(
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port.")] = 8000,
    env: Annotated[str, typer.Option(help="The task, where a reset names none.")] = "PTXBench-GEMM-H100",
    device: Annotated[str, typer.Option(help="auto, cuda, simulator, or none.")] = "auto",
    reward: Annotated[str, typer.Option(help="A named reward.")] = "staged",
    turns: Annotated[int, typer.Option(help="Submissions per episode.")] = 8,
    feedback_tokens: Annotated[int, typer.Option(help="The longest feedback.")] = 1000,
    max_sessions: Annotated[int, typer.Option(help="Sessions at a time.")] = 32,
    session_timeout: Annotated[float, typer.Option(help="Seconds without a step.")] = 3600.0,
    wait_s: Annotated[float, typer.Option("--wait", help="The longest that a step takes, in seconds.")] = 20.0,
) -> None:
    """Serve ptxgym to OpenEnv clients."""
    import uvicorn

    settings = EpisodeSettings.of(
        {"task": env, "device": device, "reward": reward, "max_turns": turns, "feedback_tokens": feedback_tokens}
    )
    Episode(settings).close()  # so that a wrong name ends here, and not in every session
    app = create_server(settings, max_sessions=max_sessions, session_timeout_s=session_timeout, wait_s=wait_s)
    uvicorn.run(app, host=host, port=port)


def main() -> None:
    """The entry point: a sentence instead of a traceback for what the caller can mend."""
    try:
        typer.run(serve)
    except MisuseError as error:
        sys.exit(f"ptxgym: {error}")


if __name__ == "__main__":
    main()
