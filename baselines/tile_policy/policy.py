"""REINFORCE with a baseline, over one-turn episodes: the whole learner in one file.

The policy picks an option for one head after another. The probabilities of a head depend on the picks before it,
because that is how legality works: five stages are fine for a small tile, and more shared memory than there is for a
large one.

    gradient = mean over the batch of (reward − baseline) / spread · ∇ log p(choice)  +  bonus · ∇ entropy

The baseline is a running mean of rewards and the spread their running deviation, so that the same step sizes fit
rewards of any scale (Williams 1992 for the estimator; the entropy bonus keeps it looking around and fades out).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from baselines.tile_policy.judge import Judge
from baselines.tile_policy.kernel import Choice, Space
from baselines.tile_policy.search import Step


@dataclass(frozen=True)
class Settings:
    """What can be tuned; nothing else is."""

    hidden: int = 32
    """Units of the one hidden layer."""
    learning_rate: float = 0.03
    """Of Adam."""
    memory: float = 0.8
    """Share of the running mean and spread that a step keeps."""
    entropy: float = 0.1
    """Bonus per nat of entropy at the first step; falls linearly to 0 at the last."""


class Policy(nn.Module):  # type: ignore[misc]  # mypy does not follow torch
    """Probabilities of a space's choices, head by head.

    Args:
        space: What there is to choose.
        hidden: Units of the hidden layer.
        generator: Of the initial weights and of every sample.
    """

    def __init__(self, space: Space, hidden: int, generator: torch.Generator) -> None:
        super().__init__()
        self.space, self.generator = space, generator
        self.sizes = [len(options) for options in space.heads.values()]
        self.body = nn.Linear(sum(self.sizes), hidden)
        self.heads = nn.ModuleList(nn.Linear(hidden, size) for size in self.sizes)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.normal_(0, 0.1, generator=generator)

    def logits(self, head: int, picks: Tensor) -> Tensor:
        """Of a head's options ``[batch, options]``, given the picks ``[batch, heads]`` of the heads before it."""
        before = [nn.functional.one_hot(picks[:, i], size).float() * (i < head) for i, size in enumerate(self.sizes)]
        return self.heads[head](torch.tanh(self.body(torch.cat(before, dim=1))))

    def sample(self, batch: int) -> Tensor:
        """Picks ``[batch, heads]``, drawn."""
        return self._pick(batch, lambda logits: torch.multinomial(logits.softmax(1), 1, generator=self.generator)[:, 0])

    def greedy(self) -> Tensor:
        """Picks ``[1, heads]``: the likeliest option of each head after the other."""
        return self._pick(1, lambda logits: logits.argmax(1))

    def _pick(self, batch: int, how: Callable[[Tensor], Tensor]) -> Tensor:
        picks = torch.zeros(batch, len(self.sizes), dtype=torch.long)
        with torch.no_grad():
            for head in range(len(self.sizes)):
                picks[:, head] = how(self.logits(head, picks))
        return picks

    def log_probability(self, picks: Tensor) -> tuple[Tensor, Tensor]:
        """``[batch]`` log-probabilities of picks, and the entropies of the heads along the way, summed."""
        per_head = [torch.distributions.Categorical(logits=self.logits(h, picks)) for h in range(len(self.sizes))]
        log_probabilities = torch.stack([d.log_prob(picks[:, h]) for h, d in enumerate(per_head)])
        return log_probabilities.sum(dim=0), torch.stack([d.entropy() for d in per_head]).sum(dim=0)

    def choices(self, picks: Tensor) -> list[Choice]:
        """Picks in words."""
        return [
            {head: options[pick] for (head, options), pick in zip(self.space.heads.items(), row, strict=True)}
            for row in picks.tolist()
        ]


def reinforce(
    space: Space, judge: Judge, *, steps: int, batch: int, seed: int, settings: Settings | None = None
) -> Iterator[Step]:
    """Learn for so many steps; see :class:`baselines.tile_policy.search.Search`."""
    how = settings or Settings()
    policy = Policy(space, how.hidden, torch.Generator().manual_seed(seed))
    optimizer = torch.optim.Adam(policy.parameters(), how.learning_rate)
    mean = square = 0.0
    weight = 0.0  # of what the running means have seen; they begin with nothing
    for step in range(steps):
        picks = policy.sample(batch)
        verdicts = judge(policy.choices(picks))

        valid = torch.tensor([verdict.valid for verdict in verdicts])
        rewards = torch.tensor([verdict.reward for verdict in verdicts])[valid]
        if len(rewards):  # what the machine could not judge teaches nothing
            weight = how.memory * weight + (1 - how.memory)
            mean += (1 - how.memory) / weight * (float(rewards.mean()) - mean)
            square += (1 - how.memory) / weight * (float(rewards.square().mean()) - square)
            spread = max(square - mean**2, 1e-4) ** 0.5
            advantages = (rewards - mean) / spread

            log_probabilities, entropies = policy.log_probability(picks[valid])
            bonus = how.entropy * (1 - step / steps)
            loss = -(advantages * log_probabilities).mean() - bonus * entropies.mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        yield Step(verdicts, policy.choices(policy.greedy())[0])
