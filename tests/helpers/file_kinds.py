"""Every kind of file that demitasse reads: a right one, what is done with it, and what a right result is.

`Kind.case` changes the file at random and uses it. A result that is not refused must be right: equal to that of the
unchanged file, or, where the change makes another model of it, vectors that are finite and of unit length.
"""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from mutations import mutated_bytes, mutated_json, mutated_lines, mutated_onnx, mutated_safetensors

from demitasse.errors import DemitasseError

Use = Callable[[Path], Any]
Judge = Callable[[Any, Any], str | None]  # what is wrong with a result, given that of the unchanged file
TEXTS = [f"kan lor mist {word} zefi rux" for word in ("a", "cup,", "[CLS]", "é", "two-three", "", "x" * 99)] * 4


@dataclass(frozen=True)
class Kind:
    """A kind of file, and the use of a folder with one of it."""

    name: str
    seed: Path  # a folder in which everything is right
    file: str  # the one in it that is changed
    use: Use
    wrong: Judge
    form: str = "bytes"  # what it is besides bytes: json, lines, safetensors or onnx
    fitted: bool = False  # whether sizes and hashes are then made to fit, as someone who wants to be believed would
    large: bool = False  # whether it is a program, which may ask for any memory while it runs, as a graph may
    linked: bool = True  # whether the folder's other files are links, which is faster where nothing writes into them

    def case(self, scratch: Path, *seeds: str) -> Callable[[int], str | None]:
        """The cases of one run, by number, of each seed in turn; they happen in copies of the folder."""
        right = (self.seed / self.file).read_bytes()
        others = [b"", *(path.read_bytes()[:100_000] for path in sorted(self.seed.rglob("*")) if path.is_file())]
        shutil.copytree(self.seed, scratch / "clean")
        expected = self.use(scratch / "clean")
        assert self.wrong(expected, expected) is None, f"{self.name} is wrong before it is changed"

        def run(number: int) -> str | None:
            folder = scratch / str(number)
            shutil.copytree(self.seed, folder, copy_function=os.link if self.linked else shutil.copyfile)
            try:
                (folder / self.file).unlink()
                changed = self.mutated(
                    random.Random(f"{seeds[number % len(seeds)]} {self.name} {number}"), right, others
                )
                (folder / self.file).write_bytes(changed)
                if self.fitted:
                    fit(folder)
                return self.wrong(self.use(folder), expected)
            finally:
                shutil.rmtree(folder, ignore_errors=True)

        return run

    def mutated(self, chance: random.Random, right: bytes, others: list[bytes]) -> bytes:
        """A changed copy of the file."""
        if self.form == "json" and chance.random() < 0.75:
            return mutated_json(chance, right)
        by_form = {"lines": mutated_lines, "safetensors": mutated_safetensors, "onnx": mutated_onnx}
        if self.form in by_form and chance.random() < 0.6:
            return by_form[self.form](chance, right)
        return mutated_bytes(chance, right, others)


def fit(folder: Path) -> None:
    """Make the sizes and hashes in a manifest those of the files beside it."""
    from demitasse.encoding.manifest import MANIFEST, Manifest

    manifest = Manifest.read(folder)
    if manifest is not None:
        (folder / MANIFEST).unlink()  # it is a link to the one of the seed
        manifest.with_files().write()


# Uses


def encode(folder: Path) -> np.ndarray:
    """The vectors of the model in `folder`."""
    from demitasse import load

    encoder = load(folder, device="cpu")
    vectors = encoder.encode(TEXTS, progress=False)
    assert vectors.shape == (len(TEXTS), encoder.full.dims), f"{vectors.shape} for {encoder.full}"
    prompted = encoder.encode(TEXTS[:2], prompt_name="query", progress=False)
    return np.concatenate([vectors, prompted])


