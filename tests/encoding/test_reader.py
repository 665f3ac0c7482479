from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import transformers as tf
import zoo

from demitasse import DataError, Encoder, FolderError, load
from demitasse.encoding.reader import Reader
from demitasse.torch_model.hf_tokenizer import batch_tokenizer


def inside(reader: Reader, text: str) -> list[int]:
    """The ids of `text` without special tokens, as a client's own tokenizer would give them."""
    whole, around = reader.read([text]).ids_of(0), len(reader.read([""]).ids_of(0))
    return whole[1 : len(whole) - around + 1]


@pytest.mark.parametrize("prompt", ["", "kan lor "])
def test_token_ids_are_read_as_the_text_they_come_from(encoder: Encoder, prompt: str) -> None:
    texts = [*zoo.sentences(20), "", "kan " * 100]
    reader = encoder.reader
    from_texts = reader.read(texts, prompt)
    whole = [
        inside(reader.limited(32), text) if text != texts[-1] else [reader.read(["kan"]).ids_of(0)[1]] * 100
        for text in texts
    ]
    from_ids = reader.read_ids(whole, prompt)
    assert [from_ids.ids_of(index) for index in range(len(texts))] == [
        from_texts.ids_of(index) for index in range(len(texts))
    ]
    assert from_ids.whole_lengths.tolist() == from_texts.whole_lengths.tolist()
    assert from_ids.truncated.sum() == 1


def test_the_built_in_tokenizer_reads_ids_too() -> None:
    reader = load().reader
    ids = reader.read_ids([inside(reader, "a ristretto, please")], "query: ")
    assert ids.ids_of(0) == reader.read(["a ristretto, please"], "query: ").ids_of(0)


@pytest.mark.parametrize("name", ["BERT", "Qwen3"])
def test_a_tokenizer_that_adds_more_tokens_than_the_model_takes_is_refused(
    name: str, model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(model_folder(name), tmp_path / "m"))
    settings = json.loads((folder / "tokenizer.json").read_text())
    special = next(token for token in settings["added_tokens"] if token["special"])
    every_text = [{"SpecialToken": {"id": special["content"], "type_id": 0}}] * 150 + [
        {"Sequence": {"id": "A", "type_id": 0}}
    ]
    known = {special["content"]: {"id": special["content"], "ids": [special["id"]], "tokens": [special["content"]]}}
    settings["post_processor"] = {
        "type": "TemplateProcessing",
        "single": every_text,
        "pair": every_text,
        "special_tokens": known,
    }
    (folder / "tokenizer.json").write_text(json.dumps(settings))
    with pytest.raises(FolderError, match=r"adds 150 special tokens to every text, and the model takes \d+ tokens"):
        load(folder, device="cpu", max_seq_length=64).encode(["kan"])


def test_every_kind_of_tokenizer_says_how_many_ids_it_has(model_folder: Callable[..., Path]) -> None:
    folder = model_folder("BERT")
    assert load().reader.tokenizer.vocabulary_size == 30522
    assert load(folder, device="cpu").reader.tokenizer.vocabulary_size == len(zoo.WORDS) + 4

    class Slow:
        """A tokenizer without a Rust backend."""

        def __len__(self) -> int:
            return 7

    slow: tf.PreTrainedTokenizerBase = Slow()  # type: ignore[assignment]
    assert batch_tokenizer(slow, 5).vocabulary_size == 7


@pytest.mark.parametrize("wrong", [-1, 60, 10**12, "a", 2.5, True, None])
def test_ids_that_the_model_does_not_know_are_one_sentence(encoder: Encoder, wrong: object) -> None:
    with pytest.raises(
        DataError, match=r"text 1 has the token id .*, and this model's tokenizer has 0 to 59; send the"
    ):
        encoder.reader.read_ids([[7], [8, wrong]])  # type: ignore[list-item]
