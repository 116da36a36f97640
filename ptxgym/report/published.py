"""What the paper published (arXiv 2608.17379 v1), as numbers: percentages and speedups, nothing else.

Cells are in the order of :data:`OPERATORS`. Each reads ``≤1/≤4/≤8 (peak)``: the share of turns that were correct with
target instructions, in per cent, and the largest speedup. ``–`` stands for zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

OPERATORS = ("GEMM", "MHAForward", "MHAForwardCausal", "MHABackward", "MHABackwardCausal")
FIRST = (1, 4, 8)
MODELS = ("Claude Opus 4.8", "Gemini 3.1 Pro", "GLM-5.2", "Qwen3.6-27B")

TARGET_TURNS = {
    ("Claude Opus 4.8", "H100"): (
        "91.7/95.8/94.8 (0.976)",
        "50.0/81.2/90.6 (0.839)",
        "50.0/77.1/75.0 (0.806)",
        "8.3/62.5/79.2 (0.489)",
        "0.0/22.9/44.8 (0.499)",
    ),
    ("Gemini 3.1 Pro", "H100"): (
        "33.3/60.4/56.2 (0.962)",
        "33.3/39.6/45.8 (0.730)",
        "25.0/52.1/55.2 (0.768)",
        "8.3/33.3/38.5 (0.515)",
        "0.0/22.9/25.0 (0.639)",
    ),
    ("GLM-5.2", "H100"): (
        "33.3/60.4/61.5 (0.692)",
        "16.7/8.3/8.3 (0.607)",
        "0.0/8.3/10.4 (0.533)",
        "8.3/6.2/5.2 (0.437)",
        "–",
    ),
    ("Qwen3.6-27B", "H100"): ("–", "–", "–", "–", "–"),
    ("Claude Opus 4.8", "B200"): (
        "25.0/64.6/80.2 (1.012)",
        "0.0/20.8/38.5 (0.300)",
        "0.0/16.7/32.3 (0.269)",
        "0.0/6.2/10.4 (0.149)",
        "–",
    ),
    ("Gemini 3.1 Pro", "B200"): (
        "8.3/47.9/45.8 (0.892)",
        "0.0/12.5/15.6 (0.280)",
        "0.0/8.3/10.4 (0.248)",
        "0.0/2.1/2.1 (0.133)",
        "–",
    ),
    ("GLM-5.2", "B200"): ("16.7/27.1/28.1 (0.632)", "0.0/0.0/1.0 (0.027)", "8.3/2.1/1.0 (0.098)", "–", "–"),
    ("Qwen3.6-27B", "B200"): ("–", "–", "–", "–", "–"),
}
"""Table 1, with target instructions."""

ANY_TURNS = {
    ("Claude Opus 4.8", "B200"): (
        "75.0/81.2/88.5",
        "83.3/87.5/86.5",
        "91.7/77.1/83.3",
        "83.3/89.6/91.7",
        "25.0/52.1/68.8",
    ),
}
"""Table 1, correct with any instructions, as far as this project has it."""

FAST_INST = {
    ("Claude Opus 4.8", "H100", "GEMM", 0.5): 93.8,
    ("Claude Opus 4.8", "H100", "GEMM", 0.8): 62.5,
    ("Claude Opus 4.8", "H100", "GEMM", 0.9): 32.3,
}
"""FastInst_p in per cent, where the text quotes it."""

FINE_TUNED = {
    "s0": "–/5.2/1.0/–/1.0",
    "s1": "13.5/19.8/3.1/4.2/4.2",
    "s2": "2.1/5.2/1.0/1.0/–",
    "s3": "3.1/2.1/4.2/4.2/–",
    "s4": "10.4/4.2/2.1/1.0/–",
    "s5": "12.5/4.2/3.1/5.2/4.2",
    "s6": "1.0/–/–/–/–",
}
"""Table 8: per cent of 96 turns correct with target instructions, by operator."""

FINE_TUNED_VARIANTS = {
    "GEMM": ("1", "2", "5"),
    "MHAForward": ("1", "2", "3"),
    "MHAForwardCausal": ("1", "2", "3"),
    "MHABackward": ("1", "4", "5"),
    "MHABackwardCausal": ("1", "4", "5"),
}
"""Which three of the five prompt variants Table 8 takes, found by trying all choices: no other gives as many of its
numbers, except that 1, 2 and 4 would do as well for the causal backward pass, where one number never comes out."""

RETRIEVED = "–/29.2/27.1/18.8/33.3"
"""Table 4, notes and a fixed kernel retrieved: per cent of 96 turns; it has no GEMM."""


ABLATION = {
    "parameters only": ("50.0/29.2/26.0", "–"),
    "parameters and templates": ("0.0/20.8/19.8", "0.0/20.8/19.8 (0.542)"),
}
"""The prompt ablation of Gemini 3.1 Pro on the H100's MHABackward: any instructions, and with target instructions."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One published cell: shares in per cent at ≤1, ≤4 and ≤8 turns (only the last may be known), and the peak."""

    shares: dict[int, float]
    peak: float
    """NaN where none is published; 0 where there was no success."""


def parse_cell(text: str) -> Cell:
    """A cell as it is written above."""
    if text == "–":
        return Cell(dict.fromkeys(FIRST, 0.0), 0.0)
    shares, _, peak = text.partition(" ")
    values = map(float, shares.split("/"))
    return Cell(dict(zip(FIRST, values, strict=True)), float(peak.strip("()")) if peak else float("nan"))


def target_cell(model: str, architecture: str, operator: str) -> Cell | None:
    """What Table 1 says with target instructions, or None."""
    return _cell(TARGET_TURNS, model, architecture, operator)


def any_cell(model: str, architecture: str, operator: str) -> Cell | None:
    """What Table 1 says for any instructions, or None."""
    return _cell(ANY_TURNS, model, architecture, operator)


def parse_row(text: str) -> dict[str, float]:
    """A row of Table 8 or Table 4: operator to per cent at ≤8 turns."""
    values = (0.0 if cell == "–" else float(cell) for cell in text.split("/"))
    return dict(zip(OPERATORS, values, strict=True))


def _cell(
    table: Mapping[tuple[str, str], tuple[str, ...]], model: str, architecture: str, operator: str
) -> Cell | None:
    row = table.get((model, architecture))
    if row is None or operator not in OPERATORS:
        return None
    return parse_cell(row[OPERATORS.index(operator)])
