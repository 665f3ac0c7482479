from __future__ import annotations

import numpy as np
import pytest
import torch

from demitasse.encoding import pooling
from demitasse.encoding.pooling import Pooling
from demitasse.torch_model import torch_pooling
from demitasse.torch_model.torch_pooling import pool

MODES = ("cls", "mean", "max", "last", "mean_sqrt_len", "weightedmean")
LENGTHS = (5, 2, 1)


def slow(mode: str, tokens: np.ndarray) -> np.ndarray:
    """The obvious version, on one text without padding."""
    weights = np.arange(1, len(tokens) + 1)[:, None]
    return {
        "cls": tokens[0],
        "last": tokens[-1],
        "max": tokens.max(0),
        "mean": tokens.mean(0),
        "mean_sqrt_len": tokens.sum(0) / np.sqrt(len(tokens)),
        "weightedmean": (tokens * weights).sum(0) / weights.sum(),
    }[mode]


def padded(side: str) -> tuple[list[np.ndarray], torch.Tensor, torch.Tensor]:
    """Texts of several lengths, all values negative: a padding of zeros would win any maximum."""
    generator = np.random.default_rng(0)
    texts = [-1 - generator.random((length, 4)).astype(np.float32) for length in LENGTHS]
    hidden, mask = torch.full((3, 5, 4), 1e4), torch.zeros(3, 5, dtype=torch.long)
    for index, tokens in enumerate(texts):
        span = slice(0, len(tokens)) if side == "right" else slice(5 - len(tokens), 5)
        hidden[index, span] = torch.from_numpy(tokens)
        mask[index, span] = 1
    return texts, hidden, mask


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("mode", MODES)
def test_padding_does_not_change_the_state(mode: str, side: str) -> None:
    texts, hidden, mask = padded(side)
    expected = np.stack([slow(mode, tokens) for tokens in texts])
    np.testing.assert_allclose(pool(Pooling((mode,)), hidden, mask).numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("side", ["left", "right"])
def test_modes_are_concatenated(side: str) -> None:
    texts, hidden, mask = padded(side)
    expected = np.stack([np.concatenate([slow("cls", tokens), slow("mean", tokens)]) for tokens in texts])
    np.testing.assert_allclose(pool(Pooling(("cls", "mean")), hidden, mask).numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_prompt_can_be_left_out(side: str) -> None:
    texts, hidden, mask = padded(side)
    expected = np.stack([texts[0][2:].mean(0), texts[1].mean(0), texts[2].mean(0)])  # nothing but prompt: keep it
    pooled = pool(Pooling(("mean",), include_prompt=False), hidden, mask, prompt_tokens=2)
    np.testing.assert_allclose(pooled.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("modes", [("mean",), ("last",), ("cls", "mean"), ("cls", "max", "mean"), ("mean", "cls")])
def test_sentence_transformers_reads_what_is_written(modes: tuple[str, ...]) -> None:
    from sentence_transformers.sentence_transformer.modules.pooling import Pooling as TheirPooling
    from sentence_transformers.sentence_transformer.modules.pooling import _convert_legacy_pooling_kwargs

    ours = Pooling(modes)
    config = ours.to_config(4)
    assert Pooling.from_config(config) == ours
    _convert_legacy_pooling_kwargs(config)
    width = config.pop("word_embedding_dimension", None) or config.pop("embedding_dimension")
    theirs = TheirPooling(width, **config)
    _, hidden, mask = padded("right")
    expected = theirs({"token_embeddings": hidden, "attention_mask": mask})["sentence_embedding"]
    torch.testing.assert_close(pool(ours, hidden, mask), expected)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("prompt_tokens", [0, 1, 2, 9])
def test_masks_without_the_prompt_are_the_same_in_numpy_and_torch(prompt_tokens: int, side: str) -> None:
    _, _, mask = padded(side)
    expected = torch_pooling.without_prompt(mask, prompt_tokens).numpy()
    np.testing.assert_array_equal(pooling.without_prompt(mask.numpy(), prompt_tokens), expected)
