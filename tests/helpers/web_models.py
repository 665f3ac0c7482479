"""A tiny random model with a real tokenizer: vectors of any precision can be compared on real texts."""

from __future__ import annotations

from pathlib import Path

import torch
import transformers as tf

from demitasse.host.bundled import BUILT_IN


def tiny_bert(folder: Path) -> Path:
    """A BERT of two layers and 32 dims that reads texts as the built-in model does."""
    torch.manual_seed(0)
    config = tf.BertConfig(
        vocab_size=30522, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64
    )
    special = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    tf.BertModel(config).save_pretrained(folder / "tiny-bert")
    tokenizer = tf.PreTrainedTokenizerFast(
        tokenizer_file=str(BUILT_IN / "tokenizer.json"), model_max_length=256, **special
    )
    tokenizer.save_pretrained(folder / "tiny-bert")
    return folder / "tiny-bert"
