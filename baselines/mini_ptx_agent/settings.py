"""How a model is asked: its decoding settings, limits and prices, from a small TOML file."""

from __future__ import annotations

import dataclasses
import difflib
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from baselines.mini_ptx_agent.exceptions import SetupError

Api = Literal["chat", "responses"]

MODELS = Path(__file__).with_name("models.toml")


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """One table of ``models.toml``."""

    name: str
    """What the endpoint calls the model."""
    api: Api = "chat"
    """Chat completions, or responses."""
    stream: bool = True
    """Whether the answer comes in pieces; a long silence is then told from a long thought."""
    max_tokens: int = 65536
    """The longest answer, reasoning included."""
    max_tokens_field: str = "max_tokens"
    """What chat completions call that limit; some endpoints want ``max_completion_tokens``."""
    context: int = 0
    """Tokens of conversation and answer together; 0 when unknown, and the endpoint's refusal decides."""
    smallest_answer: int = 8192
    """The context is full when fewer tokens than this are left for an answer."""
    characters_per_token: float = 3.0
    """For estimates; CUDA source has about three."""
    prompt_price: float = math.nan
    """US dollars per million tokens."""
    completion_price: float = math.nan
    attempts: int = 8
    """How often a call is made before it is given up."""
    patience: float = 900.0
    """Seconds that may be spent waiting between the attempts of one call."""
    first_wait: float = 1.0
    """Seconds before the second attempt; it doubles from there, with jitter, to a minute at most."""
    silence: float = 600.0
    """Seconds without a byte after which a connection is given up."""
    call_seconds: float = 3600.0
    """Seconds after which one attempt is given up."""
    requests_per_minute: float = math.inf
    """Over all trajectories of a run."""
    send_seed: bool = False
    """Whether the trajectory's seed goes with every request, for endpoints that sample by it."""
    request: Mapping[str, Any] = field(default_factory=dict)
    """Passed on in the request's body as it is, e.g. ``temperature``."""

    def __post_init__(self) -> None:
        if self.api not in get_args(Api):
            raise SetupError(f"api={self.api!r} is none of {', '.join(get_args(Api))}.")
        for name in ("max_tokens", "attempts", "characters_per_token", "requests_per_minute", "smallest_answer"):
            if not getattr(self, name) > 0:
                raise SetupError(f"{name}={getattr(self, name)!r} must be above 0.")


def load_settings(model: str, file: Path | None = None, **overrides: Any) -> ModelSettings:
    """The settings of a model.

    Args:
        model: A table of the file, or of the shipped one; any other name is taken as the endpoint's, with defaults.
        file: A TOML file of your own.
        **overrides: Fields that differ; None means unchanged.

    Raises:
        SetupError: The file cannot be read, or names a field that does not exist.
    """
    tables = _read(MODELS) | (_read(file) if file else {})
    table = {"name": model} | tables.get(model, {}) | {k: v for k, v in overrides.items() if v is not None}
    known = {f.name: f for f in dataclasses.fields(ModelSettings)}
    for name, value in table.items():
        if name not in known:
            nearest = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
            raise SetupError(f"The settings of {model!r} have no field {name!r}.{hint}")
        _check(model, name, value, str(known[name].type))
    return ModelSettings(**table)


_TYPES: dict[str, tuple[type, ...]] = {"str": (str,), "bool": (bool,), "int": (int,), "float": (int, float)}


def _check(model: str, name: str, value: object, wanted: str) -> None:
    """TOML gives every value a type, so a wrong one is a slip that the endpoint would explain worse."""
    types = _TYPES.get(wanted)
    if types and (not isinstance(value, types) or (isinstance(value, bool) and wanted != "bool")):
        raise SetupError(f"The settings of {model!r} have {name}={value!r}; it should be {wanted}.")
    if name == "request" and not isinstance(value, Mapping):
        raise SetupError(f"The settings of {model!r} have request={value!r}; it should be a table.")


def _read(file: Path) -> dict[str, dict[str, Any]]:
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SetupError(f"{file} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SetupError(f"{file} is not TOML: {error}.") from None
    if wrong := [name for name, table in tables.items() if not isinstance(table, dict)]:
        raise SetupError(f"{file}: {wrong[0]!r} stands outside a table; write [model-name] above it.")
    return tables
