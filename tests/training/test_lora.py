from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import zoo

from demitasse import fit_exits, grid, load
from demitasse.torch_model.readout import Dense
from demitasse.torch_model.torch_encoder import TorchEncoder
from demitasse.training.lora import adapted, merged
from demitasse.training.student import Student

TEXTS = zoo.sentences(20, seed=4)
CUTS = grid(range(4), [8, 24])


@pytest.fixture(scope="module")
def encoders(model_folder: Callable[..., Path]) -> dict[str, TorchEncoder]:
    dense = load(model_folder("BERT", dense=24), device="cpu")
    return {
        "BERT": fit_exits(dense, zoo.sentences(300), order=False, refine=False),
        "decoder": load(model_folder("Qwen3", modes="last"), device="cpu"),
    }


def trained(encoder: TorchEncoder, rank: int = 4, steps: int = 4, seed: int = 0) -> Student:
    """A student with adapters, after some steps."""
    student = Student(encoder)
    adapted(student, rank, seed)
    descend(student, encoder, steps)
    return student


def descend(student: Student, encoder: TorchEncoder, steps: int) -> None:
    optimizer = torch.optim.AdamW(student.groups(1e-2, 1e-2, 1e-2, 0.01))
    pull = torch.Generator().manual_seed(1)
    for _ in range(steps):
        optimizer.zero_grad()
        rows = student(encoder.reader.read(TEXTS))
        (rows * torch.randn(rows.shape, generator=pull)).sum().backward()
        optimizer.step()


def close(ours: TorchEncoder, theirs: TorchEncoder, tolerance: float) -> bool:
    pairs = [encoder.encode_cuts(TEXTS, CUTS) for encoder in (ours, theirs)]
    return all(np.abs(pairs[0][cut] - pairs[1][cut]).max() < tolerance for cut in CUTS)


@pytest.mark.parametrize("kind", ["BERT", "decoder"])
def test_only_adapters_and_read_outs_are_trained(kind: str, encoders: dict[str, TorchEncoder]) -> None:
    student = trained(encoders[kind])
    before = encoders[kind].backbone.model.state_dict()
    moved = {name for name, p in student.named_parameters() if p.grad is not None and p.grad.abs().max() > 0}
    kinds = {"lora" if "lora_" in name else name.split(".")[0] for name in moved}
    assert kinds == {"BERT": {"lora", "exits", "head"}, "decoder": {"lora"}}[kind]
    assert {name for name, p in student.named_parameters() if p.requires_grad} >= moved
    frozen = {name: p for name, p in student.model.named_parameters() if "lora_" not in name}
    assert not any(p.requires_grad or p.grad is not None for p in frozen.values())
    for name, parameter in frozen.items():
        assert torch.equal(parameter, before[name.replace("base_layer.", "")]), name
    layers = {name.partition("layer")[2].split(".")[1] for name in moved if "lora_" in name}
    assert layers == {"0", "1", "2"}


def test_adapters_change_nothing_before_they_are_trained(encoders: dict[str, TorchEncoder]) -> None:
    student = trained(encoders["BERT"], steps=0)
    assert close(student.eval().encoder(), encoders["BERT"], 1e-6)
    assert all(p.shape[0] == 3 for name, p in trained(encoders["BERT"], 3, 0).named_parameters() if "lora_A" in name)


def test_adapters_depend_on_the_seed_alone(encoders: dict[str, TorchEncoder]) -> None:
    torch.manual_seed(99)
    one, same, other = (trained(encoders["BERT"], steps=0, seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("kind", ["BERT", "decoder"])
def test_merged_is_the_same_without_adapters(kind: str, encoders: dict[str, TorchEncoder], tmp_path: Path) -> None:
    student = trained(encoders[kind]).eval()
    assert not close(student.encoder(), encoders[kind], 1e-2)  # it has learned something
    result = merged(student)
    assert close(result, student.encoder(), 1e-5)
    model = result.backbone.model
    before = encoders[kind].backbone.model
    assert list(model.state_dict()) == list(before.state_dict())
    assert {type(module) for module in model.modules()} == {type(module) for module in before.modules()}
    assert not hasattr(model, "peft_config")
    assert all(parameter.requires_grad for parameter in model.parameters())
    result.save(tmp_path / "model")
    saved = load(tmp_path / "model", device="cpu")
    assert close(saved, result, 1e-5)
    assert not list((tmp_path / "model").rglob("adapter*"))
    assert close(result.cut(layers=3), result, 1e-6)


@pytest.mark.parametrize("kind", ["BERT", "decoder"])
def test_merging_copies_the_student(kind: str, encoders: dict[str, TorchEncoder]) -> None:
    student = trained(encoders[kind]).eval()
    before = {name: tensor.clone() for name, tensor in student.state_dict().items()}
    result = merged(student)
    after = student.state_dict()
    assert list(before) == list(after)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert not any(p.requires_grad for name, p in student.model.named_parameters() if "lora_" not in name)
    vectors = result.encode(TEXTS)
    heads = [step.weight.clone() for step in result.head if isinstance(step, Dense)]
    descend(student, encoders[kind], 2)
    np.testing.assert_array_equal(result.encode(TEXTS), vectors)
    assert all(
        torch.equal(a, b.weight) for a, b in zip(heads, [s for s in result.head if isinstance(s, Dense)], strict=True)
    )
    assert close(merged(student), student.encoder(), 1e-5)  # it goes on, and can be merged again
