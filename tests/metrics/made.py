"""Turns made up by the test."""

from __future__ import annotations

import math

from ptxgym.metrics import Turn


def turn(number: int = 1, correct: bool | None = True, target: bool | None = True, **changes: object) -> Turn:
    """A turn of one trajectory; ``target`` answers both instruction rules."""
    settings: dict[str, object] = {
        "run": "run",
        "model": "model",
        "architecture": "H100",
        "task": "PTXBench-GEMM-H100",
        "variant": "1",
        "trajectory": "0",
        "status": "passed" if correct else "incorrect",
        "speedup": 0.5 if correct else math.nan,
    } | changes
    return Turn(turn=number, correct=correct, target_work=target, target_paper=target, **settings)  # type: ignore[arg-type]


def trajectory(outcomes: str, **changes: object) -> list[Turn]:
    """One trajectory, a letter per turn.

    ``T`` correct with target instructions, ``?`` correct with unknown ones, ``C`` correct with others, ``x`` wrong,
    ``u`` unknown to the machine.
    """
    kinds: dict[str, tuple[bool | None, bool | None]] = {
        "T": (True, True),
        "?": (True, None),
        "C": (True, False),
        "x": (False, None),
        "u": (None, None),
    }
    return [turn(number, *kinds[letter], **changes) for number, letter in enumerate(outcomes, start=1)]
