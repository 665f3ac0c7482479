"""What each training option does to the weights, compared with a run without it or with a run that says the same."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
import zoo
from accelerate import Accelerator
from interruptions import fail_after_saving

import demitasse as dt
from demitasse.data.sampler import Sampler
from demitasse.torch_model.torch_encoder import TorchEncoder
from demitasse.training import student

OPTIONS = dt.TrainOptions(steps=3, batch=12, rate=1e-3, warmup=0, decay=0, dropout=False)
Weights = dict[str, torch.Tensor]


def triples(tail: str = "", lead: tuple[str, str, str] = ("", "", "")) -> dt.Pairs:
    """120 triples, each text of at least five words; `tail` ends every text, `lead` begins those of a column."""
    texts = [" ".join((text.split() * 5)[:8]) for text in zoo.sentences(360, seed=5)]
    rows = [texts[start : start + 3] for start in range(0, len(texts), 3)]
    return dt.read_pairs([[f"{lead[at]}{text}{tail}" for at, text in enumerate(row)] for row in rows])


def weights(encoder: TorchEncoder) -> Weights:
    return {name: tensor.clone() for name, tensor in encoder.backbone.model.state_dict().items()}


def moved(encoder: TorchEncoder, out: Path, options: dt.TrainOptions, data: dt.Pairs | None = None) -> Weights:
    """How far each weight of `encoder` moves in training."""
    trained = dt.train(encoder, data or triples(), dt.Matryoshka2d((8, 32)), out=out, options=options)
    before, after = weights(encoder), weights(trained)
    return {name: after[name] - before[name] for name in before if before[name].is_floating_point()}


def alike(ours: Weights, theirs: Weights) -> float:
    """The cosine between two moves."""
    one, other = (torch.cat([part.flatten() for part in side.values()]) for side in (ours, theirs))
    return float(torch.cosine_similarity(one, other, dim=0))


@pytest.fixture(scope="module")
def usual(encoder: TorchEncoder, tmp_path_factory: pytest.TempPathFactory) -> Weights:
    return moved(encoder, tmp_path_factory.mktemp("usual") / "run", OPTIONS)


def test_micro_batches_make_the_same_steps(encoder: TorchEncoder, usual: Weights, tmp_path: Path) -> None:
    ours = moved(encoder, tmp_path / "run", replace(OPTIONS, micro_batch=5))
    assert alike(ours, usual) > 0.999


def test_checkpointing_recomputes_and_makes_the_same_steps(
    encoder: TorchEncoder, usual: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    real = student.checkpoint
    monkeypatch.setattr(student, "checkpoint", lambda *args, **options: calls.append(1) or real(*args, **options))
    ours = moved(encoder, tmp_path / "run", replace(OPTIONS, checkpointing=True))
    assert alike(ours, usual) > 0.999
    assert calls


def test_accumulating_takes_several_batches_a_step(encoder: TorchEncoder, usual: Weights, tmp_path: Path) -> None:
    ours = moved(encoder, tmp_path / "run", replace(OPTIONS, accumulate=2))
    assert alike(ours, usual) < 0.999
    sampler = Sampler(triples(), OPTIONS.batch, OPTIONS.seed, paired_only=True)
    for _ in range(2 * 3):
        sampler.next()
    saved = torch.load(tmp_path / "run" / "checkpoint.pt", weights_only=True)
    assert saved["step"] == 3
    assert saved["sampler"] == sampler.state()


def test_lora_moves_matrices_by_no_more_than_its_rank(encoder: TorchEncoder, tmp_path: Path) -> None:
    ours = moved(encoder, tmp_path / "run", replace(OPTIONS, lora=2, rate=1e-2))
    matrices = {name: move for name, move in ours.items() if ".layer." in name and move.ndim == 2}
    assert matrices
    for name, move in matrices.items():
        singular = torch.linalg.svdvals(move)
        assert singular[0] > 1e-4, name
        assert (singular[2:] < 1e-5 * singular[0]).all(), name
    assert all(move.abs().max() == 0 for name, move in ours.items() if "word_embeddings" in name)


def test_tokens_beyond_the_limit_have_no_say(encoder: TorchEncoder, usual: Weights, tmp_path: Path) -> None:
    options = replace(OPTIONS, max_tokens=6)
    one = moved(encoder, tmp_path / "one", options, triples(" kan lor"))
    other = moved(encoder, tmp_path / "other", options, triples(" mist vax zen"))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert alike(one, usual) < 0.999


def test_prompts_stand_before_the_texts_of_their_column(encoder: TorchEncoder, tmp_path: Path) -> None:
    prompts = {"query": "kan ", "document": "mist "}
    prompted = replace(encoder, reader=replace(encoder.reader, prompts=prompts))
    named = moved(prompted, tmp_path / "named", replace(OPTIONS, prompts=("query", "document")))
    literal = moved(encoder, tmp_path / "literal", OPTIONS, triples(lead=("kan ", "mist ", "mist ")))
    assert all(torch.equal(named[name], literal[name]) for name in named)


def test_the_pair_loss_is_the_one_that_was_asked_for(encoder: TorchEncoder, tmp_path: Path) -> None:
    texts = zoo.sentences(80, seed=6)
    data = dt.read_pairs([{"a": a, "b": b, "score": len(a)} for a, b in zip(texts[:40], texts[40:], strict=True)])
    loss = dt.AnglE(angle_weight=1.0)
    dt.train(encoder, data, dt.Matryoshka((32,)), out=tmp_path / "run", options=replace(OPTIONS, loss=loss))
    first = Sampler(data, OPTIONS.batch, OPTIONS.seed, paired_only=True).next()
    vectors = torch.stack([torch.from_numpy(encoder.encode(column)) for column in first.columns])
    expected = loss(vectors, [32], torch.tensor(first.scores)).sum()
    logged = json.loads((tmp_path / "run" / "log.jsonl").read_text().splitlines()[0])
    assert logged["loss"] == pytest.approx(float(expected), rel=1e-3)


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
def test_rates_follow_the_schedule(encoder: TorchEncoder, schedule: str, tmp_path: Path) -> None:
    options = replace(OPTIONS, steps=5, schedule=schedule, warmup=0.4, embedding_rate=1e-5)
    dt.train(encoder, triples(), dt.Matryoshka(), out=tmp_path / "run", options=options)
    saved = torch.load(tmp_path / "run" / "checkpoint.pt", weights_only=True)
    share = options.rate_at(4, 5)
    rates = sorted({group["lr"] for group in saved["optimizers"][0]["param_groups"]})
    assert rates == pytest.approx([1e-5 * share, 1e-3 * share])


def test_muon_moves_matrices_alike_in_all_directions(encoder: TorchEncoder, tmp_path: Path) -> None:
    evenness = {}
    for optimizer in ("adamw", "muon"):
        options = replace(OPTIONS, steps=1, optimizer=optimizer)
        ours = moved(encoder, tmp_path / optimizer, options)
        singular = [torch.linalg.svdvals(move) for name, move in ours.items() if "value.weight" in name]
        evenness[optimizer] = float(torch.stack([values[4] / values[0] for values in singular]).mean())
    assert evenness["adamw"] < 0.3 < 0.6 < evenness["muon"], evenness


def test_embeddings_have_a_rate_of_their_own(encoder: TorchEncoder, usual: Weights, tmp_path: Path) -> None:
    ours = moved(encoder, tmp_path / "run", replace(OPTIONS, embedding_rate=1e-12))
    (table,) = (name for name in ours if "word_embeddings" in name)
    assert usual[table].abs().max() > 1e-4 > 1e-6 > ours[table].abs().max()


def test_another_seed_is_another_run(encoder: TorchEncoder, usual: Weights, tmp_path: Path) -> None:
    again, other = (moved(encoder, tmp_path / str(seed), replace(OPTIONS, seed=seed)) for seed in (0, 1))
    assert all(torch.equal(again[name], usual[name]) for name in usual)
    assert alike(other, usual) < 0.999


@pytest.fixture
def scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training with a gradient scaler that grows, as fp16 has on a GPU; here on the CPU, in fp32."""
    from demitasse.training import run

    real = run._accelerator

    def with_scaler(*arguments: object) -> Accelerator:
        accelerator = real(*arguments)
        scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=2)

        def unscale_gradients(optimizer: object = None) -> None:  # accelerate does so for fp16 only
            for prepared in accelerator._optimizers:
                scaler.unscale_(prepared.optimizer)

        accelerator.scaler, accelerator.unscale_gradients = scaler, unscale_gradients
        return accelerator

    monkeypatch.setattr(run, "_accelerator", with_scaler)


