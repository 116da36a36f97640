"""What the harness asks of a policy, and how one is found by name."""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

import gymnasium as gym

from ptxgym.errors import MisuseError


class PlayedTurn(Protocol):
    """What a policy tells of a turn; plain data, so that a policy needs nothing of ptxgym."""

    @property
    def messages(self) -> Sequence[Mapping[str, str]]:
        """``role``, ``content`` and perhaps ``reasoning`` of what the turn added to the conversation."""

    @property
    def source(self) -> str:
        """As submitted."""

    @property
    def reward(self) -> float:
        """As ``env.step`` returned it, like the next three."""

    @property
    def terminated(self) -> bool:
        """See :attr:`reward`."""

    @property
    def truncated(self) -> bool:
        """See :attr:`reward`."""

    @property
    def info(self) -> Mapping[str, Any]:
        """See :attr:`reward`."""

    @property
    def usage(self) -> Any:
        """Has the fields of :class:`ptxgym.runs.records.Usage`."""

    @property
    def model_seconds(self) -> float:
        """What the answer took."""

    @property
    def evaluation_seconds(self) -> float:
        """What ``env.step`` took."""


class End(Protocol):
    """Why a trajectory ended."""

    @property
    def reason(self) -> str:
        """``target_speedup``, ``passed``, ``turn_budget``, ``context_full`` or ``policy_done``."""

    @property
    def detail(self) -> str:
        """A sentence, or nothing."""


class Player(Protocol):
    """A policy in one episode."""

    def run(self, seed: int | None = None) -> End:
        """Play to the end. What it raises is an error of the trajectory; with ``ends_run`` true, of the run."""


class Policy(Protocol):
    """A policy for a whole run. It is shared between threads.

    It may also have ``check(envs)``, which is asked before anything is begun: a ``ValueError`` with a sentence refuses
    to play these instances.
    """

    @property
    def model(self) -> str:
        """The language model's name, or nothing."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What it was built from; never a key."""

    def start(
        self,
        env: gym.Env[Any, str],
        *,
        seed: int,
        max_turns: int,
        messages: Sequence[dict[str, str]],
        save: Callable[[Any], None],
    ) -> Player:
        """The policy of one trajectory.

        Args:
            env: The environment, not yet reset.
            seed: Of the policy's own choices in this trajectory.
            max_turns: Submissions, those before a resumption included.
            messages: The conversation so far; empty at the beginning.
            save: To be called with a :class:`PlayedTurn` after every submission, before anything else.
        """


POLICIES = {
    "mini-ptx-agent": "baselines.mini_ptx_agent:endpoint_policy",
    "in-context": "baselines.retrieval:in_context_policy",
    "replay": "baselines.scripted:replay",
    "oracle": "baselines.scripted:oracle",
    "mutate": "baselines.scripted:mutate",
}
"""Name to ``module:function``; a function of keyword arguments that returns a :class:`Policy`."""


def build_policy(name: str, options: Mapping[str, Any]) -> Policy:
    """A policy by name, or one of your own as ``module:function``.

    Args:
        name: E.g. ``oracle``.
        options: Keyword arguments of its function.

    Raises:
        MisuseError: There is no such policy, it takes no such option, or it cannot be built.
    """
    function = _find(name)
    takes = _parameters(name, function)
    for option in options:
        if option not in takes:
            raise MisuseError(f"The policy {name} takes no {_flag(option)}; it takes {_flags(takes)}.")
    missing = [p for p, parameter in takes.items() if parameter.default is parameter.empty and p not in options]
    if missing:
        raise MisuseError(f"The policy {name} needs {_flags(missing)}.")
    try:
        policy = function(**options)
    except ValueError as error:
        raise MisuseError(str(error)) from error
    if lacking := [part for part in ("model", "settings", "start") if not hasattr(policy, part)]:
        raise MisuseError(f"The policy {name} made a {type(policy).__name__}, which has no {' and no '.join(lacking)}.")
    return policy


def _parameters(name: str, function: object) -> Mapping[str, inspect.Parameter]:
    try:
        if callable(function):
            return inspect.signature(function).parameters
    except ValueError:  # a built-in function without a signature
        pass
    raise MisuseError(f"The policy {name} is a {type(function).__name__}; it should be a function that makes a policy.")


def _find(name: str) -> Callable[..., Policy]:
    target = POLICIES.get(name, name)
    module_name, colon, attribute = target.partition(":")
    if not colon:
        nearest = difflib.get_close_matches(name, POLICIES, n=1, cutoff=0.3)
        hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
        raise MisuseError(f"There is no policy {name!r}.{hint} There are {', '.join(POLICIES)}, or module:function.")
    try:
        return cast("Callable[..., Policy]", getattr(importlib.import_module(module_name), attribute))
    except ModuleNotFoundError as error:
        where = " The baselines come with a clone of the repository." if target != name else ""
        raise MisuseError(f"The policy {name} cannot be loaded: {error}.{where}") from error
    except AttributeError:
        raise MisuseError(f"The module {module_name} has no {attribute!r}.") from None


def _flag(option: str) -> str:
    own = option in ("model", "base_url", "api", "models", "kernels")  # all others go by --option
    return "--" + option.replace("_", "-") if own else f"--option {option}=…"


def _flags(options: Sequence[str] | Mapping[str, Any]) -> str:
    return ", ".join(map(_flag, options)) or "none"
