"""`mteb_model`: an encoder, at any cut, as a model of the benchmark package `mteb`.

    import mteb
    import demitasse as dt

    model = dt.mteb_model(dt.load(), dt.Cut(3, 128))
    mteb.evaluate(model, mteb.get_tasks(["STSBenchmark", "SciFact"]))

Nothing needs to be registered: `mteb.evaluate` accepts the model directly.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from demitasse.cut import Cut
from demitasse.encoding.checked_encoder import checked_encoder
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.vectors import Vectors
from demitasse.errors import DataError
from demitasse.extras import MTEB, need

try:
    from mteb.models.abs_encoder import AbsEncoder
    from mteb.models.model_meta import ModelMeta, ScoringFunction
except ImportError:
    need(__name__, MTEB)
    raise

from demitasse.torch_model.torch_encoder import TorchEncoder  # mteb brings torch anyway

if TYPE_CHECKING:
    from mteb.abstasks.task_metadata import TaskMetadata
    from mteb.types import BatchedInput, EncodeKwargs, PromptType
    from torch.utils.data import DataLoader
    from typing_extensions import Unpack


def mteb_model(encoder: Encoder, cut: Cut | str | None = None) -> AbsEncoder:
    """`encoder`, at `cut` if one is given, for `mteb.evaluate`.

    mteb stores results under the name `demitasse/<source>-<cut>`, with the encoder's fingerprint as revision, so those
    of different models or cuts are never confused. Queries and documents get the prompts of those names, or those that
    the model has for a task or a type of task (`STS`, `Clustering`), as in sentence-transformers.

    >>> mteb_model(encoder, Cut(2, 16)).mteb_model_meta.name
    'demitasse/tiny-2x16'
    """
    checked_encoder(encoder)
    return _Model(encoder if cut is None else encoder.cut(*Cut.of(cut)))


class _Model(AbsEncoder):
    """An encoder as mteb expects it."""

    def __init__(self, encoder: Encoder) -> None:
        self.model = encoder
        self.model_prompts = dict(encoder.reader.prompts)
        self.mteb_model_meta = _meta(encoder)

    def encode(
        self,
        inputs: DataLoader[BatchedInput],
        *,
        task_metadata: TaskMetadata,
        hf_split: str,
        hf_subset: str,
        prompt_type: PromptType | None = None,
        **kwargs: Unpack[EncodeKwargs],
    ) -> Vectors:
        """One unit-length vector per text; `batch_size` is ignored, because batches are filled by tokens."""
        precision = kwargs.get("precision", "float32")
        if precision != "float32":
            raise DataError(f"precision {precision!r} is not available in mteb; leave it out, vectors are float32")
        prompt = self.get_prompt_name(task_metadata, prompt_type)
        if prompt is None and prompt_type is not None:
            prompt = prompt_type.value  # every encoder accepts "query" and "document", even without prompts for them
        texts = [text for batch in inputs for text in batch["text"]]
        vectors: Vectors = self.model.encode(
            texts, prompt_name=prompt, progress=None if kwargs.get("show_progress_bar", True) else False
        )
        return vectors


def _meta(encoder: Encoder) -> ModelMeta:
    return ModelMeta.create_empty(
        {
            "name": f"demitasse/{PurePosixPath(encoder.name).name}-{encoder.full}",
            "revision": encoder.fingerprint,
            "n_parameters": _parameters(encoder),
            "memory_usage_mb": encoder.model_bytes(encoder.full) / 2**20,
            "max_tokens": encoder.reader.max_tokens,
            "embed_dim": encoder.full.dims,
            "framework": ["PyTorch"] if isinstance(encoder, TorchEncoder) else ["ONNX"],
            "similarity_fn_name": ScoringFunction.COSINE,
            "use_instructions": bool(encoder.reader.prompts),
        }
    )


def _parameters(encoder: Encoder) -> int | None:
    if isinstance(encoder, TorchEncoder):
        return encoder.model_bytes(encoder.full) // encoder.backbone.model.dtype.itemsize
    return None  # the files of blocks have a size, but do not say how many parameters they hold
