from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import zoo

from demitasse import Cut, DataError, Encoder, fit_exits, grid, load
from demitasse.training.fit_exits import Sample

SENTENCES = zoo.sentences(900, seed=5)
TEXTS = zoo.sentences(60, seed=6)


def agreement(encoder: Encoder, cut: Cut, truth: np.ndarray) -> float:
    vectors = encoder.cut(*cut).encode(TEXTS)
    return float((vectors * truth).sum(1).mean())


@pytest.fixture(scope="module", autouse=True)
def _few_steps() -> Iterator[None]:
    """Enough to see a descent go down; tests/test_refining.py has what it reaches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("demitasse.training.refine_exits.ORDER_STEPS", 30)
        patch.setattr("demitasse.training.refine_exits.REFINE_STEPS", 15)
        yield


@pytest.fixture(scope="module")
def fitted(encoder: Encoder) -> Encoder:
    return fit_exits(encoder, SENTENCES)


def test_every_shallow_depth_comes_closer_to_the_full_model(encoder: Encoder) -> None:
    closed = fit_exits(encoder, SENTENCES, order=False, refine=False)
    truth = encoder.encode(TEXTS)
    for depth in range(3):
        cut = Cut(depth, 32)
        assert agreement(closed, cut, truth) > agreement(encoder, cut, truth)
    np.testing.assert_array_equal(closed.encode(TEXTS), truth)  # the last layer is as it was


def test_ordering_leaves_full_width_cosines_alone(encoder: Encoder, fitted: Encoder) -> None:
    before, after = encoder.encode(TEXTS), fitted.encode(TEXTS)
    np.testing.assert_allclose(after @ after.T, before @ before.T, atol=1e-5)
    assert sorted(fitted.exits) == [0, 1, 2]


def test_the_original_is_unchanged(encoder: Encoder, fitted: Encoder) -> None:
    assert encoder.exits == {}
    assert encoder.head != fitted.head


def test_the_same_sentences_give_the_same_exits(encoder: Encoder, fitted: Encoder) -> None:
    again = fit_exits(encoder, iter(SENTENCES))
    for depth, exit_ in fitted.exits.items():
        np.testing.assert_array_equal(exit_.weight, again.exits[depth].weight)
    assert again.record == fitted.record


def test_the_record_has_what_was_measured(fitted: Encoder, tmp_path: Path) -> None:
    assert [entry["cut"] for entry in fitted.record["cuts"]] == ["0x32", "1x32", "2x32"]
    for measured in ("cosine", "similarity", "neighbours"):
        assert all(0 < entry["held_out"][measured] <= 1 for entry in fitted.record["cuts"])
    assert fitted.record["data"]["sentences"] == 900
    fitted.save(tmp_path / "m")
    assert load(tmp_path / "m").record == fitted.record


def test_a_saved_fit_gives_the_same_vectors_at_every_cut(fitted: Encoder, tmp_path: Path) -> None:
    fitted.save(tmp_path / "m")
    cuts = grid(range(4), [4, 17, 32])
    ours, theirs = fitted.encode_cuts(TEXTS, cuts), load(tmp_path / "m").encode_cuts(TEXTS, cuts)
    for cut in cuts:
        np.testing.assert_allclose(theirs[cut], ours[cut], atol=1e-5)


def test_models_with_a_nonlinear_head_can_be_fitted(model_folder: Callable[..., Path], tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    encoder = load(model_folder("BERT", dense=12))
    fitted = fit_exits(encoder, SENTENCES)
    before, after = encoder.encode(TEXTS), fitted.encode(TEXTS)
    np.testing.assert_allclose(after @ after.T, before @ before.T, atol=1e-5)
    for cut in (Cut(3, 12), Cut(3, 5), Cut(1, 5)):
        fitted.cut(*cut).save(tmp_path / str(cut))
        theirs = SentenceTransformer(str(tmp_path / str(cut)), device="cpu").encode(TEXTS)
        np.testing.assert_allclose(theirs, fitted.cut(*cut).encode(TEXTS), atol=1e-5)


def test_an_encoder_of_fewer_dims_can_be_fitted(encoder: Encoder, tmp_path: Path) -> None:
    narrow = encoder.cut(dims=20)
    fitted = fit_exits(narrow, SENTENCES)
    assert fitted.full == Cut(3, 20)
    before, after = narrow.encode(TEXTS), fitted.encode(TEXTS)
    np.testing.assert_allclose(after @ after.T, before @ before.T, atol=1e-5)
    fitted.save(tmp_path / "m")
    np.testing.assert_allclose(load(tmp_path / "m").encode(TEXTS), after, atol=1e-5)


def test_a_fitted_encoder_can_be_fitted_again(encoder: Encoder, fitted: Encoder) -> None:
    again = fit_exits(fitted.cut(layers=2), SENTENCES)
    before, after = fitted.cut(layers=2).encode(TEXTS), again.encode(TEXTS)
    np.testing.assert_allclose(after @ after.T, before @ before.T, atol=1e-5)


def test_blank_sentences_are_skipped(encoder: Encoder, fitted: Encoder) -> None:
    spaced = [line for sentence in SENTENCES for line in (sentence, "", "  ")]
    assert fit_exits(encoder, spaced).record["data"] == fitted.record["data"]


def test_too_few_sentences_are_refused(encoder: Encoder) -> None:
    with pytest.raises(DataError, match="3 sentences are too few to fit exits; give at least 200"):
        fit_exits(encoder, SENTENCES[:3])
    with pytest.raises(DataError, match="wrap it"):
        fit_exits(encoder, "one long string")


def test_a_sample_is_bounded_and_uniform() -> None:
    sample = Sample(100, seed=0)
    for start in range(0, 10_000, 50):
        sample.add({0: np.arange(start, start + 50, dtype=np.float32)[:, None]})
    kept = sample.vectors(0)[:, 0]
    assert len(kept) == len(set(kept)) == 100
    assert 3500 < kept.mean() < 6500  # from the whole stream, not from its start or end


def test_memory_does_not_grow_with_the_sentences(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demitasse.training.fit_exits.SAMPLE_ROWS", 500)  # filled by both streams
    monkeypatch.setattr("demitasse.training.fit_exits.HELD_OUT_ROWS", 100)

    def peak(count: int) -> int:
        def stream() -> Iterator[str]:
            for index in range(count):
                yield SENTENCES[index % len(SENTENCES)]

        tracemalloc.start()
        fit_exits(encoder.cut(layers=1), stream(), order=False, refine=False)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(3_000)  # what is made once and kept: caches, thread pools
    assert peak(20_000) < 1.1 * peak(5_000)
