"""What a training is asked for, and what it leaves behind."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveInt

from ptxgym.toolchain import Record

SETTINGS, RECORD, ADAPTER, CHECKPOINTS = "settings.json", "training.json", "adapter", "checkpoints"
"""In a training's folder: :class:`Planned`, :class:`TrainingRecord`, and two folders."""


class TrainSettings(Record):
    """Hyper-parameters; the defaults are the paper's (arXiv 2608.17379, its appendix on training)."""

    rank: PositiveInt = 32
    alpha: PositiveInt = 32
    """LoRA's scale is alpha ÷ rank. The paper does not give it."""
    dropout: float = Field(0.0, ge=0, lt=1)
    epochs: float = Field(5.0, gt=0)
    batch: PositiveInt = 2
    """Rows per step, over all GPUs."""
    micro_batch: int = Field(0, ge=0)
    """Rows that one GPU holds at a time; 0 means all of its share."""
    learning_rate: float = Field(4.65e-4, gt=0)
    """Falls linearly to zero."""
    adam_beta1: float = 0.9
    adam_beta2: float = 0.95
    adam_epsilon: float = 1e-8
    max_length: PositiveInt = 65_536
    """Tokens of a row; a longer one is refused."""
    checkpoint_every: PositiveInt = 50
    """Steps."""
    max_steps: int = -1
    """Ends the training early when positive."""
    seed: int = 0


class LossPoint(Record):
    """The mean loss per answer token, in nats."""

    step: int
    loss: float


class Described(Record):
    """A data set as a record names it."""

    file: str
    sha256: str
    rows: int
    tokens: int
    loss_tokens: int
    longest: int
    """Tokens of its longest row."""


class Planned(Record):
    """What must not change between the parts of a training that was broken off."""

    version: Literal[1] = 1
    model: str
    settings: TrainSettings
    data: Described
    validation: Described | None = None


class TrainingRecord(Record):
    """What a training was and what came of it."""

    version: Literal[1] = 1
    model: str
    settings: TrainSettings
    data: Described
    validation: Described | None
    losses: tuple[LossPoint, ...]
    """Of every step."""
    validation_losses: tuple[LossPoint, ...]
    """After every epoch."""
    steps: int
    resumed_from: int
    """The step at which this process took up the training; 0 when it ran in one piece."""
    seconds: float
    """Of this process's steps."""
    seconds_per_step: float
    """The median; NaN when there was one step or none."""
    tokens_per_second: float
    """All tokens, prompts included, over all GPUs."""
    peak_memory_bytes: int
    """On a GPU what torch allocated there at most; on a CPU the process's largest size."""
    trainable_parameters: int
    parameters: int
    device: str
    processes: int
    software: dict[str, str]

    @property
    def fall(self) -> tuple[float, float]:
        """The first and the last loss."""
        return self.losses[0].loss, self.losses[-1].loss
