"""The paper's numbers, each held against the rows it was computed from (arXiv 2608.17379 v1).

Five of 231 do not come out. They are listed with both numbers. For the first two the reason is known: the table carries
an older tag, and the paper counts three of those turns as unknown.
"""

from __future__ import annotations

import itertools
import statistics

import pytest

from ptxgym.metrics import (
    Turn,
    fast_inst_share,
    operator_of,
    peak_speedup,
    turn_correctness,
)
from ptxgym.ptxbench_import import FINE_TUNED, MAIN, RETRIEVAL, STUDIES
from ptxgym.report import published
from ptxgym.report.tables import published_comparisons

DIFFERS = {
    "Table 1, Gemini 3.1 Pro, H100, GEMM, ≤4 with target": (60.4, 62.5),
    "Table 1, Gemini 3.1 Pro, H100, GEMM, ≤8 with target": (56.2, 59.4),
    "Table 8, s1, MHABackwardCausal, ≤8 with target": (4.2, 5.2),
    "Table 4, notes and fixed kernel, MHABackward, ≤8 with target": (18.8, 20.8),
    "Table 4, notes and fixed kernel, MHABackwardCausal, ≤8 with target": (33.3, 34.4),
}
"""Published, and from the rows."""


def same(what: str, value: float, computed: float, form: str = ".1f") -> None:
    """The rows give the published number, or the one that is known to differ from it."""
    expected = DIFFERS.get(what, (value, value))
    assert f"{expected[0]:{form}}" == f"{value:{form}}", "the published number"
    assert f"{computed:{form}}" == f"{expected[1]:{form}}", "the number from the rows"


def chosen(turns: list[Turn], study: str, series: str, operator: str, architecture: str = "H100") -> list[Turn]:
    return [
        turn
        for turn in turns
        if (turn.study, turn.series, turn.architecture) == (study, series, architecture)
        and operator_of(turn.task) == operator
    ]


def table_1(table):
    for (model, gpu), row in table.items():
        for operator, text in zip(published.OPERATORS, row, strict=True):
            yield pytest.param(model, gpu, operator, text, id=f"{model} {gpu} {operator} {text}")


@pytest.mark.parametrize(("model", "gpu", "operator", "text"), list(table_1(published.TARGET_TURNS)))
def test_table_1_with_target_instructions(original, model, gpu, operator, text):
    turns = chosen(original, MAIN, model, operator, gpu)
    cell = published.parse_cell(text)
    assert len(cell.shares) == 3
    for first, value in cell.shares.items():
        rate = turn_correctness(turns, first, "paper")
        same(f"Table 1, {model}, {gpu}, {operator}, ≤{first} with target", value, rate.share * 100)
        if (model, gpu) != ("Qwen3.6-27B", "H100"):  # whose run has 20 trajectories, none with a success
            assert rate.total == 12 * first
    peak = peak_speedup(turns, "paper")
    same("", cell.peak, 0.0 if peak != peak else peak, ".3f")


@pytest.mark.parametrize(("model", "gpu", "operator", "text"), list(table_1(published.ANY_TURNS)))
def test_table_1_with_any_instructions(original, model, gpu, operator, text):
    turns = chosen(original, MAIN, model, operator, gpu)
    for first, value in published.parse_cell(text).shares.items():
        same("", value, turn_correctness(turns, first).share * 100)


@pytest.mark.parametrize(("p", "value"), [(0.5, 93.8), (0.8, 62.5), (0.9, 32.3)])
def test_fast_inst_of_opus_on_the_h100_gemm(original, p, value):
    turns = chosen(original, MAIN, "Claude Opus 4.8", "GEMM")
    assert published.FAST_INST["Claude Opus 4.8", "H100", "GEMM", p] == value
    same("", value, fast_inst_share(turns, p, "paper") * 100)


def table_8():
    for recipe, row in published.FINE_TUNED.items():
        for operator, value in published.parse_row(row).items():
            yield pytest.param(recipe, operator, value, id=f"{recipe} {operator} {value}")


@pytest.mark.parametrize(("recipe", "operator", "value"), list(table_8()))
def test_table_8_of_the_fine_tuned_models(original, recipe, operator, value):
    turns = chosen(original, FINE_TUNED, f"Qwen3.6-27B-{recipe}", operator)
    kept = [turn for turn in turns if turn.variant in published.FINE_TUNED_VARIANTS[operator]]
    rate = turn_correctness(kept, 8, "paper")
    assert rate.total == 96
    same(f"Table 8, {recipe}, {operator}, ≤8 with target", value, rate.share * 100)


