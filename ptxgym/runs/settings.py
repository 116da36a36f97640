"""The settings of a new run from what was asked for, and of a resumed one from its folder."""

from __future__ import annotations

import datetime
import fnmatch
import platform
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ptxgym._version import __version__
from ptxgym.errors import MisuseError
from ptxgym.evaluation import EvaluationOptions
from ptxgym.rewards import TARGET_SPEEDUP, get_reward
from ptxgym.runs.policies import Policy
from ptxgym.runs.records import RunRecord
from ptxgym.runs.variants import choose_variants
from ptxgym.tasks import TASKS, get_task


def choose_envs(patterns: Sequence[str]) -> tuple[str, ...]:
    """Instances by id or by pattern (``PTXBench-*-H100``), each once, in the order asked for.

    Raises:
        MisuseError: An id or a pattern names none; the message offers the nearest.
    """
    chosen: dict[str, None] = {}
    for pattern in patterns:
        matches = fnmatch.filter(TASKS, pattern) if set(pattern) & set("*?[") else [get_task(pattern).id]
        if not matches:
            raise MisuseError(f"No instance matches {pattern!r}. `ptxgym list` shows all {len(TASKS)}.")
        chosen.update(dict.fromkeys(matches))
    if not chosen:
        raise MisuseError("Say what to play: --env with an id or a pattern such as 'PTXBench-*-H100'.")
    return tuple(chosen)


def new_run(
    *,
    envs: Sequence[str],
    policy_name: str,
    policy: Policy,
    policy_options: Mapping[str, Any],
    variants: int = 1,
    prompts: Path | None = None,
    knowledge: str = "none",
    trajectories: int = 1,
    max_turns: int = 8,
    seed: int = 0,
    env_settings: Mapping[str, Any],
) -> RunRecord:
    """The record of a run that is about to begin.

    Raises:
        MisuseError: A setting cannot be.
    """
    chosen = choose_envs(envs)
    for name, value in (("trajectories", trajectories), ("turns", max_turns)):
        if value < 1:
            raise MisuseError(f"--{name} {value} leaves nothing to play.")
    _check(env_settings)
    _ask(policy, chosen)
    now = datetime.datetime.now(datetime.UTC)
    return RunRecord(
        run=f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}",
        created=now.isoformat(timespec="seconds"),
        envs=chosen,
        policy=policy_name,
        model=policy.model,
        policy_options={name: _plain(value) for name, value in policy_options.items()},
        policy_settings={name: _plain(value) for name, value in policy.settings.items()},
        variants={env: choose_variants(env, variants, prompts, knowledge) for env in chosen},
        trajectories=trajectories,
        max_turns=max_turns,
        seed=seed,
        env_settings=dict(env_settings),
        knowledge=_level(knowledge, prompts),
        software={"ptxgym": __version__, "python": platform.python_version()},
    )


def recorded(record: RunRecord, option: str, value: Any) -> tuple[Any, Any]:
    """An option as it is given to a resumed run, and as the run has it; in forms that can be compared.

    ``prompts`` is not compared: their text is in the record, and stays.
    """
    fields: dict[str, Any] = {
        "env": record.envs,
        "policy": record.policy,
        "variants": max(map(len, record.variants.values())),
        "trajectories": record.trajectories,
        "turns": record.max_turns,
        "seed": record.seed,
        **record.env_settings,
        **record.policy_options,
    }
    if option == "knowledge" and record.knowledge:
        return _level(value, None), record.knowledge.removesuffix(_OWN_VARIANTS)
    if option in ("prompts", "knowledge"):
        return None, None
    return choose_envs(value) if option == "env" else _plain(value), fields.get(option)


def _check(env_settings: Mapping[str, Any]) -> None:
    """Say which option is wrong before an environment says which argument."""
    get_reward(env_settings.get("reward", "staged"))
    if not env_settings.get("target_speedup", TARGET_SPEEDUP) > 0:  # nan is not, either
        raise MisuseError("--target-speedup: a number above 0 is expected; with inf no speedup ends a trajectory.")
    options = {k: v for k, v in env_settings.items() if k in EvaluationOptions.model_fields}
    try:
        EvaluationOptions.model_validate(options)
    except ValidationError as error:
        first = error.errors()[0]
        raise MisuseError(f"--{str(first['loc'][0]).replace('_', '-')}: {first['msg']}.") from None


_OWN_VARIANTS = ", own variants"


def _level(knowledge: str, prompts: Path | None) -> str:
    """What a report says of the prompts' knowledge."""
    from knowledge import LEVELS

    level = knowledge if knowledge in LEVELS else "own text"
    return level + _OWN_VARIANTS * bool(prompts)


def _ask(policy: Policy, envs: Sequence[str]) -> None:
    """Whether the policy can play these instances at all."""
    check = getattr(policy, "check", None)
    try:
        if check is not None:
            check(envs)
    except ValueError as error:
        raise MisuseError(str(error)) from error


def _plain(value: Any) -> Any:
    return str(value.resolve()) if isinstance(value, Path) else value
