from __future__ import annotations

from typing import Any

import pytest
import torch
from objective_cases import ALIGNED, TEXTS, WIDTHS, aligned, elastic_inputs, find_the_positive
from references import difference, tensors

from demitasse.cut import Cut
from demitasse.errors import CutError, DataError
from demitasse.objectives import aligned as aligned_module
from demitasse.objectives.aligned import Aligned
from demitasse.objectives.fused_similarity import nested_similarity_divergence
from demitasse.objectives.losses import nested_cosines, similarity_divergence_of, similarity_targets
from demitasse.objectives.protocol import Step


@pytest.mark.parametrize("name", ALIGNED)
def test_aligned_equals_its_reference(name: str) -> None:
    assert difference(*ALIGNED[name]()) < 1e-5


def test_in_large_batches_the_first_rows_of_each_column_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aligned_module, "MAX_TEXTS", 11)
    assert difference(*aligned(rows=3)) < 1e-5


@pytest.mark.parametrize("scores", [1, 2 * TEXTS**2, 3 * TEXTS**2])
def test_comparing_depths_in_groups_gives_the_same(scores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aligned_module, "MAX_SCORES", scores)
    assert difference(*aligned()) < 1e-5


def test_the_written_gradient_is_that_of_the_plain_formula() -> None:
    torch.manual_seed(0)
    vectors = torch.randn(3, 9, 12, dtype=torch.float64, requires_grad=True)
    targets = similarity_targets(torch.randn(9, 20, dtype=torch.float64), 0.05)
    share = torch.rand(3, len(WIDTHS), dtype=torch.float64)
    fused = nested_similarity_divergence(vectors, WIDTHS, targets, 0.05)
    plain = similarity_divergence_of(nested_cosines(vectors, vectors, WIDTHS), targets, 0.05)
    torch.testing.assert_close(fused, plain)
    gradients = [torch.autograd.grad((loss * share).sum(), vectors)[0] for loss in (fused, plain)]
    torch.testing.assert_close(*gradients)


def test_every_depth_and_dim_gets_a_gradient_and_the_teachers_none() -> None:
    embeddings, teacher, anchor = elastic_inputs()
    states, (seen, close) = tensors(embeddings, grad=True), tensors([teacher, anchor], grad=True)
    Aligned(dims=WIDTHS)(states, find_the_positive, Step(teacher=seen, anchor=close)).backward()
    for depth in states:
        assert depth.grad is not None
        assert depth.grad.abs().sum((0, 1)).all()
    assert seen.grad is None
    assert close.grad is None


def test_plain_texts_have_no_pair_loss() -> None:
    embeddings, teacher, anchor = elastic_inputs()
    step = Step(teacher=tensors([teacher])[0][:1], anchor=tensors([anchor])[0][:1])
    alone = [columns[:1] for columns in tensors(embeddings)]
    losses = [Aligned(dims=WIDTHS, contrast=contrast)(alone, find_the_positive, step) for contrast in (0.0, 1.0)]
    assert losses[0] == losses[1]


def test_a_student_at_its_teachers_vectors_has_no_distance_left() -> None:
    one = tensors(elastic_inputs()[0])[-1]
    step = Step(teacher=one, anchor=3 * one)
    assert Aligned(dims=WIDTHS, distil=0.0)([one, one], find_the_positive, step).abs() < 1e-4


def test_all_cuts_are_trained_including_depth_zero() -> None:
    assert Aligned(dims=(4, 8)).cuts(Cut(1, 16)) == [Cut(0, 4), Cut(0, 8), Cut(1, 4), Cut(1, 8)]
    assert Aligned().cuts(Cut(0, 64)) == [Cut(0, 32), Cut(0, 64)]


def test_weights_are_shares() -> None:
    assert Aligned(teachers=("a", "b", "c", "d")).shares == (0.25, 0.25, 0.25, 0.25)
    assert Aligned(teachers=("a", "b"), weights=(3, 1)).shares == (0.75, 0.25)
    assert Aligned(teachers="owner/model").teachers == ("owner/model",)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"teachers": ("a",), "weights": (1.0, 2.0)}, "2 weights for 1 teachers"),
        ({"teachers": ("a", "b"), "weights": (1.0, 0.0)}, "weights must be above 0"),
        ({"temperature": 0.0}, "temperature must be above 0"),
        ({"rate": 0.0}, "rate must be above 0"),
        ({"matrix_rate": -1.0}, "matrix_rate must be above 0"),
        ({"teachers": (7,)}, "teachers must be a string"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises(DataError, match=match):
        Aligned(**options)


def test_missing_vectors_and_wide_dims_are_refused() -> None:
    embeddings = tensors(elastic_inputs()[0])
    with pytest.raises(DataError, match="needs teachers' vectors"):
        Aligned()(embeddings, find_the_positive, Step())
    with pytest.raises(CutError, match="do not fit"):
        Aligned(dims=(4, 13))(embeddings, find_the_positive, Step(teacher=embeddings[0], anchor=embeddings[0]))
