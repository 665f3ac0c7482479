"""`TrainOptions`: how to train, every option of a run in one printable value."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass

from demitasse.arguments import check_fields, choice, number, whole
from demitasse.errors import DataError
from demitasse.objectives.names import loss_of
from demitasse.objectives.pair_losses import InfoNCE, PairLoss

SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda done: 1.0,
    "linear": lambda done: 1 - done,
    "cosine": lambda done: (1 + math.cos(math.pi * done)) / 2,
}
_COUNTS = ("steps", "batch_tokens", "micro_batch", "lora", "dev_every", "patience")
OPTIMIZERS = ("adamw", "muon")
MIXED_PRECISION = {"fp32": "no", "bf16": "bf16", "fp16": "fp16"}  # what accelerate calls each


@dataclass(frozen=True)
class TrainOptions:
    """How to train. The defaults suit fine-tuning a finished embedding model.

    >>> TrainOptions(steps=200, batch=64, warmup=0.1).rate_at(9, 200)
    0.5
    """

    steps: int | None = None  # optimizer steps; default: as many as `epochs` take
    epochs: float = 1.0
    batch: int = 128  # examples whose texts are one another's negatives, over all processes
    batch_tokens: int | None = None  # and at most about so many tokens: sources of longer texts have smaller batches
    accumulate: int = 1  # batches per step: gradients are averaged, negatives are not shared
    micro_batch: int | None = None  # examples in memory at a time, for batches larger than memory (GradCache)
    rate: float = 2e-5
    exit_rate: float = 1e-3  # learning rate of the exits, which are small and start from the closed form
    embedding_rate: float | None = None  # learning rate of the token embeddings; default: `rate`
    optimizer: str | None = None  # adamw, or muon for the matrices of layers; default: muon for distilling on a GPU
    warmup: float = 0.1  # as a share of the steps
    schedule: str = "linear"
    decay: float = 0.01
    clip: float = 1.0
    loss: PairLoss = field(default_factory=InfoNCE)
    precision: str | None = None  # fp32, bf16 or fp16; default: bf16 on a GPU that has it, else fp32
    dropout: bool = True  # whether to use the model's own
    checkpointing: bool = False  # recompute layers in the backward pass: less memory, a third more time
    lora: int | None = None  # train adapters of this rank, merged at the end, instead of the whole backbone
    max_tokens: int | None = None  # truncate texts earlier than the model does
    prompts: tuple[str, ...] = ()  # of anchors, positives, negatives; the last one is repeated
    vectors: str | None = None  # folder to keep teachers' vectors in, for other runs too; default: the run's own
    dev_every: int | None = None  # steps between dev scores; default: ten per run
    patience: int | None = None  # stop after this many dev scores in a row without a new best
    save_every: int = 500  # steps between checkpoints, at most
    save_minutes: float = 5.0  # minutes between checkpoints, at most (and one step): what a crash can cost
    seed: int = 0
    trackers: tuple[str, ...] = ()  # such as wandb or tensorboard, through accelerate

    def __post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "loss", loss_of(self.loss))
        for name in ("batch", "accumulate", "save_every"):
            whole(name, getattr(self, name), 1)
        for name, least in (*((name, 1) for name in _COUNTS), ("max_tokens", 4)):  # 4: special tokens take two
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), least)
        for name in ("epochs", "rate", "exit_rate", "embedding_rate", "clip", "save_minutes"):
            if getattr(self, name) is not None:
                number(name, getattr(self, name), above=0)
        if not self.decay >= 0:
            raise DataError(f"decay must be at least 0, not {self.decay}")
        if not 0 <= self.warmup <= 1:
            raise DataError(f"warmup must be a share of the steps from 0 to 1, not {self.warmup}")
        for name, known in (("schedule", SCHEDULES), ("optimizer", OPTIMIZERS), ("precision", MIXED_PRECISION)):
            if getattr(self, name) is not None:
                choice(name, getattr(self, name), [*known])

    def rate_at(self, step: int, steps: int) -> float:
        """What to multiply the learning rates by at step `step` (from 0) of a stage of `steps`."""
        step, steps = whole("step", step, 0), whole("steps", steps, 1)
        warm = round(self.warmup * steps)
        if step < warm:
            return (step + 1) / warm
        return SCHEDULES[self.schedule]((step - warm) / max(1, steps - warm))


def check_finite(value: object, at: str = "") -> None:
    """Refuse options and objectives, however nested, with a number that is infinite or not one at all."""
    if isinstance(value, float) and not math.isfinite(value):
        raise DataError(f"{at} must be a finite number, not {value}")
    if isinstance(value, (list, tuple)):
        for part in value:
            check_finite(part, at)
    elif is_dataclass(value) and not isinstance(value, type):
        for option in fields(value):
            check_finite(getattr(value, option.name), option.name)
