"""What a trainer does to rewards: pay progress between turns as it is made, and compare the members of a group."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ptxgym.errors import MisuseError
from ptxgym.evaluation import Evaluation
from ptxgym.rewards import Reward, get_reward

_SMALLEST_SPREAD = 1e-6
"""A group whose rewards differ by less has nothing to say."""


@dataclass(frozen=True, slots=True)
class Shaping:
    """Potential-based shaping: a turn earns F = γ·Φ(s′) − Φ(s) besides its reward (Ng, Harada and Russell 1999).

    Φ of a state is the potential of the last submission that could be judged. It is 0 before the first turn and after
    the last, however the episode ends, so that the discounted sum of F over any episode is 0: what an episode returns,
    and so which policy is best, stays as it was.

    A turn that this machine could not judge leaves Φ as it was. Its own reward is 0, but not always its F: nobody keeps
    what was paid in advance by ending on such a turn.
    """

    gamma: float = 1.0
    """The trainer's own discount."""
    potential: str | Reward = "staged"
    """A reward by name, or a callable; bounded, as it is paid in advance."""

    def __post_init__(self) -> None:
        if not 0 < self.gamma <= 1:
            raise MisuseError(f"gamma={self.gamma} is no discount in (0, 1].")
        get_reward(self.potential)

    def after(self, before: float, evaluation: Evaluation, ended: bool) -> float:
        """Φ of the state after a turn.

        Args:
            before: Φ of the state before it.
            evaluation: Of the turn's submission.
            ended: Whether the episode ends with it.
        """
        if ended:
            return 0.0
        return float(get_reward(self.potential)(evaluation)) if evaluation.valid else before

    def paid(self, before: float, after: float) -> float:
        """F of a turn between two values of Φ."""
        return self.gamma * after - before


def group_advantages(
    rewards: Sequence[float] | npt.NDArray[Any],
    valid: Sequence[bool] | npt.NDArray[Any] | None = None,
    groups: Sequence[Hashable] | None = None,
    scale: bool = True,
) -> npt.NDArray[np.float64]:
    """How much better than its group each sample did: (r − mean) / deviation, as GRPO has it.

    What is unknown takes no part: a sample that is not valid, or whose reward is NaN or infinite, counts in no mean and
    has advantage 0, so it teaches nothing; mask it from the loss as well. A group whose known rewards are all equal, or
    in which only one is known, has advantages 0.

    >>> group_advantages([1.0, 0.0, 0.5, 0.0], valid=[True, True, True, False], scale=False).tolist()
    [0.5, -0.5, 0.0, 0.0]

    Args:
        rewards: One per sample.
        valid: ``info["valid"]`` of each; all by default.
        groups: The group of each, e.g. its prompt; one group by default.
        scale: Whether to divide by the group's (population) standard deviation.

    Raises:
        MisuseError: The lengths differ.
    """
    values = np.asarray(rewards, dtype=np.float64)
    known = np.ones(values.size, dtype=bool) if valid is None else np.asarray(valid, dtype=bool)
    names = [0] * values.size if groups is None else list(groups)
    if values.ndim != 1 or known.shape != values.shape or len(names) != values.size:
        raise MisuseError(f"{values.size} rewards need as many flags and groups, not {known.size} and {len(names)}.")
    known = known & np.isfinite(values)
    members: dict[Hashable, list[int]] = {}
    for index, name in enumerate(names):
        if known[index]:
            members.setdefault(name, []).append(index)
    advantages = np.zeros(values.shape)
    for indices in members.values():
        own = values[indices]
        if np.ptp(own) > _SMALLEST_SPREAD:
            advantages[indices] = (own - own.mean()) / (own.std() if scale else 1.0)
    return advantages
