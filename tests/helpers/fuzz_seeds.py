"""Right files of every kind, from tiny models and the built-in one, for `file_kinds` to change."""

from __future__ import annotations

import gzip
import json
import shutil
from dataclasses import replace
from pathlib import Path

import file_kinds as use
import numpy as np
import zoo
from evaluations import evaluation
from file_kinds import Kind
from profiles import made_profile

from demitasse import CorpusOptions, Index, embed_corpus, fit_exits, load, read_pairs
from demitasse.data.sampler import Sampler
from demitasse.encoding.manifest import Manifest
from demitasse.encoding.teacher_space import SpaceTeacher, TeacherSpace, written
from demitasse.host.bundled import corpus
from demitasse.training.teacher_vectors import write_vectors
from demitasse.training.vector_store import VectorStore

ROWS = [(f"a cup of {word}", f"{word} in a mug", number / 9) for number, word in enumerate(zoo.WORDS[:10])]


def quick_kinds(folder: Path) -> list[Kind]:
    """The kinds of files that are cheap to use, with their seeds written to `folder`."""
    kinds = [*_block_kinds(folder), *_torch_kinds(folder), *_result_kinds(folder), *_row_kinds(folder)]
    return [*kinds, *_index_kinds(folder), _corpus_kind(folder)]


def long_kinds(folder: Path) -> list[Kind]:
    """Those that take a second each: whole runs of training, commands, models of everything that save writes."""
    return [*_run_kinds(folder), *_command_kinds(folder)]


def _block_kinds(folder: Path) -> list[Kind]:
    blocks = folder / "blocks"
    load().cut(1, 32).save(blocks)
    _add_space(blocks)
    names = ("tokenizer.json", "embeddings.onnx", "layer_1.onnx", "exit_1.onnx")
    forms = {name: "json" if name.endswith("json") else "onnx" for name in names}
    return [
        Kind("blocks/space.bin", blocks, "space.bin", use.mapped, use.same),
        Kind("blocks/space.bin, hashes fitted", blocks, "space.bin", use.mapped, use.finite, fitted=True),
        Kind("blocks/demitasse.json", blocks, "demitasse.json", use.encode, use.sound, "json"),
        *(Kind(f"blocks/{name}", blocks, name, use.encode, use.same, forms[name]) for name in names),
        *(
            Kind(
                f"blocks/{name}, hashes fitted",
                blocks,
                name,
                use.encode,
                use.sound,
                forms[name],
                fitted=True,
                large=forms[name] == "onnx",
            )
            for name in names
        ),
    ]


def _space(dims: int) -> TeacherSpace:
    """That of a teacher of 24 dims."""
    weight = np.random.default_rng(0).normal(size=(dims, 24)).astype(np.float32)
    return TeacherSpace((SpaceTeacher("a teacher", "0" * 64, 24, 1.0, {"query": "q: "}),), weight, weight[:, 0].copy())


def _add_space(blocks: Path) -> None:
    manifest, space = Manifest.read(blocks), _space(32)
    assert manifest is not None
    (blocks / "space.bin").write_bytes(written(space))
    replace(manifest, fields={**manifest.fields, "teacher_space": space.described()}).with_files().write()


def _torch_kinds(folder: Path) -> list[Kind]:
    plain, elastic = folder / "sentence-transformers", folder / "elastic"
    zoo.write_folder(plain, "BERT", dense=16)
    exits = fit_exits(load(plain, device="cpu"), zoo.sentences(300), refine=False, progress=False)
    replace(exits.cut(layers=2), teacher_space=_space(16)).save(elastic)
    forms = {"json": "json", "safetensors": "safetensors"}
    changed = [
        (path.relative_to(plain).as_posix(), forms[path.suffix[1:]])
        for path in sorted(plain.rglob("*"))
        if path.suffix[1:] in forms
    ]
    own = [("exits.safetensors", "safetensors"), ("model.safetensors", "safetensors"), ("config.json", "json")]
    return [
        *(Kind(f"st/{name}", plain, name, use.encode, use.sound, form) for name, form in changed),
        Kind("elastic/demitasse.json", elastic, "demitasse.json", use.encode, use.sound, "json"),
        *(Kind(f"elastic/{name}", elastic, name, use.encode, use.same, form) for name, form in own),
        *(
            Kind(f"elastic/{name}, hashes fitted", elastic, name, use.encode, use.sound, form, fitted=True)
            for name, form in own
        ),
    ]


def _result_kinds(folder: Path) -> list[Kind]:
    results = folder / "results"
    results.mkdir()
    made_profile().save(results / "profile.json")
    evaluation().save(results / "evaluation.json")
    (results / "keys.txt").write_text("# of a team\nkey-of-a-team-0001\n\nanother-key-0002\n")
    cache = folder / "cache"
    use.from_cache(cache)
    (shard,) = cache.rglob("*.npy")
    teacher, store = _teacher(folder), folder / "store"
    VectorStore(store, 32).add(np.arange(9, dtype=np.uint64), np.random.default_rng(0).normal(size=(9, 32)))
    check, plan = ("check", "profile.json", "--max-drop", "50%"), ("plan", "profile.json", "--latency-ms", "2")
    return [
        Kind("profile.json, check", results, "profile.json", use.command(*check), use.finished, "json"),
        Kind("profile.json, plan", results, "profile.json", use.command(*plan), use.finished, "json"),
        Kind(
            "profile.json, report", results, "profile.json", use.command("report", "profile.json"), use.finished, "json"
        ),
        Kind("keys.txt", results, "keys.txt", use.keys, use.anything, "lines"),
        Kind("evaluation.json", results, "evaluation.json", use.shown_evaluation, use.anything, "json"),
        Kind("cache shard", cache, shard.relative_to(cache).as_posix(), use.from_cache, use.same),
        Kind("teacher-vectors.npy", teacher, "teacher-vectors.npy", use.taught, use.finite),
        Kind("stored vectors", store, next(store.iterdir()).name, use.stored, use.finite),
        Kind("teacher-texts.npy", teacher, "teacher-texts.npy", use.taught, use.same),
    ]


def _index_kinds(folder: Path) -> list[Kind]:
    place, texts = folder / "index", corpus()[:60]
    facts = [{"number": number, "even": number % 2 == 0} for number in range(60)]
    index = Index.build(load().cut(0, 96), texts, place, metadata=facts, graph=True)
    index.delete(["3", "4"])
    (vectors,), (graph,) = (place / "vectors").glob("*.i8"), (place / "vectors").glob("*.usearch")
    return [
        Kind("index/index.json", place, "index.json", use.searched, use.hits, "json"),
        Kind("index/texts.sqlite", place, "texts.sqlite", use.searched, use.hits, linked=False),
        Kind("index/vectors", place, f"vectors/{vectors.name}", use.searched, use.hits),
        Kind("index/graph", place, f"vectors/{graph.name}", use.searched, use.same),
    ]


def _corpus_kind(folder: Path) -> Kind:
    (folder / "corpus.txt").write_text("\n".join(corpus()[:30]))
    place = folder / "corpus"
    embed_corpus(load().cut(0, 32), folder / "corpus.txt", place, CorpusOptions(shard_rows=10))
    return Kind("corpus/_corpus.json", place, "_corpus.json", use.embedded, use.anything, "json")


def _teacher(folder: Path) -> Path:
    teacher = folder / "teacher"
    teacher.mkdir()
    data = read_pairs([(text, f"{text} kan") for text in dict.fromkeys(use.TEXTS)])
    write_vectors(teacher, "teacher", load().cut(0, 32), data, iter([Sampler(data, 4, seed=2).next()]))
    return teacher


def _row_kinds(folder: Path) -> list[Kind]:
    rows = folder / "rows"
    rows.mkdir()
    named = [{"anchor": a, "positive": b, "score": score} for a, b, score in ROWS]
    lines = "".join(json.dumps(row) + "\n" for row in named)
    (rows / "rows.jsonl").write_text(lines)
    (rows / "rows.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
    (rows / "rows.json").write_text(json.dumps(named))
    for name, sign in (("rows.csv", ","), ("rows.tsv", "\t")):
        table = [["anchor", "positive", "score"], *([a, f'"{b}"', str(score)] for a, b, score in ROWS)]
        (rows / name).write_text("".join(sign.join(fields) + "\n" for fields in table))
    (rows / "rows.txt").write_text("".join(f"{a}\n" for a, _, _ in ROWS))
    _write_parquet(rows / "rows.parquet", named)
    beir = folder / "beir"
    beir.mkdir()
    documents = [json.dumps({"_id": str(number), "text": a, "title": b}) for number, (a, b, _) in enumerate(ROWS)]
    (beir / "corpus.jsonl").write_text("\n".join(documents))
    (beir / "queries.jsonl").write_text(
        "\n".join(json.dumps({"_id": f"q{n}", "text": b}) for n, (_, b, _) in enumerate(ROWS))
    )
    (beir / "qrels.tsv").write_text(
        "query-id\tcorpus-id\tscore\n" + "".join(f"q{n}\t{n}\t1\n" for n in range(len(ROWS)))
    )
    forms = {".jsonl": "lines", ".json": "json", ".csv": "lines", ".tsv": "lines", ".txt": "lines"}
    return [
        *(
            Kind(
                f"{path.name}{', bad rows skipped' * skip}",
                rows,
                path.name,
                use.rows(path.name, skip=skip),
                use.texts,
                forms.get(path.suffix, "bytes"),
            )
            for path in sorted(rows.iterdir())
            for skip in (False, True)
        ),
        *(
            Kind(f"beir/{path.name}", beir, path.name, use.tasks, use.documents, "lines")
            for path in sorted(beir.iterdir())
        ),
    ]


def _write_parquet(path: Path, rows: list[dict[str, object]]) -> None:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist(rows), path)


def _run_kinds(folder: Path) -> list[Kind]:
    run = folder / "run-of-training"
    zoo.write_folder(run / "base", "BERT")
    use.resumed(run)
    files = [("run.json", "json"), ("log.jsonl", "lines"), ("checkpoint.pt", "bytes")]
    return [Kind(f"run/{name}", run, f"run/{name}", use.resumed, use.sound, form, linked=False) for name, form in files]


def _command_kinds(folder: Path) -> list[Kind]:
    texts = folder / "texts"
    shutil.copytree(folder / "rows", texts)
    model = str(folder / "blocks")
    index = ("index", "build", "--out", "made", "--cut", "0x32", "--column", "anchor")
    encode = ("encode", "--model", model, "--output", "vectors.npy", "--column", "anchor", "--input")
    return [
        Kind("described demitasse.json", folder / "blocks", "demitasse.json", use.described, use.sound, "json"),
        Kind("described elastic", folder / "elastic", "demitasse.json", use.described, use.sound, "json"),
        *(
            Kind(f"encode index {name}", texts, name, use.command(*index, name), use.finished, form)
            for name, form in (("rows.jsonl", "lines"), ("rows.csv", "lines"))
        ),
        *(
            Kind(f"encode {name}", texts, name, use.command(*encode, name), use.finished, form)
            for name, form in (("rows.jsonl", "lines"), ("rows.csv", "lines"), ("rows.parquet", "bytes"))
        ),
    ]
