"""Fast_p and FastInst_p: hand counts, and what must hold of every curve."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxgym.metrics import THRESHOLDS, fast_inst_curve, fast_inst_share, fast_p_curve, turn_correctness

from .made import trajectory, turn

speeds = st.lists(st.floats(0.01, 2), min_size=1, max_size=8)


def timed(speedups, **changes):
    return [turn(number, speedup=speedup, **changes) for number, speedup in enumerate(speedups, start=1)]


def test_two_variants_give_mean_and_band():
    turns = timed([0.4, 0.6, 0.9, 1.1], variant="a") + timed([0.6, 0.6, 0.1, 0.1], variant="b")
    curve = fast_p_curve(turns, (0.5,), first=4)
    assert (curve.mean, curve.low, curve.high) == ((0.625,), (0.5,), (0.75,))
    assert curve.variants == 2


def test_faster_means_strictly_faster():
    assert fast_p_curve(timed([0.5]), (0.5,), first=1).mean == (0.0,)


def test_turns_without_target_instructions_count_for_fast_p_alone():
    turns = timed([0.8], target=False)
    assert fast_p_curve(turns, (0.5,), first=1).mean == (1.0,)
    assert fast_inst_share(turns, 0.5, "work", first=1) == 0


def test_the_two_rules_can_differ():
    token = turn(1, speedup=0.8).model_copy(update={"target_work": False})
    assert fast_inst_share([token], 0.5, "paper", first=1) == 1
    assert fast_inst_share([token], 0.5, "work", first=1) == 0


def test_untimed_successes_are_counted_and_above_nothing():
    curve = fast_p_curve(trajectory("TT", speedup=math.nan), first=2)
    assert curve.untimed == 2
    assert set(curve.mean) == {0.0}


def test_a_wrong_kernel_is_never_fast():
    assert fast_p_curve([turn(1, correct=False, speedup=9.0)], (0.5,), first=1).mean == (0.0,)


def test_no_turns_give_no_curve():
    assert math.isnan(fast_p_curve([], (0.5,)).mean[0])


@given(st.lists(speeds, min_size=1, max_size=4))
def test_curves_fall_and_stay_in_their_band(groups):
    turns = [t for index, group in enumerate(groups) for t in timed(group, variant=str(index))]
    curve = fast_inst_curve(turns, "work")
    assert curve.thresholds == THRESHOLDS
    assert list(curve.mean) == sorted(curve.mean, reverse=True)
    for low, mean, high in zip(curve.low, curve.mean, curve.high, strict=True):
        assert 0 <= low <= mean + 1e-12
        assert mean <= high + 1e-12
        assert high <= 1


@given(speeds)
def test_at_zero_the_curve_is_turn_correctness(speedups):
    turns = timed(speedups)
    assert fast_inst_share(turns, 0, "work") == pytest.approx(turn_correctness(turns, 8, "work").share)
