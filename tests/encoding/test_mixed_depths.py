from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import zoo
from hypothesis import given
from hypothesis import strategies as st

from demitasse import Cut, Encoder, FolderError, load
from demitasse.encoding.block_encoder import BlockEncoder
from demitasse.encoding.mixed_depths import MixedTexts, axes_of, fronts
from demitasse.encoding.vectors import Vectors
from demitasse.host.bundled import corpus

# From one word to more than the model takes.
LINES = corpus()
TEXTS = [" ".join(LINES[start : start + (1, 2, 5, 30)[start % 4]]) for start in range(40)] + ["", "a"]


def mixed(encoder: Encoder, texts: Sequence[str], cuts: Sequence[Cut], prompt: str = "") -> Vectors:
    """`texts` embedded in one batch, each at its cut."""
    prompt_tokens = 0 if encoder.pooling.include_prompt else encoder.reader.prompt_tokens(prompt)
    left_out = np.full(len(texts), prompt_tokens, np.int64)
    return encoder._embed_mixed(MixedTexts(encoder.reader.read(texts, prompt), cuts, left_out))


def assert_as_encode(encoder: Encoder, texts: Sequence[str], cuts: Sequence[Cut], prompt: str = "") -> None:
    vectors = mixed(encoder, texts, cuts, prompt)
    assert vectors.dtype == np.float32
    for text, cut, vector in zip(texts, cuts, vectors, strict=True):
        alone = encoder.cut(cut).encode([text], prompt=prompt)[0]
        np.testing.assert_allclose(vector[: cut.dims], alone, rtol=0, atol=1e-5, err_msg=f"{cut}")
        assert not vector[cut.dims :].any()


def random_cuts(count: int, full: Cut, seed: int = 0) -> list[Cut]:
    generator = random.Random(seed)
    widths = [full.dims, full.dims // 2, full.dims // 4]
    return [Cut(generator.randint(0, full.layers), generator.choice(widths)) for _ in range(count)]


@pytest.fixture(scope="module")
def blocks() -> BlockEncoder:
    encoder = load()
    assert isinstance(encoder, BlockEncoder)
    return encoder


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(1, 40)), min_size=1, max_size=30).map(
        lambda rows: sorted(rows, reverse=True)
    )
)
def test_fronts_only_shrink_and_hold_exactly_the_texts_that_go_on(rows: list[tuple[int, int]]) -> None:
    depths, lengths = [depth for depth, _ in rows], [length for _, length in rows]
    drawn = fronts(depths, lengths)
    assert [front.depth for front in drawn] == list(range(depths[0] + 1))
    assert drawn[0].reaching == len(rows)
    for front in drawn:
        staying = [length for depth, length in rows if depth > front.depth]
        assert front.reaching == sum(depth >= front.depth for depth in depths)
        assert (front.staying, front.tokens) == (len(staying), max(staying, default=0))


def test_axes_are_told_from_two_shapes() -> None:
    sizes = ((2, 3), (4, 5))
    assert axes_of((2, 3, 32), (4, 5, 32), sizes) == ("texts", "tokens", None)
    assert axes_of((1, 3, 8), (1, 5, 8), sizes) == (None, "tokens", None)
    assert axes_of((2, 3), (4, 5, 1), sizes) is None
    assert axes_of((5,), (9,), sizes) is None  # such as 2 x tokens - 1


def test_texts_of_all_cuts_in_one_batch_have_the_vectors_of_their_own_cut(blocks: BlockEncoder) -> None:
    for seed in range(3):
        assert_as_encode(blocks, TEXTS, random_cuts(len(TEXTS), blocks.full, seed))


def test_one_depth_and_one_text_are_batches_too(blocks: BlockEncoder) -> None:
    assert_as_encode(blocks, TEXTS[:5], [Cut(3, 128)] * 5)
    assert_as_encode(blocks, TEXTS[:1], [Cut(0, 32)])


