from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zoo

from demitasse import DemitasseError, Encoder, load, read_pairs
from demitasse.data.pairs import Pairs
from demitasse.data.sampler import Sampler, TextBatch
from demitasse.training import teacher_vectors
from demitasse.training.teacher_vectors import TeacherVectors, key, keys_of, write_vectors

SENTENCES = list(dict.fromkeys(zoo.sentences(400, seed=8)))[:240]
ROWS: dict[str, list[Any]] = {
    "pairs": [tuple(SENTENCES[place : place + 2]) for place in range(0, 60, 2)],
    "triples": [tuple(SENTENCES[place : place + 4]) for place in range(60, 140, 4)],
    "groups": [{"texts": SENTENCES[place : place + 5]} for place in range(140, 240, 5)],
    "scored": [(*SENTENCES[place : place + 2], place / 60) for place in range(0, 60, 2)],
}


def drawn(data: Pairs, count: int = 12, batch: int = 6) -> list[TextBatch]:
    sampler = Sampler(data, batch, seed=2)
    return [sampler.next() for _ in range(count)]


def written(folder: Path, teacher: Encoder, data: Pairs, batches: list[TextBatch]) -> TeacherVectors:
    write_vectors(folder, "teacher", teacher, data, iter(batches))
    return TeacherVectors(folder, "teacher")


def check(found: TeacherVectors, teacher: Encoder, batches: list[TextBatch]) -> None:
    texts = sorted({text for batch in batches for column in batch.columns for text in column})
    known = dict(zip(texts, teacher.encode(texts), strict=True))
    for batch in batches:
        expected = np.stack([[known[text] for text in column] for column in batch.columns])
        vectors = found.columns(batch)
        assert vectors.dtype == np.float16
        assert vectors.shape == expected.shape
        np.testing.assert_allclose(vectors, expected, atol=1e-3)
        np.testing.assert_allclose((vectors * expected).sum(-1), 1, atol=1e-3)


@pytest.mark.parametrize("kind", ROWS)
def test_every_text_has_its_own_vector(kind: str, encoder: Encoder, tmp_path: Path) -> None:
    data = read_pairs(ROWS[kind])
    assert data.sources[0].kind == kind
    check(written(tmp_path, encoder, data, drawn(data)), encoder, drawn(data))


def test_columns_have_their_prompts(encoder: Encoder, tmp_path: Path) -> None:
    data = read_pairs(ROWS["triples"], ROWS["groups"])
    batches = drawn(data, count=20)
    write_vectors(tmp_path, "teacher", encoder, data, iter(batches), ("query", "document"))
    found = TeacherVectors(tmp_path, "teacher")
    for batch in batches:
        names = ("query", "document", "document") if batch.source == 0 else ("query", "query")
        for column, name, vectors in zip(batch.columns, names, found.columns(batch), strict=False):
            np.testing.assert_allclose(vectors, encoder.encode(column, prompt_name=name), atol=1e-3)


def test_sources_of_every_kind_together(encoder: Encoder, tmp_path: Path) -> None:
    data = read_pairs(*ROWS.values())
    batches = drawn(data, count=30)
    assert {batch.source for batch in batches} == {0, 1, 2, 3}
    check(written(tmp_path, encoder, data, batches), encoder, batches)


def test_the_same_row_of_two_sources_has_two_vectors(encoder: Encoder, tmp_path: Path) -> None:
    data = read_pairs(ROWS["pairs"], ROWS["triples"])
    batches = [
        TextBatch(tuple((text,) for text in source[1].texts), None, ((1, tuple(range(len(source[1].texts)))),), number)
        for number, source in enumerate(data.sources)
    ]
    check(written(tmp_path, encoder, data, batches), encoder, batches)


def test_only_sampled_texts_are_encoded_and_each_once(encoder: Encoder, tmp_path: Path) -> None:
    data = read_pairs(ROWS["groups"])
    batches = drawn(data, count=2)
    written(tmp_path, encoder, data, [*batches, *batches])
    keys, vectors = np.load(tmp_path / "teacher-texts.npy"), np.load(tmp_path / "teacher-vectors.npy")
    assert keys.shape == (2 * 6 * 2,)
    assert (np.diff(keys) > 0).all()
    assert vectors.shape == (2 * 6 * 2, 32)
    assert vectors.dtype == np.float16


def test_part_of_a_batch_has_its_own_vectors(encoder: Encoder, tmp_path: Path) -> None:
    from demitasse.training.batches import part_of

    data = read_pairs(ROWS["triples"])
    (batch, *_) = batches = drawn(data)
    found = written(tmp_path, encoder, data, batches)
    np.testing.assert_array_equal(found.columns(part_of(batch, 2, 5)), found.columns(batch)[:, 2:5])


