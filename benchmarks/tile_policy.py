"""How many kernels the tile policy has to see before it finds a fast one: ``python -m benchmarks.tile_policy``.

On a Hopper GPU, every choice of the space is judged once, in parallel (correctness and timing only; the reward is the
speedup over cuBLAS), and written to ``verdicts.jsonl`` in ``--out`` as it comes: that is the exhaustive search. Broken
off, it goes on when it is run again. Then REINFORCE and random search play against those verdicts, five seeds each;
nothing is measured again, so ``--from RECORDS`` gives the same table anywhere.

A search has found a fast kernel when its best choice so far has 95 % of the best speedup of the whole space. What it
cost is the number of distinct choices that it had asked for by then, legal or not. ``submits`` is stricter: the choice
that the search itself would submit is as good.
"""

from __future__ import annotations

import argparse
import collections
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from baselines.tile_policy.__main__ import environment
from baselines.tile_policy.figure import write_curves
from baselines.tile_policy.judge import Judge, Verdict
from baselines.tile_policy.kernel import DEFAULTS, SPACES, Space, choice_name
from baselines.tile_policy.policy import reinforce
from baselines.tile_policy.search import Search, random_search
from baselines.tile_policy.training import Logged, Plan, cost_until, train
from ptxgym.errors import PtxgymError
from ptxgym.evaluation import EvaluationPool

ENOUGH = 0.95
"""Share of the exhaustive best that counts as found."""
GOAL = 0.25
"""Share of the exhaustive search's evaluations within which it is to be found."""

STAGES = ("correctness", "timing")
SEARCHES: dict[str, Search] = {"reinforce": reinforce, "random": random_search}


def judge_everything(space: Space, device: str, reward: str, stages: Sequence[str], records: Path) -> None:
    """Judge what the records lack; twice, where the machine could not tell the first time."""
    start = time.monotonic()
    with EvaluationPool() as pool:
        settings = {"stages": tuple(stages)} if stages else {}
        judge = Judge(environment(pool, device=device, reward=reward, **settings), records, parallel=2 * pool.workers)
        before = len(judge.known)
        for _ in range(2):
            judge(list(space))
    print(f"{len(judge.known) - before} choices judged in {time.monotonic() - start:.0f} s", file=sys.stderr)


def describe(space: Space, verdicts: Sequence[Verdict]) -> list[str]:
    """The space as it turned out."""
    statuses = collections.Counter(verdict.status for verdict in verdicts)
    legal = sorted((v for v in verdicts if v.reward > 0), key=lambda v: -v.reward)
    best = legal[0]
    near = sum(verdict.reward >= ENOUGH * best.reward for verdict in legal)
    lines = [
        f"space '{space.name}', judged on {best.device}: {len(verdicts)} choices, "
        + ", ".join(f"{count} {status}" for status, count in statuses.most_common()),
        f"best {best.reward:.3f} by {best.name}; median of the {len(legal)} that earn anything "
        f"{statistics.median(v.reward for v in legal):.3f}, worst {legal[-1].reward:.3f}",
        f"{near} choices have {ENOUGH:.0%} of the best or more",
    ]
    own = next((v for v in legal if v.name == choice_name(DEFAULTS)), None)
    return lines + ([f"the choices of the first version of gemm.cu: {own.reward:.3f}"] if own else [])


def play(space: Space, judge: Judge, plan: Plan, best: float) -> tuple[list[Logged], list[str]]:
    """Every search against the verdicts, and the table."""
    steps: list[Logged] = []
    lines = [f"{'search':12}{'seed':>6}{'found after':>13}{'of all':>8}{'submits after':>15}{'finally submits':>17}"]
    for name, search in SEARCHES.items():
        own = train(name, search, space, judge, plan)
        steps += own
        found = cost_until(own, lambda step: step.best >= ENOUGH * best)
        submits = cost_until(own, lambda step: judge.known[step.greedy].reward >= ENOUGH * best)
        for seed, cost in found.items():
            last = [step for step in own if step.seed == seed][-1]
            lines.append(
                f"{name:12}{seed:6}{_number(cost):>13}{_share(cost, len(space)):>8}{_number(submits[seed]):>15}"
                f"{judge.known[last.greedy].reward:17.3f}"
            )
        worst = None if None in found.values() else max(cost for cost in found.values() if cost is not None)
        reached = worst is not None and worst <= GOAL * len(space)
        goal = f"goal ≤ {GOAL:.0%} {'✓' if reached else '✗'}"
        lines.append(f"{name:12}{'worst':>6}{_number(worst):>13}{_share(worst, len(space)):>8}  {goal}")
    return steps, lines


def _number(cost: int | None) -> str:
    return "never" if cost is None else str(cost)


def _share(cost: int | None, of: int) -> str:
    return "" if cost is None else f"{cost / of:.1%}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table and draw the curves."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tile_policy", description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path("runs/tile_policy_benchmark"), help="verdicts.jsonl and curves.svg"
    )
    parser.add_argument(
        "--from", type=Path, metavar="RECORDS", dest="records", help="replay these verdicts; judge nothing"
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--reward", default="speedup")
    parser.add_argument("--stages", nargs="*", default=STAGES, help="all, when none is named")
    parser.add_argument("--space", choices=SPACES, default="full")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=4, help="choices a step")
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    space, records = SPACES[asked.space], asked.records or asked.out / "verdicts.jsonl"
    try:
        if not asked.records:
            judge_everything(space, asked.device, asked.reward, asked.stages, records)
        judge = Judge(None, records)
        verdicts = judge(list(space))
        best = max(verdict.reward for verdict in verdicts)
        steps, table = play(space, judge, Plan(asked.seeds, asked.steps, asked.batch), best)
        write_curves(asked.out / "curves.svg", steps, best=best)
    except PtxgymError as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join([*describe(space, verdicts), "", *table]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
