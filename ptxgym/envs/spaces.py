"""Spaces of Unicode text, which ``gymnasium.spaces.Text`` cannot hold without naming every character."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

_SAMPLED = "// ptxgym: a sampled source, which no task accepts. {number:016x}\n"


class Unicode(gym.Space[str]):
    """Every string of at most so many bytes of UTF-8.

    Args:
        max_bytes: The longest string.
        seed: Of the sampler.
    """

    def __init__(self, max_bytes: int, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(shape=None, dtype=str, seed=seed)
        self.max_bytes = max_bytes

    @property
    def is_np_flattenable(self) -> bool:
        """Text is no array."""
        return False

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        """A comment that says it was sampled: cheap to refuse, so that checkers may step with it."""
        return _SAMPLED.format(number=int(self.np_random.integers(1 << 62)))[: self.max_bytes]

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is a string that UTF-8 can encode within the limit."""
        if not isinstance(x, str) or len(x) > self.max_bytes:
            return False
        try:
            return len(x.encode("utf-8")) <= self.max_bytes
        except UnicodeEncodeError:
            return False

    def to_jsonable(self, sample_n: Iterable[str]) -> list[str]:
        """Strings are JSON already."""
        return list(sample_n)

    def from_jsonable(self, sample_n: list[Any]) -> list[str]:
        """Strings are JSON already."""
        return [str(sample) for sample in sample_n]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Unicode) and self.max_bytes == other.max_bytes

    def __hash__(self) -> int:
        return hash((type(self), self.max_bytes))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.max_bytes})"


class Source(Unicode):
    """A kernel's source: the action space."""


@batch_space.register(Unicode)
def _batch(space: Unicode, n: int = 1) -> gym.spaces.Tuple[Any]:
    return gym.spaces.Tuple(tuple(space for _ in range(n)))


@create_empty_array.register(Unicode)
def _create(space: Unicode, n: int = 1, fn: Any = None) -> tuple[str, ...]:
    return ("",) * n


@concatenate.register(Unicode)
def _concatenate(space: Unicode, items: Any, out: Any) -> tuple[str, ...]:
    return tuple(items)


@iterate.register(Unicode)
def _iterate(  # type: ignore[misc]
    space: Unicode, items: Any
) -> Any:
    return iter(items)
