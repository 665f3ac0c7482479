from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
import zoo
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from torch import Tensor, nn

from demitasse import Encoder, fit_exits, read_pairs
from demitasse.data.pairs import Pairs
from demitasse.data.sampler import Sampler
from demitasse.objectives.elastic import Elastic
from demitasse.objectives.pair_losses import CoSENT, InfoNCE
from demitasse.objectives.protocol import NestedLoss, Step
from demitasse.objectives.published import Matryoshka, TwoDMSE
from demitasse.torch_model.torch_encoder import TorchEncoder
from demitasse.training.batches import Loader, Prepared, Share, Tokenizing
from demitasse.training.gradients import Descent, Teaching, by_column, gathered, step_seeds
from demitasse.training.student import Student
from demitasse.training.teacher_vectors import TeacherVectors, write_vectors

COLUMNS = [list(dict.fromkeys(zoo.sentences(90, seed=seed)))[:60] for seed in (1, 2, 3)]
TRIPLES = read_pairs(list(zip(*COLUMNS, strict=True)))
SCORED = read_pairs([(*texts, number / 7) for number, texts in enumerate(zip(*COLUMNS[:2], strict=True))])


@pytest.fixture(scope="module")
def fitted(encoder: Encoder) -> TorchEncoder:
    return fit_exits(encoder, zoo.sentences(300), order=False, refine=False)


@pytest.fixture
def accelerator() -> Accelerator:
    AcceleratorState._reset_state()  # it remembers the precision of an earlier run in this process
    return Accelerator(cpu=True, mixed_precision="no")


def prepared(encoder: TorchEncoder, data: Pairs, micro_batch: int | None, number: int = 0) -> Prepared:
    sampler = Sampler(data, 8, seed=0)
    batches = [sampler.next() for _ in range(number + 1)]
    return Loader(Tokenizing(encoder.reader, (), pool_prompt=True), micro_batch, Share()).prepare(batches[-1], {})


def gradients(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def vectors(folder: Path, encoder: TorchEncoder, data: Pairs) -> TeacherVectors:
    sampler = Sampler(data, 8, seed=0)
    write_vectors(folder, "teacher", encoder, data, (sampler.next() for _ in range(4)))
    return TeacherVectors(folder, "teacher")


@pytest.fixture
def _in_doubles(fitted: TorchEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Students and losses in double precision: what is left of a difference is a mistake and not rounding."""
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    assert next(Student(fitted).parameters()).dtype is torch.float64


EXACT = {"atol": 1e-12, "rtol": 1e-9}


@dataclass
class Noted:
    """An objective that notes what it is given."""

    last_only = False
    rows: list[Tensor] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def __call__(self, embeddings: Sequence[Tensor], loss: NestedLoss, step: Step) -> Tensor:
        self.embeddings, self.steps = list(embeddings), [*self.steps, step]
        return loss(embeddings[-1], [16, 32]).sum()


@pytest.mark.usefixtures("_in_doubles")
@pytest.mark.parametrize("micro_batch", [1, 3, 4])
@pytest.mark.parametrize("data", [TRIPLES, SCORED], ids=["triples", "scored"])
@pytest.mark.parametrize(
    "objective", [Matryoshka((8, 32)), TwoDMSE(), Elastic((8, 32))], ids=lambda it: type(it).__name__
)
def test_chunks_give_the_gradients_of_the_whole(
    objective: Any, data: Pairs, micro_batch: int, fitted: TorchEncoder, accelerator: Accelerator, tmp_path: Path
) -> None:
    known = vectors(tmp_path, fitted, data)
    teaching = Teaching(objective, InfoNCE(), known, known)
    found = []
    for size in (None, micro_batch):
        student = Student(fitted, last_only=objective.last_only).eval()
        batch = prepared(fitted, data, size)
        assert len(batch.chunks) == (1 if size is None else -(-8 // size))
        loss = Descent(accelerator, student, teaching).add(batch, Step(Random(1)), seed=5, share=0.5)
        assert not loss.requires_grad
        found.append({"loss": loss, **gradients(student)})
    assert found[0].keys() == found[1].keys()
    for name, value in found[0].items():
        torch.testing.assert_close(found[1][name], value, **EXACT)


class Listened(nn.Module):
    """A model whose rows are noted."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.rows = model, list[Tensor]()

    def forward(self, *given: Any) -> Tensor:
        rows: Tensor = self.model(*given)
        self.rows.append(rows.detach().clone())
        return rows


@pytest.mark.parametrize("recompute", [False, True])
def test_a_chunk_has_the_same_dropout_in_both_passes(
    recompute: bool, fitted: TorchEncoder, accelerator: Accelerator
) -> None:
    model = Listened(Student(fitted, recompute=recompute)).train()
    descent, batch = Descent(accelerator, model, Teaching(Noted(), InfoNCE())), prepared(fitted, TRIPLES, 3)
    descent.add(batch, Step(), seed=5)
    first, again = model.rows[:3], model.rows[3:]
    assert len(again) == 3
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))
    model.rows.clear()
    descent.add(batch, Step(), seed=6)
    assert not torch.equal(model.rows[0], first[0])  # another step drops others
    model.rows.clear()
    model.eval()
    descent.add(batch, Step(), seed=5)
    assert not torch.equal(model.rows[0], first[0])  # and there was something to drop


