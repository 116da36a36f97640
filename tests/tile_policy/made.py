"""Verdicts that are made up: a table that a search can be played against."""

from __future__ import annotations

from pathlib import Path

from baselines.tile_policy.judge import Judge, Verdict
from baselines.tile_policy.kernel import Choice, Space


def verdict(choice: Choice, reward: float, valid: bool = True) -> Verdict:
    status = "unknown" if not valid else "passed" if reward else "compile_error"
    return Verdict(choice=choice, reward=reward, valid=valid, status=status, device="made up")


def score(choice: Choice) -> float:
    """Legal choices earn more for more stages; the best one needs the right pair of options."""
    if choice.get("registers") == "56/240":
        return 0.0
    if choice.get("tile", "128x256") != "128x128" and choice["stages"] == "5":
        return 0.0
    return 0.2 * int(choice["stages"]) - (0.3 if choice.get("math") == "mma" else 0.0)


def write_table(path: Path, space: Space) -> Path:
    lines = [verdict(choice, score(choice)).model_dump_json() + "\n" for choice in space]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def table(path: Path, space: Space) -> Judge:
    """A judge that knows the space and judges nothing."""
    return Judge(None, write_table(path, space))
