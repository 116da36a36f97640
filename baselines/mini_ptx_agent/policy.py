"""A policy for a whole run: for every trajectory an agent, with a model behind it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym

from baselines.mini_ptx_agent.agent import MiniPTXAgent, Turn
from baselines.mini_ptx_agent.conversation import Message, Model
from baselines.mini_ptx_agent.endpoint import EndpointModel, SeededModel
from baselines.mini_ptx_agent.settings import load_settings


@dataclass(frozen=True, slots=True)
class ModelPolicy:
    """Starts an agent per trajectory."""

    model_for: Callable[[gym.Env[Any, str], int], Model]
    """The model for an environment and a trajectory's seed."""
    model: str = ""
    """The language model's name; empty for a script."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What a record of the run says of it."""

    def start(
        self,
        env: gym.Env[Any, str],
        *,
        seed: int,
        max_turns: int,
        messages: Sequence[Message],
        save: Callable[[Turn], None],
    ) -> MiniPTXAgent:
        """The agent of one trajectory, from its beginning or from a conversation that was broken off."""
        return MiniPTXAgent(env, self.model_for(env, seed), max_turns=max_turns, save=save, messages=messages)


def endpoint_policy(
    *,
    model: str,
    base_url: str | None = None,
    api: str | None = None,
    models: Path | None = None,
    adaptation: str = "",
) -> ModelPolicy:
    """MiniPTXAgent with a model behind an OpenAI-compatible endpoint.

    Args:
        model: A table of ``models.toml``, or a name that the endpoint knows.
        base_url: The endpoint; ``OPENAI_BASE_URL`` by default.
        api: ``chat`` or ``responses``, where it differs from the settings.
        models: A file of settings of your own.
        adaptation: How the model came to be what it is, e.g. ``s1``; runs with another are told apart by it.

    Raises:
        SetupError: There is no endpoint, or the settings are wrong.
    """
    settings = load_settings(model, models, api=api)
    endpoint = EndpointModel(settings, base_url)
    said = {
        k: v for k, v in dataclasses.asdict(settings).items() if not (isinstance(v, float) and not math.isfinite(v))
    }

    def model_for(env: gym.Env[Any, str], seed: int) -> Model:
        return SeededModel(endpoint, seed) if settings.send_seed else endpoint

    tagged = {"adaptation": adaptation} if adaptation else {}
    return ModelPolicy(model_for, settings.name, {"endpoint": endpoint.endpoint, **said, **tagged})
