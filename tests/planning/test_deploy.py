from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import RunCommand
from profiles import made_profile

import demitasse as dt
from demitasse.cut import Cut
from demitasse.evaluation.tasks import PairTask
from demitasse.planning.deploy import commands, exported_precisions, planned_model, python, write_model

TEXTS = ["kan lor", "mist", "tor vax zen"]
TASK = PairTask("pairs", "pairs", tuple(TEXTS), tuple(TEXTS[::-1]), np.arange(3.0), binary=False)
QUICK = dt.MeasureOptions(precisions=["fp32"], rounds=2, seconds=0.01)


def test_what_to_type_for_the_built_in_model() -> None:
    profile = replace(made_profile(precisions=("int8",)), model="built-in", made={"runs_on": "int8 blocks, cpu"})
    plain, binary = profile.select([Cut(3, 128)], vectors=["float32", "binary"])
    assert commands(profile, plain) == ["demitasse encode --cut 3x128 --input texts.txt --output vectors.npy"]
    assert python(profile, plain) == "dt.load().cut(3, 128).encode(texts)"
    assert commands(profile, binary) == [
        "demitasse encode --cut 3x128 --vectors binary --input texts.txt --output vectors.npy"
    ]
    assert eval(python(profile, binary), {"dt": dt, "texts": TEXTS}).shape == (3, 16)
    folder = Path("a folder")
    assert commands(profile, plain, folder) == [
        "demitasse encode --model 'a folder' --input texts.txt --output vectors.npy"
    ]
    assert python(profile, plain, folder) == "dt.load('a folder').encode(texts)"


@pytest.mark.parametrize(
    ("made", "exported"),
    [
        ({"runs_on": "cpu", "exported": ["fp32", "int8"]}, ("fp32", "int8")),
        ({"runs_on": "cpu", "exported": ["int8"]}, ("int8",)),
        ({"runs_on": "cpu", "exported": []}, ()),
        # Profiles of earlier versions have no such field, and files may hold anything.
        ({"runs_on": "cpu"}, ("fp32", "int8")),
        ({"runs_on": "cpu", "exported": None}, ("fp32", "int8")),
        ({"runs_on": "cpu", "exported": ["fp64", 3]}, ()),
        ({"runs_on": "cuda:0 float16"}, ()),
        ({"runs_on": "int8 blocks, cpu"}, ()),
        ({}, ()),
    ],
)
def test_what_was_measured_as_exported_blocks_is_exported_first(
    made: dict[str, Any], exported: tuple[str, ...]
) -> None:
    profile = replace(made_profile(), model="my model", made=made)
    assert exported_precisions(profile) == exported
    for measured in profile.select([Cut(1, 32)], vectors=["int8"]):
        *export, encode = commands(profile, measured)
        if measured.precision in exported:
            format = {"fp32": "blocks", "int8": "blocks-int8"}[measured.precision]
            assert shlex.split(export[0]) == [
                *("demitasse", "export", "my model", "--cut", "1x32", "--format", format, "--out", "small")
            ]
            assert encode == "demitasse encode --model small --vectors int8 --input texts.txt --output vectors.npy"
            assert python(profile, measured) == "dt.store(dt.load('small').encode(texts), \"int8\")"
        else:
            assert export == []
            assert encode.startswith("demitasse encode --model 'my model' --cut 1x32 --vectors int8 ")
            assert python(profile, measured) == "dt.store(dt.load('my model').cut(1, 32).encode(texts), \"int8\")"
    assert exported_precisions(replace(profile, model="built-in")) == ()


def without_onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)


def without_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise dt.FolderError("blocks cannot hold it")

    monkeypatch.setattr("demitasse.exporting.export.export_traced", refuse)


