"""The environment: a kernel's source in, feedback and a reward out."""

from __future__ import annotations

import copy
import difflib
import math
import uuid
from collections.abc import Collection
from concurrent.futures import Future
from typing import Any, Literal, SupportsFloat, cast

import gymnasium as gym
import numpy as np
from pydantic import ValidationError

from ptxgym.envs.observation import Observation, make_info, make_observation, observation_space
from ptxgym.envs.prompt import task_prompt
from ptxgym.envs.spaces import Source
from ptxgym.errors import MisuseError
from ptxgym.evaluation import (
    STAGES,
    Evaluation,
    EvaluationOptions,
    EvaluationPool,
    Evaluator,
    PoolClient,
    StageName,
    feedback,
)
from ptxgym.rewards import TARGET_SPEEDUP, TIMED, Reward, get_reward, lacks_time
from ptxgym.shaping import Shaping
from ptxgym.tasks import Task, get_task
from ptxgym.toolchain import MAX_SOURCE_BYTES
from ptxgym.trajectories import EvaluationRecord, make_record

_NOTHING_TO_WIN = "The episode ends with this pass: nothing is timed here, so no later submission can earn more."


class KernelEnv(gym.Env[Observation, str]):
    """Write a GPU kernel that is correct, uses the architecture's own instructions, and beats the vendor's library.

    ## Description

    One task of PTXBench (arXiv 2608.17379): an operator, a fixed workload, a GPU architecture, and the instruction
    family that the kernel must really execute. Every step compiles a CUDA C++ source with inline PTX and runs it in a
    process of its own; another process judges it.

    ## Action Space

    ``Source(1048576)``: the whole source as a ``str``. Anything else is an *invalid action*: an ordinary step with
    feedback.

    ## Observation Space

    A dict of ``feedback`` (at reset the prompt) and the numbers behind it
    (:func:`ptxgym.envs.observation.observation_space`).

    ## Rewards

    A named function of the evaluation, or a callable (:mod:`ptxgym.rewards`): ``staged`` by default, ``fast_inst``,
    ``speedup``, ``binary``, ``roofline``. All of them are in ``info["rewards"]``. When the machine could not judge,
    ``info["valid"]`` is False and the reward 0. ``fast_inst``, ``speedup`` and ``roofline`` need times, and are refused
    where nothing is timed.

    ## Starting State

    No submission yet. ``reset(seed=…)`` seeds the spaces; the judge's inputs come from seeds that nobody is told.

    ## Episode End

    *Termination*: a submission passed every stage with a speedup of at least ``target_speedup``; or, where nothing is
    timed (the simulator, or ``stages`` without timing), it passed every stage, since no later one can earn more.
    *Truncation*: after ``max_turns`` submissions. ``info["end"]`` says which.

    ## Arguments

    >>> import gymnasium as gym, ptxgym
    >>> env = gym.make("PTXBench-GEMM-H100", device="none")
    >>> observation, info = env.reset(seed=0)
    >>> observation["feedback"].splitlines()[0]
    'Write one CUDA C++17 source file with inline PTX for H100 (Hopper, sm_90a).'
    >>> observation, reward, terminated, truncated, info = env.step("")
    >>> info["status"], reward
    ('invalid_action', 0.0)
    >>> env.close()

    Args:
        task: A task's id, or a :class:`ptxgym.tasks.Task` of your own.
        device: ``auto`` (a GPU of the right architecture, else the simulator), ``cuda``, ``cuda:1``, ``simulator``, or
            ``none`` (compile and inspect only).
        reward: A name or a callable from Evaluation to float.
        max_turns: Submissions per episode.
        target_speedup: Ends the episode, as does the first pass where nothing is timed; with infinity neither does.
        shapes: ``all`` checks the probe shapes too; ``workload`` is the paper's rule.
        instruction_rule: ``work`` or ``paper``; see :class:`ptxgym.evaluation.EvaluationOptions`.
        regime: Timing ``hot`` or ``cool``.
        stages: The stages that are run.
        knowledge: A level of the knowledge pack that stands behind the prompt (``none``, ``parameters``,
            ``templates``, ``contracts``, ``full``), or a text of your own, of more than one word.
        variant: The prompt's variant for a level: ``base``, or one with a hint (``knowledge.variants(task)``).
        cache: Whether a kept evaluation of the same program may answer.
        shaping: Pays progress between turns as it is made, without changing what an episode returns: a discount, or a
            :class:`ptxgym.shaping.Shaping`. ``info["shaping"]`` is its part of the reward.
        pool: Judges here instead of in this thread: an :class:`ptxgym.evaluation.EvaluationPool` that many environments
            share, or a ``PoolClient`` of one in another process.
        render_mode: ``ansi`` (``render()`` returns the last text) or ``human`` (it is printed as it comes).

    Raises:
        MisuseError: An argument names something that does not exist or is not here.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "human"], "render_fps": 1}  # noqa: RUF012 Gymnasium's own form

    def __init__(
        self,
        task: str | Task,
        *,
        device: str = "auto",
        reward: str | Reward = "staged",
        max_turns: int = 8,
        target_speedup: float = TARGET_SPEEDUP,
        shapes: Literal["all", "workload"] = "all",
        instruction_rule: Literal["work", "paper"] = "work",
        regime: Literal["hot", "cool"] = "hot",
        stages: Collection[StageName] = STAGES,
        knowledge: str = "none",
        variant: str = "base",
        cache: bool = True,
        shaping: Shaping | float | None = None,
        pool: EvaluationPool | PoolClient | None = None,
        render_mode: str | None = None,
    ) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise MisuseError(f"render_mode={render_mode!r} is none of {self.metadata['render_modes']}.")
        _check_arguments(max_turns, target_speedup, stages, knowledge, shaping, pool)
        self.task = get_task(task) if isinstance(task, str) else task
        self.options = _options(
            device=device,
            shapes=shapes,
            instruction_rule=instruction_rule,
            regime=regime,
            stages=tuple(stages),
            cache=cache,
        )
        # Where another process judges, this one needs no device: it may have none, nor torch.
        self.evaluator = None if isinstance(pool, PoolClient) else Evaluator(self.task, self.options)
        self.max_turns = max_turns
        self.target_speedup = target_speedup
        self.render_mode = render_mode
        self.action_space = Source(MAX_SOURCE_BYTES)
        self.observation_space = observation_space(max_turns)
        self.history: list[EvaluationRecord] = []
        """Every submission of this episode, in order; each can be judged again (``ptxgym validate``) where the task is
        of the catalogue."""
        self.shaping = Shaping(gamma=shaping) if isinstance(shaping, (int, float)) else shaping
        self.pool = pool
        self.trajectory = uuid.uuid4().hex
        """The episode's name in the pool; a new one at every reset."""
        self.reward = reward
        """A name or a callable."""
        self._reward = get_reward(reward)
        self._refuse_untimed(reward, "reward")
        if self.shaping is not None:
            self._refuse_untimed(self.shaping.potential, "potential")
        self._potential = 0.0
        self._knowledge = _knowledge_text(self.task, knowledge, variant)
        self._text = ""
        self._over = True

    @property
    def prompt(self) -> str:
        """What the policy reads at reset."""
        return task_prompt(
            self.task, self.options, self.target_speedup, self.max_turns, self._knowledge, timed=self.timed
        )

    @property
    def timed(self) -> bool:
        """Whether a submission can get a time here; assumed of a pool in another process that chooses its device."""
        if "timing" not in self.options.stages or self.options.device == "simulator":
            return False
        return self.evaluator is None or self.evaluator.device.gives_times

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode; ``options`` has no meaning here."""
        super().reset(seed=seed)
        self.history = []
        self.trajectory = uuid.uuid4().hex
        self._over = False
        self._potential = 0.0
        self._show(self.prompt)
        return make_observation(self._text, 0, None), make_info(None)

    def step(self, action: str) -> tuple[Observation, SupportsFloat, bool, bool, dict[str, Any]]:
        """Judge one submission.

        Raises:
            MisuseError: The episode is over, or was never begun.
        """
        self._begun()
        if self.pool is not None:
            return self.conclude(action, self.submit(self.pool, action).result())
        assert self.evaluator is not None
        return self.conclude(action, self.evaluator.evaluate(action))

    def submit(self, pool: EvaluationPool | PoolClient, action: str) -> Future[Evaluation]:
        """Hand a submission to a pool; :meth:`conclude` takes what comes of it. ``step`` is the two together.

        Raises:
            MisuseError: The episode is over, or was never begun.
        """
        self._begun()
        return pool.submit(action, self.task, self.options, trajectory=self.trajectory)

    def conclude(
        self, action: str, evaluation: Evaluation
    ) -> tuple[Observation, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take a turn whose submission has been judged.

        Raises:
            MisuseError: The episode is over, or was never begun.
        """
        self._begun()
        turn = len(self.history) + 1
        end = self._end(evaluation, turn)
        self._over = bool(end)
        shaped = self._shape(evaluation)
        valid = evaluation.valid and not lacks_time(self.reward, evaluation)
        reward = (float(self._reward(evaluation)) if valid else 0.0) + shaped
        source = action if self.action_space.contains(action) else ""
        self.history.append(make_record(source, self.options, evaluation, reward, turn))
        self._show(feedback(evaluation) + (f"\n{_NOTHING_TO_WIN}" if end == "passed" else ""))
        info = make_info(evaluation, shaped, valid, end)
        truncated = end == "turn_budget"
        return make_observation(self._text, turn, evaluation), reward, self._over and not truncated, truncated, info

    def render(self) -> str | None:
        """The last text, in mode ``ansi``."""
        return self._text if self.render_mode == "ansi" else None

    def fork(self) -> KernelEnv:
        """An independent environment in the same state, for search."""
        fork = copy.deepcopy(self)
        fork.trajectory = uuid.uuid4().hex
        return fork

    def _end(self, evaluation: Evaluation, turn: int) -> str:
        """Why the episode is over, empty while it is not. Every policy and adaptor goes by this."""
        if evaluation.status == "passed":
            if evaluation.speedup >= self.target_speedup:
                return "target_speedup"
            if math.isnan(evaluation.speedup) and math.isfinite(self.target_speedup):
                return "passed"
        return "turn_budget" if turn >= self.max_turns else ""

    def _refuse_untimed(self, reward: str | Reward, what: str) -> None:
        if isinstance(reward, str) and reward in TIMED and not self.timed:
            left_out = "timing" not in self.options.stages
            why = "the timing stage is left out" if left_out else f"device={self.options.device!r} gives none here"
            raise MisuseError(
                f"{what}={reward!r} needs times, and {why}: every kernel that passes would earn 0. Choose 'staged' or "
                "'binary', or a GPU of the task's architecture."
            )

    def _begun(self) -> None:
        if self._over:
            raise MisuseError("The episode is over or was not begun; call reset() first.")

    def _shape(self, evaluation: Evaluation) -> float:
        if self.shaping is None:
            return 0.0
        before = self._potential
        self._potential = self.shaping.after(before, evaluation, self._over)
        return self.shaping.paid(before, self._potential)

    def _show(self, text: str) -> None:
        self._text = text
        if self.render_mode == "human":
            print(text)


