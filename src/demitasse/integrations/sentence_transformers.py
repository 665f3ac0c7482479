"""`ElasticLoss`: the objectives of demitasse inside the trainer of sentence-transformers.

    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
    from demitasse.integrations.sentence_transformers import ElasticLoss
    from demitasse.objectives.published import Espresso

    model = SentenceTransformer("bert-base-uncased")
    loss = ElasticLoss(model, Espresso(dims=128))
    SentenceTransformerTrainer(model=model, train_dataset=dataset, loss=loss).train()

It replaces `Matryoshka2dLoss`. Unlike that loss it supports ESE, applies the final norm of pre-norm models (Qwen,
Llama, ModernBERT) at every depth, as a model cut there would, and does not replace the model's `forward`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any, cast

from demitasse.errors import BackboneError, DataError
from demitasse.extras import SENTENCE_TRANSFORMERS, need

try:
    from sentence_transformers import SentenceTransformer
except ImportError:
    need(__name__, SENTENCE_TRANSFORMERS)
    raise

import torch
from torch import Tensor, nn

from demitasse.objectives.pair_losses import InfoNCE, PairLoss
from demitasse.objectives.protocol import Objective, Step
from demitasse.objectives.published import Espresso, EspressoReleased, Matryoshka, Starbucks
from demitasse.torch_model.backbone import Backbone, find_backbone

FIND_THE_POSITIVE = InfoNCE()

_MATRYOSHKA = """
@inproceedings{kusupati2022matryoshka,
    title={Matryoshka Representation Learning},
    author={Aditya Kusupati and Gantavya Bhatt and Aniket Rege and Matthew Wallingford and Aditya Sinha
        and Vivek Ramanujan and William Howard-Snyder and Kaifeng Chen and Sham Kakade and Prateek Jain
        and Ali Farhadi},
    booktitle={Advances in Neural Information Processing Systems},
    year={2022},
    url={https://arxiv.org/abs/2205.13147}
}
"""
_TWO_DMSE = """
@misc{li2024twodmse,
    title={2D Matryoshka Sentence Embeddings},
    author={Xianming Li and Zongxi Li and Jing Li and Haoran Xie and Qing Li},
    year={2024},
    url={https://arxiv.org/abs/2402.14776}
}
"""
_ESE = """
@inproceedings{li2025ese,
    title={{ESE}: Espresso Sentence Embeddings},
    author={Xianming Li and Zongxi Li and Jing Li and Haoran Xie and Qing Li},
    booktitle={International Conference on Learning Representations},
    year={2025},
    url={https://openreview.net/forum?id=plgLA2YBLH}
}
"""
_STARBUCKS = """
@misc{zhuang2024starbucks,
    title={Starbucks: Improved Training for 2D Matryoshka Embeddings},
    author={Shengyao Zhuang and Shuai Wang and Fabio Zheng and Bevan Koopman and Guido Zuccon},
    year={2024},
    url={https://arxiv.org/abs/2410.13230}
}
"""


class ElasticLoss(nn.Module):
    """Any objective except `Elastic` and `Aligned`, with any pair loss, as a loss of sentence-transformers.

    Each column of a batch is encoded once; every depth is read in that one pass and goes through the model's own
    modules (Pooling, Dense, Normalize). Random numbers come from the `random` module, so the trainer's seed sets them.

    With two columns of texts, `CoSENT` and `AnglE` use the labels of the dataset as scores; otherwise, and with
    `InfoNCE`, labels are ignored.

    >>> from sentence_transformers import SentenceTransformer
    >>> from demitasse.objectives.published import Espresso
    >>> model = SentenceTransformer(str(folder), device="cpu")
    >>> loss = ElasticLoss(model, Espresso(dims=16))
    >>> columns = [model.preprocess(sentences[:8]), model.preprocess(sentences[8:16])]
    >>> loss(columns).backward()
    """

    least_columns = 2  # of texts in a batch
    has_teachers = False

    def __init__(self, model: SentenceTransformer, objective: Objective, loss: PairLoss = FIND_THE_POSITIVE) -> None:
        super().__init__()
        if getattr(objective, "needs_teacher", False) and not self.has_teachers:  # those written by users may lack it
            name = type(objective).__name__
            use = "AlignedLoss (demitasse.integrations.aligned_loss)" if name == "Aligned" else "demitasse.train"
            raise DataError(f"{name} needs a teacher's vectors, which ElasticLoss does not have; use {use}")
        if hasattr(loss, "model"):
            raise DataError(
                f"loss must be a pair loss of demitasse, not {type(loss).__name__}; use InfoNCE(), CoSENT() or AnglE()"
            )
        self.model = model
        self.objective = objective
        self.loss = loss
        self._backbone: Backbone | None = None
        self._memory: dict[str, Tensor] = {}

    def forward(self, sentence_features: Iterable[Mapping[str, Any]], labels: Tensor | None = None) -> Tensor:
        """The loss of one batch."""
        backbone = self._get_backbone()
        depths = [backbone.depth] if self.objective.last_only else list(range(backbone.depth + 1))
        columns = [self._states(backbone, features, depths) for features in sentence_features]
        if len(columns) < self.least_columns:
            raise DataError("one column of texts has nothing to be compared with; give two or more columns")
        embeddings = [torch.stack([column[depth] for column in columns]) for depth in depths]
        scores = self._scores(labels, embeddings[0])

        def pair_loss(columns: Tensor, widths: Sequence[int]) -> Tensor:
            return self.loss(columns, widths, scores)

        # Nothing may be remembered from evaluation data.
        memory = self._memory if self.model.training else dict(self._memory)
        step = Step(random=cast(Random, random), memory=memory)
        return self.objective(embeddings, pair_loss, self._informed(step, labels, len(columns)))

    def _informed(self, step: Step, labels: Tensor | None, columns: int) -> Step:
        """`step` with what the labels of a batch say about its texts, for an objective that has teachers."""
        return step

    def get_config_dict(self) -> dict[str, Any]:
        """What the model card shows about this loss."""
        return {"objective": repr(self.objective), "loss": repr(self.loss)}

    @property
    def citation(self) -> str:
        """The paper of the objective, as BibTeX."""
        if isinstance(self.objective, Matryoshka):
            return _MATRYOSHKA
        if isinstance(self.objective, Starbucks):
            return _STARBUCKS
        return _ESE if isinstance(self.objective, (Espresso, EspressoReleased)) else _TWO_DMSE

    def _scores(self, labels: Tensor | None, columns: Tensor) -> Tensor | None:
        if labels is None or len(columns) > 2 or isinstance(self.loss, InfoNCE):
            return None
        if labels.numel() != columns.shape[1]:
            raise DataError(f"{labels.numel()} labels for {columns.shape[1]} pairs; give one score for each")
        return labels.reshape(-1).float()

    def _get_backbone(self) -> Backbone:
        if self._backbone is None:
            transformer = getattr(unwrapped(self.model)[0], "auto_model", None)
            if transformer is None:
                raise BackboneError("the first module of this model is not a transformer, so it cannot be cut")
            self._backbone = _find_keeping_modes(transformer)
        if self._backbone.model.is_gradient_checkpointing and self._backbone.model.training:
            raise BackboneError(
                "gradient checkpointing runs layers a second time, which ElasticLoss cannot follow; "
                "train with gradient_checkpointing=False"
            )
        return self._backbone

    def _states(self, backbone: Backbone, features: Mapping[str, Any], depths: Sequence[int]) -> dict[int, Tensor]:
        """The embeddings (B, D) of one column at each of `depths`, from one pass through the model."""
        later = self._modules_after(unwrapped(self.model))

        def pool(hidden: Tensor) -> Tensor:
            outputs: dict[str, Any] = {**features, "token_embeddings": hidden}
            for module in later:
                outputs = module(outputs)
            return cast(Tensor, outputs["sentence_embedding"]).float()

        wrapped = _WrappedTransformer(backbone.model, _callable(self.model))
        return replace(backbone, model=cast(Any, wrapped)).states(features, depths, pool)

    def _modules_after(self, model: SentenceTransformer) -> list[nn.Module]:
        """The modules that make an embedding of token states."""
        return [*model.children()][1:]


class _WrappedTransformer:
    """Runs the transformer from the outside in: through DDP, which averages gradients, and the trainer's autocast."""

    def __init__(self, transformer: nn.Module, run: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
        self.get_submodule = transformer.get_submodule
        self._run = run

    def forward(self, **features: Any) -> SimpleNamespace:
        """The last token states, as transformers returns them."""
        return SimpleNamespace(last_hidden_state=self._run(features)["token_embeddings"])

    __call__ = forward


def unwrapped(model: nn.Module) -> SentenceTransformer:
    """The model itself, without the wrappers of DDP and torch.compile."""
    while not isinstance(model, SentenceTransformer):
        inner = getattr(model, "_orig_mod", None) or getattr(model, "module", None)
        if inner is None:
            raise BackboneError(
                f"{type(model).__name__} does not contain a SentenceTransformer, so ElasticLoss cannot use it"
            )
        model = inner
    return model


def _callable(model: nn.Module) -> Callable[[dict[str, Any]], Mapping[str, Any]]:
    """`model` as a callable without torch.compile, whose graphs skip the hooks that read the layers."""
    while hasattr(model, "_orig_mod") or isinstance(model, nn.DataParallel):
        model = cast(nn.Module, getattr(model, "_orig_mod", None) or model.module)
    return model.forward if isinstance(model, SentenceTransformer) else model


def _find_keeping_modes(transformer: nn.Module) -> Backbone:
    """The backbone, with every module left in the mode it was in."""
    modes = {module: module.training for module in transformer.modules()}
    try:
        return find_backbone(cast(Any, transformer))
    finally:
        for module, training in modes.items():
            module.training = training
