"""Small random models with a real tokenizer: vectors of any precision can be compared on real texts."""

from __future__ import annotations

from pathlib import Path

import torch
import transformers as tf

from demitasse.host.bundled import BUILT_IN


def random_bert(folder: Path, dims: int = 32) -> Path:
    """A BERT of two layers that reads texts as the built-in model does."""
    torch.manual_seed(0)
    config = tf.BertConfig(
        vocab_size=30522,
        hidden_size=dims,
        num_hidden_layers=2,
        num_attention_heads=max(4, dims // 32),
        intermediate_size=2 * dims,
    )
    special = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    target = folder / f"bert-{dims}"
    tf.BertModel(config).save_pretrained(target)
    tokenizer = tf.PreTrainedTokenizerFast(
        tokenizer_file=str(BUILT_IN / "tokenizer.json"), model_max_length=256, **special
    )
    tokenizer.save_pretrained(target)
    return target
