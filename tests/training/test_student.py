from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import zoo

from demitasse import Encoder, fit_exits, grid, load
from demitasse.encoding.pooling import Pooling
from demitasse.torch_model.readout import Dense, embed, unit_length
from demitasse.torch_model.torch_encoder import TorchEncoder
from demitasse.torch_model.torch_pooling import pool, pool_over, token_weights
from demitasse.training import refine_exits as refining
from demitasse.training.student import Student

TEXTS = [*zoo.sentences(120, seed=3), " ".join(zoo.WORDS), "kan", "nobody knows these words"]  # the longest is cut off
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "mean": ("BERT", {}),
    "cls": ("BERT", {"modes": "cls"}),
    "mean and cls": ("BERT", {"modes": "mean+cls"}),
    "max": ("BERT", {"modes": "max"}),
    "Dense": ("BERT", {"dense": 24}),
    "decoder": ("Qwen3", {"modes": "last"}),
    "decoder, mean": ("Mistral", {}),  # its window leaves padding that sees nothing
    "local attention": ("ModernBERT", {}),
}
FITTED = {
    "exits": ("mean", False),
    "exits and order": ("mean", True),
    "exits beside a Dense": ("Dense", False),
    "exits of mean and cls": ("mean and cls", True),
}


@pytest.fixture(scope="module")
def make(model_folder: Callable[..., Path]) -> Callable[[str], TorchEncoder]:
    """An encoder of `MODELS` or `FITTED`."""
    made: dict[str, TorchEncoder] = {}

    def encoder_of(kind: str) -> TorchEncoder:
        if kind not in made and kind in MODELS:
            name, options = MODELS[kind]
            made[kind] = load(model_folder(name, **options), device="cpu")
        elif kind not in made:
            base, order = FITTED[kind]
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(refining, "ORDER_STEPS", 5)
                made[kind] = fit_exits(encoder_of(base), zoo.sentences(300), order=order, refine=False)
        return made[kind]

    return encoder_of


def by_encoder(encoder: TorchEncoder, texts: list[str]) -> torch.Tensor:
    """The embeddings at every depth, as the encoder works them out."""
    depths = range(encoder.full.layers + 1)
    states = encoder.states(texts, depths)
    return torch.stack([embed(encoder.readout(depth), states[depth])[:, : encoder.dims] for depth in depths])


def rows_of(student: Student, encoder: TorchEncoder, texts: list[str]) -> torch.Tensor:
    rows: torch.Tensor = student.eval()(encoder.reader.read(texts))
    return rows


def pulled(rows: torch.Tensor) -> torch.Tensor:
    """A loss that every number of every row has a say in."""
    return (rows * torch.randn(rows.shape, generator=torch.Generator().manual_seed(4))).sum()


