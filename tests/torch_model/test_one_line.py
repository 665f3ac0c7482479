"""Texts in one line give the states and gradients of padded ones, for every model that can run that way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import zoo

from demitasse import load
from demitasse.encoding.packed_tokens import PackedTokens
from demitasse.encoding.pooling import Pooling
from demitasse.torch_model.device_tokens import ChosenTexts
from demitasse.torch_model.one_line import Line, in_line
from demitasse.torch_model.torch_encoder import TorchEncoder
from demitasse.training.student import Student

TEXTS = [*zoo.sentences(40, seed=3), " ".join(zoo.WORDS), "kan"]
# Of the others, some see only a part of a text, or attend in a way of their own.
RUN = {"BERT", "RoBERTa", "XLM-R", "NomicBert", "DistilBERT", "ELECTRA"}


def opened(model_folder: Callable[..., Path], name: str, modes: str = "mean") -> TorchEncoder:
    encoder = load(model_folder(name, modes=modes), device="cpu")
    assert isinstance(encoder, TorchEncoder)
    return encoder


def both_ways(
    encoder: TorchEncoder, prompt_tokens: torch.Tensor | None = None
) -> list[tuple[torch.Tensor, dict[str, torch.Tensor]]]:
    """The embeddings and the gradients with padding, and in one line where that is possible."""
    found, rows = [], encoder.reader.read(TEXTS)
    for one_line in (False, True):
        student = Student(encoder, one_line=one_line).eval()
        embeddings = student(rows, prompt_tokens)
        (embeddings * torch.randn(embeddings.shape, generator=torch.Generator().manual_seed(4))).sum().backward()
        gradients = {name: p.grad for name, p in student.named_parameters() if p.grad is not None}
        found.append((embeddings.detach(), gradients))
    return found


@pytest.mark.parametrize("name", zoo.BUILD)
def test_a_model_runs_in_one_line_only_if_that_changes_nothing(name: str, model_folder: Callable[..., Path]) -> None:
    encoder = opened(model_folder, name)
    (padded, slow), (line, fast) = both_ways(encoder)
    torch.testing.assert_close(line, padded, atol=1e-5, rtol=1e-4)
    assert slow.keys() == fast.keys()
    for part, gradient in slow.items():
        torch.testing.assert_close(fast[part], gradient, atol=1e-4, rtol=1e-3)
    student = Student(encoder, one_line=True).eval()
    student(encoder.reader.read(TEXTS))
    assert student._tried is (name in RUN)
    assert encoder.backbone.model.config._attn_implementation != "demitasse_one_line"


@pytest.mark.parametrize("mode", ["mean", "cls", "mean_sqrt_len", "weightedmean", "last"])
@pytest.mark.parametrize("prompts", [False, True], ids=["all tokens", "without prompts"])
def test_every_weighted_sum_pools_as_with_padding(mode: str, prompts: bool, model_folder: Callable[..., Path]) -> None:
    encoder = replace(opened(model_folder, "BERT"), pooling=Pooling((mode,), include_prompt=False))
    counts = torch.arange(len(TEXTS)) % 4 if prompts else None  # as many as a text has, for some
    (padded, _), (line, _) = both_ways(encoder, counts)
    torch.testing.assert_close(line, padded, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("modes", ["max", "mean+cls"])
def test_other_poolings_are_padded(modes: str, model_folder: Callable[..., Path]) -> None:
    encoder = opened(model_folder, "BERT", modes)
    student = Student(encoder, one_line=True).eval()
    embeddings = student(encoder.reader.read(TEXTS))
    assert student._tried is False
    torch.testing.assert_close(embeddings, Student(encoder, one_line=False).eval()(encoder.reader.read(TEXTS)))


def test_on_a_cpu_texts_are_padded_unless_it_is_asked_for(model_folder: Callable[..., Path]) -> None:
    encoder = opened(model_folder, "BERT")
    student = Student(encoder).eval()
    student(encoder.reader.read(TEXTS))
    assert student._tried is None


def test_a_line_has_the_tokens_of_each_text_in_order() -> None:
    packed = PackedTokens.of([[5, 6, 7], [8], [9, 10]])
    texts = ChosenTexts.of(packed, torch.device("cpu"))
    chosen = replace(texts, starts=texts.starts[[2, 0]], lengths=texts.lengths[[2, 0]], known_lengths=np.array([2, 3]))
    line = Line.of(chosen)
    assert line.ids.tolist() == [9, 10, 5, 6, 7]
    assert line.positions.tolist() == [0, 1, 0, 1, 2]
    assert line.owner.tolist() == [0, 0, 1, 1, 1]
    assert (line.bounds.tolist(), line.longest, len(line)) == ([0, 2, 5], 3, 2)
    assert line.bounds.dtype is torch.int32


def test_attention_is_put_back_after_an_error(model_folder: Callable[..., Path]) -> None:
    model = opened(model_folder, "BERT").backbone.model
    before = model.config._attn_implementation
    line = Line.of(ChosenTexts.of(PackedTokens.of([[5, 6]]), torch.device("cpu")))
    with pytest.raises(RuntimeError, match="inside"), in_line(model, line):
        raise RuntimeError("inside")
    assert model.config._attn_implementation == before