@pytest.mark.parametrize("prevent_export", [without_onnx, without_blocks])
def test_a_model_measured_on_torch_is_used_on_torch(
    prevent_export: Callable[[pytest.MonkeyPatch], None],
    run: RunCommand,
    model_folder: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = model_folder("BERT")
    prevent_export(monkeypatch)
    with pytest.warns(UserWarning, match="fp32 was measured on torch"):
        profile = dt.measure(dt.load(folder, device="cpu"), [TASK], options=QUICK)
    assert profile.made["exported"] == []
    profile.save(tmp_path / "profile.json")
    budget = ("--prefer", "quality", "--vectors", "float32", "--device", "cpu")
    planned = run("plan", tmp_path / "profile.json", "--model", folder, *budget)
    assert planned.code == 0, planned.err
    assert "demitasse export" not in planned.out
    assert f"demitasse encode --model {folder} --cut " in planned.out
    written = run("plan", tmp_path / "profile.json", "--model", folder, *budget, "--export", tmp_path / "small")
    assert written.code == 0, written.err
    small = dt.load(tmp_path / "small", device="cpu")
    assert (small.runtime, small.precision) == ("torch", "fp32")


@pytest.mark.parametrize("missing", ["onnx", "onnxscript", "torch"])
def test_without_what_an_export_takes_plan_says_what_to_install(
    missing: str, model_folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: RunCommand
) -> None:
    folder = model_folder("BERT")
    fingerprint, made = dt.load(folder, device="cpu").fingerprint, {"exported": ["int8"]}
    profile = replace(made_profile(), model=str(folder), fingerprint=fingerprint, made=made)
    profile.save(tmp_path / "profile.json")
    monkeypatch.setitem(sys.modules, missing, None)
    budget = ("--min-quality", "1%", "--precision", "int8")
    ended = run("plan", tmp_path / "profile.json", *budget, "--export", tmp_path / "small")
    assert ended.code == 2
    assert "Traceback" not in ended.err
    said = ended.err.splitlines()[-1]
    assert said.startswith("error: exporting ")
    assert said.endswith(f"needs {missing}; pip install 'demitasse[export]'")
    assert not (tmp_path / "small").exists()


def test_the_model_of_a_profile_is_found_and_recognised(model_folder: Callable[..., Path], tmp_path: Path) -> None:
    folder = model_folder("BERT")
    encoder = dt.load(folder, device="cpu")
    profile = replace(made_profile(), model=str(folder), fingerprint=encoder.fingerprint)
    assert planned_model(profile, None, "cpu").full == encoder.full
    assert planned_model(replace(profile, model="gone"), str(folder), "cpu").full == encoder.full
    with pytest.raises(dt.DataError, match=r"'\./gone', was not found; give it as --model"):
        planned_model(replace(profile, model="./gone"), None, "cpu")
    with pytest.raises(dt.FolderError, match="gone"):
        planned_model(profile, str(tmp_path / "gone"), "cpu")
    with pytest.raises(dt.DataError, match="built-in is not the model that was measured"):
        planned_model(replace(profile, model="built-in"), None, None)


@pytest.mark.parametrize("precision", ["int8", "bf16"])
def test_a_cut_of_a_model_on_torch_is_written(
    precision: str, model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    encoder = dt.load(model_folder("BERT"), device="cpu")
    measured = replace(made_profile().full, cut=Cut(2, 16), precision=precision)
    message = write_model(made_profile(), encoder, measured, tmp_path / "out")
    written = dt.load(tmp_path / "out", device="cpu")
    assert str(tmp_path / "out") in message
    assert written.full == Cut(2, 16)
    assert written.precision == {"bf16": "fp32", "int8": "int8"}[precision]
    cosines = (written.encode(TEXTS) * encoder.cut(2, 16).encode(TEXTS)).sum(1)
    assert cosines.min() > (0.98 if precision == "int8" else 0.9999)


def test_a_cut_of_blocks_is_written_as_it_is(tmp_path: Path) -> None:
    profile = made_profile()
    measured = replace(profile.full, cut=Cut(1, 64), precision="int8")
    write_model(profile, dt.load(), measured, tmp_path / "out")
    written = dt.load(tmp_path / "out")
    assert written.full == Cut(1, 64)
    np.testing.assert_array_equal(written.encode(TEXTS), dt.load().cut(1, 64).encode(TEXTS))
    with pytest.raises(dt.DataError, match=r"1x64 fp32, .* cannot be written from int8 blocks; give --model"):
        write_model(profile, dt.load(), replace(measured, precision="fp32"), tmp_path / "other")
    assert not (tmp_path / "other").exists()