def described(folder: Path) -> np.ndarray:
    """The same, after everything that `info` and `save` make of a model."""
    from demitasse import load
    from demitasse.display.model_table import describe, size_table

    encoder = load(folder, device="cpu")
    size_table(json.loads(json.dumps(describe(encoder))))
    assert len(encoder.fingerprint) == 64
    assert repr(encoder)
    assert encoder.name
    encoder.cut(layers=min(1, encoder.full.layers)).save(folder / "cut")
    return encode(folder)


def command(*arguments: str) -> Use:
    """Runs a command in the folder; the exit code and what it printed."""

    def use(folder: Path) -> tuple[int, str]:
        from demitasse.cli.app import main

        out, err = io.BytesIO(), io.BytesIO()
        streams = sys.stdout, sys.stderr, sys.argv
        before = Path.cwd()
        os.chdir(folder)
        sys.argv = ["demitasse", *arguments]
        given = [io.TextIOWrapper(one, "utf-8", write_through=True) for one in (out, err)]
        sys.stdout, sys.stderr = given
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
        finally:
            sys.stdout, sys.stderr, sys.argv = streams
            os.chdir(before)
        assert isinstance(code, int)
        assert all(not stream.closed for stream in given)
        said = err.getvalue().decode()
        if code == 2:
            assert said.startswith("error: "), said
            raise DemitasseError(said.removeprefix("error: ").removesuffix("\n"))
        return code, said

    return use


def shown_evaluation(folder: Path) -> Any:
    """An evaluation that was read, after it was shown and compared with itself."""
    from rich.console import Console

    from demitasse import read_evaluation
    from demitasse.display.eval_table import show
    from demitasse.evaluation.evaluation_json import as_plain
    from demitasse.host.json_files import json_text

    evaluation = read_evaluation(folder / "evaluation.json")
    if evaluation.tasks and evaluation.means:
        show([evaluation], Console(file=io.StringIO(), width=120))
    return json.loads(json_text(as_plain(evaluation)))


def keys(folder: Path) -> int:
    """How many keys a server takes from a file."""
    from demitasse.serving.keys import Keys, read_keys

    return len(Keys.of(read_keys(folder / "keys.txt")).digests)


def rows(name: str, *, skip: bool = False) -> Use:
    """The texts of every example of a file of training rows."""

    def use(folder: Path) -> Any:
        from demitasse import read_pairs

        (source,) = read_pairs(folder / name, skip_bad_rows=skip).sources
        return [(source[index].texts, source[index].score) for index in range(len(source))]

    return use


def tasks(folder: Path) -> Any:
    """A BEIR folder as a task, scored with made-up vectors."""
    from demitasse.evaluation.task_files import read_tasks

    (task,) = read_tasks([folder])
    return task.documents, task.queries


def from_cache(folder: Path) -> np.ndarray:
    """The vectors of texts that are in a cache of vectors."""
    from demitasse import load
    from demitasse.evaluation.embedding_cache import EmbeddingCache, encode_layers

    encoder = load().cut(0, 32)
    texts = list(dict.fromkeys(TEXTS))
    return encode_layers(encoder, texts, [0], None, EmbeddingCache(folder, encoder, None), lambda steps: None)[0]


def searched(folder: Path) -> Any:
    """What an index finds, after everything that is asked about it: all of it, some of it, and by a filter."""
    from demitasse import Index, Scan
    from demitasse.display.hit_table import index_lines

    index = Index.open(folder)
    index_lines(json.loads(json.dumps(index.info())))
    index.verify()
    queries = np.stack([np.ones(index.cut.dims), np.arange(index.cut.dims) - 9.5])
    scans = [Scan(), Scan("bits", shortlist=30), Scan("dims", shortlist=30)]
    hits = [index.search_vectors(queries, k=99, scan=scan) for scan in scans]
    hits.append(index.search_vectors(queries, k=5, where={"or": [{"even": True}, {"number": {"gt": 3}}]}))
    return [[hit.as_plain() for hit in of_query] for part in hits for of_query in part]


def embedded(folder: Path) -> Any:
    """The manifest of a corpus, and what has changed since it was written."""
    from demitasse.corpora.manifest import Manifest, total

    manifest = Manifest.read(folder)
    return None if manifest is None else (total(manifest.counts), manifest.difference({}, {}, []), manifest.complete)


