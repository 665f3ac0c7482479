"""The teachers as folders that demitasse and sentence-transformers open, in fp16: for `demitasse train` with `Aligned`.

    python research/aligned/teacher_folders.py TEACHERS PACKED OUT

TEACHERS is what extract_teachers.py wrote, PACKED what convert_teachers.py wrote (or holds tuned teachers of the same
names); OUT gets the folders nomic, mpnet and minilm.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModel, NomicBertConfig, NomicBertModel

LAYER = {
    "attn_output.weight": "self_attn.o_proj.weight",
    "attn_output_norm.weight": "post_attention_layernorm.weight",
    "attn_output_norm.bias": "post_attention_layernorm.bias",
    "ffn_gate.weight": "mlp.gate_proj.weight",
    "ffn_up.weight": "mlp.up_proj.weight",
    "ffn_down.weight": "mlp.down_proj.weight",
    "layer_output_norm.weight": "post_mlp_layernorm.weight",
    "layer_output_norm.bias": "post_mlp_layernorm.bias",
}
EMBEDDINGS = {
    "token_embd.weight": "embeddings.word_embeddings.weight",
    "token_types.weight": "embeddings.token_type_embeddings.weight",
    "token_embd_norm.weight": "embeddings.LayerNorm.weight",
    "token_embd_norm.bias": "embeddings.LayerNorm.bias",
}
LONGEST = 256  # tokens, as the texts they teach


def nomic(weights: dict[str, torch.Tensor]) -> torch.nn.Module:
    """GGUF's names to those of transformers."""
    named = {theirs: weights[ours] for ours, theirs in EMBEDDINGS.items()}
    for layer in range(12):
        parts = weights[f"blk.{layer}.attn_qkv.weight"].chunk(3)
        named |= {
            f"layers.{layer}.self_attn.{part}_proj.weight": weight for part, weight in zip("qkv", parts, strict=True)
        }
        named |= {f"layers.{layer}.{theirs}": weights[f"blk.{layer}.{ours}"] for ours, theirs in LAYER.items()}
    model = NomicBertModel(NomicBertConfig(vocab_size=len(named["embeddings.word_embeddings.weight"])))
    model.load_state_dict(named)
    return model


def released(folder: Path, weights: dict[str, torch.Tensor]) -> torch.nn.Module:
    """The architecture of `folder` with these weights; nothing reads the pooler, which they leave out."""
    model = AutoModel.from_config(AutoConfig.from_pretrained(folder), add_pooling_layer=False)
    problems = model.load_state_dict(weights, strict=False)
    assert not problems.unexpected_keys, problems
    assert all(name.endswith("position_ids") for name in problems.missing_keys), problems
    return model


def write(model: torch.nn.Module, like: Path, out: Path) -> None:
    """A folder with mean pooling, and the tokenizer of the folder `like`."""
    model.half().save_pretrained(out)
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt"):
        shutil.copyfile(like / name, out / name)
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (path, kind) in enumerate(kinds.items())
    ]
    (out / "modules.json").write_text(json.dumps(modules))
    (out / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": LONGEST, "do_lower_case": False}))
    (out / "1_Pooling").mkdir(exist_ok=True)
    pooling = {"word_embedding_dimension": model.config.hidden_size, "pooling_mode_mean_tokens": True}
    (out / "1_Pooling" / "config.json").write_text(json.dumps(pooling))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("teachers", type=Path)
    parser.add_argument("packed", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    minilm, mpnet = options.teachers / "minilm", options.teachers / "mpnet" / "all-mpnet-base-v2"
    for name, like in (("nomic", minilm), ("mpnet", mpnet), ("minilm", minilm)):
        weights = {key: weight.float() for key, weight in load_file(options.packed / f"{name}.safetensors").items()}
        write(nomic(weights) if name == "nomic" else released(like, weights), like, options.out / name)
        print(options.out / name)


if __name__ == "__main__":
    main()
