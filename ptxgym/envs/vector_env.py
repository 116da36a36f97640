"""Many environments of one task: evaluations in parallel, results in order."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, wait
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from ptxgym.envs.kernel_env import KernelEnv
from ptxgym.envs.observation import Observation
from ptxgym.errors import MisuseError
from ptxgym.evaluation import Evaluation, EvaluationPool, PoolClient

_Infos = dict[str, Any]


class KernelVectorEnv(gym.vector.VectorEnv[Observation, Sequence[str], np.ndarray[Any, Any]]):
    """``num_envs`` copies of a :class:`KernelEnv`.

    A step's submissions go to an :class:`~ptxgym.evaluation.EvaluationPool`: compilers run side by side, runs share the
    GPU, timing has it alone, and equal submissions are judged once. ``feedback`` is a tuple of strings; the numbers are
    arrays with ``num_envs`` rows.

    Args:
        num_envs: How many.
        pool: A pool, or a client of one, that others use too; by default this environment has its own.
        autoreset_mode: Gymnasium's ``NEXT_STEP`` (the default), ``SAME_STEP`` or ``DISABLED``.
        **kwargs: As for :class:`KernelEnv`.
    """

    def __init__(
        self,
        num_envs: int = 1,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        pool: EvaluationPool | PoolClient | None = None,
        **kwargs: Any,
    ) -> None:
        self.envs = [KernelEnv(pool=pool, **kwargs) for _ in range(num_envs)]
        self.num_envs = num_envs
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**KernelEnv.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = self.envs[0].render_mode
        self.single_action_space = self.envs[0].action_space
        self.single_observation_space = self.envs[0].observation_space
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._over = np.zeros(num_envs, dtype=np.bool_)
        self._last: list[Observation] = []
        self._owns_pool = pool is None
        self._pool = EvaluationPool() if pool is None else pool

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, _Infos]:
        """Begin an episode everywhere, or where ``options["reset_mask"]`` is true.

        Raises:
            MisuseError: There are more or fewer seeds than environments, the mask is none of them, or it leaves out
                an environment that never began.
        """
        if seed is None or isinstance(seed, (int, np.integer)):
            seeds = [None if seed is None else int(seed) + i for i in range(self.num_envs)]
        else:
            seeds = list(seed)
        if len(seeds) != self.num_envs:
            raise MisuseError(f"{self.num_envs} seeds are expected, one for each environment; got {len(seeds)}.")
        chosen = self._chosen((options or {}).get("reset_mask"))
        infos: _Infos = {}
        observations = []
        for number, env in enumerate(self.envs):
            if not chosen[number]:
                observations.append(self._last[number])
                continue
            observation, info = env.reset(seed=seeds[number])
            self._over[number] = False
            observations.append(observation)
            infos = self._add_info(infos, info, number)
        return self._stack(observations), infos

    def step(
        self, actions: Sequence[str]
    ) -> tuple[Observation, np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any], _Infos]:
        """Judge one submission per environment; one that had ended begins anew instead (``NEXT_STEP``).

        Raises:
            MisuseError: There are more or fewer actions than environments.
        """
        if len(actions) != self.num_envs:
            raise MisuseError(f"{self.num_envs} actions are expected, one source each; got {len(actions)}.")
        futures = self._submit(actions)
        results = [self._step_one(number, action, futures[number]) for number, action in enumerate(actions)]
        infos: _Infos = {}
        for number, (*_, info) in enumerate(results):
            infos = self._add_info(infos, info, number)
        observations, rewards, terminated, truncated, _ = zip(*results, strict=True)
        terminations, truncations = np.array(terminated, dtype=np.bool_), np.array(truncated, dtype=np.bool_)
        ended = terminations | truncations
        self._over = ended if self.autoreset_mode is not AutoresetMode.SAME_STEP else np.zeros_like(ended)
        return (
            self._stack(observations),
            np.array(rewards, dtype=np.float64),
            terminations,
            truncations,
            infos,
        )

    def close_extras(self, **kwargs: Any) -> None:
        """End the environments, and the pool where it is their own."""
        if self._owns_pool and isinstance(self._pool, EvaluationPool):
            self._pool.close()
        for env in self.envs:
            env.close()

    def _chosen(self, mask: object) -> np.ndarray[Any, Any]:
        """Which environments a reset is of."""
        if mask is None:
            return np.ones(self.num_envs, dtype=np.bool_)
        chosen = np.asarray(mask)
        if chosen.shape != (self.num_envs,) or chosen.dtype != np.bool_ or not chosen.any():
            raise MisuseError(f"reset_mask: {self.num_envs} booleans are expected, one of them True; got {mask!r}.")
        if not self._last:
            raise MisuseError("The first reset is of all environments; leave reset_mask out.")
        return chosen

    def _submit(self, actions: Sequence[str]) -> list[Future[Evaluation] | None]:
        """A step's submissions; None for an environment that begins anew."""
        futures: list[Future[Evaluation] | None] = []
        try:
            for number, (env, action) in enumerate(zip(self.envs, actions, strict=True)):
                resets = self._over[number] and self.autoreset_mode is AutoresetMode.NEXT_STEP
                futures.append(None if resets else env.submit(self._pool, action))
            wait([future for future in futures if future])
        except BaseException:  # interrupted: nobody will come for the results
            for future in futures:
                if future:
                    future.cancel()
            raise
        return futures

    def _step_one(
        self, number: int, action: str, future: Future[Evaluation] | None
    ) -> tuple[Observation, float, bool, bool, _Infos]:
        env = self.envs[number]
        if future is None:
            observation, info = env.reset()
            return observation, 0.0, False, False, info
        observation, reward, terminated, truncated, info = env.conclude(action, future.result())
        if (terminated or truncated) and self.autoreset_mode is AutoresetMode.SAME_STEP:
            final_observation, final_info = observation, info
            observation, info = env.reset()
            info = {**info, "final_obs": final_observation, "final_info": final_info}
        return observation, float(reward), terminated, truncated, info

    def _stack(self, observations: Sequence[Observation]) -> Observation:
        """One observation with a leading axis; texts as a tuple."""
        self._last = list(observations)
        return {
            name: tuple(o[name] for o in observations)
            if name == "feedback"
            else np.stack([np.asarray(o[name]) for o in observations])
            for name in self.single_observation_space.spaces  # type: ignore[attr-defined]
        }
