from __future__ import annotations

import gzip
import json
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import zoo
from command_line import Ran, interruptible

from demitasse import Cut, Encoder, MeasureOptions, __version__, load, store
from demitasse.host.bundled import BUILT_IN

TEXTS = ["kan lor", "mist", "", "tor vax zen"]


@pytest.fixture
def model(model_folder: Callable[..., Path]) -> Path:
    return model_folder("BERT")


def rows(text: str) -> np.ndarray:
    return np.array([json.loads(line)["vector"] for line in text.splitlines()], np.float32)


def test_arguments_come_out_as_json_lines(run: Callable[..., Ran], model: Path, encoder: Encoder) -> None:
    ran = run("encode", "--model", model, *TEXTS)
    assert ran.code == 0, ran.err
    np.testing.assert_allclose(rows(ran.out), encoder.encode(TEXTS), atol=1e-6)
    assert [json.loads(line)["text"] for line in ran.out.splitlines()] == TEXTS


def test_lines_of_stdin_and_of_files_are_encoded(
    run: Callable[..., Ran], model: Path, encoder: Encoder, tmp_path: Path
) -> None:
    written = "\n".join(TEXTS).encode() + b"\r\n"
    (tmp_path / "lines.txt").write_bytes(written)
    (tmp_path / "lines.gz").write_bytes(gzip.compress(written))
    expected = encoder.cut(2, 8).encode(TEXTS)
    for more, stdin in (
        ((), written),
        (("-i", "-"), written),
        (("-i", tmp_path / "lines.txt"), b""),
        (("-i", tmp_path / "lines.gz"), b""),
    ):
        ran = run("encode", "-m", model, "--cut", "2x8", *more, stdin=stdin)
        assert ran.code == 0, ran.err
        np.testing.assert_allclose(rows(ran.out), expected, atol=1e-6)


@pytest.mark.parametrize("count", [0, 1, 4, 5000])
def test_vectors_are_written_to_npy(
    count: int, run: Callable[..., Ran], model: Path, encoder: Encoder, tmp_path: Path
) -> None:
    texts = zoo.sentences(count)
    ran = run(
        "encode",
        "-m",
        model,
        "-c",
        "0x8",
        "-o",
        tmp_path / "v.npy",
        stdin="".join(f"{t}\n" for t in texts).encode(),
    )
    assert ran.code == 0, ran.err
    assert ran.out == ""
    assert f"{count} vectors of 0x8 written" in ran.err
    vectors = np.load(tmp_path / "v.npy")
    assert vectors.dtype == np.float32
    assert vectors.shape == (count, 8)
    np.testing.assert_allclose(vectors, encoder.cut(0, 8).encode(texts), atol=1e-6)


def test_vectors_are_written_to_jsonl(run: Callable[..., Ran], model: Path, encoder: Encoder, tmp_path: Path) -> None:
    assert run("encode", "-m", model, "-o", tmp_path / "v.jsonl", "--prompt", "query", *TEXTS).code == 0
    expected = encoder.encode(TEXTS, prompt="query")
    np.testing.assert_allclose(rows((tmp_path / "v.jsonl").read_text()), expected, atol=1e-6)
    assert [path.name for path in tmp_path.iterdir()] == ["v.jsonl"]


@pytest.mark.parametrize("kind", ["float32", "float16", "int8", "binary"])
def test_vectors_are_written_as_they_are_to_be_kept(
    kind: str, run: Callable[..., Ran], model: Path, encoder: Encoder, tmp_path: Path
) -> None:
    expected = store(encoder.cut(1, 12).encode(TEXTS), kind)
    ran = run("encode", "-m", model, "-c", "1x12", "--vectors", kind, "-o", tmp_path / "v.npy", *TEXTS)
    assert ran.code == 0, ran.err
    assert f"4 {'' if kind == 'float32' else kind + ' '}vectors of 1x12 written" in ran.err
    kept = np.load(tmp_path / "v.npy")
    assert kept.dtype == expected.dtype
    assert kept.shape == expected.shape
    difference = np.abs(kept.astype(float) - expected)
    assert difference.max() <= (1 if kind == "int8" else 1e-3)  # a number between two steps may fall to either
    if kind != "float16":
        ran = run("encode", "-m", model, "-c", "1x12", "--vectors", kind, *TEXTS)
        np.testing.assert_allclose(rows(ran.out), kept, atol=1e-6)
        whole = [isinstance(json.loads(line)["vector"][0], int) for line in ran.out.splitlines()]
        assert whole == [kind != "float32"] * len(TEXTS)


