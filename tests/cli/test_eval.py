from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zoo
from command_line import RunCommand, interruptible

from demitasse import Cut, evaluate, load, read_evaluation
from demitasse.host.bundled import BUILT_IN

TEXTS = zoo.sentences(80, seed=9)


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    scores = np.random.default_rng(0).integers(0, 6, 40).tolist()
    rows = [{"a": a, "b": b, "score": score} for a, b, score in zip(TEXTS[:40], TEXTS[40:], scores, strict=True)]
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_built_in_model_is_measured_on_the_sample(run: RunCommand) -> None:
    ran = run("eval", "--layers", "6,1", "--dims", "32,384")
    assert ran.code == 0, ran.err
    assert ran.err == ""
    assert "built-in  6x384 int8, 4 cuts on 2 tasks" in ran.out
    assert "sample-search: ndcg@10 x 100" in ran.out


def test_everything_is_in_the_json(run: RunCommand, model: Path, pairs: Path, tmp_path: Path) -> None:
    target = tmp_path / "grid.json"
    ran = run("eval", model, "--tasks", "mine", "--data", tmp_path, "--dims", "8,32", "--json", target)
    assert ran.code == 0, ran.err
    assert ran.err.endswith(f"{target} written\n")
    saved = read_evaluation(target)
    assert saved.model == str(model)
    expected = evaluate(load(model, device="cpu"), [pairs], cuts=saved.cuts)
    assert saved.scores == expected.scores
    assert saved.cuts == tuple(Cut(layers, dims) for layers in range(4) for dims in (8, 32))
    printed = run("eval", model, "-t", pairs, "--dims", "8,32", "--json", "-").out
    again, before = json.loads(printed), json.loads(target.read_text())
    assert {**again, "seconds": 0} == {**before, "seconds": 0}


def test_documents_may_have_other_layers_than_queries(run: RunCommand, model: Path, pairs: Path) -> None:
    for given, layers in (("3", [3]), ("all", [1, 2]), ("0,2-3", [0, 2, 3])):
        more = ("--layers", "1-2", "--dims", "8", "--document-layers", given, "--resamples", "0", "--json", "-")
        ran = run("eval", model, "-t", pairs, *more)
        assert ran.code == 0, ran.err
        cells = [(entry["cut"], entry["document_layers"]) for entry in json.loads(ran.out)["scores"]]
        assert cells == [(cut, number) for cut in ("1x8", "2x8") for number in layers]


def test_models_are_compared(run: RunCommand, model: Path, pairs: Path, tmp_path: Path) -> None:
    load(model, device="cpu").cut(2, 16).save(tmp_path / "small")
    arguments = ("eval", model, "-t", pairs, "--compare", tmp_path / "small", "--resamples", "50")
    ran = run(*arguments, "--dims", "8,32", "--json", tmp_path / "both.json")
    assert ran.code == 0, ran.err
    assert "difference from" in ran.out
    both = json.loads((tmp_path / "both.json").read_text())
    assert both["kind"] == "comparison"
    assert [entry["model"] for entry in both["evaluations"]] == [str(model), str(tmp_path / "small")]
    assert [entry["cut"] for entry in both["differences"]] == ["0x8", "1x8", "2x8"]
    # If another model has none of the requested cuts, it is measured at its full size.
    deep = json.loads(run(*arguments, "--layers", "3", "--json", "-").out)
    assert {score["cut"] for score in deep["evaluations"][1]["scores"]} == {"2x16"}