def resumed(folder: Path) -> np.ndarray:
    """The vectors of a model whose training was resumed."""
    from demitasse import Matryoshka, TrainOptions, load, read_pairs, train

    pairs = read_pairs([(text, text + " kan") for text in TEXTS[:8]])
    options = TrainOptions(steps=2, batch=4, save_every=1, warmup=0)
    base = load(folder / "base", device="cpu")
    trained = train(base, pairs, Matryoshka(), out=folder / "run", options=options, resume=(folder / "run").exists())
    return trained.encode(TEXTS, progress=False)


def taught(folder: Path) -> np.ndarray:
    """A teacher's vectors of a batch, read from the files of a run."""
    from demitasse import read_pairs
    from demitasse.data.sampler import Sampler
    from demitasse.training.teacher_vectors import TeacherVectors

    batch = Sampler(read_pairs([(text, f"{text} kan") for text in dict.fromkeys(TEXTS)]), 4, seed=2).next()
    return TeacherVectors(folder, "teacher").columns(batch).reshape(-1, 32).astype(np.float32)


def stored(folder: Path) -> np.ndarray:
    """A teacher's vectors, read from a store."""
    from demitasse.training.vector_store import VectorStore

    found = np.zeros((9, 32), np.float32)
    for chosen, vectors in VectorStore(folder, 32).parts(np.arange(9, dtype=np.uint64)):
        found[chosen] = vectors
    return found


def mapped(folder: Path) -> np.ndarray:
    """What the model's space makes of a teacher's vectors."""
    from demitasse import load

    space = load(folder, device="cpu").teacher_space
    assert space is not None
    return space(np.eye(24, dtype=np.float32)[: len(space.weight[0])])


# Judges


def same(result: Any, expected: Any) -> str | None:
    """Nothing may have changed."""
    if isinstance(expected, np.ndarray):
        return None if np.array_equal(result, expected) else "a wrong vector"
    return None if result == expected else "a different result"


def sound(result: np.ndarray, _: Any) -> str | None:
    """Vectors of unit length; zeros are those of a model whose last weights are zeros."""
    if result.dtype != np.float32 or not np.isfinite(result).all():
        return f"a vector that is not finite: {result[~np.isfinite(result).all(1)][:1]}"
    lengths = np.linalg.norm(result, axis=1)
    return None if ((abs(lengths - 1) < 1e-3) | (lengths == 0)).all() else f"a vector of length {lengths[:5]}"


def finished(result: tuple[int, str], _: Any) -> str | None:
    """A command that worked, or a gate that failed."""
    code, said = result
    return None if code in (0, 1) and "Traceback" not in said else f"exit code {code} with {said[:300]!a}"


def anything(result: Any, _: Any) -> str | None:
    """It was read, and everything that is done with it could be done."""
    return None


def hits(result: Any, expected: Any) -> str | None:
    """Texts that are in the index, in order, with cosines."""
    known = {(hit["id"], hit["text"], str(hit["metadata"])) for part in expected for hit in part}
    for part in result:
        scores = [hit["score"] for hit in part]
        if scores != sorted(scores, reverse=True) or any(not abs(score) <= 1.01 for score in scores):
            return f"scores of {scores[:5]}"
        wrong = [hit for hit in part if (hit["id"], hit["text"], str(hit["metadata"])) not in known]
        if wrong:
            return f"a text that was never put in: {wrong[0]}"
    return None


def finite(result: np.ndarray, _: Any) -> str | None:
    """Numbers."""
    return None if np.isfinite(result).all() else "NaN"


def texts(result: Any, _: Any) -> str | None:
    """Texts that can be encoded, and finite scores."""
    for values, score in result:
        for text in values:
            text.encode()
        if score is not None and not np.isfinite(score):
            return f"a score of {score}"
    return None


def documents(result: Any, _: Any) -> str | None:
    """Documents and queries that can be encoded."""
    for text in (*result[0], *result[1]):
        text.encode()
    return None
