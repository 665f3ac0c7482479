"""Steps that find their texts by number are the steps that read them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
import zoo
from accelerate import Accelerator
from accelerate.state import AcceleratorState

from demitasse import Encoder, InfoNCE, fit_exits, read_pairs
from demitasse.data.pairs import Pairs
from demitasse.data.sampler import Sampler
from demitasse.encoding.teacher_space import SpaceTeacher, TeacherSpace
from demitasse.objectives.aligned import Aligned
from demitasse.objectives.protocol import Step
from demitasse.torch_model.torch_encoder import TorchEncoder
from demitasse.training import text_bank
from demitasse.training.batches import FromBank, Loader, Share, Tokenizing
from demitasse.training.gradients import Descent, Teaching
from demitasse.training.numbered_texts import NumberedTexts, number_texts
from demitasse.training.student import Student
from demitasse.training.teacher_vectors import TeacherVectors, write_vectors
from demitasse.training.text_bank import TextBank, empty_vectors, read_tokens

SENTENCES = list(dict.fromkeys(zoo.sentences(300, seed=8)))
CPU = torch.device("cpu")
DATA = {
    "plain": lambda: read_pairs(SENTENCES[:60]),
    "pairs": lambda: read_pairs([(SENTENCES[n], SENTENCES[(7 * n + 1) % 90]) for n in range(60)]),
    "triples": lambda: read_pairs([tuple(SENTENCES[n : n + 3]) for n in range(0, 120, 3)]),
    "groups": lambda: read_pairs([{"texts": SENTENCES[n : n + 4]} for n in range(0, 120, 4)]),
}


@pytest.fixture(scope="module")
def fitted(encoder: Encoder) -> TorchEncoder:
    return fit_exits(encoder, zoo.sentences(300), order=False, refine=False)


def bank_of(
    texts: NumberedTexts, encoder: TorchEncoder, prompts: tuple[str, ...] = ()
) -> tuple[TextBank, TeacherSpace]:
    """A bank in which the encoder is its own teacher, mapped by a rotation."""
    numbers = np.arange(len(texts))
    tokens = read_tokens(texts, numbers, encoder.reader, prompts, pool_prompt=encoder.pooling.include_prompt)
    vectors = torch.from_numpy(encoder.encode([*texts.texts(numbers)]).astype(np.float16))
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(32, 32)))[0].astype(np.float32)
    space = TeacherSpace((SpaceTeacher("itself", "", 32, 1.0),), turn, np.zeros(32, np.float32))
    return TextBank(tokens, vectors, space, None, CPU), space


class Turned(TeacherVectors):
    """A teacher's vectors, mapped into a space."""

    teacher_space: TeacherSpace

    def columns(self, batch: object) -> np.ndarray:
        found = super().columns(batch)  # type: ignore[arg-type]
        return self.teacher_space(found.astype(np.float32).reshape(-1, 32)).reshape(found.shape)


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("micro_batch", [None, 3])
def test_loss_and_gradients_are_those_of_texts_that_are_read(
    kind: str, micro_batch: int | None, fitted: TorchEncoder, tmp_path: Path
) -> None:
    data = DATA[kind]()
    AcceleratorState._reset_state()
    accelerator, objective = Accelerator(cpu=True, mixed_precision="no"), Aligned(dims=(8, 32), contrast=0.3)
    texts = number_texts(data)
    bank, space = bank_of(texts, fitted)
    sampler = Sampler(data, 8, seed=3)
    write_vectors(tmp_path, "teacher", fitted, data, (sampler.next() for _ in range(3)))
    teacher, anchor = TeacherVectors(tmp_path, "teacher"), Turned(tmp_path, "teacher")
    anchor.teacher_space = space
    slow = (
        Loader(Tokenizing(fitted.reader, (), pool_prompt=True), micro_batch, Share()),
        Sampler(data, 8, seed=3),
        Teaching(objective, InfoNCE(), teacher, anchor),
        False,
    )
    fast = (
        Loader(FromBank(bank), micro_batch, Share()),
        Sampler(texts.data, 8, seed=3, key=texts.key),
        Teaching(objective, InfoNCE(), bank=bank),
        True,
    )
    found = []
    for loader, drawn, teaching, one_line in (slow, fast):
        student = Student(fitted, one_line=one_line).eval()
        descent = Descent(accelerator, student, teaching)
        losses = [descent.add(loader.prepare(drawn.next(), {}), Step(Random(1)), seed=5) for _ in range(3)]
        gradients = {name: p.grad for name, p in student.named_parameters() if p.grad is not None}
        found.append((torch.stack(losses), gradients))
    torch.testing.assert_close(found[1][0], found[0][0], atol=1e-4, rtol=1e-4)
    for name, gradient in found[0][1].items():
        torch.testing.assert_close(found[1][1][name], gradient, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("kind", DATA)
def test_numbers_are_drawn_as_texts_are(kind: str) -> None:
    data = DATA[kind]()
    texts = number_texts(data)
    plain, numbered = Sampler(data, 6, seed=4), Sampler(texts.data, 6, seed=4, key=texts.key)
    for _ in range(30):
        one, other = plain.next(), numbered.next()
        assert one.rows == other.rows
        assert one.columns == tuple(tuple(texts.texts(np.array(column))) for column in other.columns)
    assert plain.state() == numbered.state()


def test_scores_stay_with_their_rows() -> None:
    data = read_pairs([("a cup", "a mug", 0.5), ("a mug", "a bowl", 1.0)])
    texts = number_texts(data)
    assert [texts.data.sources[0][row] for row in range(2)] == [
        replace(data.sources[0][row], texts=numbers) for row, numbers in enumerate([(0, 1), (1, 2)])
    ]


def test_a_text_that_is_read_in_two_ways_has_two_numbers(fitted: TorchEncoder) -> None:
    data = read_pairs([("kan lor", "mist"), ("mist", "zefi")])
    assert len(number_texts(data)) == 3
    texts = number_texts(data, prompts=2)
    assert [texts.data.sources[0][row].texts for row in range(2)] == [(0, 1), (2, 3)]
    without = replace(fitted, pooling=replace(fitted.pooling, include_prompt=False))
    tokens = read_tokens(texts, np.arange(4), fitted.reader, ("query", "document"), pool_prompt=False)
    for number, prompt in enumerate(("query", "document", "query", "document")):
        (text,) = texts.texts(np.array([number]))
        expected = without.reader.read([text], without.reader.prefix(prompt))
        assert tokens.packed.ids_of(number) == expected.ids_of(0)
    assert tokens.prompt_tokens is not None
    assert tokens.prompt_tokens.tolist() == [3, 2, 3, 2]


def test_only_the_texts_of_a_run_have_tokens(fitted: TorchEncoder) -> None:
    texts = number_texts(read_pairs(SENTENCES[:20]))
    tokens = read_tokens(texts, np.array([3, 7]), fitted.reader, (), pool_prompt=True)
    assert tokens.slots[[3, 7]].tolist() == [0, 1]
    assert (np.delete(tokens.slots, [3, 7]) == -1).all()
    assert tokens.packed.ids_of(1) == fitted.reader.read([SENTENCES[7]]).ids_of(0)


def test_many_vectors_are_in_a_file_that_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_bank, "IN_MEMORY", 0)
    vectors = empty_vectors((5, 3), CPU, tmp_path)
    vectors[2] = torch.tensor([1.0, 2.0, 3.0])
    assert vectors[2].tolist() == [1, 2, 3]
    assert vectors.dtype is torch.float16
    assert not list(tmp_path.iterdir())


def test_a_pair_of_sources_keeps_its_places() -> None:
    data: Pairs = read_pairs(SENTENCES[:5], [(SENTENCES[2], SENTENCES[9])] * 2)
    texts = number_texts(data)
    assert len(texts) == 6
    assert texts.data.sources[1][1].texts == (2, 5)
    assert [*texts.texts(np.array([2, 5]))] == [SENTENCES[2], SENTENCES[9]]
