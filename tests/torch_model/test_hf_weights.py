from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers as tf
import zoo
from safetensors.torch import load_file

from demitasse import FolderError, load
from demitasse.torch_model.backbone import find_backbone
from demitasse.torch_model.hf_weights import read_model

CPU = torch.device("cpu")


def test_a_model_sliced_by_hand_is_refused(tmp_path: Path) -> None:
    """The surgery other libraries document: config.json keeps the old depth, a reload makes layers up."""
    model = zoo.build("BERT")
    model.encoder.layer = model.encoder.layer[:2]
    model.save_pretrained(tmp_path)
    with pytest.raises(FolderError, match=r"do not fit its config\.json of 3 layers: 16 are missing"):
        read_model(str(tmp_path), torch.float32, CPU)


def test_a_config_with_a_negative_number_of_heads_is_refused(tmp_path: Path) -> None:
    zoo.build("BERT").save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"num_attention_heads": -4}))
    with pytest.raises(FolderError, match=r"config\.json says num_attention_heads: -4"):
        read_model(str(tmp_path), torch.float32, CPU)


@pytest.mark.parametrize("shards", [False, True])
def test_a_config_with_more_layers_than_there_are_weights_is_refused_before_they_are_made(
    shards: bool, tmp_path: Path
) -> None:
    zoo.build("BERT").save_pretrained(tmp_path, max_shard_size="20KB" if shards else "1GB")
    assert (tmp_path / "model.safetensors.index.json").exists() == shards
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"num_hidden_layers": 2**31 - 1}))
    with pytest.raises(FolderError, match=r"config\.json says 2147483647 layers, and the weights are \d+ tensors"):
        read_model(str(tmp_path), torch.float32, CPU)


def test_weights_stored_in_half_precision_are_read_as_float32(tmp_path: Path) -> None:
    zoo.build("Qwen3").to(torch.bfloat16).save_pretrained(tmp_path)
    assert read_model(str(tmp_path), torch.float32, CPU).dtype is torch.float32


def test_a_full_t5_is_read_as_its_encoder(tmp_path: Path) -> None:
    config = zoo.build("T5 encoder").config
    tf.T5Model(config).save_pretrained(tmp_path)
    backbone = find_backbone(read_model(str(tmp_path), torch.float32, CPU))
    assert backbone.depth == zoo.DEPTH
    assert backbone.name == "T5EncoderModel"


def test_pickled_weights_are_never_read(tmp_path: Path) -> None:
    zoo.build("BERT").config.save_pretrained(tmp_path)
    torch.save(zoo.build("BERT").state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(FolderError, match="pickled weights are never read"):
        read_model(str(tmp_path), torch.float32, CPU)


@pytest.mark.parametrize("part", ["AutoConfig", "AutoTokenizer"])
def test_code_in_a_folder_is_never_run_and_nobody_is_asked(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = zoo.write_folder(tmp_path / "evil", "BERT")
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\nclass Evil: ...\n")
    if part == "AutoConfig":
        config = json.loads((folder / "config.json").read_text())
        changed = {"model_type": "evil", "auto_map": {"AutoConfig": "evil.Evil", "AutoModel": "evil.Evil"}}
        (folder / "config.json").write_text(json.dumps({**config, **changed}))
    else:
        changed = {"tokenizer_class": "EvilTokenizer", "auto_map": {"AutoTokenizer": ["evil.Evil", None]}}
        (folder / "tokenizer_config.json").write_text(json.dumps(changed))
        (folder / "tokenizer.json").unlink()
    answers = io.StringIO("y\ny\ny\n")
    monkeypatch.setattr(sys, "stdin", answers)
    with pytest.raises(FolderError, match="evil"):
        load(folder, device="cpu")
    assert answers.tell() == 0
    assert not (tmp_path / "ran").exists()


def test_weights_in_files_outside_the_folder_are_refused(model_folder: Callable[..., Path], tmp_path: Path) -> None:
    folder = tmp_path / "m"
    shutil.copytree(model_folder("BERT"), folder)
    (folder / "model.safetensors").rename(tmp_path / "outside.safetensors")
    names = list(load_file(tmp_path / "outside.safetensors"))
    index = folder / "model.safetensors.index.json"
    for place in ("../outside.safetensors", str(tmp_path / "outside.safetensors")):
        index.write_text(json.dumps({"metadata": {}, "weight_map": dict.fromkeys(names, place)}))
        with pytest.raises(FolderError, match=r"index.json names .*, which is outside the folder"):
            load(folder, device="cpu")
    (tmp_path / "outside.safetensors").rename(folder / "part-1.safetensors")
    index.write_text(json.dumps({"metadata": {}, "weight_map": dict.fromkeys(names, "part-1.safetensors")}))
    assert load(folder, device="cpu").encode(["kan"]).shape == (1, 32)