def test_layers_run_once_and_only_over_texts_that_need_them(
    blocks: BlockEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, tuple[int, ...]]] = []
    run = type(blocks.blocks).run

    def watched(self: object, name: str, values: dict[str, np.ndarray], wanted: str) -> object:
        if not name.startswith("embeddings"):
            seen.append((name, values["hidden"].shape[:2]))
        return run(self, name, values, wanted)  # type: ignore[arg-type]

    blocks._value_axes  # noqa: B018 - found once, with runs of its own
    monkeypatch.setattr(type(blocks.blocks), "run", watched)
    mixed(blocks, ["a long text of many words", "a", "a lungo"], [Cut(1, 8), Cut(3, 8), Cut(3, 8)])
    assert seen == [
        ("layer_1", (3, 8)),
        ("exit_1", (1, 8)),
        ("layer_2", (2, 5)),
        ("layer_3", (2, 5)),
        ("exit_3", (2, 5)),
    ]


def test_values_of_unknown_shape_are_computed_again(blocks: BlockEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demitasse.encoding.block_encoder.axes_of", lambda *args: None)
    other = load()
    assert isinstance(other, BlockEncoder)
    assert other._value_axes is None
    assert_as_encode(other, TEXTS, random_cuts(len(TEXTS), other.full))


def test_threads_can_embed_at_the_same_time(blocks: BlockEncoder, encoder: Encoder) -> None:
    for shared, texts in ((blocks, TEXTS), (encoder, zoo.sentences(20))):
        cuts = [random_cuts(len(texts), shared.full, seed) for seed in range(6)]
        alone = [mixed(shared, texts, of_batch) for of_batch in cuts]
        with ThreadPoolExecutor(3) as pool:
            together = list(pool.map(lambda of_batch: mixed(shared, texts, of_batch), cuts))  # noqa: B023
        for ours, theirs in zip(together, alone, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)


def test_vectors_with_nan_are_refused(blocks: BlockEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "demitasse.encoding.block_encoder.cut_rows", lambda embeddings, cuts, out, rows: out.fill(np.nan)
    )
    with pytest.raises(FolderError, match="gives NaN"):
        mixed(blocks, ["a"], [Cut(1, 8)])


@pytest.mark.parametrize("name", zoo.BUILD)
def test_torch_models_of_every_kind_mix_depths(name: str, model_folder: Callable[..., Path]) -> None:
    encoder = load(model_folder(name), device="cpu")
    for seed in range(2):
        assert_as_encode(encoder, zoo.sentences(12), random_cuts(12, encoder.full, seed))
    assert_as_encode(encoder, ["kan lor", "mist kan"], [Cut(1, 8), Cut(3, 16)])  # nothing is padded
    # As many texts as tokens or heads: no axis is mistaken for another.
    assert_as_encode(encoder, ["kan lor"] * 4, [Cut(3, 8), Cut(2, 8), Cut(1, 8), Cut(0, 8)])


def test_most_torch_models_share_one_pass(model_folder: Callable[..., Path]) -> None:
    apart = [name for name in zoo.BUILD if load(model_folder(name), device="cpu")._layer_axes is None]  # type: ignore[attr-defined]
    assert apart == ["DeBERTa-v2"]  # its convolution after the first layer wants every text


@pytest.mark.parametrize("modes", ["cls", "max", "last", "cls+mean"])
def test_every_pooling_sees_only_the_tokens_of_its_text(modes: str, model_folder: Callable[..., Path]) -> None:
    encoder = load(model_folder("BERT", modes=modes), device="cpu")
    assert_as_encode(encoder, zoo.sentences(12), random_cuts(12, encoder.full))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_texts_leave_a_batch_on_a_gpu_too(dtype: str, model_folder: Callable[..., Path]) -> None:
    encoder = load(model_folder("BERT"), device="cuda", dtype=dtype)
    texts, cuts = zoo.sentences(30), random_cuts(30, encoder.full)
    vectors = mixed(encoder, texts, cuts)
    for text, cut, vector in zip(texts, cuts, vectors, strict=True):
        alone = encoder.cut(cut).encode([text])[0]
        np.testing.assert_allclose(vector[: cut.dims], alone, rtol=0, atol=1e-5 if dtype == "float32" else 2e-2)