@pytest.mark.usefixtures("scaled")
def test_the_scaler_changes_no_step_and_is_restored(
    encoder: TorchEncoder, usual: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert alike(moved(encoder, tmp_path / "short", OPTIONS), usual) > 0.999
    options = replace(OPTIONS, steps=7, save_every=3)
    train = partial(dt.train, encoder, triples(), dt.Matryoshka(), options=options)
    whole = train(out=tmp_path / "whole")
    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        fail_after_saving(patch, times=1)
        train(out=tmp_path / "parts")
    saved = torch.load(tmp_path / "parts" / "checkpoint.pt", weights_only=True)
    assert (saved["scaler"]["scale"], saved["scaler"]["_growth_tracker"]) == (512.0, 1)  # grown once, halfway to again
    parts = train(out=tmp_path / "parts", resume=True)
    assert all(torch.equal(weights(whole)[name], weights(parts)[name]) for name in weights(whole))
    ends = [torch.load(tmp_path / name / "checkpoint.pt", weights_only=True)["scaler"] for name in ("whole", "parts")]
    assert ends[0] == ends[1]
    assert ends[0]["scale"] == 2048.0


@pytest.mark.cuda
@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_mixed_precision_on_a_gpu_resumes_to_the_same_scale(
    precision: str, encoder: TorchEncoder, model_folder: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_gpu = dt.load(model_folder("BERT"), device="cuda")  # type: ignore[operator]
    options = replace(OPTIONS, steps=7, save_every=3, precision=precision)
    train = partial(dt.train, on_gpu, triples(), dt.Matryoshka(), options=options)
    whole = train(out=tmp_path / "whole")
    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        fail_after_saving(patch, times=1)
        train(out=tmp_path / "parts")
    parts = train(out=tmp_path / "parts", resume=True)
    ends = [torch.load(tmp_path / name / "checkpoint.pt", weights_only=True)["scaler"] for name in ("whole", "parts")]
    assert ends[0] == ends[1]
    assert (ends[0] is None) == (precision == "bf16")
    moves = [
        {name: weights(one)[name].cpu() - w.cpu() for name, w in weights(on_gpu).items()} for one in (whole, parts)
    ]
    assert alike(*moves) > 0.99
