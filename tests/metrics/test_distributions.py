"""Outcomes, what follows them, work fractions and tokens."""

import math

from hypothesis import given
from hypothesis import strategies as st

from ptxgym.metrics import (
    OUTCOMES,
    correctness_interval,
    outcome,
    outcomes_by_turn,
    peak_interval,
    reasoning_tokens,
    transitions,
    turn_correctness,
    work_fractions,
)

from .made import trajectory, turn
from .test_rates import several


def test_every_outcome_has_its_turn():
    assert [outcome(t, "work") for t in trajectory("T?Cxu")] == [
        "target",
        "target_unknown",
        "other_instructions",
        "incorrect",
        "unknown",
    ]
    assert outcome(turn(correct=False, status="compile_error"), "work") == "compile_error"
    assert outcome(turn(correct=False, status="never heard of"), "work") == "other_error"


def test_outcomes_are_counted_by_turn():
    counts = outcomes_by_turn(trajectory("xT") + trajectory("xC", trajectory="1"), "work")
    assert counts == {1: {"incorrect": 2}, 2: {"target": 1, "other_instructions": 1}}


def test_transitions_join_neighbours_of_one_trajectory_only():
    turns = trajectory("xxT") + trajectory("Cx", trajectory="1")
    assert transitions(turns, "work") == {
        "other_instructions": {"incorrect": 1},
        "incorrect": {"incorrect": 1, "target": 1},
    }
    assert transitions(turns, "work", after=2) == {"incorrect": {"target": 1}}


def test_a_missing_turn_joins_nothing():
    assert transitions([turn(1), turn(3)], "work") == {}


@given(several)
def test_a_trajectory_of_n_turns_has_n_less_one_transitions(turns):
    found = transitions(turns, "work")
    assert sum(row.total() for row in found.values()) == len(turns) - len({t.trajectory for t in turns})
    assert list(found) == [name for name in OUTCOMES if name in found]


def test_work_fractions_are_binned_and_token_instructions_told():
    token = turn(1, work_fraction=0.05).model_copy(update={"target_work": False})
    turns = [
        token,
        turn(2, work_fraction=0.95),
        turn(3, work_fraction=1.0),
        turn(4),
        turn(5, correct=False, work_fraction=0.5),
    ]
    found = work_fractions(turns)
    assert found.counts == (1, 0, 0, 0, 0, 0, 0, 0, 0, 2)
    assert (found.enough, found.token, found.unknown) == (2, 1, 1)


def test_tokens_are_sorted_and_absent_counts_left_out():
    turns = [turn(1, reasoning_tokens=9), turn(2, reasoning_tokens=3), turn(3), turn(9, reasoning_tokens=1)]
    assert reasoning_tokens(turns, "work") == {"target": [3, 9]}


@given(several)
def test_the_interval_holds_the_share_and_is_the_same_twice(turns):
    interval = correctness_interval(turns, 8, "work", resamples=200)
    if len({t.trajectory for t in turns}) < 2:
        assert math.isnan(interval.low)
        assert math.isnan(interval.high)
        return
    assert 0 <= interval.low <= interval.high <= 1
    assert interval == correctness_interval(turns, 8, "work", resamples=200)


def test_whole_trajectories_are_resampled():
    """Four trajectories that are all right or all wrong say much less than 32 turns that differ one by one."""
    together = [t for i, text in enumerate(("T" * 8, "x" * 8) * 2) for t in trajectory(text, trajectory=str(i))]
    apart = [t for i in range(4) for t in trajectory("TxTxTxTx", trajectory=str(i))]
    assert turn_correctness(together).share == turn_correctness(apart).share == 0.5
    wide, narrow = correctness_interval(together), correctness_interval(apart)
    assert (wide.low, wide.high) == (0.0, 1.0)
    assert narrow.low == narrow.high == 0.5


@given(st.lists(st.floats(0.1, 1), min_size=2, max_size=6))
def test_a_bootstrap_peak_never_exceeds_the_peak(speedups):
    turns = [turn(1, speedup=s, trajectory=str(i)) for i, s in enumerate(speedups)]
    interval = peak_interval(turns, "work", resamples=200)
    assert interval.low <= interval.high <= max(speedups)


def test_no_timed_success_gives_no_interval():
    assert math.isnan(peak_interval(trajectory("xx")).high)
