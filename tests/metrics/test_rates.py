"""Turn correctness, trajectory success and peaks, on trajectories that can be counted by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxgym.metrics import RULES, Rate, peak_speedup, trajectories, trajectory_success, turn_correctness

from .made import trajectory, turn

outcomes = st.text("T?Cxu", min_size=1, max_size=8)
several = st.lists(outcomes, min_size=1, max_size=6).map(
    lambda texts: [turn for index, text in enumerate(texts) for turn in trajectory(text, trajectory=str(index))]
)


def test_a_hand_counted_trajectory():
    turns = trajectory("xCTT?uxT")
    assert turn_correctness(turns, 8) == Rate(5, 8, 1, 0)
    assert turn_correctness(turns, 8, "paper") == Rate(3, 8, 2, 0)
    assert turn_correctness(turns, 4, "paper") == Rate(2, 4, 0, 0)
    assert turn_correctness(turns, 1, "paper") == Rate(0, 1, 0, 0)


def test_unknown_stays_in_the_denominator():
    assert turn_correctness(trajectory("Tu"), 2, "work").share == 0.5
    assert turn_correctness(trajectory("T?"), 2, "work") == Rate(1, 2, 1, 0)


def test_turns_not_taken_stay_in_the_denominator():
    assert turn_correctness(trajectory("TT"), 8) == Rate(2, 8, 0, 6)


def test_reaching_the_target_early_is_no_worse_than_late():
    early = trajectory("xT", ended=False)
    early[-1] = early[-1].model_copy(update={"ended": True})
    assert turn_correctness(early, 8) == Rate(7, 8, 0, 0)
    assert turn_correctness(early, 1) == Rate(0, 1, 0, 0)


def test_a_run_with_a_smaller_budget_is_looked_at_as_far_as_it_goes():
    assert turn_correctness(trajectory("xT", budget=2), 8) == Rate(1, 2, 0, 0)
    assert turn_correctness(trajectory("x", budget=2), 8) == Rate(0, 2, 0, 1)


def test_a_gap_inside_a_trajectory_is_not_filled():
    turns = [turn(1), turn(3, ended=True)]
    assert turn_correctness(turns, 4) == Rate(3, 4, 0, 1)


def test_nothing_gives_no_share():
    assert math.isnan(turn_correctness([]).share)
    assert math.isnan(peak_speedup([]))


def test_success_needs_one_turn_and_unknown_is_told():
    turns = trajectory("xxT", trajectory="0") + trajectory("xu", trajectory="1") + trajectory("CC", trajectory="2")
    assert trajectory_success(turns, rule="work") == Rate(1, 3, 1, 0)
    assert trajectory_success(turns) == Rate(2, 3, 1, 0)
    assert trajectory_success(turns, first=2, rule="work") == Rate(0, 3, 1, 0)


def test_the_peak_is_of_successes_only():
    turns = [
        turn(1, speedup=0.4),
        turn(2, target=False, speedup=0.9),
        turn(3, correct=False, speedup=3.0),
        turn(4, speedup=math.nan),
        turn(5, speedup=0.7),
    ]
    assert peak_speedup(turns, "work") == 0.7
    assert peak_speedup(turns) == 0.9
    assert peak_speedup(turns, "work", first=4) == 0.4


def test_a_turn_recorded_twice_is_refused():
    with pytest.raises(ValueError, match="turn 1 of trajectory run / model"):
        trajectories([turn(1), turn(1)])


def test_trajectories_of_different_runs_are_never_joined():
    assert len(trajectories([turn(1), turn(2, run="other")])) == 2


@given(several)
def test_a_rule_never_raises_a_share_and_more_turns_never_lower_success(turns):
    for rule in RULES:
        assert turn_correctness(turns, 8, rule).successes <= turn_correctness(turns, 8).successes
        shares = [trajectory_success(turns, first, rule).share for first in (1, 4, 8)]
        assert shares == sorted(shares)


@given(several, st.randoms())
def test_the_order_of_records_does_not_matter(turns, random):
    mixed = turns[:]
    random.shuffle(mixed)
    assert turn_correctness(mixed, 4, "work") == turn_correctness(turns, 4, "work")
    assert trajectory_success(mixed) == trajectory_success(turns)


@given(several)
def test_every_turn_is_a_success_a_failure_unknown_or_not_taken(turns):
    rate = turn_correctness(turns, 8, "work")
    failures = sum(turn.correct is False or (turn.correct is True and turn.target_work is False) for turn in turns)
    assert rate.successes + rate.unknown + rate.not_taken + failures == rate.total