def test_each_chunk_has_its_own_dropout(fitted: TorchEncoder, accelerator: Accelerator) -> None:
    model = Listened(Student(fitted)).train()
    batch = prepared(fitted, TRIPLES, 4)
    twice = Prepared(batch.whole, batch.own, (batch.chunks[0],) * 2, (None, None), {})
    Descent(accelerator, model, Teaching(Noted(), InfoNCE())).add(twice, Step(), seed=5)
    assert not torch.equal(model.rows[0], model.rows[1])


@pytest.mark.usefixtures("_in_doubles")
def test_with_dropout_gradients_are_those_of_the_pass_that_was_run(
    fitted: TorchEncoder, accelerator: Accelerator
) -> None:
    """The gradient of the loss over rows that were dropped chunk by chunk, all held at once."""
    student, batch = Student(fitted).train(), prepared(fitted, TRIPLES, 3)
    Descent(accelerator, student, Teaching(Matryoshka(), InfoNCE())).add(batch, Step(), seed=5)
    found = gradients(student)
    student.zero_grad()
    parts = []
    for number, chunk in enumerate(batch.chunks):
        torch.manual_seed(5 + number)
        parts.append(by_column(student(chunk), 3))
    InfoNCE()(torch.cat(parts, dim=2)[-1], [32]).sum().backward()
    for name, value in gradients(student).items():
        torch.testing.assert_close(found[name], value, **EXACT)


@pytest.mark.usefixtures("_in_doubles")
@pytest.mark.parametrize("micro_batch", [None, 3])
def test_accumulated_gradients_are_their_mean(
    micro_batch: int | None, fitted: TorchEncoder, accelerator: Accelerator
) -> None:
    def added(*numbers: int, share: float) -> tuple[dict[str, Tensor], list[Tensor]]:
        student = Student(fitted).eval()
        descent = Descent(accelerator, student, Teaching(Matryoshka((8, 32)), InfoNCE()))
        batches = [prepared(fitted, TRIPLES, micro_batch, number) for number in numbers]
        last = len(batches) - 1
        losses = [descent.add(b, Step(), 5, share=share, last=n == last) for n, b in enumerate(batches)]
        return gradients(student), losses

    (one, first), (other, second) = added(0, share=1.0), added(1, share=1.0)
    both, losses = added(0, 1, share=0.5)
    torch.testing.assert_close(losses, first + second)  # a loss is told whole, whatever its share
    for name, value in both.items():
        torch.testing.assert_close(value, (one[name] + other[name]) / 2, **EXACT)


