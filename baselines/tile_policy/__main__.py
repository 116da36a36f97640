"""Run searches over the choices of a GEMM, print what came of them, and draw their curves."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch

from baselines.tile_policy.figure import write_curves
from baselines.tile_policy.judge import Env, Judge
from baselines.tile_policy.kernel import SPACES
from baselines.tile_policy.policy import reinforce
from baselines.tile_policy.search import Search, exhaustive_search, random_search
from baselines.tile_policy.training import Logged, Plan, last_reward, train
from ptxgym.errors import PtxgymError
from ptxgym.evaluation import EvaluationPool

ENV = "PTXBench-GEMM-H100"

SEARCHES: dict[str, Search] = {"reinforce": reinforce, "random": random_search, "exhaustive": exhaustive_search}


def environment(pool: EvaluationPool, **settings: Any) -> Callable[[], Env]:
    """What makes environments of one turn that share a pool."""
    return lambda: gym.make(ENV, max_turns=1, pool=pool, disable_env_checker=True, **settings)


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse and print; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m baselines.tile_policy", description=__doc__)
    parser.add_argument("--device", default="simulator", help="simulator: legality and instructions; cuda: speed")
    parser.add_argument("--reward", default="staged", help="a named reward")
    parser.add_argument("--space", choices=SPACES, default="small")
    parser.add_argument("--search", choices=SEARCHES, nargs="+", default=["reinforce", "random"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=8, help="choices a step")
    parser.add_argument(
        "--out", type=Path, default=Path("runs/tile_policy"), help="verdicts, logs, figure; run again to go on"
    )
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)  # the network is tiny; more threads only wait for each other
    try:
        steps = _searches(asked)
        write_curves(asked.out / "curves.svg", steps)
    except PtxgymError as error:
        print(error, file=sys.stderr)
        return 2
    for line in table(steps):
        print(line)
    print(f"{asked.out / 'curves.svg'} has the curves, {asked.out / 'verdicts.jsonl'} every verdict.")
    return 0


def _searches(asked: argparse.Namespace) -> list[Logged]:
    steps: list[Logged] = []
    plan = Plan(asked.seeds, asked.steps, asked.batch)
    with EvaluationPool() as pool:
        make = environment(pool, device=asked.device, reward=asked.reward)
        judge = Judge(make, asked.out / "verdicts.jsonl", parallel=2 * pool.workers)
        for name in asked.search:
            log = asked.out / f"{name}.jsonl"
            steps += train(name, SEARCHES[name], SPACES[asked.space], judge, plan, log, _progress)
    return steps


def _progress(step: Logged) -> None:
    print(f"{step.search} seed {step.seed} step {step.step}: reward {step.reward:.3f}", file=sys.stderr)


def table(steps: Sequence[Logged]) -> list[str]:
    """One line per search and seed."""
    lines = [f"{'search':12}{'seed':>6}{'last 10 steps':>15}{'best':>8}{'judged':>8}  would submit"]
    for last in {(step.search, step.seed): step for step in steps}.values():
        own = [step for step in steps if step.search == last.search]
        reward = last_reward(own, last.seed)
        lines.append(f"{last.search:12}{last.seed:6}{reward:15.3f}{last.best:8.3f}{last.judged:8}  {last.greedy}")
    return lines


if __name__ == "__main__":
    sys.exit(main())
