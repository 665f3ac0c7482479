from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest
import zoo
from command_line import RunCommand

from demitasse import Encoder, __version__, load
from demitasse.host.bundled import BUILT_IN

TEXTS = ["kan lor", "mist", "", "tor vax zen"]


def test_fit_writes_an_elastic_model(run: RunCommand, model: Path, tmp_path: Path) -> None:
    lines = tmp_path / "sentences.txt.gz"
    lines.write_bytes(gzip.compress("\n".join(zoo.sentences(400)).encode()))
    ran = run("fit", lines, "--base", model, "--out", tmp_path / "m", "--limit", 300, "--no-order", "--no-refine")
    assert ran.code == 0, ran.err
    assert "exits at 0-2" in ran.out
    assert "fitted on 300 sentences" in ran.out
    assert len(re.findall(r"^ +\dx32  \d+% of the 10 nearest neighbours are the same$", ran.out, re.M)) == 3
    made = load(tmp_path / "m")
    assert sorted(made.exits) == [0, 1, 2]
    assert made.record["objective"]["order"] is False


def test_cut_saves_a_smaller_model(run: RunCommand, model: Path, encoder: Encoder, tmp_path: Path) -> None:
    ran = run("cut", model, "2x8", "--out", tmp_path / "small")
    assert ran.code == 0, ran.err
    assert "Encoder(2x8" in ran.out
    np.testing.assert_allclose(load(tmp_path / "small").encode(TEXTS), encoder.cut(2, 8).encode(TEXTS), atol=1e-6)


def test_info_shows_the_size_of_each_cut(run: RunCommand, model: Path, encoder: Encoder, tmp_path: Path) -> None:
    ran = run("info", model)
    assert ran.code == 0, ran.err
    assert "3x32  BertModel, mean pooling, 32 tokens" in ran.out
    facts = json.loads(run("info", model, "--json").out)
    assert facts["full"] == "3x32"
    assert facts["exits"] == []
    # The size that info gives for a cut is that of its saved weights.
    from safetensors.numpy import load_file

    for entry in facts["cuts"]:
        encoder.cut(*map(int, entry["cut"].split("x"))).save(tmp_path / entry["cut"])
        saved = sum(array.nbytes for array in load_file(tmp_path / entry["cut"] / "model.safetensors").values())
        assert entry["model_bytes"] == saved


def test_export_writes_blocks_that_give_the_same_vectors(
    run: RunCommand, model: Path, encoder: Encoder, tmp_path: Path
) -> None:
    ran = run("export", model, "--cut", "1x8", "--format", "blocks", "--out", tmp_path / "blocks")
    assert ran.code == 0, ran.err
    assert "1x8 as blocks" in ran.out
    np.testing.assert_allclose(load(tmp_path / "blocks").encode(TEXTS), encoder.cut(1, 8).encode(TEXTS), atol=1e-5)


def test_the_version_is_shown(run: RunCommand) -> None:
    assert run("--version").out == f"demitasse {__version__}\n"


# name: (arguments, with {model}, {blocks} and {here} filled in; what the message must contain)
BAD_CALLS = {
    "unreadable cut": ("encode -m {model} -c 6,128 a", "'6,128' as a cut"),
    "too deep": ("encode -m {model} -c 9x8 a", "cut 9x8 is deeper"),
    "too wide": ("cut {model} 2x99 -o {here}/x", "cut 2x99 is wider"),
    "blocks to export": ("export {blocks} -o {here}/x", "cannot be exported again"),
    "unknown export format": ("export {model} -f tflite -o {here}/x", "must be one of blocks, blocks-int8, onnx"),
    "no such folder": ("info {here}/nowhere", "nowhere"),
    "no such hub name": ("encode -m nobody/nothing a", "nobody/nothing"),
    "no such file": ("encode -m {model} -i {here}/no.txt", "No such file or directory"),
    "a folder as input": ("encode -m {model} -i {here}", "Is a directory"),
    "half a file": ("encode -m {model} -i {here}/half.gz", "half.gz"),
    "two sources": ("encode -m {model} -i {here}/short.txt a", "--input"),
    "unknown format": ("encode -m {model} -o {here}/v.csv a", ".npy, .jsonl, .jsonl.gz or .parquet"),
    "unknown kind of vectors": ("encode -m {model} --vectors int4 a", "use one of float32, float16, int8, binary"),
    "float16 as digits": ("encode -m {model} --vectors float16 a", "write a .npy file"),
    "unknown prompt": ("encode -m {model} --prompt-name sts a", "'sts'; use one of document, query"),
    "unknown device": ("encode -m {model} --device tpu9 a", "'tpu9'"),
    "too few sentences": ("fit {here}/short.txt -b {model} -o {here}/x", "too few"),
    "rows without a column text": (
        "fit {here}/two.jsonl -b {model} -o {here}/x",
        "2 columns hold strings",
    ),
    "rows to export with": ("export {model} -o {here}/x --sentences {here}/two.jsonl", "call the one to use 'text'"),
    "a folder with other files": ("cut {model} 2x8 -o {here}/taken", "taken"),
    "unknown option": ("encode -m {model} --cuts 2x8 a", "No such option: --cuts"),
    "unknown command": ("encoed", "No such command 'encoed'"),
    "bad number": ("fit x -b {model} -o y --limit 0", "Invalid value for '--limit'"),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_calls_exit_2_with_one_sentence(name: str, run: RunCommand, model: Path, tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("kan\n")
    (tmp_path / "two.jsonl").write_text('{"a": "kan", "b": "lor"}\n')
    (tmp_path / "half.gz").write_bytes(gzip.compress(b"kan\n" * 99)[:20])
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("")
    line, said = BAD_CALLS[name]
    ran = run(*(word.format(model=model, here=tmp_path, blocks=BUILT_IN) for word in line.split()))
    assert ran.code == 2
    assert said in " ".join(ran.err.replace("│", " ").split())
    assert "Traceback" not in ran.err
    assert ran.out == ""
