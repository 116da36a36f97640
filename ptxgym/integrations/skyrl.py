"""SkyRL-gym: a text environment of several turns.

>>> import skyrl_gym
>>> from ptxgym.integrations import skyrl
>>> skyrl.register()
>>> row = {"task_id": "PTXBench-GEMM-H100", "max_turns": 2}
>>> env = skyrl_gym.make("ptxgym", env_config={"device": "none"}, extras=row)
>>> messages, info = env.init([])
>>> step = env.step("I would rather not.")
>>> step["observations"][0]["content"].split(":")[0], step["reward"], step["done"]
('UNUSABLE ANSWER', 0.0, False)
>>> env.close()

SkyRL wants a number for every step. A step's is what it adds to the trajectory's reward, so that they sum up to it. A
step that this machine could not judge gives 0 and ``metadata["valid"]`` False, and the trajectory's ``unjudged`` metric
is 1: leave such trajectories out of the loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptxgym.integrations.episode import Episode, EpisodeSettings
from ptxgym.integrations.extras import missing_extra

try:
    import skyrl_gym
    from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput
except ModuleNotFoundError as error:
    if error.name != "skyrl_gym":
        raise
    raise missing_extra("skyrl-gym", "skyrl") from None

ENV_ID = "ptxgym"


class KernelTextEnv(BaseTextEnv):
    """One trajectory: every action is a model's whole answer, every observation the feedback on its kernel.

    Args:
        env_config: :class:`ptxgym.integrations.episode.EpisodeSettings` by name.
        extras: A row of the data; its ``task_id``, ``phase`` and ``max_turns`` come before the configuration.
    """

    def __init__(self, env_config: Mapping[str, Any] | None = None, extras: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self._episode = Episode(EpisodeSettings.of(env_config or {}).for_row(extras or {}))
        self.max_turns = self._episode.settings.max_turns

    def init(self, prompt: list[dict[str, str]]) -> tuple[list[dict[str, str]], dict[str, Any]]:
        """The conversation's beginning: the row's prompt, or the task's where that is empty."""
        return prompt or [{"role": "user", "content": self._episode.prompt}], {}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Judge the kernel in an answer."""
        turn = self._episode.answer(action)
        self.turns = len(self._episode.turns)
        return BaseTextEnvStepOutput(
            observations=[] if turn.done else [{"role": "user", "content": turn.feedback}],
            reward=turn.gain,
            done=turn.done,
            metadata={"valid": turn.valid, "status": turn.evaluation.status},
        )

    def get_metrics(self) -> dict[str, Any]:
        """The trajectory's numbers."""
        return self._episode.metrics()

    def close(self) -> None:
        """Close the environment."""
        self._episode.close()


def register() -> None:
    """Make ``skyrl_gym.make("ptxgym", …)`` work; more than once does no harm."""
    if ENV_ID not in skyrl_gym.registry:
        skyrl_gym.register(id=ENV_ID, entry_point="ptxgym.integrations.skyrl:KernelTextEnv")