def gradients(student: Student) -> dict[str, torch.Tensor]:
    return {name: p.grad for name, p in student.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("kind", [*MODELS, *FITTED])
def test_embeddings_are_those_of_the_encoder(kind: str, make: Callable[[str], TorchEncoder]) -> None:
    encoder = make(kind)
    student = Student(encoder)
    expected = by_encoder(encoder, TEXTS)
    rows = rows_of(student, encoder, TEXTS)
    assert student.depths == [0, 1, 2, 3]
    assert rows.dtype is torch.float32
    torch.testing.assert_close(rows, expected, atol=1e-5, rtol=1e-5)
    order = random.Random(0).sample(range(len(TEXTS)), len(TEXTS))
    mixed = rows_of(student, encoder, [TEXTS[place] for place in order])
    torch.testing.assert_close(mixed, expected[:, order], atol=1e-5, rtol=1e-5)
    last = rows_of(Student(encoder, last_only=True), encoder, TEXTS[:9])
    torch.testing.assert_close(last, expected[-1:, :9], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["mean", "Dense", "exits", "exits and order"])
@pytest.mark.parametrize(("layers", "dims"), [(3, 16), (2, None), (2, 8)])
def test_a_cut_encoder_is_trained_at_its_own_size(
    kind: str, layers: int, dims: int | None, make: Callable[[str], TorchEncoder]
) -> None:
    encoder = make(kind).cut(layers=layers, dims=dims)
    rows = rows_of(Student(encoder), encoder, TEXTS[:20])
    assert rows.shape == (layers + 1, 20, encoder.dims)
    torch.testing.assert_close(rows, by_encoder(encoder, TEXTS[:20]), atol=1e-5, rtol=1e-5)


def weights_of(encoder: TorchEncoder) -> dict[str, torch.Tensor]:
    read = {f"head {n}": step.weight for n, step in enumerate(encoder.head) if isinstance(step, Dense)}
    exits = {f"exit {depth}": torch.from_numpy(exit_.weight) for depth, exit_ in encoder.exits.items()}
    return {name: value.clone() for name, value in {**encoder.backbone.model.state_dict(), **read, **exits}.items()}


@pytest.mark.parametrize("kind", ["mean", "exits and order", "exits beside a Dense", "decoder"])
def test_a_step_changes_the_student_and_not_its_encoder(kind: str, make: Callable[[str], TorchEncoder]) -> None:
    encoder = make(kind)
    student = Student(encoder)
    before, vectors = weights_of(encoder), encoder.encode(TEXTS[:9])
    rows = rows_of(student, encoder, TEXTS[:9])
    pulled(rows).backward()
    torch.optim.AdamW(student.groups(1e-2, 1e-2, 1e-2, 0.1)).step()
    after = weights_of(encoder)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert (encoder.encode(TEXTS[:9]) == vectors).all()
    moved = rows_of(student, encoder, TEXTS[:9])
    assert (moved - rows).abs().amax((1, 2)).min() > 1e-3
    # The encoder made of the student gives the new ones, at every cut.
    cuts = grid(range(4), [8, encoder.dims])
    for cut, given in student.encoder().encode_cuts(TEXTS[:9], cuts).items():
        expected = unit_length(moved[cut.layers][:, : cut.dims])
        torch.testing.assert_close(torch.from_numpy(given), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["mean", "exits", "decoder", "local attention"])
@pytest.mark.parametrize("dropout", [False, True])
def test_recomputing_changes_nothing(kind: str, dropout: bool, make: Callable[[str], TorchEncoder]) -> None:
    encoder = make(kind)
    found = []
    for recompute in (False, True):
        student = Student(encoder, recompute=recompute).train(dropout)
        torch.manual_seed(7)
        rows = student(encoder.reader.read(TEXTS[:30]))
        pulled(rows).backward()
        found.append({"rows": rows.detach(), **gradients(student)})
        assert not any("forward" in vars(layer) for layer in student.backbone.layers)
    assert found[0].keys() == found[1].keys()
    for name, value in found[0].items():
        torch.testing.assert_close(found[1][name], value, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("kind", ["mean", "exits", "exits beside a Dense", "decoder", "local attention"])
def test_gradients_reach_every_layer(kind: str, make: Callable[[str], TorchEncoder]) -> None:
    student = Student(make(kind))
    pulled(rows_of(student, make(kind), TEXTS)).backward()
    found = gradients(student)
    assert all(value.isfinite().all() for value in found.values())
    for name, parameter in student.named_parameters():
        # The padding token and unused words have none; a key's bias cannot matter to a softmax; nobody asks a pooler.
        if "pooler" not in name and "key.bias" not in name:
            assert parameter.grad is not None, name
            assert parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize("depth", range(4))
def test_a_depth_trains_its_own_exit_and_what_is_below(depth: int, make: Callable[[str], TorchEncoder]) -> None:
    student = Student(make("exits beside a Dense"))
    pulled(rows_of(student, make("exits beside a Dense"), TEXTS[:20])[depth]).backward()
    found = gradients(student)
    for name in dict(student.named_parameters()):
        moved = name in found and bool(found[name].abs().max() > 0)
        if name.startswith("exits."):
            assert moved == (name.split(".")[1] == str(depth)), name
        elif name.startswith("head."):
            assert moved == (depth == 3), name
        elif "encoder.layer." in name and "key.bias" not in name:
            layer = int(name.partition("encoder.layer.")[2].split(".")[0])
            assert moved == (layer < depth), name


@pytest.mark.parametrize("kind", ["mean", "exits", "exits beside a Dense", "decoder"])
def test_every_parameter_is_in_one_group(kind: str, make: Callable[[str], TorchEncoder]) -> None:
    student = Student(make(kind))
    frozen = next(student.model.parameters()).requires_grad_(False)
    groups = student.groups(rate=1e-5, embedding_rate=3e-6, exit_rate=1e-2, decay=0.1)
    listed = [id(parameter) for group in groups for parameter in group["params"]]
    trained = {name: p for name, p in student.named_parameters() if p is not frozen}
    assert sorted(listed) == sorted(map(id, trained.values()))
    place = {id(parameter): group for group in groups for parameter in group["params"]}
    for name, parameter in trained.items():
        group = place[id(parameter)]
        own = name.startswith("exits.")
        outside = parameter.ndim > 1 and not any(word in name for word in ("layer.", "layers."))
        assert group["lr"] == group["base"] == (1e-2 if own else 3e-6 if outside else 1e-5), name
        plain = own or "bias" in name or "norm" in name.lower()
        assert group["weight_decay"] == (0 if plain else 0.1), name
    assert all(group["params"] for group in groups)


@pytest.mark.parametrize("modes", [("mean",), ("cls",), ("max",), ("mean_sqrt_len",), ("weightedmean", "last")])
def test_the_prompt_is_left_out_as_pooling_does(modes: tuple[str, ...], encoder: Encoder) -> None:
    # Of the last text nothing would be left: then all of it counts.
    pooling, texts, prompts = Pooling(modes, include_prompt=False), TEXTS[:6], [3, 0, 2, 1, 3, 99]
    without = replace(encoder, pooling=pooling, head=(), dims=32 * len(modes))
    expected = []
    for text, count in zip(texts, prompts, strict=True):
        ids = torch.tensor([encoder.reader.read([text]).ids_of(0)])
        pooled = lambda hidden, ids=ids, count=count: pool(pooling, hidden, torch.ones_like(ids), count)  # noqa: E731
        with torch.no_grad():
            states = encoder.backbone.states({"input_ids": ids}, range(4), pooled)
        expected.append(torch.stack([states[depth] for depth in range(4)]))
    rows = Student(without).eval()(encoder.reader.read(texts), torch.tensor(prompts))
    torch.testing.assert_close(rows, torch.cat(expected, dim=1), atol=1e-5, rtol=1e-5)


def test_a_prompt_by_name_is_left_out_as_the_encoder_does(encoder: Encoder) -> None:
    without = replace(encoder, pooling=Pooling(("mean",), include_prompt=False))
    prompt = encoder.reader.prefix("query")
    counts = torch.full((len(TEXTS),), encoder.reader.prompt_tokens(prompt))
    states = without.states(TEXTS, range(4), prompt_name="query")
    expected = torch.stack([embed(without.head, states[depth]) for depth in range(4)])
    rows = Student(without).eval()(encoder.reader.read(TEXTS, prompt), counts)
    torch.testing.assert_close(rows, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("prompt", [0, 2])
@pytest.mark.parametrize("mode", ["mean", "mean_sqrt_len", "weightedmean"])
def test_token_weights_are_those_of_pooling(mode: str, prompt: int, side: str) -> None:
    mask = zoo.padded_batch(zoo.build("BERT"), side)["attention_mask"]
    kept = mask * (mask.cumsum(1) > prompt)
    hidden = torch.randn(*mask.shape, 5, generator=torch.Generator().manual_seed(0))
    weights = token_weights(Pooling((mode,)), kept, mask)
    assert weights is not None
    summed = (weights.unsqueeze(-1) * hidden).sum(1)
    torch.testing.assert_close(summed, pool_over(Pooling((mode,)), hidden, kept, mask), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("modes", [("cls",), ("max",), ("last",), ("mean", "cls"), ("mean", "weightedmean")])
def test_other_pooling_modes_have_no_token_weights(modes: tuple[str, ...]) -> None:
    assert token_weights(Pooling(modes), torch.ones(1, 3), torch.ones(1, 3)) is None


def test_half_precision_encoders_are_trained_in_fp32(model_folder: Callable[..., Path]) -> None:
    encoder = load(model_folder("BERT"), device="cpu")
    half = replace(encoder, backbone=replace(encoder.backbone, model=zoo.build("BERT").bfloat16()))
    student = Student(half)
    assert {parameter.dtype for parameter in student.parameters()} == {torch.float32}
    assert {parameter.dtype for parameter in half.backbone.model.parameters()} == {torch.bfloat16}