def test_bytes_that_are_no_text_have_a_defined_vector(run: Callable[..., Ran], model: Path, encoder: Encoder) -> None:
    ran = run("encode", "-m", model, stdin=b"kan \xff\xfe lor\n")
    assert ran.code == 0
    np.testing.assert_allclose(rows(ran.out), encoder.encode(["kan \ufffd\ufffd lor"]), atol=1e-6)


def test_fit_writes_an_elastic_model(run: Callable[..., Ran], model: Path, tmp_path: Path) -> None:
    lines = tmp_path / "sentences.txt.gz"
    lines.write_bytes(gzip.compress("\n".join(zoo.sentences(400)).encode()))
    ran = run("fit", lines, "--base", model, "--out", tmp_path / "m", "--limit", 300, "--no-order", "--no-refine")
    assert ran.code == 0, ran.err
    assert "exits at 0-2" in ran.out
    assert "fitted on 300 sentences" in ran.out
    made = load(tmp_path / "m")
    assert sorted(made.exits) == [0, 1, 2]
    assert made.record["objective"]["order"] is False


def test_cut_saves_a_smaller_model(run: Callable[..., Ran], model: Path, encoder: Encoder, tmp_path: Path) -> None:
    ran = run("cut", model, "2x8", "--out", tmp_path / "small")
    assert ran.code == 0, ran.err
    assert "Encoder(2x8" in ran.out
    np.testing.assert_allclose(load(tmp_path / "small").encode(TEXTS), encoder.cut(2, 8).encode(TEXTS), atol=1e-6)


def test_info_shows_what_each_cut_weighs(
    run: Callable[..., Ran], model: Path, encoder: Encoder, tmp_path: Path
) -> None:
    ran = run("info", model)
    assert ran.code == 0, ran.err
    assert "3x32  BertModel, mean pooling, 32 tokens" in ran.out
    facts = json.loads(run("info", model, "--json").out)
    assert facts["full"] == "3x32"
    assert facts["exits"] == []
    # What info says of a cut is what the saved cut holds.
    from safetensors.numpy import load_file

    for row in facts["cuts"]:
        encoder.cut(*map(int, row["cut"].split("x"))).save(tmp_path / row["cut"])
        held = sum(array.nbytes for array in load_file(tmp_path / row["cut"] / "model.safetensors").values())
        assert row["model_bytes"] == held


def test_the_built_in_model_is_the_default(run: Callable[..., Ran]) -> None:
    ran = run("encode", "-c", "1x32", "a ristretto", "a lungo")
    assert ran.code == 0, ran.err
    vectors = rows(ran.out)
    np.testing.assert_allclose(vectors, load().cut(1, 32).encode(["a ristretto", "a lungo"]), atol=1e-6)
    assert "6x384  BertModel" in run("info").out


def test_export_writes_blocks_that_give_the_same_vectors(
    run: Callable[..., Ran], model: Path, encoder: Encoder, tmp_path: Path
) -> None:
    ran = run("export", model, "--cut", "1x8", "--format", "blocks", "--out", tmp_path / "blocks")
    assert ran.code == 0, ran.err
    assert "1x8 as blocks" in ran.out
    np.testing.assert_allclose(load(tmp_path / "blocks").encode(TEXTS), encoder.cut(1, 8).encode(TEXTS), atol=1e-5)


