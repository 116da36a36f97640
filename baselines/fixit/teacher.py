"""Teachers: language models behind OpenAI-compatible endpoints, asked with the settings of ``models.toml``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from baselines.mini_ptx_agent import EndpointModel, Model, Usage, load_settings
from ptxgym.errors import MisuseError
from ptxgym.runs.records import Usage as UsageRecord


@dataclass(frozen=True)
class Teacher:
    """A model and the name it is known by."""

    name: str
    """As asked for on the command line; recipes name a reasoning teacher by it."""
    model: Model


def endpoint_teacher(
    name: str, base_url: str | None = None, api: str | None = None, models: Path | None = None
) -> Teacher:
    """A teacher behind an endpoint.

    Args:
        name: A table of ``models.toml``, or a name that the endpoint knows.
        base_url: The endpoint; ``OPENAI_BASE_URL`` by default.
        api: ``chat`` or ``responses``, where it differs from the settings.
        models: A file of settings of your own.

    Raises:
        MisuseError: There is no endpoint, or the settings are wrong.
    """
    try:
        return Teacher(name, EndpointModel(load_settings(name, models, api=api), base_url))
    except MisuseError:
        raise
    except ValueError as error:
        raise MisuseError(str(error)) from error


def add_usage(total: UsageRecord, more: Usage) -> UsageRecord:
    """The sum of what answers consumed. An unknown cost makes the sum unknown."""
    first = not (total.prompt_tokens or total.completion_tokens)
    return UsageRecord(
        prompt_tokens=total.prompt_tokens + more.prompt_tokens,
        completion_tokens=total.completion_tokens + more.completion_tokens,
        reasoning_tokens=total.reasoning_tokens + more.reasoning_tokens,
        cost=more.cost if first else total.cost + more.cost,
        counted=total.counted and more.counted,
    )
