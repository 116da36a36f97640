"""verl: a score for single answers, found by its shape; nothing of verl is imported.

In the trainer's configuration::

    reward.custom_reward_function.path=pkg://ptxgym.integrations.verl
    reward.custom_reward_function.name=compute_score
    +reward.custom_reward_function.reward_kwargs.device=simulator

For several turns see :mod:`ptxgym.integrations.verl_agent_loop`. verl has no way to abstain here: what this machine
could not judge scores 0 with ``valid`` 0, which lands in the batch beside the scores, so that it can be filtered.

>>> compute_score("ptxgym", "No.", "PTXBench-GEMM-H100", {"phase": "probes"}, device="none")["score"]
0.0
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptxgym.integrations.episode import Episode, EpisodeSettings

_OF_VERL = ("reward_router_address", "reward_model_tokenizer")
"""Keywords that verl adds when it runs a reward model."""


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Mapping[str, Any] | None = None,
    **settings: Any,
) -> dict[str, float]:
    """Judge the kernel in an answer. It takes seconds; verl runs it in a thread.

    Args:
        data_source: Not used.
        solution_str: The answer.
        ground_truth: The task's id.
        extra_info: Its ``phase`` counts; whatever else verl puts in is passed over.
        **settings: Of :class:`ptxgym.integrations.episode.EpisodeSettings`, from ``reward_kwargs``.

    Returns:
        ``score``, ``valid``, and the numbers of :meth:`ptxgym.integrations.episode.Episode.metrics`.

    Raises:
        MisuseError: A setting cannot be, or there is no such task.
    """
    said = {name: value for name, value in settings.items() if name not in _OF_VERL}
    row = {"task_id": ground_truth, "phase": (extra_info or {}).get("phase")}
    episode = Episode(EpisodeSettings.of({**said, "max_turns": 1}).for_row(row))
    try:
        episode.answer(solution_str)
        return scores(episode)
    finally:
        episode.close()


def scores(episode: Episode) -> dict[str, float]:
    """A trajectory's score and numbers, with the same keys whatever happened."""
    return {"score": episode.reward or 0.0, "valid": float(episode.valid), **episode.metrics()}
