from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
import zoo

from demitasse import DataError, Encoder, read_pairs
from demitasse.data.pairs import Pairs
from demitasse.data.sampler import Sampler, TextBatch
from demitasse.encoding.packed_tokens import PackedTokens
from demitasse.training.batches import AHEAD, Loader, Prepared, Share, Tokenizing, part_of, shortened

ANCHORS, POSITIVES, NEGATIVES = (zoo.sentences(40, seed=seed) for seed in (1, 2, 3))


def pairs() -> Pairs:
    return read_pairs([(f"{a} kan", f"{b} zefi") for a, b in zip(ANCHORS, POSITIVES, strict=True)])


def triples() -> Pairs:
    return read_pairs(list(zip(ANCHORS, POSITIVES, NEGATIVES, strict=True)))


def loader(encoder: Encoder, micro_batch: int | None = None, share: Share = Share(), **options: Any) -> Loader:  # noqa: B008
    prompts = options.pop("prompts", ())
    reading = Tokenizing(encoder.reader, prompts, **{"pool_prompt": True, **options})
    return Loader(reading, micro_batch, share)


def ids(parts: tuple[PackedTokens, ...]) -> list[list[list[int]]]:
    return [[part.ids_of(index) for index in range(len(part))] for part in parts]


def flat(columns: tuple[tuple[str, ...], ...]) -> list[str]:
    return [text for column in columns for text in column]


def drawn(data: Pairs, batch: int = 8) -> TextBatch:
    return Sampler(data, batch, seed=0).next()


def test_two_processes_have_the_halves_of_the_batch(encoder: Encoder) -> None:
    whole = drawn(triples())
    first, second = (loader(encoder, share=Share(rank, 2)).prepare(whole, {}) for rank in (0, 1))
    assert first.whole == second.whole == whole
    for column, (one, other) in enumerate(zip(first.own.columns, second.own.columns, strict=True)):
        assert one + other == whole.columns[column]
        assert len(one) == len(other) == 4
    assert first.own.rows + second.own.rows == whole.rows
    assert first.texts == second.texts == 24
    for prepared in (first, second):
        read = encoder.reader.read(flat(prepared.own.columns))
        assert ids(prepared.chunks) == ids((read,))


def test_examples_that_cannot_be_split_evenly_are_left_out(encoder: Encoder) -> None:
    scored = read_pairs([(a, b, number / 40) for number, (a, b) in enumerate(zip(ANCHORS, POSITIVES, strict=True))])
    whole = drawn(scored, 8)
    parts = [loader(encoder, share=Share(rank, 3)).prepare(whole, {}) for rank in range(3)]
    assert [len(part.own.rows) for part in parts] == [2, 2, 2]
    assert all(part.whole == part_of(whole, 0, 6) for part in parts)
    assert sum((part.own.scores for part in parts), ()) == whole.scores[:6]


def test_too_few_examples_for_the_processes_are_refused(encoder: Encoder) -> None:
    with pytest.raises(DataError) as raised:
        loader(encoder, share=Share(0, 3)).prepare(drawn(pairs(), 2), {})
    assert str(raised.value) == (
        "a batch of 2 rows cannot be split between 3 processes; give more data or use fewer processes"
    )


@pytest.mark.parametrize("micro_batch", [None, 1, 3, 4, 8, 99])
@pytest.mark.parametrize("share", [Share(), Share(1, 2)])
def test_chunks_cover_every_example_once(encoder: Encoder, micro_batch: int | None, share: Share) -> None:
    prepared = loader(encoder, micro_batch, share).prepare(drawn(triples()), {})
    rows = len(prepared.own.rows)
    size = min(micro_batch or rows, rows)
    starts = range(0, rows, size)
    assert len(prepared.chunks) == len(prepared.prompt_tokens) == len(starts)
    for start, chunk in zip(starts, prepared.chunks, strict=True):
        # Column by column, as the model's rows are told apart later.
        texts = flat(part_of(prepared.own, start, start + size).columns)
        assert ids((chunk,)) == ids((encoder.reader.read(texts),))
    assert sum(map(len, prepared.chunks)) == 3 * rows


def test_batches_are_those_of_the_sampler(encoder: Encoder) -> None:
    with loader(encoder).batches(Sampler(pairs(), 8, seed=5)) as batches:
        found = [prepared.whole for prepared in islice(batches, 9)]
    sampler = Sampler(pairs(), 8, seed=5)
    assert found == [sampler.next() for _ in range(9)]