def test_teacher_vectors_are_computed_once(encoder: Encoder, model_folder: Callable[..., Path], tmp_path: Path) -> None:
    data = read_pairs(ROWS["pairs"])
    written(tmp_path, encoder, data, drawn(data))
    before = {path.name: (path.stat().st_ino, path.read_bytes()) for path in tmp_path.iterdir()}
    assert sorted(before) == ["teacher-texts.npy", "teacher-vectors.npy"]

    def nobody_asks() -> Iterator[TextBatch]:
        raise AssertionError
        yield

    other = load(model_folder("BERT", dense=24), device="cpu")
    write_vectors(tmp_path, "teacher", other, data, nobody_asks())
    assert {path.name: (path.stat().st_ino, path.read_bytes()) for path in tmp_path.iterdir()} == before
    write_vectors(tmp_path, "anchor", other, data, drawn(data))  # under another name they are others
    assert TeacherVectors(tmp_path, "anchor").columns(drawn(data)[0]).shape == (2, 6, 24)


def test_a_killed_run_computes_them_again(encoder: Encoder, tmp_path: Path) -> None:
    data = read_pairs(ROWS["pairs"])

    class Killed(Exception):  # noqa: N818
        pass

    class Dying:
        full = encoder.full

        def encode_iter(self, texts: Iterator[str], *, prompt_name: str | None, progress: bool) -> Iterator[np.ndarray]:
            yield encoder.encode([next(texts)])[0]
            raise Killed

    with pytest.raises(Killed):
        write_vectors(tmp_path, "teacher", Dying(), data, drawn(data))
    assert [path.name for path in tmp_path.iterdir()] == ["teacher-texts.npy"]
    check(written(tmp_path, encoder, data, drawn(data)), encoder, drawn(data))


@pytest.mark.parametrize("held", [True, False])
def test_large_files_are_mapped(held: bool, encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = read_pairs(ROWS["pairs"])
    written(tmp_path, encoder, data, drawn(data))
    size = (tmp_path / "teacher-vectors.npy").stat().st_size
    monkeypatch.setattr(teacher_vectors, "IN_MEMORY", size if held else size - 1)
    found = TeacherVectors(tmp_path, "teacher")
    assert isinstance(found._vectors, np.memmap) is not held
    check(found, encoder, drawn(data))
    assert found.columns(drawn(data)[0]).flags.writeable  # torch warns of arrays that are not


def test_a_teacher_may_be_another_model(model_folder: Callable[..., Path], tmp_path: Path) -> None:
    teacher = load(model_folder("XLM-R", dense=24), device="cpu")  # its own tokenizer, other dims
    data = read_pairs(ROWS["triples"])
    found = written(tmp_path, teacher, data, drawn(data))
    assert found.columns(drawn(data)[0]).shape == (4, 6, 24)
    check(found, teacher, drawn(data))


def test_keys_are_unique_and_ordered() -> None:
    places = [(s, r, t) for s in (0, 1, 511) for r in (0, 1, (1 << 40) - 1) for t in (0, 1, (1 << 14) - 1)]
    keys = [key(*place) for place in places]
    assert keys == sorted(set(keys))
    batch = TextBatch((("a", "c"), ("b", "d")), None, ((7, (0, 1)), (9, (3, 2))), source=2)
    assert keys_of(batch).tolist() == [[key(2, 7, 0), key(2, 7, 1)], [key(2, 9, 3), key(2, 9, 2)]]
    assert np.array(keys, np.int64).tolist() == keys  # they fit


def test_files_that_do_not_fit_are_refused(encoder: Encoder, tmp_path: Path) -> None:
    data = read_pairs(ROWS["pairs"])
    batches = drawn(data)
    written(tmp_path, encoder, data, batches)
    texts, vectors = tmp_path / "teacher-texts.npy", tmp_path / "teacher-vectors.npy"
    keys, numbers = np.load(texts), np.load(vectors)

    def refused(said: str) -> None:
        with pytest.raises(DemitasseError, match=said):
            for batch in batches:
                TeacherVectors(tmp_path, "teacher").columns(batch)

    for values in (keys[::-1], keys.astype(np.float32), keys[:, None]):
        np.save(texts, values)
        refused("teacher-texts.npy is damaged; remove it and resume")
    np.save(texts, keys[1:])
    refused("teacher-vectors.npy is damaged, or belongs to other texts")
    np.save(texts, np.sort(np.append(keys[1:], key(5, 5, 5))))  # another text in place of one
    refused("has no vector of some text of this run")
    np.save(texts, keys)
    np.save(vectors, numbers * np.float16("nan"))
    refused("it has NaN; remove it and resume")
    vectors.write_bytes(b"PK\x03\x04")
    refused("cannot be read as a .npy file")