def test_a_cache_is_filled_and_used(
    run: RunCommand, model: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    assert ran.err.startswith(f"warning: {shard} ")
    assert ran.err.count("\n") == 1


def test_a_plot_is_written(run: RunCommand, model: Path, pairs: Path, tmp_path: Path) -> None:
    ran = run("eval", model, "-t", pairs, "--plot", tmp_path / "grid.svg", "--resamples", "20")
    assert ran.code == 0, ran.err
    assert ran.err.endswith(f"{tmp_path / 'grid.svg'} written\n")
    assert "<svg" in (tmp_path / "grid.svg").read_text()


def test_a_precision_is_what_load_calls_dtype(run: RunCommand, model: Path, pairs: Path) -> None:
    ran = run("eval", model, "-t", pairs, "--precision", "fp16", "--json", "-")
    assert json.loads(ran.out)["precision"] == "fp16"


BAD_CALLS = {
    "--layers 1,x": "--layers '1,x' cannot be parsed",
    "--layers 3-1": "--layers '3-1' cannot be parsed",
    "--dims -8": "--dims '-8' cannot be parsed",
    "--document-layers deep": "--document-layers 'deep' cannot be parsed",
    "--layers 9": "cut 9x32 is deeper",
    "--dims 99": "cut 3x99 is wider",
    "--document-layers 9": "is deeper",
    "--tasks nowhere.jsonl": "nowhere.jsonl",
    "--data {here}/nowhere": "nowhere",
    "--plot grid.gif": ".png, .svg, .pdf",
    "--json {here}": "is a folder; give a file name, or - for stdout",
    "--precision fp7": "dtype 'fp7'",
    "--resamples -1": "Invalid value for '--resamples'",
    "--compare {here}/nothing": "there is no folder",
    "--compare {here}/empty": "/empty",
    "--compare {here}/mine.jsonl": "there is no folder",
    "--layers 0-99999 --dims 1-99999": "cut 99999x1 is deeper",
    "--document-layers 0-99999": "cut 99999x1 is deeper",
    "--tasks {here}/empty": "/empty",
    "--tasks sts --data {here}/empty": "sts12, sts13,",
    "--tasks {here}/search": "qrels.tsv line 1 names 'd9'",
    "--tasks {here}/broken.jsonl": "broken.jsonl line 2",
    "--tasks {here}/mine.jsonl --tasks {here}/empty/../mine.jsonl": "'mine'",
    "--json {here}/mine.jsonl/x.json": "x.json cannot be written (",
    "--json /proc/nowhere/x.json": "--json /proc/nowhere/x.json cannot be written (",
    "--plot {here}/mine.jsonl/x.png": "x.png cannot be written (",
    "--plot {here}/drawn.png": "drawn.png is a folder; give a file name",
    "--cache {here}/mine.jsonl": "mine.jsonl is a file; give a folder",
    "--cache {here}/mine.jsonl/deep": "deep cannot be written (",
    "--compare {blocks} --precision fp32": "dtype 'fp32'",
}


@pytest.mark.parametrize(
    "line", [pytest.param(line, marks=pytest.mark.posix) if "/proc" in line else line for line in BAD_CALLS]
)
def test_bad_calls_exit_2_with_one_sentence(
    line: str, run: RunCommand, model: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "drawn.png").mkdir()
    (tmp_path / "broken.jsonl").write_text(pairs.read_text().splitlines()[0] + '\n{"a": "kan", \n')
    (tmp_path / "search").mkdir()
    (tmp_path / "search" / "corpus.jsonl").write_text('{"_id": "d1", "text": "kan"}\n')
    (tmp_path / "search" / "queries.jsonl").write_text('{"_id": "q1", "text": "lor"}\n')
    (tmp_path / "search" / "qrels.tsv").write_text("q1\td9\t1\n")
    before = sorted(tmp_path.rglob("*"))
    # Mistakes are found before any text is encoded.
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
            "needs matplotlib; pip install 'demitasse[plots]'\n",
        ),
        (["torch"], ["--compare", "{model}"], "needs torch; pip install"),
    ],
)
def test_a_missing_package_is_named(
    blocked: list[str],
    words: list[str],
    said: str,
    run: RunCommand,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in blocked:
        monkeypatch.setitem(sys.modules, name, None)
    ran = run("eval", *(word.format(model=model) for word in words))
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_the_built_in_model_is_measured_where_torch_is_blocked(
    run: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("torch", "transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    ran = run("eval", "--layers", "1", "--dims", "32", "--resamples", "0", "--json", "-")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["versions"].keys() == {"demitasse", "python", "numpy", "onnxruntime", "tokenizers"}


# Half of the second shard is written; then nothing happens until a signal comes.
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


@pytest.mark.posix
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing_half_written(stop: signal.Signals, tmp_path: Path) -> None:
    """Stopped while the second shard of the cache is being written; only the first is left."""
    texts = [f"a cup of coffee number {number}" for number in range(100)]
    rows = [
        {"a": a, "b": b, "score": index % 5} for index, (a, b) in enumerate(zip(texts[::2], texts[1::2], strict=True))
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
