"""`AlignedLoss` on tiny models, with the collator that the trainer of sentence-transformers uses."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import zoo
from sentence_transformers import SentenceTransformer
from sentence_transformers_cases import fresh
from torch import Tensor

from demitasse import Aligned, load, load_teacher
from demitasse.errors import DataError
from demitasse.integrations.aligned_loss import AlignedLoss, teacher_labels
from demitasse.integrations.sentence_transformers import ElasticLoss
from demitasse.objectives.pair_losses import InfoNCE
from demitasse.objectives.protocol import Step
from demitasse.training import refine_exits

SENTENCES = list(dict.fromkeys(zoo.sentences(400, seed=5)))
ROWS = {"anchor": SENTENCES[:12], "positive": SENTENCES[12:24]}


@pytest.fixture(autouse=True)
def _few_order_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refine_exits, "ORDER_STEPS", 3)


@pytest.fixture
def objective(model_folder: Callable[..., Path]) -> Aligned:
    """Two teachers, of 48 and of 32 dims."""
    teachers = (str(model_folder("NomicBert", dense=48)), str(model_folder("ELECTRA")))
    return Aligned(teachers=teachers, weights=(0.7, 0.3), contrast=0.5)


def collated(model: SentenceTransformer, rows: dict[str, Any]) -> tuple[list[dict[str, Tensor]], Tensor]:
    """What the trainer gives a loss: the features of each column, and the labels."""
    from sentence_transformers.base.data_collator import BaseDataCollator

    lists = {**rows, "label": np.array(rows["label"]).tolist()}  # as rows come out of a dataset
    each = [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]
    batch = BaseDataCollator(preprocess_fn=partial(model.preprocess))(each)
    columns = [name for name in rows if name != "label"]
    parts = ("input_ids", "attention_mask")
    return [{part: batch[f"{column}_{part}"] for part in parts} for column in columns], batch["label"]


def test_the_loss_is_that_of_the_encoder_it_gives(objective: Aligned, model_folder: Callable[..., Path]) -> None:
    model = fresh(model_folder("BERT"))
    loss = AlignedLoss(model, objective, SENTENCES)
    rows = {**ROWS, **teacher_labels(objective, device="cpu")(ROWS)}
    got = loss(*collated(model.eval(), rows))
    encoder = loss.encoder()
    columns = [np.stack([encoder.cut(layers=depth).encode(ROWS[name]) for name in ROWS]) for depth in range(4)]
    together = load_teacher(encoder, *objective.teachers, device="cpu")
    anchor = np.stack([together.encode(ROWS[name]) for name in ROWS])
    shares, names = np.sqrt([0.7, 0.3]), objective.teachers
    teacher = np.stack(
        [
            np.concatenate(
                [share * load(name, device="cpu").encode(texts) for share, name in zip(shares, names, strict=True)],
                axis=1,
            )
            for texts in ROWS.values()
        ]
    )
    step = Step(teacher=torch.from_numpy(teacher).float(), anchor=torch.from_numpy(anchor))
    expected = objective([torch.from_numpy(part) for part in columns], lambda *given: InfoNCE()(*given), step)
    torch.testing.assert_close(got, expected, atol=1e-4, rtol=1e-4)


def test_steps_lead_to_the_teachers_and_the_result_is_saved(
    objective: Aligned, model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    model = fresh(model_folder("BERT")).eval()  # dropout would be louder than eight steps
    loss = AlignedLoss(model, objective, SENTENCES)
    rows = {**ROWS, **teacher_labels(objective, device="cpu")(ROWS)}
    batch = collated(model, rows)
    with torch.no_grad():  # away from the closed form, which random teachers leave little to learn after
        loss.exit_weight += 0.3 * torch.randn(loss.exit_weight.shape, generator=torch.Generator().manual_seed(0))
    before, first = loss.encoder(), loss(*batch).item()
    optimizer = torch.optim.Adam(loss.parameters(), 1e-3)
    for _ in range(8):
        optimizer.zero_grad()
        value = loss(*batch)
        value.backward()
        optimizer.step()
    assert value.item() < first
    trained = loss.encoder()
    assert trained.exit_depths == [0, 1, 2, 3]
    assert np.abs(trained.encode(SENTENCES[:4]) - before.encode(SENTENCES[:4])).max() > 1e-4
    trained.save(tmp_path / "aligned")
    again = load(tmp_path / "aligned", device="cpu")
    np.testing.assert_allclose(again.encode(SENTENCES[:4]), trained.encode(SENTENCES[:4]), atol=1e-6)
    assert load_teacher(again, *objective.teachers, device="cpu").encode(SENTENCES[:4]).shape == (4, 32)
    plain = SentenceTransformer(str(tmp_path / "aligned"), device="cpu").encode(SENTENCES[:4])
    np.testing.assert_allclose(plain, trained.encode(SENTENCES[:4]), atol=1e-5)


def test_one_column_is_enough(objective: Aligned, model_folder: Callable[..., Path]) -> None:
    model = fresh(model_folder("BERT"))
    loss = AlignedLoss(model, objective, SENTENCES)
    labels = teacher_labels(objective, columns=["text"], device="cpu")({"text": SENTENCES[:5], "other": ["kan"] * 5})
    assert loss(*collated(model, {"text": SENTENCES[:5], **labels})).item() > 0


def test_wrong_labels_and_objectives_are_one_sentence(objective: Aligned, model_folder: Callable[..., Path]) -> None:
    model = fresh(model_folder("BERT"))
    loss = AlignedLoss(model, objective, SENTENCES)
    features, _ = collated(model, {"text": SENTENCES[:5], "label": [0.0] * 5})
    with pytest.raises(DataError, match="no labels came with 1 columns"):
        loss(features)
    with pytest.raises(DataError, match=r"labels of shape \(5, 3\).*teachers have 80 dims"):
        loss(features, torch.zeros(5, 3))
    with pytest.raises(DataError, match="use AlignedLoss"):
        ElasticLoss(model, objective)
    with pytest.raises(DataError, match="no teachers"):
        AlignedLoss(model, Aligned(), SENTENCES)
    with pytest.raises(DataError, match="prompts=True"):
        teacher_labels(Aligned(teachers="a", prompts=True))
    with pytest.raises(DataError, match="too few to fit exits"):
        AlignedLoss(model, objective, SENTENCES[:20])
    with pytest.raises(DataError, match="holds texts"):
        teacher_labels(objective)({"count": [1, 2]})


def test_labels_can_be_made_in_other_processes(objective: Aligned) -> None:
    labels = teacher_labels(objective, device="cpu")
    here = labels(ROWS)["label"]
    there = pickle.loads(pickle.dumps(labels))(ROWS)["label"]
    np.testing.assert_array_equal(here, there)
