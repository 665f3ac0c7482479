"""`AlignedLoss`: `Aligned` inside the trainer of sentence-transformers.

    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
    from demitasse import Aligned
    from demitasse.integrations.aligned_loss import AlignedLoss, teacher_labels

    objective = Aligned(teachers=("nomic-ai/nomic-embed-text-v1.5",))
    dataset = dataset.map(teacher_labels(objective), batched=True, batch_size=4096)
    model = SentenceTransformer("sentence-transformers/all-MiniLM-L6-v2")
    loss = AlignedLoss(model, objective, dataset["anchor"])
    SentenceTransformerTrainer(model=model, train_dataset=dataset, loss=loss).train()
    loss.encoder().save("aligned")

The teachers' vectors come with the rows, as labels: that is how this trainer gives vectors to its own losses. The exits
belong to the loss, which the trainer trains along with the model.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from demitasse.arguments import instance
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.exits import Exit
from demitasse.encoding.loading import load
from demitasse.encoding.teacher_space import joined
from demitasse.encoding.text_checks import checked, text_series
from demitasse.encoding.vectors import Vectors, unit_length
from demitasse.errors import DataError
from demitasse.host.progress import progress_bar
from demitasse.integrations.sentence_transformers import FIND_THE_POSITIVE, ElasticLoss, unwrapped
from demitasse.objectives.aligned import Aligned
from demitasse.objectives.pair_losses import PairLoss
from demitasse.objectives.protocol import Step
from demitasse.torch_model.backbone import Backbone
from demitasse.torch_model.model_folder import read
from demitasse.torch_model.torch_encoder import TorchEncoder
from demitasse.training import refine_exits as refining
from demitasse.training.fit_exits import LEAST_SENTENCES, WINDOW
from demitasse.training.fit_space import fit_space, fit_space_exits, mean_of
from demitasse.training.teachers import find_teacher

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_WRITE = "write Aligned(teachers=('owner/model',))"


class teacher_labels:  # noqa: N801 - it is used as a function
    """For `dataset.map(…, batched=True)`: adds the column `label`, the teachers' vectors of all texts of a row.

    >>> from demitasse import Aligned
    >>> labels = teacher_labels(Aligned(teachers=str(folder)), device="cpu")
    >>> labels({"anchor": sentences[:3], "positive": sentences[3:6]})["label"].shape
    (3, 64)
    """

    def __init__(self, objective: Aligned, *, columns: Sequence[str] | None = None, device: str | None = None) -> None:
        """`columns` are those with texts, in their order; by default all that hold strings."""
        self._objective, self._columns, self._device = _checked(objective), columns, device

    def __call__(self, batch: Mapping[str, Sequence[Any]]) -> dict[str, Vectors]:
        """The labels of a batch of rows, (rows, columns x dims of all teachers)."""
        names = self._columns or [name for name, values in batch.items() if isinstance(values[0], str)]
        if not names:
            raise DataError(f"none of the columns {', '.join(batch)} holds texts; name those that do with columns=")
        vectors = [joined_by(self._objective, list(batch[name]), self._teachers) for name in names]
        return {"label": np.concatenate(vectors, axis=1)}

    @cached_property
    def _teachers(self) -> list[Encoder]:
        return [load(name, device=self._device) for name in self._objective.teachers]

    def __getstate__(self) -> dict[str, Any]:
        """Without the models: `dataset.map` names its cache by this, and gives it to other processes."""
        return {name: value for name, value in vars(self).items() if name != "_teachers"}


class AlignedLoss(ElasticLoss):
    """`Aligned` as a loss of sentence-transformers: every depth learns to lie where the teachers put a text.

    `texts`, some 20,000 of the kind to be encoded, fix the space and the closed form of the exits. A batch has one or
    more columns of texts, and labels from `teacher_labels`. The result is `encoder()`: the model as the trainer left
    it, with its exits and its space.

    >>> from demitasse import Aligned
    >>> from sentence_transformers import SentenceTransformer
    >>> model = SentenceTransformer(str(folder), device="cpu")
    >>> objective = Aligned(teachers=str(folder))
    >>> loss = AlignedLoss(model, objective, sentences)
    >>> labels = teacher_labels(objective, device="cpu")({"text": sentences[:8]})["label"]
    >>> loss([model.preprocess(sentences[:8])], torch.tensor(labels)).backward()
    >>> loss.encoder()
    Encoder(3x32, BertModel, mean, exits at 0-3, cpu)
    """

    least_columns = 1
    has_teachers = True
    objective: Aligned
    _weight: Tensor
    _bias: Tensor
    _mean: Tensor

    def __init__(
        self,
        model: SentenceTransformer,
        objective: Aligned,
        texts: Iterable[str],
        loss: PairLoss = FIND_THE_POSITIVE,
        *,
        seed: int = 0,
    ) -> None:
        super().__init__(model, _checked(objective), loss)
        sentences = [text for text in checked(text_series(texts)) if text.strip()]
        if len(sentences) < LEAST_SENTENCES:
            raise DataError(
                f"{len(sentences)} texts are too few to fit exits; give at least {LEAST_SENTENCES}, ideally 20,000"
            )
        device = torch.device(model.device)
        seen = joined_by(objective, sentences, [load(name, device=str(device)) for name in objective.teachers])
        teachers = tuple(
            find_teacher(name, share, prompts=False)
            for name, share in zip(objective.teachers, objective.shares, strict=True)
        )
        start = _as_encoder(model)
        with progress_bar("ordering dims", refining.ORDER_STEPS * objective.order) as advance:
            self.teacher_space = fit_space(
                teachers,
                seen,
                start.full.dims,
                centre=objective.centre,
                order=objective.order,
                seed=seed,
                device=device,
                advance=advance,
            )
        exits = fit_space_exits(start, _windows(sentences, unit_length(self.teacher_space(seen))))
        weights = np.stack([exits[depth].weight for depth in sorted(exits)])
        self.exit_weight = nn.Parameter(torch.from_numpy(weights).to(device))  # (K, D, S)
        biases = np.stack([exits[depth].bias for depth in sorted(exits)])
        self.exit_bias = nn.Parameter(torch.from_numpy(biases).to(device))  # (K, D)
        self.register_buffer("_weight", torch.from_numpy(self.teacher_space.weight).to(device))
        self.register_buffer("_bias", torch.from_numpy(self.teacher_space.bias).to(device))
        mean = mean_of(seen) if objective.centre else np.zeros(seen.shape[1], np.float32)
        self.register_buffer("_mean", torch.from_numpy(mean).to(device))

    def encoder(self) -> TorchEncoder:
        """The model as it is now, with its exits and the space it shares with its teachers."""
        plain = _as_encoder(unwrapped(self.model))
        weights, biases = (part.detach().float().cpu().numpy().copy() for part in (self.exit_weight, self.exit_bias))
        exits = {depth: Exit(*parts) for depth, parts in enumerate(zip(weights, biases, strict=True))}
        record = {**plain.record, "objective": {"name": "Aligned", "teachers": list(self.objective.teachers)}}
        return replace(
            plain, dims=self.teacher_space.dims, exits=exits, teacher_space=self.teacher_space, record=record
        )

    def _modules_after(self, model: SentenceTransformer) -> list[nn.Module]:
        """Pooling alone: the exits take the place of what follows it."""
        return [*model.children()][1:2]

    def _states(self, backbone: Backbone, features: Mapping[str, Any], depths: Sequence[int]) -> dict[int, Tensor]:
        states = super()._states(backbone, features, depths)
        pooled = functional.normalize(torch.stack([states[depth] for depth in depths]), dim=-1)
        mapped = torch.baddbmm(self.exit_bias.unsqueeze(1), pooled, self.exit_weight.mT)
        return dict(zip(depths, mapped, strict=True))

    def _scores(self, labels: Tensor | None, columns: Tensor) -> None:
        return None

    def _informed(self, step: Step, labels: Tensor | None, columns: int) -> Step:
        total = self.teacher_space.weight.shape[1]
        if labels is None or labels.ndim != 2 or labels.shape[1] != columns * total:
            given = "no labels" if labels is None else f"labels of shape {tuple(labels.shape)}"
            raise DataError(
                f"{given} came with {columns} columns of texts, and the teachers have {total} dims; add the column "
                "label with dataset.map(teacher_labels(objective), batched=True)"
            )
        vectors = labels.to(self._weight).reshape(-1, columns, total).transpose(0, 1)  # (C, B, T)
        step.anchor = functional.linear(vectors, self._weight, self._bias)
        step.teacher = vectors - self._mean
        return step


def joined_by(objective: Aligned, texts: list[str], teachers: Sequence[Encoder]) -> Vectors:
    """The joined vectors of `texts` (see encoding/teacher_space.py)."""
    return joined([teacher.encode(texts, progress=False) for teacher in teachers], objective.shares)


def _checked(objective: Aligned) -> Aligned:
    if not instance("objective", objective, Aligned, _WRITE).teachers:
        raise DataError(f"Aligned was given no teachers; {_WRITE}")
    if objective.prompts:
        raise DataError("prompts=True is not known here, since this trainer knows no roles; use demitasse.train")
    return objective


def _as_encoder(model: SentenceTransformer) -> TorchEncoder:
    """A copy of `model` as an encoder, on its device."""
    with tempfile.TemporaryDirectory() as place:
        model.save(str(Path(place) / "model"), create_model_card=False)
        return replace(read(Path(place) / "model", str(model.device), None, "sentence-transformers"), folder=None)


def _windows(texts: list[str], targets: Vectors) -> Iterator[tuple[list[str], str | None, Vectors]]:
    for begin in range(0, len(texts), WINDOW):
        yield texts[begin : begin + WINDOW], None, targets[begin : begin + WINDOW]
