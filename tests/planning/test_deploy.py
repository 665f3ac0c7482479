from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from profiles import made_profile

import demitasse as dt
from demitasse.cut import Cut
from demitasse.planning.deploy import commands, planned_model, python, write_row

TEXTS = ["kan lor", "mist", "tor vax zen"]


def test_what_to_type_for_the_built_in_model() -> None:
    profile = replace(made_profile(precisions=("int8",)), model="built-in", made={"runs_on": "int8 blocks, cpu"})
    plain, binary = profile.select([Cut(3, 128)], vectors=["float32", "binary"])
    assert commands(profile, plain) == ["demitasse encode --cut 3x128 --input texts.txt --output vectors.npy"]
    assert python(profile, plain) == "dt.load().cut(3, 128).encode(texts)"
    assert commands(profile, binary) == [
        "demitasse encode --cut 3x128 --vectors binary --input texts.txt --output vectors.npy"
    ]
    assert eval(python(profile, binary), {"dt": dt, "texts": TEXTS}).shape == (3, 16)
    there = Path("a folder")
    assert commands(profile, plain, there) == [
        "demitasse encode --model 'a folder' --input texts.txt --output vectors.npy"
    ]
    assert python(profile, plain, there) == "dt.load('a folder').encode(texts)"


def test_a_model_on_torch_is_exported_first() -> None:
    profile = replace(made_profile(), model="my model", made={"runs_on": "cpu"})
    (row,) = profile.select([Cut(1, 32)], ["int8"], ["int8"])
    export, encode = commands(profile, row)
    assert shlex.split(export) == [
        *("demitasse", "export", "my model", "--cut", "1x32", "--format", "blocks-int8", "--out", "small")
    ]
    assert encode == "demitasse encode --model small --vectors int8 --input texts.txt --output vectors.npy"
    assert python(profile, row) == "dt.store(dt.load('small').encode(texts), \"int8\")"
    on_gpu = replace(profile, made={"runs_on": "cuda"})
    assert commands(on_gpu, row)[0].startswith("demitasse encode --model 'my model' --cut 1x32 ")


def test_the_model_of_a_profile_is_found_and_known_again(model_folder: Callable[..., Path], tmp_path: Path) -> None:
    folder = model_folder("BERT")
    encoder = dt.load(folder, device="cpu")
    profile = replace(made_profile(), model=str(folder), fingerprint=encoder.fingerprint)
    assert planned_model(profile, None, "cpu").full == encoder.full
    assert planned_model(replace(profile, model="gone"), str(folder), "cpu").full == encoder.full
    with pytest.raises(dt.DataError, match=r"the model of this profile, '\./gone', is not here; say where, as --model"):
        planned_model(replace(profile, model="./gone"), None, "cpu")
    with pytest.raises(dt.FolderError, match="no folder"):
        planned_model(profile, str(tmp_path / "gone"), "cpu")
    with pytest.raises(dt.DataError, match="built-in is not the model that was measured"):
        planned_model(replace(profile, model="built-in"), None, None)


@pytest.mark.parametrize("precision", ["int8", "bf16"])
def test_a_row_of_a_model_on_torch_is_written(
    precision: str, model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    encoder = dt.load(model_folder("BERT"), device="cpu")
    row = replace(made_profile().full, cut=Cut(2, 16), precision=precision)
    said = write_row(encoder, row, tmp_path / "out")
    written = dt.load(tmp_path / "out", device="cpu")
    assert str(tmp_path / "out") in said
    assert written.full == Cut(2, 16)
    assert written.precision == {"bf16": "fp32", "int8": "int8"}[precision]
    cosines = (written.encode(TEXTS) * encoder.cut(2, 16).encode(TEXTS)).sum(1)
    assert cosines.min() > (0.98 if precision == "int8" else 0.9999)


def test_a_row_of_blocks_is_written_as_it_is(tmp_path: Path) -> None:
    row = replace(made_profile().full, cut=Cut(1, 64), precision="int8")
    write_row(dt.load(), row, tmp_path / "out")
    written = dt.load(tmp_path / "out")
    assert written.full == Cut(1, 64)
    np.testing.assert_array_equal(written.encode(TEXTS), dt.load().cut(1, 64).encode(TEXTS))
    with pytest.raises(dt.DataError, match=r"1x64 fp32, .* cannot be written from int8 blocks; give --model"):
        write_row(dt.load(), replace(row, precision="fp32"), tmp_path / "other")
    assert not (tmp_path / "other").exists()
