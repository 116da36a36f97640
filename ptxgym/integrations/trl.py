"""TRL: an environment for ``GRPOTrainer(environment_factory=…)``, and a reward function for single answers.

Nothing of TRL is imported: both are found by their shape. TRL takes None for *abstain*: a trajectory that this machine
could not judge has neither an advantage nor a share in its group's mean.

>>> factory = environment_factory("PTXBench-GEMM-H100", device="none", max_turns=2)
>>> rollout = factory()
>>> print(rollout.reset(prompt=[{"role": "user", "content": ""}]).splitlines()[0])
Write one CUDA C++17 source file with inline PTX for H100 (Hopper, sm_90a).
>>> print(rollout.submit_kernel("").splitlines()[0])
INVALID ACTION: this is not a source that can be compiled.
>>> rollout.get_reward()
0.0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ptxgym.errors import MisuseError
from ptxgym.integrations.episode import Episode, EpisodeSettings

_OVER = "This was the last submission; another would not be judged."


class KernelRollout:
    """What TRL plays: ``reset`` begins an episode, ``submit_kernel`` is the only tool, ``get_reward`` scores it.

    The class itself is a factory too, for data whose rows name their tasks. TRL makes a tool of every public method, so
    there are no others. It builds instances once and resets them often.

    Args:
        settings: How episodes are played.
    """

    def __init__(self, settings: EpisodeSettings | None = None) -> None:
        self._settings = settings or EpisodeSettings()
        self._episode: Episode | None = None

    def reset(self, **row: Any) -> str | None:
        """Begin an episode.

        Args:
            **row: A row of the data. Its ``task_id``, ``phase``, ``level``, ``variant`` and ``max_turns`` come before
                the settings.

        Returns:
            The task's prompt where the row's own is empty; TRL appends it to the last message.
        """
        if self._episode is not None:
            self._episode.close()
        self._episode = Episode(self._settings.for_row(row))
        return None if _has_content(row.get("prompt")) else self._episode.prompt

    def submit_kernel(self, source: str) -> str:
        """Compile, check and time a CUDA kernel, and get feedback on it.

        Args:
            source: The whole of kernel.cu: CUDA C++17 with inline PTX.

        Returns:
            The verdict, and what helps the next submission.
        """
        if self._episode is None:
            raise MisuseError("No episode was begun; call reset() first.")
        if self._episode.done:
            return _OVER
        turn = self._episode.submit(source)
        return f"{turn.feedback}\n{_OVER}" if turn.done else turn.feedback

    def get_reward(self) -> float | None:
        """The trajectory's reward; 0 without a submission, None (abstain) when one could not be judged."""
        return self._episode.reward if self._episode is not None else None


@dataclass(frozen=True, slots=True)
class RolloutFactory:
    """Makes a :class:`KernelRollout` of its settings; picklable where they are, and called without arguments."""

    settings: EpisodeSettings

    def __call__(self) -> KernelRollout:
        """A new rollout environment."""
        return KernelRollout(self.settings)


def environment_factory(task: str = "", **settings: Any) -> RolloutFactory:
    """What ``GRPOTrainer`` takes as ``environment_factory``.

    Args:
        task: A task's id; empty where the rows name theirs.
        **settings: Of :class:`ptxgym.integrations.episode.EpisodeSettings`, e.g. ``device``, ``feedback_tokens``.

    Raises:
        MisuseError: A setting cannot be.
    """
    return RolloutFactory(EpisodeSettings.of({"task": task, **settings}))


class KernelReward:
    """A reward function for one answer per prompt, without tools: the kernel in each answer is judged.

    All answers of a batch are judged side by side, which the tool of a trainer that calls tools one after the other
    cannot do.

    Args:
        task: A task's id; empty where the rows name theirs.
        workers: Answers judged at a time.
        **settings: As for :func:`environment_factory`.
    """

    __name__ = "kernel_reward"  # TRL logs it under this name

    def __init__(self, task: str = "", workers: int = 8, **settings: Any) -> None:
        self.settings = EpisodeSettings.of({"task": task, **settings, "max_turns": 1})
        self.workers = workers

    def __call__(self, completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """One reward per completion; None for one that could not be judged.

        Args:
            completions: Texts, or conversations that end with the answer.
            **columns: The data's columns, one value per completion.
        """
        told = {name: columns[name] for name in ("task_id", "phase", "extra_info") if name in columns}
        rows = [{name: values[i] for name, values in told.items()} for i in range(len(completions))]
        with ThreadPoolExecutor(self.workers, thread_name_prefix="ptxgym") as pool:
            return list(pool.map(self._judge, completions, rows))

    def _judge(self, completion: Any, row: Mapping[str, Any]) -> float | None:
        text = completion if isinstance(completion, str) else completion[-1]["content"]
        episode = Episode(self.settings.for_row(row))
        try:
            episode.answer(text or "")
            return episode.reward
        finally:
            episode.close()


def _has_content(prompt: Any) -> bool:
    return bool(prompt if isinstance(prompt, str) else prompt and prompt[-1].get("content"))
