"""Figures: marks lie where the values say, and what is not known is not drawn."""

import math
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxgym.report.figures import (
    by_series,
    by_task,
    fast_figure,
    figures,
    outcome_figure,
    peak_figure,
    tokens_figure,
    work_figure,
)
from ptxgym.report.svg import Axes, element, panel

from ..metrics.made import trajectory, turn

OPUS = {"model": "Claude Opus 4.8"}


def drawn(figure, index=0):
    return ElementTree.fromstring(str(figure.panels[index][1]))


def marks(figure, class_, index=0):
    return [e for e in drawn(figure, index).iter() if class_ in e.get("class", "").split()]


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.booleans())
def test_nothing_is_drawn_outside_its_area(x, y, log):
    axes = Axes(x_range=(1, 10) if log else (-1, 3), y_range=(0, 2), log_x=log)
    assert axes.left <= axes.x(x) <= axes.width - axes.right
    assert axes.top <= axes.y(y) <= axes.height - axes.bottom


@given(st.lists(st.floats(0, 1.2), min_size=2, max_size=5))
def test_larger_values_lie_further_right_and_higher(values):
    axes = Axes(x_range=(0, 1.2), y_range=(0, 1.2))
    values.sort()
    across, up = [axes.x(v) for v in values], [axes.y(v) for v in values]
    assert across == sorted(across)
    assert up == sorted(up, reverse=True)


def test_attributes_and_text_are_escaped():
    made = panel([element("text", "<b>&", class_='"><script>')], '"onload="x')
    assert "<script>" not in made
    assert ElementTree.fromstring(str(made)).find("text").text == "<b>&"


def test_quoted_values_of_the_paper_are_diamonds_by_its_own_rule_only():
    turns = trajectory("TTTT", **OPUS)
    assert len(marks(fast_figure(turns, "paper"), "published")) == 3
    assert not marks(fast_figure(turns, "work"), "published")
    assert len(marks(peak_figure(turns, "paper"), "published")) == 1


def test_the_legend_names_whose_diamonds_stand_beside_other_models():
    theirs, ours = trajectory("TTTT", **OPUS), trajectory("TTTT", model="mine")
    assert [entry.name for entry in fast_figure(theirs, "paper").legend] == [OPUS["model"]]
    assert [entry.name for entry in fast_figure(ours, "paper").legend] == ["mine", f"{OPUS['model']}, published"]
    assert [entry.name for entry in fast_figure(ours, "work").legend] == ["mine"]


def test_the_length_of_a_bar_is_the_peak():
    figure = peak_figure([turn(speedup=0.6), turn(speedup=0.3, trajectory="1")], "work")
    (bar,) = marks(figure, "fill")
    axes = Axes(x_range=(0, 1.2), left=12)
    assert float(bar.get("width")) == pytest.approx(axes.x(0.6) - axes.x(0), abs=0.01)


def test_bars_of_outcomes_fill_every_turn_that_was_taken():
    figure = outcome_figure(trajectory("xuTC") + trajectory("TT", trajectory="1"), "work")
    heights: dict[str, float] = {}
    for bar in marks(figure, "fill"):
        heights[bar.get("x")] = heights.get(bar.get("x"), 0) + float(bar.get("height"))
    assert len(heights) == 4
    assert max(heights.values()) - min(heights.values()) < 0.1


def test_what_is_not_known_has_no_figure():
    turns = trajectory("TTxx", speedup=math.nan)
    assert fast_figure(turns, "work") is None
    assert peak_figure(turns, "work") is None
    assert tokens_figure(turns, "work") is None
    assert work_figure(turns) is None
    assert [figure.name for figure in figures(turns)] == ["outcome_by_turn"]


def test_tokens_without_a_model_have_no_figure_and_with_one_have_medians():
    turns = [turn(number, reasoning_tokens=tokens) for number, tokens in ((1, 1000), (2, 3000), (3, 2000))]
    (dot,) = marks(tokens_figure(turns, "work"), "dot")
    assert "median 2,000" in "".join(drawn(tokens_figure(turns, "work")).itertext())
    assert 100 < float(dot.get("cx")) < 200
    assert tokens_figure([turn(reasoning_tokens=0)], "work") is None


def test_the_papers_models_come_first_and_operators_in_its_order():
    turns = [turn(model="new"), turn(model="GLM-5.2"), turn(**OPUS)]
    assert list(by_series(turns)) == ["Claude Opus 4.8", "GLM-5.2", "new"]
    tasks = ["PTXBench-GEMM-B200", "PTXBench-odd-H100", "PTXBench-MHABackward-H100", "PTXBench-GEMM-H100"]
    made = [turn(task=task, architecture=task.rpartition("-")[2]) for task in tasks]
    assert list(by_task(made)) == [tasks[3], tasks[2], tasks[1], tasks[0]]


def test_more_series_than_colours_are_dashed():
    turns = [turn(model=f"model {number}") for number in range(10)]
    classes = [entry.class_ for entry in fast_figure(turns, "work").legend]
    assert len(set(classes)) == 10
    assert classes[8] == "line s0 dashed"