def test_the_demo_searches_for_what_it_is_asked(
    run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("demitasse.cli.demo.OPTIONS", MeasureOptions(cuts=[Cut(0, 32)], rounds=2, seconds=1))
    ran = run("demo", "a knocking noise in the heating")
    assert ran.code == 0, ran.err
    assert "6x384  Our heating has been making a knocking noise since yesterday." in ran.out
    assert "100.0%" in ran.out
    assert [path.name for path in tmp_path.iterdir()] == ["demitasse-report.html"]
    assert f"{tmp_path / 'demitasse-report.html'} has all 8 rows" in ran.out
    refused = run("demo", "--report", "report.txt")
    assert (refused.code, refused.out) == (2, "")


def test_the_version_is_shown(run: Callable[..., Ran]) -> None:
    assert run("--version").out == f"demitasse {__version__}\n"


# name: (arguments with {model}, {blocks} and {here} filled in, what must be said)
BAD_CALLS = {
    "unreadable cut": ("encode -m {model} -c 6,128 a", "cannot read '6,128' as a cut; write layers x dims"),
    "too deep": ("encode -m {model} -c 9x8 a", "cut 9x8 is deeper than this encoder (3x32)"),
    "too wide": ("cut {model} 2x99 -o {here}/x", "cut 2x99 is wider than this encoder (3x32)"),
    "no blocks to export": ("export {blocks} -o {here}/x", "cannot be exported again; load the model it was"),
    "unknown export format": ("export {model} -f tflite -o {here}/x", "use one of blocks, blocks-int8, onnx"),
    "no such folder": ("info {here}/nowhere", "there is no folder"),
    "no such hub name": ("encode -m nobody/nothing a", "the hub gave no model of that name"),
    "no such file": ("encode -m {model} -i {here}/no.txt", "No such file or directory"),
    "a folder as input": ("encode -m {model} -i {here}", "Is a directory"),
    "half a file": ("encode -m {model} -i {here}/half.gz", "to its end"),
    "two sources": ("encode -m {model} -i {here}/short.txt a", "both as arguments and by --input"),
    "unknown format": ("encode -m {model} -o {here}/v.csv a", "end it in .npy or .jsonl"),
    "unknown kind of vectors": ("encode -m {model} --vectors int4 a", "use one of float32, float16, int8, binary"),
    "digits of float16": ("encode -m {model} --vectors float16 a", "float16 saves nothing in JSON lines"),
    "unknown prompt": ("encode -m {model} --prompt sts a", "no prompt 'sts'; use one of document, query"),
    "unknown device": ("encode -m {model} --device tpu9 a", "device 'tpu9' cannot be used here"),
    "too few sentences": ("fit {here}/short.txt -b {model} -o {here}/x", "1 sentences are too few"),
    "a folder of others": ("cut {model} 2x8 -o {here}/taken", "is not a demitasse model"),
    "unknown option": ("encode -m {model} --cuts 2x8 a", "No such option: --cuts"),
    "unknown command": ("encoed", "No such command 'encoed'"),
    "bad number": ("fit x -b {model} -o y --limit 0", "Invalid value for '--limit'"),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_calls_end_with_2_and_a_sentence(name: str, run: Callable[..., Ran], model: Path, tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("kan\n")
    (tmp_path / "half.gz").write_bytes(gzip.compress(b"kan\n" * 99)[:20])
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("")
    line, said = BAD_CALLS[name]
    ran = run(*(word.format(model=model, here=tmp_path, blocks=BUILT_IN) for word in line.split()))
    assert ran.code == 2
    assert said in " ".join(ran.err.replace("│", " ").split())
    assert "Traceback" not in ran.err
    assert ran.out == ""


def test_nothing_to_encode_is_said(run: Callable[..., Ran], model: Path) -> None:
    ran = run("encode", "-m", model, stdin=None)
    assert ran.code == 2
    assert "there is nothing to encode; give texts as arguments" in ran.err


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_no_half_file(stop: signal.Signals, model: Path, tmp_path: Path) -> None:
    """An endless stream, stopped once the first vectors are on disk."""
    command = interruptible("encode", "-m", model, "-c", "0x8", "-o", tmp_path / "v.npy")
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:  # type: ignore[call-overload]
        while not any(path.stat().st_size > 200 for path in tmp_path.iterdir()):
            assert process.poll() is None
            process.stdin.write(b"kan lor mist\n" * 5000)
        process.send_signal(stop)
        with suppress(BrokenPipeError):
            process.stdin.close()
        errors = process.stderr.read().decode()
        assert process.wait() != 0
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []
