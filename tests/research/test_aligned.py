"""What research/aligned trains with is what demitasse has: losses, gradients, and the vectors of packed texts."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from paths import ROOT
from torch import Tensor
from torch.nn import functional
from transformers import BertConfig, BertModel

from demitasse.objectives.losses import (
    cosine_distance,
    infonce_of,
    nested_cosines,
    similarity_divergence_of,
    similarity_targets,
)

WIDTHS, SHARES = (8, 16, 64), (0.5, 0.25, 0.25)
DEPTHS = torch.tensor([0.2, 0.3, 0.5], dtype=torch.double)
TEMPERATURE = 0.05


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The modules that run on the GPU machine, which import one another by their bare names."""
    monkeypatch.syspath_prepend(str(ROOT / "research" / "aligned" / "device"))
    names = ("losses", "packed", "student", "objective")
    return SimpleNamespace(**{name: importlib.import_module(name) for name in names})


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.double, generator=torch.Generator().manual_seed(seed))


def expected_divergence(vectors: Tensor, targets: Tensor) -> Tensor:
    """As the library computes it; autograd finds the gradient."""
    found = similarity_divergence_of(nested_cosines(vectors, vectors, WIDTHS), targets, TEMPERATURE)
    return (found * torch.tensor(SHARES) * DEPTHS[:, None]).sum()


def test_the_gradient_that_is_written_out_is_that_of_the_librarys_loss(device: Any) -> None:
    vectors = random(3, 40, 64, seed=0).requires_grad_()
    teacher = functional.normalize(random(40, 100, seed=1), dim=-1)
    targets = similarity_targets(teacher, TEMPERATURE)
    torch.testing.assert_close(device.losses.spread(teacher, TEMPERATURE).double(), targets, rtol=1e-4, atol=1e-7)
    ours = device.losses.divergence(vectors, targets, DEPTHS, WIDTHS, SHARES, temperature=TEMPERATURE)
    theirs = expected_divergence(vectors, targets)
    torch.testing.assert_close(ours, theirs)
    gradients = [torch.autograd.grad(2 * loss, vectors)[0] for loss in (ours, theirs)]
    assert gradients[1].abs().max() > 1e-3
    torch.testing.assert_close(*gradients)


def test_the_loss_of_a_batch_is_the_sum_of_the_librarys(device: Any) -> None:
    options = SimpleNamespace(
        widths="8,16,64",
        width_weights="2,1,1",
        depth_weights="2,3,5",
        temperature=TEMPERATURE,
        teacher_temperature=None,
        distil=1.0,
        anchor=20.0,
        across=0.0,
        contrast=0.0,
    )
    space = SimpleNamespace(
        whole=functional.normalize(random(90, 100, seed=2), dim=-1).float(), target=random(90, 64, seed=3).float()
    )
    rows, vectors = torch.arange(5, 45), random(3, 40, 64, seed=4).float()
    loss, _ = device.objective.Loss(options, space, "cpu")("s", vectors, rows, 0)
    targets = similarity_targets(space.whole[rows], TEMPERATURE)
    far = (cosine_distance(vectors, space.target[rows]) * DEPTHS).sum()
    torch.testing.assert_close(loss.double(), expected_divergence(vectors, targets) + 20 * far, rtol=1e-5, atol=0)


def test_pairs_with_hard_negatives_are_infonce_without_what_the_teacher_holds_close(device: Any) -> None:
    vectors, scores = random(3, 13, 64, seed=5), random(4, 9, seed=6) / 10
    scores[:, :4] += torch.eye(4)
    scores[1, 7] = 2.0  # closer to the query than its own passage, in the teacher's eyes
    ours = device.losses.contrast(vectors, scores, DEPTHS, (64,), temperature=TEMPERATURE, margin=0.0)
    cosines = nested_cosines(vectors[:, :4], vectors[:, 4:], (64,))[:, 0]
    cosines[:, 1, 7] = -1e3
    torch.testing.assert_close(ours, (infonce_of(cosines, temperature=TEMPERATURE) * DEPTHS).sum())


def test_packed_texts_have_the_states_of_each_text_alone(device: Any) -> None:
    torch.manual_seed(0)
    shape = {"hidden_size": 384, "intermediate_size": 1536, "num_hidden_layers": 6, "num_attention_heads": 12}
    bert = BertModel(BertConfig(**shape), add_pooling_layer=False).eval()
    student = device.student.Student().read_bert(bert.state_dict())
    lens = np.array([3, 17, 5, 64, 9])
    ids = np.random.default_rng(0).integers(1000, 30000, lens.sum()).astype(np.uint16)
    tokens = device.packed.Packed(ids, lens.astype(np.uint16), np.zeros(len(lens), np.uint8), "cpu")
    rows = np.array([3, 0, 4, 1])  # neither all nor in order
    states = device.student.states_of(student, tokens, rows, batch_tokens=40)  # in two batches
    for place, row in enumerate(rows):
        begin = int(lens[:row].sum())
        alone = torch.from_numpy(ids[begin : begin + lens[row]].astype(np.int64))[None]
        with torch.inference_mode():
            expected = torch.stack([h[0].mean(0) for h in bert(alone, output_hidden_states=True).hidden_states])
        torch.testing.assert_close(states[:, place], expected, rtol=1e-4, atol=1e-5)
    assert all(torch.equal(w, bert.state_dict()[n].float()) for n, w in student.bert().items())
