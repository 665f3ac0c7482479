"""Other ways to encode the same texts, behind one call, for encode_cpu.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

Encode = Callable[[list[str]], np.ndarray]


def sentence_transformers(model: str, layers: int, batch_size: int = 32) -> Encode:
    """torch, the layers sliced by hand as its documentation shows."""
    from sentence_transformers import SentenceTransformer

    whole = SentenceTransformer(model, device="cpu")
    encoder = whole[0].auto_model.encoder
    encoder.layer = encoder.layer[:layers]
    return lambda texts: whole.encode(texts, batch_size=batch_size, show_progress_bar=False)


def token_states_graph(model: str, folder: Path) -> None:
    """The ONNX model that the peers below want: token ids to token states, as their hubs offer it."""
    import shutil

    import torch
    from transformers import AutoModel

    folder.mkdir(parents=True, exist_ok=True)
    transformer = AutoModel.from_pretrained(model).eval()
    sample = {
        "input_ids": torch.ones(2, 7, dtype=torch.long),
        "attention_mask": torch.tensor([[1] * 7, [1] * 5 + [0] * 2]),
        "token_type_ids": torch.zeros(2, 7, dtype=torch.long),
    }

    class States(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.transformer = transformer

        def forward(self, input_ids: object, attention_mask: object, token_type_ids: object) -> object:
            return self.transformer(
                input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
            ).last_hidden_state

    free = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    torch.onnx.export(
        States(),
        tuple(sample.values()),
        str(folder / "model.onnx"),
        input_names=list(sample),
        output_names=["last_hidden_state"],
        dynamic_shapes=(free, free, free),
        dynamo=True,
        external_data=False,
        verbose=False,
    )
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        if (Path(model) / name).exists():
            shutil.copy(Path(model) / name, folder / name)


def onnxruntime_one_graph(folder: Path) -> Encode:
    """One whole graph with onnxruntime's own settings: batches of 32 sorted by length, mean pooling in numpy."""
    import onnxruntime
    from tokenizers import Tokenizer

    session = onnxruntime.InferenceSession(str(folder / "model.onnx"))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(256)
    tokenizer.enable_padding()

    def encode(texts: list[str]) -> np.ndarray:
        order = sorted(range(len(texts)), key=lambda index: -len(texts[index]))
        vectors = np.empty((len(texts), 384), np.float32)
        for start in range(0, len(order), 32):
            batch = order[start : start + 32]
            encodings = tokenizer.encode_batch([texts[index] for index in batch])
            ids, mask = (np.array([getattr(e, name) for e in encodings]) for name in ("ids", "attention_mask"))
            feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            (states,) = session.run(None, {i.name: feed[i.name] for i in session.get_inputs()})
            pooled = (states * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
            vectors[batch] = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
        return vectors

    return encode


def fastembed(folder: Path) -> Encode:
    from fastembed import TextEmbedding

    model = TextEmbedding("sentence-transformers/all-MiniLM-L6-v2", specific_model_path=str(folder))
    return lambda texts: np.array(list(model.embed(texts, batch_size=32)), np.float32)


def model2vec(model: str, folder: Path) -> Encode:
    """A static model distilled here, since ready ones must be fetched."""
    from model2vec import StaticModel

    if not folder.exists():
        from model2vec.distill import distill

        distill(model, pca_dims=256).save_pretrained(str(folder))
    static = StaticModel.from_pretrained(str(folder))
    return lambda texts: static.encode(texts)