def _check_arguments(
    max_turns: object, target_speedup: object, stages: object, knowledge: object, shaping: object, pool: object
) -> None:
    """Refuse what would fail only when an episode ends, when its verdicts would be lost."""
    whole = isinstance(max_turns, (int, np.integer)) and max_turns >= 1
    number = isinstance(target_speedup, (int, float)) and target_speedup > 0
    shaped = shaping is None or isinstance(shaping, (int, float, Shaping))
    pooled = pool is None or hasattr(pool, "submit")
    for name, value, good, wanted in (
        ("max_turns", max_turns, whole, "a whole number from 1"),
        ("target_speedup", target_speedup, number, "a number above 0; with infinity no speedup ends an episode"),
        ("stages", stages, not isinstance(stages, str), "a collection of stages' names"),
        ("knowledge", knowledge, isinstance(knowledge, str), "a level's name or a text"),
        ("shaping", shaping, shaped, "a discount or a Shaping"),
        ("pool", pool, pooled, "a pool; PoolClient(path) makes one of a socket"),
    ):
        if not good:
            raise MisuseError(f"{name}={value!r} is not {wanted}.")


def _options(**values: Any) -> EvaluationOptions:
    try:
        return EvaluationOptions(**values)
    except ValidationError as error:
        first = error.errors()[0]
        raise MisuseError(f"{first['loc'][0]}={first['input']!r}: {first['msg']}.") from None


def _knowledge_text(task: Task, level: str, variant: str) -> str:
    """The pack's text for a level and variant, or the text that was given instead of a level."""
    import knowledge

    if level not in knowledge.LEVELS:
        if len(level.split()) == 1 and level == level.strip():  # a slip, not a text
            nearest = difflib.get_close_matches(level, knowledge.LEVELS, n=1)
            hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
            raise MisuseError(
                f"There is no knowledge level {level!r}.{hint} There are {', '.join(knowledge.LEVELS)}, or give a text."
            )
        return level
    try:
        return "\n".join(part.text for part in knowledge.knowledge_parts(task, cast("Any", level), variant))
    except ValueError as error:
        raise MisuseError(f"{error}.") from None
