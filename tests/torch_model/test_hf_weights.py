from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers as tf
import zoo

from demitasse import FolderError
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