@pytest.mark.parametrize("micro_batch", [None, 3])
def test_scores_reach_the_loss(micro_batch: int | None, fitted: TorchEncoder, accelerator: Accelerator) -> None:
    batch, objective = prepared(fitted, SCORED, micro_batch), Noted()
    loss = Descent(accelerator, Student(fitted).eval(), Teaching(objective, CoSENT())).add(batch, Step(), seed=5)
    places = [COLUMNS[0].index(text) for text in batch.whole.columns[0]]
    scores = torch.tensor([place / 7 for place in places])
    torch.testing.assert_close(loss, CoSENT()(objective.embeddings[-1], [16, 32], scores).sum().detach())
    shuffled = CoSENT()(objective.embeddings[-1], [16, 32], scores.roll(1)).sum()
    assert (loss - shuffled).abs() > 1e-3


def test_without_scores_the_loss_has_none(fitted: TorchEncoder, accelerator: Accelerator) -> None:
    given = []

    def loss(columns: Tensor, widths: Sequence[int], scores: Tensor | None = None) -> Tensor:
        given.append(scores)
        return InfoNCE()(columns, widths, scores)

    Descent(accelerator, Student(fitted), Teaching(Noted(), loss)).add(prepared(fitted, TRIPLES, None), Step(), seed=5)
    assert given == [None]


@pytest.mark.parametrize("micro_batch", [None, 3])
def test_embeddings_and_teacher_vectors_are_of_the_same_texts(
    micro_batch: int | None, fitted: TorchEncoder, accelerator: Accelerator, tmp_path: Path
) -> None:
    objective, known = Noted(), vectors(tmp_path, fitted, TRIPLES)
    descent = Descent(accelerator, Student(fitted).eval(), Teaching(objective, InfoNCE(), teacher=known))
    batch = prepared(fitted, TRIPLES, micro_batch, number=2)
    descent.add(batch, Step(), seed=5)
    (step,) = objective.steps
    assert step.anchor is None
    assert step.teacher is not None
    assert step.teacher.dtype is torch.float32
    assert not step.teacher.requires_grad
    expected = np.stack([fitted.encode(column) for column in batch.whole.columns])
    np.testing.assert_allclose(step.teacher.numpy(), expected, atol=1e-3)
    own = torch.nn.functional.normalize(objective.embeddings[-1], dim=-1).detach()
    np.testing.assert_allclose(own.numpy(), expected, atol=1e-5)
    Descent(accelerator, descent.model, Teaching(objective, InfoNCE(), anchor=known)).add(batch, Step(), seed=5)
    assert objective.steps[1].teacher is None
    torch.testing.assert_close(objective.steps[1].anchor, step.teacher)


def test_by_column_tells_the_columns_apart() -> None:
    rows = torch.arange(2 * 6 * 3).reshape(2, 6, 3)
    found = by_column(rows, 2)
    assert found.shape == (2, 2, 3, 3)
    assert torch.equal(found[1, 1], rows[1, 3:])


def test_one_process_gathers_its_own(accelerator: Accelerator) -> None:
    rows = torch.ones(2, 3, requires_grad=True)
    assert gathered(accelerator, rows) is rows


def test_step_seeds_depend_on_nothing_but_the_step() -> None:
    places = [(seed, stage, step, rank) for seed in (0, 1) for stage in (0, 1) for step in (0, 11) for rank in (0, 1)]

    def drawn(place: tuple[int, int, int, int]) -> tuple[float, int]:
        random, seed = step_seeds(*place)
        return random.random(), seed

    found = {place: drawn(place) for place in places}
    assert found == {place: drawn(place) for place in places}
    assert len({seed for _, seed in found.values()}) == 16  # each process drops others
    assert len({value for value, _ in found.values()}) == 8
    assert all(found[place][0] == found[(*place[:3], 0)][0] for place in places)  # but all draw the same layers
    assert all(0 <= seed < 1 << 48 for _, seed in found.values())