@pytest.mark.parametrize("operator", published.OPERATORS)
def test_no_other_choice_of_variants_gives_more_of_table_8(original, operator):
    def hits(variants: tuple[str, ...]) -> int:
        found = 0
        for recipe, row in published.FINE_TUNED.items():
            turns = chosen(original, FINE_TUNED, f"Qwen3.6-27B-{recipe}", operator)
            kept = [turn for turn in turns if turn.variant in variants]
            value = published.parse_row(row)[operator]
            found += f"{turn_correctness(kept, 8, 'paper').share * 100:.1f}" == f"{value:.1f}"
        return found

    scores = {variants: hits(variants) for variants in itertools.combinations("12345", 3)}
    assert scores[published.FINE_TUNED_VARIANTS[operator]] == max(scores.values())


# Correct turns and best speedup over all five variants, as the shipped table has them.
SHIPPED = {
    "s0": ((1, 0.271), (6, 0.589), (2, 0.644), (0, None), (1, 0.209)),
    "s1": ((26, 0.398), (26, 0.565), (8, 0.458), (4, 0.389), (6, 0.207)),
    "s1 · without guidance": (None, (2, 0.528), (6, 0.314), (5, 0.413), (3, 0.500)),
    "s2": ((6, 0.341), (8, 0.548), (5, 0.315), (2, 0.296), (0, None)),
    "s3": ((14, 0.386), (5, 0.474), (8, 0.388), (6, 0.494), (0, None)),
    "s4": ((16, 0.403), (6, 0.452), (3, 0.383), (1, 0.199), (1, 0.336)),
    "s5": ((19, 0.602), (7, 0.573), (6, 0.424), (5, 0.295), (7, 0.246)),
    "s6": ((1, 0.073), (0, None), (1, 0.320), (0, None), (0, None)),
}


@pytest.mark.parametrize("recipe", SHIPPED)
def test_the_shipped_table_of_fine_tuned_models(original, recipe):
    for operator, cell in zip(published.OPERATORS, SHIPPED[recipe], strict=True):
        turns = chosen(original, FINE_TUNED, f"Qwen3.6-27B-{recipe}", operator)
        if cell is None:
            assert not turns
            continue
        assert turn_correctness(turns).successes == cell[0], operator
        if cell[1] is not None:
            assert f"{peak_speedup(turns):.3f}" == f"{cell[1]:.3f}", operator


@pytest.mark.parametrize(("operator", "value"), list(published.parse_row(published.RETRIEVED).items())[1:])
def test_table_4_of_retrieval(original, operator, value):
    turns = chosen(original, RETRIEVAL, "Qwen3.6-27B + retrieved repair notes and fixed kernel", operator)
    rate = turn_correctness(turns, 8, "paper")
    assert rate.total == 96, "turns not taken are counted, as the paper does"
    same(f"Table 4, notes and fixed kernel, {operator}, ≤8 with target", value, rate.share * 100)


@pytest.mark.parametrize(
    ("model", "low", "high"),
    [
        ("Claude Opus 4.8", 27_000, 32_000),
        ("Gemini 3.1 Pro", 27_000, 32_000),
        ("GLM-5.2", 15_000, 19_000),
        ("Qwen3.6-27B", 1_000, 4_000),
    ],
)
def test_median_reasoning_tokens(original, model, low, high):
    """The paper: near 30,000 for the first two, 15,000 to 19,000, about 3,000."""
    for architecture in ("H100", "B200"):
        own = [t for t in original if (t.study, t.series, t.architecture) == (MAIN, model, architecture)]
        assert low <= statistics.median(t.reasoning_tokens for t in own) <= high


def test_the_report_tells_every_difference_with_both_numbers(original):
    found = [
        comparison
        for study in STUDIES
        for comparison in published_comparisons([turn for turn in original if turn.study == study])
    ]
    assert len(found) == 231
    told = {c.what: (float(c.published.rstrip("%")), float(c.computed.rstrip("%"))) for c in found if not c.agrees}
    assert told == DIFFERS


def test_published_numbers_are_not_held_against_other_runs(original):
    own = [turn.model_copy(update={"study": ""}) for turn in original[:96]]
    assert published_comparisons(own) == []
