"""Tiny random models of every architecture that must be cut correctly, built in memory."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import transformers as tf
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import nn

VOCABULARY = 99
DEPTH = 3
_SMALL = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": DEPTH, "num_attention_heads": 4}
_ENCODER = {**_SMALL, "intermediate_size": 48, "max_position_embeddings": 64}
_DECODER = {
    **_ENCODER,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_GEMMA = {"sliding_window": 6, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}

# As large as all-MiniLM-L6-v2 but for its vocabulary, so that README's cuts fit.
MINILM_SHAPE = tf.BertConfig(
    vocab_size=VOCABULARY, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=64
)

BUILD: dict[str, Callable[[], tf.PreTrainedModel]] = {
    "BERT": lambda: tf.BertModel(tf.BertConfig(**_ENCODER)),
    "RoBERTa": lambda: tf.RobertaModel(tf.RobertaConfig(**_ENCODER, pad_token_id=1)),
    "XLM-R": lambda: tf.XLMRobertaModel(tf.XLMRobertaConfig(**_ENCODER, pad_token_id=1)),
    "MPNet": lambda: tf.MPNetModel(tf.MPNetConfig(**_ENCODER, pad_token_id=1)),
    "DistilBERT": lambda: tf.DistilBertModel(
        tf.DistilBertConfig(vocab_size=VOCABULARY, dim=32, n_layers=DEPTH, n_heads=4, hidden_dim=48)
    ),
    "ELECTRA": lambda: tf.ElectraModel(tf.ElectraConfig(**_ENCODER, embedding_size=16)),
    "DeBERTa-v2": lambda: tf.DebertaV2Model(
        # relative attention, the convolution after layer 1 and two position types: as long a list as some cuts
        tf.DebertaV2Config(
            **_ENCODER,
            relative_attention=True,
            pos_att_type=["c2p", "p2c"],
            conv_kernel_size=3,
            position_buckets=8,
        )
    ),
    "ModernBERT": lambda: tf.ModernBertModel(
        tf.ModernBertConfig(**_ENCODER, pad_token_id=0, local_attention=6, global_attn_every_n_layers=2)
    ),
    "NomicBert": lambda: tf.NomicBertModel(tf.NomicBertConfig(**_ENCODER, pad_token_id=0)),
    "Qwen2": lambda: tf.Qwen2Model(tf.Qwen2Config(**_without(_DECODER, "head_dim"))),
    "Qwen3": lambda: tf.Qwen3Model(tf.Qwen3Config(**_DECODER)),
    "Llama": lambda: tf.LlamaModel(tf.LlamaConfig(**_DECODER)),
    "Mistral": lambda: tf.MistralModel(tf.MistralConfig(**_DECODER, sliding_window=6)),
    "Gemma2": lambda: tf.Gemma2Model(tf.Gemma2Config(**_DECODER, **_GEMMA)),
    "Gemma3": lambda: tf.Gemma3TextModel(tf.Gemma3TextConfig(**_DECODER, **_GEMMA)),
    "T5 encoder": lambda: tf.T5EncoderModel(
        tf.T5Config(vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48, num_layers=DEPTH, num_heads=4, pad_token_id=0)
    ),
    "GPT-2": lambda: tf.GPT2Model(
        tf.GPT2Config(vocab_size=VOCABULARY, n_embd=32, n_layer=DEPTH, n_head=4, n_positions=64)
    ),
}


def _without(options: dict[str, int], *names: str) -> dict[str, int]:
    return {key: value for key, value in options.items() if key not in names}


def build(name: str, seed: int = 0) -> tf.PreTrainedModel:
    """The tiny model `name`, its norms with random weights: all-ones would hide a forgotten final norm."""
    torch.manual_seed(seed)
    model = BUILD[name]().eval()
    for module_name, module in model.named_modules():
        if "norm" in type(module).__name__.lower():
            for parameter in module.parameters(recurse=False):
                nn.init.normal_(parameter, mean=1.0 if "weight" in module_name else 0.5, std=0.4)
    return model


def tokenizer(pad_id: int = 0) -> tf.PreTrainedTokenizerFast:
    """A tokenizer of whole words, [CLS] before and [SEP] after, with its padding at `pad_id`."""
    special = ["[UNK]", "[CLS]", "[SEP]"]
    special.insert(pad_id, "[PAD]")
    vocabulary = {token: index for index, token in enumerate([*special, *WORDS])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")]
    )
    return tf.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=64,
    )


WORDS = [
    a + b for a in ("ka", "lo", "mi", "ru", "se", "to", "va", "ze") for b in ("n", "r", "st", "x", "bel", "dor", "fi")
]


def sentences(count: int, seed: int = 0) -> list[str]:
    """Random sentences of 1 to 12 words."""
    generator = random.Random(seed)
    return [" ".join(generator.choices(WORDS, k=generator.randint(1, 12))) for _ in range(count)]


def padded_batch(model: tf.PreTrainedModel, side: str) -> dict[str, torch.Tensor]:
    """Token ids of four texts of 11, 6, 2 and 1 tokens, padded on the "left" or "right"."""
    ids = torch.randint(5, VOCABULARY, (4, 11), generator=torch.Generator().manual_seed(1))
    positions = torch.arange(11) if side == "right" else torch.arange(10, -1, -1)
    mask = (positions < torch.tensor([[11], [6], [2], [1]])).long()
    return {"input_ids": ids.masked_fill(mask == 0, model.config.pad_token_id or 0), "attention_mask": mask}


def write_folder(
    folder: Path, name: str = "BERT", *, modes: str = "mean", dense: int | None = None, normalize: bool = True
) -> Path:
    """A sentence-transformers folder of the tiny model `name`, as that library itself would write it."""
    model = tf.BertModel(MINILM_SHAPE) if name == "MiniLM shape" else build(name)
    model.save_pretrained(folder)
    tokenizer(model.config.pad_token_id or 0).save_pretrained(folder)
    modules = list(_modules(model, modes, dense, normalize))
    for index, (kind, config, layer) in enumerate(modules):
        if index:
            (folder / f"{index}_{kind}").mkdir()
            (folder / f"{index}_{kind}" / "config.json").write_text(json.dumps(config))
        if layer is not None:
            from safetensors.torch import save_file

            tensors = {f"linear.{key}": value for key, value in layer.state_dict().items()}
            save_file(tensors, folder / f"{index}_{kind}" / "model.safetensors")
    listed = [
        {
            "idx": index,
            "name": str(index),
            "path": f"{index}_{kind}" if index else "",
            "type": f"sentence_transformers.models.{kind}",
        }
        for index, (kind, _, _) in enumerate(modules)
    ]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 32, "do_lower_case": False}))
    prompts = {"query": "kan lor ", "document": "mist "}
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts}))
    return folder


def _modules(
    model: tf.PreTrainedModel, modes: str, dense: int | None, normalize: bool
) -> Iterator[tuple[str, dict[str, object] | None, nn.Linear | None]]:
    yield "Transformer", None, None
    flags = {"cls": "cls_token", "mean": "mean_tokens", "max": "max_tokens", "last": "lasttoken"}
    chosen = modes.split("+")
    pooling = {f"pooling_mode_{flag}": mode in chosen for mode, flag in flags.items()}
    yield "Pooling", {"word_embedding_dimension": model.config.hidden_size, **pooling}, None
    if dense:
        layer = nn.Linear(model.config.hidden_size * len(chosen), dense)
        config = {
            "in_features": layer.in_features,
            "out_features": dense,
            "bias": True,
            "activation_function": "torch.nn.modules.activation.Tanh",
        }
        yield "Dense", config, layer
    if normalize:
        yield "Normalize", {}, None
