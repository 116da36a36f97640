"""The learner, on tables that are made up."""

import itertools

import pytest
import torch

from baselines.tile_policy.kernel import SPACES, Space
from baselines.tile_policy.policy import Policy, reinforce
from baselines.tile_policy.search import exhaustive_search, random_search
from baselines.tile_policy.training import Plan, cost_until, last_reward, train

from .made import score, table, verdict

SPACE = Space("made", {"stages": ("3", "4", "5"), "tile": ("128x128", "128x256"), "registers": ("40/232", "56/240")})


def all_picks(space: Space) -> torch.Tensor:
    return torch.tensor(list(itertools.product(*(range(len(options)) for options in space.heads.values()))))


def test_the_probabilities_of_all_choices_sum_to_one():
    policy = Policy(SPACE, 8, torch.Generator().manual_seed(1))
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.mul_(10)  # far from uniform
    picks = all_picks(SPACE)
    with torch.no_grad():
        log_probabilities, entropies = policy.log_probability(picks)
    assert float(log_probabilities.exp().sum()) == pytest.approx(1, abs=1e-5)
    assert policy.choices(picks) == list(SPACE)
    assert float(entropies.max()) <= sum(torch.tensor(policy.sizes).log()) + 1e-5


def test_samples_follow_the_probabilities():
    policy = Policy(SPACE, 8, torch.Generator().manual_seed(2))
    picks = all_picks(SPACE)
    expected = policy.log_probability(picks)[0].exp().detach()
    drawn = policy.sample(20_000)
    share = torch.stack([(drawn == pick).all(dim=1).float().mean() for pick in picks])
    assert float((share - expected).abs().max()) < 0.015


def test_a_head_sees_the_picks_before_it_and_none_behind():
    policy = Policy(SPACE, 8, torch.Generator().manual_seed(3))
    first, behind, before = torch.tensor([[0, 0, 0]]), torch.tensor([[0, 0, 1]]), torch.tensor([[1, 0, 0]])
    assert torch.equal(policy.logits(1, first), policy.logits(1, behind))
    assert not torch.equal(policy.logits(1, first), policy.logits(1, before))


def test_it_learns_choices_that_are_legal_only_together(tmp_path):
    judge = table(tmp_path / "table.jsonl", SPACE)
    plan = Plan(seeds=5, steps=80, batch=8)
    best = max(score(choice) for choice in SPACE)
    assert best == 1.0  # five stages, which only the smaller tile has room for
    learned = train("reinforce", reinforce, SPACE, judge, plan)
    uniform = sum(score(choice) for choice in SPACE) / len(SPACE)
    for seed in range(plan.seeds):
        assert last_reward(learned, seed) > uniform + 0.4
    assert sum(last_reward(learned, seed) > 0.95 * best for seed in range(plan.seeds)) >= 4


def test_equal_seeds_give_equal_searches_and_others_others(tmp_path):
    judge = table(tmp_path / "table.jsonl", SPACES["small"])
    for search in (reinforce, random_search):
        runs = [
            [[v.name for v in step.verdicts] for step in search(SPACES["small"], judge, steps=5, batch=4, seed=seed)]
            for seed in (1, 1, 2)
        ]
        assert runs[0] == runs[1] != runs[2]


def test_what_the_machine_could_not_judge_teaches_nothing():
    def unknown(choices):
        return [verdict(choice, 0.0, valid=False) for choice in choices]

    def greedy(judge):
        return [step.greedy for step in reinforce(SPACES["full"], judge, steps=20, batch=4, seed=0)]

    assert len({tuple(choice.values()) for choice in greedy(unknown)}) == 1
    assert len({tuple(c.values()) for c in greedy(lambda cs: [verdict(c, score(c)) for c in cs])}) > 1


def test_exhaustive_search_sees_everything_once(tmp_path):
    space = SPACES["full"]
    steps = train("exhaustive", exhaustive_search, space, table(tmp_path / "t.jsonl", space), Plan(1, 1000, 50))
    assert steps[-1].judged == len(space)
    assert steps[-1].best == max(score(choice) for choice in space)
    assert len(steps) == 5


def test_the_cost_counts_distinct_choices_of_each_seed_alone(tmp_path):
    judge = table(tmp_path / "table.jsonl", SPACE)
    steps = train("random", random_search, SPACE, judge, Plan(seeds=3, steps=30, batch=2))
    costs = cost_until(steps, lambda step: step.best == 1.0)
    assert set(costs) == {0, 1, 2}
    assert all(cost is None or 1 <= cost <= len(SPACE) for cost in costs.values())
    assert cost_until(steps, lambda step: False) == {0: None, 1: None, 2: None}
