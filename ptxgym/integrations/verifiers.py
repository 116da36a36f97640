"""verifiers (v1): a task set, its reward and metrics, and an environment of several turns.

verifiers looks a task set up by a top-level name, which is ``ptxgym_verifiers``::

    [env.taskset]
    id = "ptxgym_verifiers"
    tasks = ["PTXBench-GEMM-H100"]
    task.settings = { device = "simulator" }

Each answer is judged and its feedback is the next user turn, up to the task's turns; ``env.id = "single_agent"`` judges
one answer alone. A trajectory that this machine could not judge ends with an error and no reward, so that trainers
leave it out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from pydantic import Field

from ptxgym.integrations.dataset import PHASES, make_rows
from ptxgym.integrations.episode import Episode, EpisodeSettings, Phase
from ptxgym.integrations.extras import missing_extra

try:
    import verifiers.v1 as vf
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "verifiers":
        raise
    raise missing_extra("verifiers", "verifiers") from None

__all__ = ["KernelRolloutConfig", "KernelRolloutEnv", "KernelTaskset", "KernelTasksetConfig"]


class UnjudgedError(RuntimeError):
    """This machine could not judge a submission: the trajectory has no reward."""


class KernelData(vf.TaskData):
    """A row of the data set."""

    task_id: str
    phase: str
    max_turns: int


class KernelState(vf.State):
    """What was found of a trajectory so far."""

    judged: bool = False
    reward: float | None = None
    metrics: dict[str, float] = Field(default_factory=dict)

    def note(self, episode: Episode) -> None:
        """Take over an episode's numbers."""
        self.judged, self.reward, self.metrics = True, episode.reward, episode.metrics()


class KernelTaskConfig(vf.TaskConfig):
    """How kernels are judged."""

    settings: dict[str, Any] = Field(default_factory=dict)
    """:class:`ptxgym.integrations.episode.EpisodeSettings` by name."""


class KernelTask(vf.Task[KernelData, KernelState, KernelTaskConfig]):
    """One row, its reward and its metrics."""

    @property
    def key(self) -> str:
        """The row's id: it stays the same whatever the order."""
        return str(self.data.id)

    def begin(self) -> Episode:
        """An episode of this task."""
        return Episode(EpisodeSettings.of(self.config.settings).for_row(self.data.model_dump()))

    @vf.reward(weight=1.0)
    async def kernel(self, trace: vf.Trace) -> float:
        """The trajectory's reward.

        Raises:
            UnjudgedError: There is none.
        """
        state = await self._judged(trace)
        if state.reward is None:
            raise UnjudgedError("This machine could not judge a submission; see ptxgym doctor.")
        return state.reward

    @vf.metric
    async def numbers(self, trace: vf.Trace) -> dict[str, float]:
        """Turns, how far the trajectory came, and its speedup."""
        return (await self._judged(trace)).metrics

    async def _judged(self, trace: vf.Trace) -> KernelState:
        """The state; of an exchange that nobody judged turn by turn, by its last answer."""
        state: KernelState = trace.state
        if not state.judged:
            state.note(await asyncio.to_thread(self._judge, trace.last_reply or ""))
        return state

    def _judge(self, reply: str) -> Episode:
        episode = self.begin()
        try:
            episode.answer(reply)
        finally:
            episode.close()
        return episode


class KernelTasksetConfig(vf.TasksetConfig):
    """Which rows of the data set; as for ``ptxgym tasks export``."""

    task: KernelTaskConfig = KernelTaskConfig()
    tasks: list[str] = Field(default_factory=lambda: ["*"])
    """Ids or patterns."""
    split: str = "train"
    phases: list[Phase] = Field(default_factory=lambda: [*PHASES])
    level: str = "parameters"
    variants: list[str] = Field(default_factory=lambda: ["base"])
    max_turns: int = 8


class KernelTaskset(vf.Taskset[KernelTask, KernelTasksetConfig]):
    """The data set's rows, from easy to hard."""

    def load(self) -> Iterator[KernelTask]:
        """Yield one task per row."""
        config = self.config
        rows = make_rows(
            config.tasks,
            splits=(config.split,),
            phases=config.phases,
            level=config.level,
            variants=config.variants,
            max_turns=config.max_turns,
            device=config.task.settings.get("device", "none"),
        )
        for row in rows:
            system, user = (message["content"] for message in row["prompt"])
            data = KernelData(
                id=row["id"],
                name=row["id"],
                prompt=user,
                system_prompt=system,
                task_id=row["task_id"],
                phase=row["phase"],
                max_turns=row["max_turns"],
            )
            yield KernelTask(data, config.task)


class KernelRolloutConfig(vf.EnvConfig):
    """The one policy."""

    agent: vf.AgentConfig = vf.AgentConfig()


class KernelRolloutEnv(vf.Env[KernelRolloutConfig]):
    """One policy, several submissions. Its harness must be able to resume a conversation."""

    async def run(self, task: KernelTask, agents: vf.Agents) -> None:
        """Play one task to its end, or until the policy's own limits."""
        episode = await asyncio.to_thread(task.begin)
        try:
            async with agents.agent.interaction(task) as exchange:
                segment = await exchange.turn()
                while not segment.terminated:
                    turn = await asyncio.to_thread(episode.answer, segment.last_reply)
                    exchange.trace.state.note(episode)
                    if turn.done:
                        break
                    segment = await exchange.turn(turn.feedback)
        finally:
            episode.close()