def test_resuming_after_a_batch_gives_the_next_one(encoder: Encoder) -> None:
    # Some anchors stand in several rows, so that rows wait; two sources.
    shared = read_pairs([(ANCHORS[number % 9], text) for number, text in enumerate(POSITIVES)])
    data = Pairs((*shared.sources, *pairs().sources))
    sampler = Sampler(data, 6, seed=1)
    with loader(encoder).batches(sampler) as batches:
        prepared: list[Prepared] = list(islice(batches, 12))
    ahead = sampler.state()["batches"]
    assert 12 < ahead <= 12 + AHEAD  # it was further than what was given
    assert [entry.after["batches"] for entry in prepared] == list(range(1, 13))
    straight = Sampler(data, 6, seed=1)
    expected = [straight.next() for _ in range(14)]
    for number, entry in enumerate(prepared):
        again = Sampler(data, 6, seed=1)
        again.restore(entry.after)
        with loader(encoder).batches(again) as batches:
            assert [following.whole for following in islice(batches, 2)] == expected[number + 1 : number + 3]


def test_an_error_in_the_other_thread_reaches_the_caller(encoder: Encoder) -> None:
    with (
        pytest.raises(DataError, match="cannot be split between 99 processes"),
        loader(encoder, share=Share(0, 99)).batches(Sampler(pairs(), 8, seed=0)) as batches,
    ):
        next(batches)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((), ("", "", "")),
        (("query",), ("kan lor ", "kan lor ", "kan lor ")),
        (("query", "document"), ("kan lor ", "mist ", "mist ")),  # the last one goes on
        (("query", "document", "query"), ("kan lor ", "mist ", "kan lor ")),
    ],
)
@pytest.mark.parametrize("pool_prompt", [True, False])
def test_each_column_has_its_prompt(
    encoder: Encoder, names: tuple[str, ...], expected: tuple[str, ...], pool_prompt: bool
) -> None:
    whole = drawn(triples())
    prepared = loader(encoder, 5, prompts=names, pool_prompt=pool_prompt).prepare(whole, {})
    length = {"": 0, "kan lor ": 3, "mist ": 2}  # [CLS] and its words
    for start, chunk, counts in zip((0, 5), prepared.chunks, prepared.prompt_tokens, strict=True):
        columns = part_of(whole, start, start + 5).columns
        texts = [prompt + text for prompt, column in zip(expected, columns, strict=True) for text in column]
        assert ids((chunk,)) == ids((encoder.reader.read(texts),))
        if pool_prompt or not names:
            assert counts is None
        else:
            assert counts.tolist() == [length[p] for p, column in zip(expected, columns, strict=True) for _ in column]


def test_the_default_prompt_is_used_if_none_is_named(encoder: Encoder) -> None:
    reader = replace(encoder.reader, default_prompt="document")
    prepared = Loader(Tokenizing(reader, (), pool_prompt=False), None, Share()).prepare(drawn(pairs()), {})
    assert all(row[:2] == reader.read(["mist"]).ids_of(0)[:2] for row in ids(prepared.chunks)[0])
    assert prepared.prompt_tokens[0].tolist() == [2] * 16


def test_an_unknown_prompt_is_refused(encoder: Encoder) -> None:
    with pytest.raises(DataError, match="'questoin'"):
        loader(encoder, prompts=("questoin",))


def test_texts_are_truncated_earlier(encoder: Encoder) -> None:
    text = " ".join(zoo.WORDS)
    before = encoder.reader.read([text]).ids_of(0)
    shorter = shortened(encoder.reader, 7)
    assert shorter.max_tokens == 7
    assert shorter.read([text]).ids_of(0) == [*before[:6], before[-1]]
    assert shorter.prefix("query") == encoder.reader.prefix("query")
    # The reader it was made from goes on as before, and so does the tokenizer inside.
    assert encoder.reader.max_tokens == 32
    assert encoder.reader.read([text]).ids_of(0) == before


@pytest.mark.parametrize("max_tokens", [None, 32, 500])
def test_texts_are_never_truncated_later(encoder: Encoder, max_tokens: int | None) -> None:
    assert shortened(encoder.reader, max_tokens) is encoder.reader
