from __future__ import annotations

import numpy as np
import pytest
import torch

from demitasse import FolderError
from demitasse.encoding.pooling import Pooling

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
    rows = [-1 - generator.random((length, 4)).astype(np.float32) for length in LENGTHS]
    hidden, mask = torch.full((3, 5, 4), 1e4), torch.zeros(3, 5, dtype=torch.long)
    for index, row in enumerate(rows):
        place = slice(0, len(row)) if side == "right" else slice(5 - len(row), 5)
        hidden[index, place] = torch.from_numpy(row)
        mask[index, place] = 1
    return rows, hidden, mask


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("mode", MODES)
def test_padding_has_no_say(mode: str, side: str) -> None:
    rows, hidden, mask = padded(side)
    expected = np.stack([slow(mode, row) for row in rows])
    np.testing.assert_allclose(Pooling((mode,))(hidden, mask).numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("side", ["left", "right"])
def test_modes_are_concatenated(side: str) -> None:
    rows, hidden, mask = padded(side)
    expected = np.stack([np.concatenate([slow("cls", row), slow("mean", row)]) for row in rows])
    np.testing.assert_allclose(Pooling(("cls", "mean"))(hidden, mask).numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_prompt_can_be_left_out(side: str) -> None:
    rows, hidden, mask = padded(side)
    expected = np.stack([rows[0][2:].mean(0), rows[1].mean(0), rows[2].mean(0)])  # nothing but prompt: keep it
    pooled = Pooling(("mean",), include_prompt=False)(hidden, mask, prompt_tokens=2)
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
    torch.testing.assert_close(ours(hidden, mask), expected)


def test_both_spellings_of_the_config_are_read() -> None:
    assert Pooling.from_config({"pooling_mode_lasttoken": True}) == Pooling(("last",))
    assert Pooling.from_config({"pooling_mode": "lasttoken"}) == Pooling(("last",))
    assert Pooling.from_config({"pooling_mode": ["mean", "cls"], "include_prompt": False}) == Pooling(
        ("mean", "cls"), include_prompt=False
    )
    assert Pooling.from_config({}) == Pooling(("mean",))


def test_unknown_modes_are_refused() -> None:
    with pytest.raises(FolderError, match="pooling mode 'median' is not known; use one or more of cls"):
        Pooling(("median",))
