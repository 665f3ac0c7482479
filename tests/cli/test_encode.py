from __future__ import annotations

import gzip
import json
import os
import select
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import zoo
from command_line import RunCommand, interruptible

from demitasse import Encoder, load, store
from demitasse.cli.encode import encode

TEXTS = ["kan lor", "mist", "", "tor vax zen"]


def vectors_of(text: str) -> np.ndarray:
    return np.array([json.loads(line)["vector"] for line in text.splitlines()], np.float32)


def test_arguments_come_out_as_json_lines(run: RunCommand, model: Path, encoder: Encoder) -> None:
    ran = run("encode", "--model", model, *TEXTS)
    assert ran.code == 0, ran.err
    np.testing.assert_allclose(vectors_of(ran.out), encoder.encode(TEXTS), atol=1e-6)
    assert [json.loads(line)["text"] for line in ran.out.splitlines()] == TEXTS


def test_lines_of_stdin_and_of_files_are_encoded(
    run: RunCommand, model: Path, encoder: Encoder, tmp_path: Path
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
        np.testing.assert_allclose(vectors_of(ran.out), expected, atol=1e-6)


@pytest.mark.parametrize("count", [0, 1, 4, 5000])
def test_vectors_are_written_to_npy(count: int, run: RunCommand, model: Path, encoder: Encoder, tmp_path: Path) -> None:
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


def test_vectors_are_written_to_jsonl(run: RunCommand, model: Path, encoder: Encoder, tmp_path: Path) -> None:
    assert run("encode", "-m", model, "-o", tmp_path / "v.jsonl", "--prompt-name", "query", *TEXTS).code == 0
    expected = encoder.encode(TEXTS, prompt_name="query")
    np.testing.assert_allclose(vectors_of((tmp_path / "v.jsonl").read_text()), expected, atol=1e-6)
    assert [path.name for path in tmp_path.iterdir()] == ["v.jsonl"]


@pytest.mark.parametrize("kind", ["float32", "float16", "int8", "binary"])
def test_vectors_are_stored_as_the_requested_kind(
    kind: str, run: RunCommand, model: Path, encoder: Encoder, tmp_path: Path
) -> None:
    expected = store(encoder.cut(1, 12).encode(TEXTS), kind)
    ran = run("encode", "-m", model, "-c", "1x12", "--vectors", kind, "-o", tmp_path / "v.npy", *TEXTS)
    assert ran.code == 0, ran.err
    assert f"4 {'' if kind == 'float32' else kind + ' '}vectors of 1x12 written" in ran.err
    stored = np.load(tmp_path / "v.npy")
    assert stored.dtype == expected.dtype
    assert stored.shape == expected.shape
    difference = np.abs(stored.astype(float) - expected)
    assert difference.max() <= (1 if kind == "int8" else 1e-3)  # a value between two steps may round to either
    if kind != "float16":
        ran = run("encode", "-m", model, "-c", "1x12", "--vectors", kind, *TEXTS)
        np.testing.assert_allclose(vectors_of(ran.out), stored, atol=1e-6)
        integers = [isinstance(json.loads(line)["vector"][0], int) for line in ran.out.splitlines()]
        assert integers == [kind != "float32"] * len(TEXTS)


def test_bytes_that_are_not_utf8_are_refused_with_the_line(run: RunCommand, model: Path) -> None:
    ran = run("encode", "-m", model, stdin=b"kan\nkan \xff\xfe lor\n")
    assert ran.code != 0
    assert "stdin line 2 is not UTF-8" in ran.err


def test_a_byte_order_mark_is_not_part_of_the_first_text(run: RunCommand, model: Path, encoder: Encoder) -> None:
    ran = run("encode", "-m", model, stdin=b"\xef\xbb\xbfkan lor\n")
    np.testing.assert_allclose(vectors_of(ran.out), encoder.encode(["kan lor"]), atol=1e-6)


def test_the_built_in_model_is_the_default(run: RunCommand) -> None:
    ran = run("encode", "-c", "1x32", "a ristretto", "a lungo")
    assert ran.code == 0, ran.err
    vectors = vectors_of(ran.out)
    np.testing.assert_allclose(vectors, load().cut(1, 32).encode(["a ristretto", "a lungo"]), atol=1e-6)
    assert "6x384  BertModel" in run("info").out


def test_nothing_to_encode_is_an_error(run: RunCommand, model: Path) -> None:
    ran = run("encode", "-m", model, stdin=None)
    assert ran.code == 2
    assert "give texts as arguments" in ran.err


@pytest.mark.posix
def test_vectors_come_out_while_the_producer_waits(
    model: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A producer that writes a line only when it has read the vectors of those before, as in a conversation."""
    (read_in, write_in), (read_out, write_out) = os.pipe(), os.pipe()
    with open(read_in) as stdin, open(write_out, "w") as stdout:
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "stdout", stdout)
        command = threading.Thread(target=encode, args=(None, str(model)), daemon=True)
        command.start()
        with open(write_in, "wb") as lines, open(read_out, "rb") as vectors:
            for text in TEXTS:
                lines.write(text.encode() + b"\n")
                lines.flush()
                assert select.select([vectors], [], [], 60)[0], "no vector came in a minute"
                written = json.loads(vectors.readline())
                assert written["text"] == text
                np.testing.assert_allclose(written["vector"], encoder.encode([text])[0], atol=1e-6)
            lines.close()
            command.join(60)
    assert not command.is_alive()


@pytest.mark.posix
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


def test_the_input_is_never_overwritten(run: RunCommand, tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text("a cup\n")
    ran = run("encode", "--input", lines, "--output", tmp_path / "." / "lines.jsonl")
    assert ran.code == 2
    assert "is the file that --input reads" in ran.err
    assert lines.read_text() == "a cup\n"


def test_a_literal_prompt(run: RunCommand, model: Path, encoder: Encoder, tmp_path: Path) -> None:
    assert run("encode", "-m", model, "-o", tmp_path / "v.npy", "--prompt", "kan lor ", *TEXTS).code == 0
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), encoder.encode_query(TEXTS), atol=1e-5)
    refused = run("encode", "-m", model, "--prompt", "query", "a")
    assert refused.code == 2
    assert "(in a shell: --prompt-name query)" in refused.err


def test_truncated_texts_are_counted_at_the_end(run: RunCommand, tmp_path: Path) -> None:
    texts = ["a cup", "word " * 50, "a mug", "word " * 9]
    ran = run("encode", "-c", "0x32", "-o", tmp_path / "v.npy", "--max-seq-length", "8", "--threads", "1", *texts)
    assert ran.code == 0
    assert ran.err.splitlines()[-1] == "2 of 4 texts were truncated to 8 tokens"
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), load(max_seq_length=8).cut(0, 32).encode(texts), atol=1e-5)
    one = run("encode", "-c", "0x32", "--max-seq-length", "8", stdin="\n".join(texts[:2]).encode())
    assert one.err.splitlines() == ["1 of 2 texts was truncated to 8 tokens"]
    assert "truncated" not in run("encode", "-c", "0x32", *texts).err


@pytest.mark.parametrize(
    ("option", "said"), [("--max-seq-length", "takes a whole number from 3"), ("--threads", "1 to 1024")]
)
def test_limits_that_make_no_sense_are_refused(run: RunCommand, option: str, said: str) -> None:
    refused = run("encode", option, "0", "a cup")
    assert refused.code == 2
    assert said in refused.err
