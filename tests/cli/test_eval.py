from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zoo
from command_line import Ran, interruptible

from demitasse import Cut, evaluate, load, read_evaluation
from demitasse.cli.eval import numbers
from demitasse.host.bundled import BUILT_IN

TEXTS = zoo.sentences(80, seed=9)


@pytest.fixture
def model(model_folder: Callable[..., Path]) -> Path:
    return model_folder("BERT")


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    scores = np.random.default_rng(0).integers(0, 6, 40).tolist()
    rows = [{"a": a, "b": b, "score": score} for a, b, score in zip(TEXTS[:40], TEXTS[40:], scores, strict=True)]
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_built_in_model_is_measured_on_the_sample(run: Callable[..., Ran]) -> None:
    ran = run("eval", "--layers", "6,1", "--dims", "32,384")
    assert ran.code == 0, ran.err
    assert ran.err == ""
    assert "built-in  6x384 int8, 4 cuts on 2 tasks" in ran.out
    assert "sample-search: ndcg@10 x 100" in ran.out


def test_everything_is_in_the_json(run: Callable[..., Ran], model: Path, pairs: Path, tmp_path: Path) -> None:
    target = tmp_path / "grid.json"
    ran = run("eval", model, "--tasks", "mine", "--data", tmp_path, "--dims", "8,32", "--json", target)
    assert ran.code == 0, ran.err
    assert ran.err.endswith(f"{target} written\n")
    found = read_evaluation(target)
    assert found.model == str(model)
    expected = evaluate(load(model, device="cpu"), [pairs], cuts=found.cuts)
    assert found.scores == expected.scores
    assert found.cuts == tuple(Cut(layers, dims) for layers in range(4) for dims in (8, 32))
    printed = run("eval", model, "-t", pairs, "--dims", "8,32", "--json", "-").out
    again, saved = json.loads(printed), json.loads(target.read_text())
    assert {**again, "seconds": 0} == {**saved, "seconds": 0}


def test_documents_may_have_layers_of_their_own(run: Callable[..., Ran], model: Path, pairs: Path) -> None:
    for given, layers in (("3", [3]), ("all", [1, 2]), ("0,2-3", [0, 2, 3])):
        more = ("--layers", "1-2", "--dims", "8", "--document-layers", given, "--resamples", "0", "--json", "-")
        ran = run("eval", model, "-t", pairs, *more)
        assert ran.code == 0, ran.err
        cells = [(entry["cut"], entry["document_layers"]) for entry in json.loads(ran.out)["scores"]]
        assert cells == [(cut, number) for cut in ("1x8", "2x8") for number in layers]


def test_models_are_compared(run: Callable[..., Ran], model: Path, pairs: Path, tmp_path: Path) -> None:
    load(model, device="cpu").cut(2, 16).save(tmp_path / "small")
    arguments = ("eval", model, "-t", pairs, "--compare", tmp_path / "small", "--resamples", "50")
    ran = run(*arguments, "--dims", "8,32", "--json", tmp_path / "both.json")
    assert ran.code == 0, ran.err
    assert "difference to" in ran.out
    found = json.loads((tmp_path / "both.json").read_text())
    assert found["kind"] == "comparison"
    assert [entry["model"] for entry in found["evaluations"]] == [str(model), str(tmp_path / "small")]
    assert [entry["cut"] for entry in found["differences"]] == ["0x8", "1x8", "2x8"]
    # Where none of the cuts that were asked for exists, a further model is measured whole.
    deep = json.loads(run(*arguments, "--layers", "3", "--json", "-").out)
    assert {score["cut"] for score in deep["evaluations"][1]["scores"]} == {"2x16"}


def test_a_cache_is_filled_and_used(
    run: Callable[..., Ran], model: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("eval", model, "-t", pairs, "--cache", tmp_path / "cache", "--json", "-")
    first = json.loads(run(*arguments).out)
    (shard,) = (tmp_path / "cache").glob("*/*.npy")
    monkeypatch.setattr("demitasse.torch_model.torch_encoder.TorchEncoder._embed_windows", None)
    assert json.loads(run(*arguments).out)["scores"] == first["scores"]
    monkeypatch.undo()
    shard.write_bytes(b"nothing")
    ran = run(*arguments[:-2])
    assert ran.code == 0
    assert ran.err == f"warning: {shard} is broken or of another model; its texts are encoded again\n"


def test_a_picture_is_drawn(run: Callable[..., Ran], model: Path, pairs: Path, tmp_path: Path) -> None:
    ran = run("eval", model, "-t", pairs, "--plot", tmp_path / "grid.svg", "--resamples", "20")
    assert ran.code == 0, ran.err
    assert ran.err.endswith(f"{tmp_path / 'grid.svg'} drawn\n")
    assert "<svg" in (tmp_path / "grid.svg").read_text()


def test_a_precision_is_what_load_calls_dtype(run: Callable[..., Ran], model: Path, pairs: Path) -> None:
    ran = run("eval", model, "-t", pairs, "--precision", "fp16", "--json", "-")
    assert json.loads(ran.out)["precision"] == "fp16"


def test_numbers_and_ranges_are_read() -> None:
    assert numbers("3, 1-2,2", "layers") == [1, 2, 3]
    assert numbers("7", "dims") == [7]


BAD_CALLS = {
    "--layers 1,x": "--layers '1,x' cannot be read; write numbers and ranges, such as 1,3,6 or 0-6",
    "--layers 3-1": "--layers '3-1' cannot be read; write numbers and ranges",
    "--dims -8": "--dims '-8' cannot be read",
    "--document-layers deep": "--document-layers 'deep' cannot be read",
    "--layers 9": "cut 9x32 is deeper than this encoder (3x32)",
    "--dims 99": "cut 3x99 is wider than this encoder (3x32)",
    "--document-layers 9": "is deeper than this encoder (3x32)",
    "--tasks nowhere.jsonl": "nowhere.jsonl",
    "--data {here}/nowhere": "is no folder",
    "--plot grid.gif": "'grid.gif' does not say what kind of picture it is; end it with .png, .svg, .pdf",
    "--json {here}": "is a folder; give the name of a file, or - for stdout",
    "--precision fp7": "dtype 'fp7' is not known",
    "--resamples -1": "Invalid value for '--resamples'",
    "--compare {here}/nothing": "there is no folder",
    "--compare {here}/empty": "no model can be read from",
    "--compare {here}/mine.jsonl": "there is no folder",
    "--layers 0-99999 --dims 1-99999": "cut 99999x1 is deeper than this encoder (3x32)",
    "--document-layers 0-99999": "cut 99999x1 is deeper than this encoder (3x32)",
    "--tasks {here}/empty": "empty is no task; give one that holds",
    "--tasks sts --data {here}/empty": "empty has none of the sets sts12, sts13,",
    "--tasks {here}/search": "qrels.tsv line 1 names 'd9', which is not in corpus.jsonl; add it or drop the line",
    "--tasks {here}/broken.jsonl": "broken.jsonl line 2: it is not JSON",
    "--tasks {here}/mine.jsonl --tasks {here}/empty/../mine.jsonl": "two tasks have the name 'mine'",
    "--json {here}/mine.jsonl/x.json": "x.json cannot be written (Not a directory); choose a place you may write to",
    "--json /proc/nowhere/x.json": "--json /proc/nowhere/x.json cannot be written (",
    "--plot {here}/mine.jsonl/x.png": "x.png cannot be written (Not a directory)",
    "--plot {here}/drawn.png": "drawn.png is a folder; give the name of a file",
    "--cache {here}/mine.jsonl": "mine.jsonl is a file; give a folder, which is made where there is none",
    "--cache {here}/mine.jsonl/deep": "deep cannot be written (Not a directory)",
    "--compare {blocks} --precision fp32": "holds int8 blocks, so dtype 'fp32' cannot be chosen",
}


@pytest.mark.parametrize("line", BAD_CALLS)
def test_bad_calls_end_with_2_and_a_sentence(
    line: str, run: Callable[..., Ran], model: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "drawn.png").mkdir()
    (tmp_path / "broken.jsonl").write_text(pairs.read_text().splitlines()[0] + '\n{"a": "kan", \n')
    (tmp_path / "search").mkdir()
    (tmp_path / "search" / "corpus.jsonl").write_text('{"_id": "d1", "text": "kan"}\n')
    (tmp_path / "search" / "queries.jsonl").write_text('{"_id": "q1", "text": "lor"}\n')
    (tmp_path / "search" / "qrels.tsv").write_text("q1\td9\t1\n")
    before = sorted(tmp_path.rglob("*"))
    # What is wrong is known before any text is encoded.
    monkeypatch.setattr("demitasse.torch_model.torch_encoder.TorchEncoder._embed_windows", None)
    words = line.format(here=tmp_path, blocks=BUILT_IN).split()
    ran = run("eval", model, *(() if "--tasks" in line else ("--tasks", pairs)), *words)
    assert ran.code == 2, ran.out
    assert BAD_CALLS[line] in " ".join(ran.err.replace("│", " ").split())
    assert "Traceback" not in ran.err
    assert ran.out == ""
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("blocked", "words", "said"),
    [
        (
            ["matplotlib"],
            ["--plot", "grid.png"],
            "error: drawing a picture needs matplotlib; pip install 'demitasse[plots]'\n",
        ),
        (["torch"], ["--compare", "{model}"], "which is not a folder of blocks, needs torch; pip install"),
    ],
)
def test_what_is_not_installed_is_named(
    blocked: list[str],
    words: list[str],
    said: str,
    run: Callable[..., Ran],
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in blocked:
        monkeypatch.setitem(sys.modules, name, None)
    ran = run("eval", *(word.format(model=model) for word in words))
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_the_built_in_model_is_measured_where_torch_is_blocked(
    run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("torch", "transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    ran = run("eval", "--layers", "1", "--dims", "32", "--resamples", "0", "--json", "-")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["versions"].keys() == {"demitasse", "python", "numpy", "onnxruntime", "tokenizers"}


# The second shard is written by half; then nothing happens until a signal comes.
STUCK = """
import sys, numpy
from demitasse.evaluation import embedding_cache
embedding_cache.SHARD = 64
real, calls = numpy.save, []
def save(file, shard):
    calls.append(shard)
    if len(calls) == 1:
        return real(file, shard)
    file.write(b"half")
    file.flush()
    print("half written", flush=True)
    sys.stdin.read()
numpy.save = save
"""


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing_half_written(stop: signal.Signals, tmp_path: Path) -> None:
    """Stopped while the second shard of the cache is being written; all that is there then is the first."""
    texts = [f"a cup of coffee number {number}" for number in range(100)]
    rows = [
        {"a": a, "b": b, "score": place % 5} for place, (a, b) in enumerate(zip(texts[::2], texts[1::2], strict=True))
    ]
    (tmp_path / "long.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = ("--cache", "cache", "--json", "grid.json", "--plot", "grid.png")
    command = interruptible("eval", "-t", "long.jsonl", *files, setup=STUCK)
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, cwd=tmp_path, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == b"half written\n"
        process.send_signal(stop)
        errors = process.stderr.read()
        assert process.wait() == 128 + stop
    assert b"Traceback" not in errors
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "long.jsonl"]
    shards = [path for path in tmp_path.glob("cache/**/*") if path.is_file()]
    assert [path.suffix for path in shards] == [".npy"]
    assert len(np.load(shards[0])) == 64
