"""Shaping between turns leaves what an episode returns alone; advantages leave out what is unknown."""

import doctest
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxgym import shaping
from ptxgym.errors import MisuseError
from ptxgym.rewards import REWARDS, staged
from ptxgym.shaping import Shaping, group_advantages

from .evaluation.outcomes import evaluation_of

LADDER = [
    evaluation_of(compiled=False),
    evaluation_of(memory="failed"),
    evaluation_of(correct=False),
    evaluation_of(share=0.0),
    evaluation_of(share=0.5),
    evaluation_of(),
    evaluation_of(speedup=0.9),
    evaluation_of(speedup=1.3),
]
UNKNOWN = evaluation_of().model_copy(
    update={
        "stages": tuple(
            s.model_copy(update={"status": "unknown", "reason": "infrastructure"}) if s.stage == "correctness" else s
            for s in evaluation_of().stages
        )
    }
)
EPISODES = st.lists(st.sampled_from([*LADDER, UNKNOWN]), min_size=1, max_size=8)


def paid(how: Shaping, episode) -> list[float]:
    """F of every turn of a whole episode."""
    before, found = 0.0, []
    for turn, evaluation in enumerate(episode, start=1):
        after = how.after(before, evaluation, ended=turn == len(episode))
        found.append(how.paid(before, after))
        before = after
    return found


@given(EPISODES, st.floats(0.1, 1), st.sampled_from(sorted(REWARDS)))
@settings(max_examples=300, deadline=None)
def test_shaping_telescopes_to_nothing_over_every_episode(episode, gamma, name):
    found = paid(Shaping(gamma=gamma, potential=name), episode)
    assert sum(gamma**turn * f for turn, f in enumerate(found)) == pytest.approx(0, abs=1e-9)


def test_progress_is_paid_in_the_turn_that_makes_it():
    found = paid(Shaping(), [LADDER[0], LADDER[3], LADDER[3], LADDER[1], LADDER[5], LADDER[5]])
    expected = [0, staged(LADDER[3]), 0, -staged(LADDER[3]) + staged(LADDER[1])]
    assert found[:4] == pytest.approx(expected)
    assert found[4] == pytest.approx(staged(LADDER[5]) - staged(LADDER[1]))
    assert found[5] == pytest.approx(-staged(LADDER[5]))


def test_an_unknown_turn_keeps_the_potential_and_cannot_be_ended_on_for_profit():
    how = Shaping(gamma=1.0)
    assert paid(how, [LADDER[5], UNKNOWN, LADDER[5], LADDER[0]])[1] == 0
    assert sum(paid(how, [LADDER[5], UNKNOWN])) == 0


def test_a_bad_shaping_is_told_at_once():
    for gamma in (0, -1, 1.5, math.nan):
        with pytest.raises(MisuseError, match="discount"):
            Shaping(gamma=gamma)
    with pytest.raises(MisuseError, match="no reward"):
        Shaping(potential="progress")


def test_examples_in_the_docstring_run():
    assert doctest.testmod(shaping).failed == 0


REWARD = st.floats(-5, 5, allow_nan=False).map(lambda value: round(value, 3))
SAMPLES = st.lists(
    st.tuples(REWARD | st.just(math.nan) | st.just(math.inf), st.booleans(), st.sampled_from("abc")), max_size=24
)


@given(SAMPLES, st.booleans())
@settings(max_examples=300, deadline=None)
def test_advantages_are_finite_sum_to_nothing_and_leave_out_what_is_unknown(samples, scale):
    rewards, valid, groups = ([sample[part] for sample in samples] for part in range(3))
    found = group_advantages(rewards, valid, groups, scale)
    known = np.isfinite(rewards) & np.array(valid, dtype=bool) if samples else np.zeros(0, bool)
    assert np.isfinite(found).all()
    assert (found[~known] == 0).all()
    for group in set(groups):
        own = np.array([k and g == group for k, g in zip(known, groups, strict=True)])
        values = np.array(rewards)[own]
        assert found[own].sum() == pytest.approx(0, abs=1e-6)
        if len(values) < 2 or np.ptp(values) == 0:
            assert (found[own] == 0).all()
        else:
            assert np.argsort(found[own], kind="stable").tolist() == np.argsort(values, kind="stable").tolist()
            assert found[own].std() == pytest.approx(1 if scale else values.std())


def test_an_unknown_result_does_not_move_the_others():
    alone = group_advantages([1.0, 0.0])
    assert group_advantages([1.0, 0.0, 0.0], valid=[True, True, False])[:2].tolist() == alone.tolist()
    assert group_advantages([1.0, 0.0, math.nan])[:2].tolist() == alone.tolist()


def test_lengths_must_agree():
    for arguments in ({"valid": [True]}, {"groups": ["a"]}):
        with pytest.raises(MisuseError, match="2 rewards need as many"):
            group_advantages([1.0, 0.0], **arguments)
