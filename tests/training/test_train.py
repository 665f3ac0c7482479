from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
import zoo
from command_line import interruptible
from interruptions import fail_after_saving
from paths import ROOT

import demitasse as dt
from demitasse.evaluation.evaluate import dev_scores
from demitasse.torch_model.torch_encoder import TorchEncoder

SMALL = dt.TrainOptions(steps=6, batch=12, rate=1e-3, save_every=4)


def triples(count: int = 120) -> dt.Pairs:
    texts = zoo.sentences(3 * count, seed=5)
    return dt.read_pairs([texts[start : start + 3] for start in range(0, len(texts), 3)])


def scored(count: int = 40) -> dt.Pairs:
    texts = zoo.sentences(2 * count, seed=6)
    pairs = zip(texts, reversed(texts), strict=True)
    return dt.read_pairs([{"a": a, "b": b, "score": len({*a.split()} & {*b.split()})} for a, b in pairs])


def log(out: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return {**load_file(folder / "model.safetensors"), **load_file(folder / "exits.safetensors")}


@pytest.mark.parametrize(
    "objective",
    [
        dt.Matryoshka(),
        dt.TwoDMSE(),
        dt.Espresso(8),
        dt.Espresso(8, dt.Principal()),
        dt.EspressoReleased(8),
        dt.AdaptiveLayer(),
        dt.Matryoshka2d((8, 32)),
        dt.Starbucks((dt.Cut(1, 8), dt.Cut(2, 16))),
        dt.Elastic((8, 32)),
    ],
    ids=lambda objective: type(objective).__name__,
)
def test_every_objective_trains_a_model_of_its_own(encoder: TorchEncoder, objective: object, tmp_path: Path) -> None:
    before = {name: tensor.clone() for name, tensor in encoder.backbone.model.state_dict().items()}
    trained = dt.train(encoder, triples(), objective, out=tmp_path / "run", options=SMALL)
    assert all(torch.equal(before[name], tensor) for name, tensor in encoder.backbone.model.state_dict().items())
    again = dt.load(tmp_path / "run" / "model", device="cpu")
    vectors = trained.encode(zoo.sentences(5))
    assert np.abs(again.encode(zoo.sentences(5)) - vectors).max() < 1e-6
    assert np.abs(encoder.encode(zoo.sentences(5)) - vectors).max() > 1e-3
    assert trained.record["objective"]["name"] == type(objective).__name__
    assert trained.exit_depths == ([0, 1, 2] if isinstance(objective, dt.Elastic) else [])


def test_the_loss_falls_and_pairs_come_closer(encoder: TorchEncoder, tmp_path: Path) -> None:
    words = zoo.sentences(200, seed=9)
    data = dt.read_pairs([(text, " ".join(reversed(text.split()))) for text in words])
    options = dt.TrainOptions(steps=60, batch=32, rate=2e-3, dropout=False)
    trained = dt.train(encoder, data, dt.Matryoshka((8, 32)), out=tmp_path / "run", options=options)
    losses = [entry["loss"] for entry in log(tmp_path / "run")]
    assert losses[-1] < losses[0] / 2
    left, right = np.split(trained.encode([t for side in (0, 1) for t in [r.texts[side] for r in rows(data)]]), 2)
    found = (left @ right.T).argmax(1) == np.arange(len(left))
    assert found.mean() > 0.6


def rows(data: dt.Pairs) -> list[object]:
    return [data.sources[0][index] for index in range(len(data))]


def test_the_run_folder_describes_the_run(encoder: TorchEncoder, tmp_path: Path) -> None:
    data = triples()
    dt.train(encoder, data, dt.Espresso(8), out=tmp_path / "run", options=SMALL)
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert {name: run["options"][name] for name in ("steps", "batch", "rate", "seed")} == {
        "steps": 6,
        "batch": 12,
        "rate": 1e-3,
        "seed": 0,
    }
    assert run["options"]["loss"] == {"name": "InfoNCE", "temperature": 0.05, "both_ways": False}
    assert run["objective"]["compress"] == {"name": "Published", "temperature": 1.0}
    assert run["data"][0]["sha256"] == data.sources[0].sha256
    assert run["versions"]["torch"] == version("torch")
    assert [entry["step"] for entry in log(tmp_path / "run")] == [1, 6]
    manifest = json.loads((tmp_path / "run" / "model" / "demitasse.json").read_text())
    assert manifest["objective"]["name"] == "Espresso"


def test_steps_follow_from_epochs(encoder: TorchEncoder, tmp_path: Path) -> None:
    options = dt.TrainOptions(epochs=0.5, batch=12)
    dt.train(encoder, triples(), dt.Matryoshka(), out=tmp_path / "run", options=options)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["steps"] == 5


def test_the_best_on_the_dev_set_is_the_result(encoder: TorchEncoder, tmp_path: Path) -> None:
    options = replace(SMALL, dev_every=1, rate=3e-2, warmup=0)  # so high a rate that it gets worse
    trained = dt.train(encoder, triples(), dt.Matryoshka((8, 32)), out=tmp_path / "run", options=options, dev=scored())
    scores = [(entry["dev"], entry["step"]) for entry in log(tmp_path / "run") if "dev" in entry]
    assert len(scores) == 6
    recorded = [entry["dev"]["spearman"] for entry in trained.record["cuts"]]
    assert round(float(np.mean(recorded)), 3) == max(scores)[0]
    last, best = (dt.load(tmp_path / "run" / name, device="cpu").encode(["kan lor"]) for name in ("last", "model"))
    assert (max(scores)[1] == 6) == (np.abs(last - best).max() < 1e-6)


def test_patience_ends_a_run_that_stops_improving(encoder: TorchEncoder, tmp_path: Path) -> None:
    options = dt.TrainOptions(steps=40, batch=12, rate=1e-9, dev_every=1, patience=3, dropout=False)
    dt.train(encoder, triples(), dt.Matryoshka(), out=tmp_path / "run", options=options, dev=scored())
    assert max(entry["step"] for entry in log(tmp_path / "run")) < 40


@pytest.mark.parametrize("name", ["Qwen3", "ModernBERT"])
def test_other_architectures_train(name: str, model_folder: Callable[..., Path], tmp_path: Path) -> None:
    base = dt.load(model_folder(name, modes="last"), device="cpu")
    trained = dt.train(base, triples(), dt.Elastic((8, 32)), out=tmp_path / "run", options=SMALL)
    assert trained.exit_depths == [0, 1, 2]


def test_scored_pairs_and_groups_train_together(encoder: TorchEncoder, tmp_path: Path) -> None:
    texts = zoo.sentences(120, seed=8)
    groups = [{"texts": texts[start : start + 4]} for start in range(0, 120, 4)]
    graded = [{"a": a, "b": b, "score": random.Random(a).random()} for a, b in pairwise(texts)]
    data = dt.read_pairs(groups, graded, weights=[1, 1])
    dt.train(encoder, data, dt.Espresso(8), out=tmp_path / "run", options=replace(SMALL, steps=12))
    assert (tmp_path / "run" / "model").is_dir()


def test_plain_texts_are_distilled_on(encoder: TorchEncoder, tmp_path: Path) -> None:
    """Beside pairs, which alone tune the last layer; or alone, if nothing is to be tuned."""
    plain = zoo.sentences(250, seed=8)
    pairs = [tuple(texts) for texts in pairwise(zoo.sentences(30, seed=7))]
    both = dt.read_pairs(pairs, plain, weights=[1, 3])
    trained = dt.train(encoder, both, dt.Elastic(tune=0.5), out=tmp_path / "both", options=SMALL)
    assert trained.record["data"][1]["kind"] == "plain"
    alone = dt.read_pairs(plain)
    one = dt.train(encoder, alone, dt.Elastic(tune=0), out=tmp_path / "alone", options=SMALL)
    assert one.exit_depths == [0, 1, 2]
    with pytest.raises(
        dt.DataError, match="source 0 holds plain texts, and the last layer is tuned on pairs; add pairs"
    ):
        dt.train(encoder, alone, dt.Elastic(), out=tmp_path / "no", options=SMALL)
    with pytest.raises(
        dt.DataError, match="source 1 holds plain texts, which only Elastic and Aligned learn from; give pairs"
    ):
        dt.train(encoder, both, dt.Matryoshka(), out=tmp_path / "no", options=SMALL)


@pytest.mark.parametrize("dense", [None, 16])
def test_blend_lies_between_the_weights_before_and_after_tuning(
    dense: int | None, model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    base = dt.load(model_folder("BERT", dense=dense), device="cpu")
    for share in (0.0, 0.25, 1.0):
        objective = dt.Elastic((8, 16), tune=0.5, blend=share)
        dt.train(base, triples(), objective, out=tmp_path / str(share), options=SMALL)

    def flat(encoder: TorchEncoder) -> torch.Tensor:
        head = [encoder.head[0].weight] if dense else []  # fitting adds a rotation after it
        return torch.cat([weight.flatten() for weight in (*encoder.backbone.model.state_dict().values(), *head)])

    start = flat(base)
    none, quarter, whole = (
        flat(dt.load(tmp_path / str(share) / "stage-1", device="cpu")) for share in (0.0, 0.25, 1.0)
    )
    assert (whole - start).abs().max() > 1e-4
    assert (none - start).abs().max() < 1e-6
    assert (quarter - start.lerp(whole, 0.25)).abs().max() < 1e-6
    with pytest.raises(dt.DataError, match="blend must be from 0 to 1, not 2"):
        dt.Elastic(blend=2)


def test_back_mixes_the_tuned_weights_into_the_distilled_layers_but_not_into_the_exits(
    encoder: TorchEncoder, tmp_path: Path
) -> None:
    found = {}
    for share in (0.0, 0.25):
        objective = dt.Elastic((8, 16), tune=0.3, back=share, distil_rate=3e-3)
        found[share] = dt.train(encoder, triples(), objective, out=tmp_path / str(share), options=SMALL)
    tuned = dt.load(tmp_path / "0.0" / "stage-1", device="cpu")
    before, after, mixed = (one.backbone.model.state_dict() for one in (tuned, found[0.0], found[0.25]))
    assert max(float((after[name] - before[name]).abs().max()) for name in after) > 1e-3
    for name, weight in mixed.items():
        torch.testing.assert_close(weight, after[name].lerp(before[name], 0.25))
    for depth, exit_ in found[0.25].exits.items():
        np.testing.assert_array_equal(exit_.weight, found[0.0].exits[depth].weight)
    with pytest.raises(dt.DataError, match="back must be at least 0 and below 1, not 1"):
        dt.Elastic(back=1)


def test_the_dev_set_scores_what_is_saved(encoder: TorchEncoder, tmp_path: Path) -> None:
    objective, options = dt.Elastic((8, 16), tune=0.3, back=0.25), replace(SMALL, lora=2)
    dev = scored()
    result = dt.train(encoder, triples(), objective, out=tmp_path / "run", options=options, dev=dev)
    cuts = objective.cuts(result.full)
    said = {row["cut"]: row["dev"]["spearman"] for row in result.record["cuts"]}
    again = dev_scores(result, dev.sources[0], cuts, ())
    assert said == pytest.approx(again, abs=1e-3)


def test_without_exits_every_depth_uses_the_models_own_readout(encoder: TorchEncoder, tmp_path: Path) -> None:
    for tune in (0, 0.5):
        objective = dt.Elastic((8, 32), tune=tune, exits=False)
        trained = dt.train(encoder, triples(), objective, out=tmp_path / str(tune), options=SMALL)
        assert trained.exit_depths == []


def test_another_encoder_as_teacher(encoder: TorchEncoder, model_folder: Callable[..., Path], tmp_path: Path) -> None:
    objective = dt.Elastic((8, 32), tune=0, teacher=str(model_folder("DistilBERT")))
    trained = dt.train(encoder, triples(), objective, out=tmp_path / "run", options=SMALL)
    assert trained.record["objective"]["teacher"] == str(model_folder("DistilBERT"))
    assert (tmp_path / "run" / "teacher-vectors.npy").is_file()


def test_a_nan_loss_stops_the_run(encoder: TorchEncoder, tmp_path: Path) -> None:
    options = replace(SMALL, steps=30, rate=1e30, clip=1e30, warmup=0, save_every=1)
    with pytest.raises(dt.TrainingError, match=r"became (nan|inf) at step \d+ \(rows \d+, .* of source 0\)"):
        dt.train(encoder, triples(), dt.Matryoshka(), out=tmp_path / "run", options=options)


@pytest.mark.parametrize(
    ("objective", "optimizer"),
    [(dt.Espresso(8), "adamw"), (dt.Elastic((8, 32)), "adamw"), (dt.Elastic((8, 32)), "muon")],
    ids=["Espresso", "Elastic", "Elastic-Muon"],
)
def test_a_resumed_run_ends_with_identical_weights(
    encoder: TorchEncoder, objective: object, optimizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = replace(SMALL, steps=8, save_every=3, optimizer=optimizer)
    dt.train(encoder, triples(), objective, out=tmp_path / "whole", options=options)

    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        fail_after_saving(patch, times=2)
        dt.train(encoder, triples(), objective, out=tmp_path / "parts", options=options)
    dt.train(encoder, triples(), objective, out=tmp_path / "parts", options=options, resume=True)
    whole, parts = weights(tmp_path / "whole" / "model"), weights(tmp_path / "parts" / "model")
    assert whole.keys() == parts.keys()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    assert log(tmp_path / "whole")[-1]["step"] == log(tmp_path / "parts")[-1]["step"] == 8


def test_a_run_killed_before_its_first_checkpoint_starts_over(
    encoder: TorchEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*arguments: object) -> None:
        raise MemoryError

    train = partial(dt.train, encoder, triples(), dt.Elastic((8, 32)), options=SMALL)
    train(out=tmp_path / "whole")
    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        patch.setattr("demitasse.training.stage.Stage._step", killed)
        train(out=tmp_path / "parts")
    train(out=tmp_path / "parts", resume=True)
    whole, parts = weights(tmp_path / "whole" / "model"), weights(tmp_path / "parts" / "model")
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_data_too_small_for_exits_is_refused_before_training(encoder: TorchEncoder, tmp_path: Path) -> None:
    with pytest.raises(dt.DataError, match="the data has 60 different texts, and Elastic fits exits on at least 200"):
        dt.train(encoder, triples(20), out=tmp_path / "run", options=SMALL)
    assert not (tmp_path / "run").exists()
    dt.train(encoder, triples(20), dt.Elastic(exits=False), out=tmp_path / "run", options=SMALL)


def test_what_cannot_be_trained(encoder: TorchEncoder, tmp_path: Path) -> None:
    with pytest.raises(dt.DataError, match="an encoder of blocks cannot be trained"):
        dt.train(dt.load(), triples(), out=tmp_path / "a")
    with pytest.raises(dt.CutError, match=r"dims \(128,\) do not fit a model of 32 dims"):
        dt.train(encoder, triples(), dt.Espresso(128), out=tmp_path / "b")
    with pytest.raises(dt.DataError, match="the dev set must be one source of scored pairs"):
        dt.train(encoder, triples(), out=tmp_path / "c", dev=triples())
    with pytest.raises(dt.FolderError, match="has no run to resume"):
        dt.train(encoder, triples(), out=tmp_path / "d", resume=True)
    assert not list(tmp_path.iterdir())
    for name, sentence in (("tensorbord", "not known; use one of .*tensorboard"), ("mlflow", "pip install mlflow")):
        with pytest.raises(dt.DataError, match=sentence):
            dt.train(encoder, triples(), out=tmp_path / "t", options=replace(SMALL, trackers=(name,)))
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "mine.txt").write_text("keep")
    with pytest.raises(dt.FolderError, match="is not empty"):
        dt.train(encoder, triples(), out=tmp_path / "e")


@pytest.fixture
def files(model_folder: Callable[..., Path], tmp_path: Path) -> tuple[str, str]:
    texts = zoo.sentences(360, seed=5)
    lines = [
        json.dumps({"anchor": a, "positive": b, "negative": c})
        for a, b, c in zip(texts[::3], texts[1::3], texts[2::3], strict=True)
    ]
    (tmp_path / "triples.jsonl").write_text("\n".join(lines))
    return str(model_folder("BERT")), str(tmp_path / "triples.jsonl")


def command(files: tuple[str, str], out: Path, *more: str) -> list[str]:
    base, data = files
    options = ["--objective", "espresso:dims=8", "--batch", "12", "--rate", "1e-3", "--device", "cpu"]
    return ["-m", "demitasse", "train", data, "--base", base, "--out", str(out), *options, *more]


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def test_a_killed_run_resumes_to_identical_weights(files: tuple[str, str], tmp_path: Path) -> None:
    more = ["--steps", "20", "--save-every", "10"]
    subprocess.run([sys.executable, *command(files, tmp_path / "whole", *more)], env=environment(), check=True)
    # Two steps after the checkpoint of step 10 it says so and goes no further, however long that takes.
    stuck = "import demitasse.training.stage as s, sys, runpy; real = s.Stage._step\n"
    stuck += "def step(self, n, *a):\n    n == 12 and (print('stuck', flush=True), sys.stdin.read())\n"
    stuck += "    return real(self, n, *a)\n"
    stuck += "s.Stage._step = step; runpy.run_module('demitasse', run_name='__main__')"
    parts = command(files, tmp_path / "parts", *more)
    line = [sys.executable, "-c", stuck, *parts[2:]]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(line, env=environment(), **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == b"stuck\n"
        process.kill()  # as kill -9 does
    assert (tmp_path / "parts" / "checkpoint.pt").is_file()
    subprocess.run([sys.executable, *parts, "--resume"], env=environment(), check=True)
    whole, again = weights(tmp_path / "whole" / "model"), weights(tmp_path / "parts" / "model")
    assert all(torch.equal(whole[name], again[name]) for name in whole)


@pytest.mark.posix
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_signal_saves_a_checkpoint(files: tuple[str, str], sign: signal.Signals, tmp_path: Path) -> None:
    out = tmp_path / "run"
    line = interruptible(*command(files, out, "--steps", "100000", "--save-every", "99999")[2:])
    process = subprocess.Popen(line, env=environment(), stderr=subprocess.PIPE, text=True)
    while not (out / "log.jsonl").is_file():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(sign)
    _, said = process.communicate()
    assert process.returncode == 130, said
    assert "after step" in said
    assert (out / "checkpoint.pt").is_file()


def test_two_processes_get_the_gradients_of_one(files: tuple[str, str], tmp_path: Path) -> None:
    gradients = ROOT / "tests" / "helpers" / "two_processes.py"
    one = subprocess.run([sys.executable, str(gradients), *files, str(tmp_path / "one.pt")], env=environment())
    launch = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc_per_node=2",
        "--master_port=0",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=localhost:0",
    ]
    two = subprocess.run([*launch, str(gradients), *files, str(tmp_path / "two.pt")], env=environment())
    assert one.returncode == two.returncode == 0
    alone, shared = (torch.load(tmp_path / f"{name}.pt", weights_only=True) for name in ("one", "two"))
    assert alone["loss"] == pytest.approx(shared["loss"], rel=1e-5)
    for objective in alone["gradients"]:
        for name, gradient in alone["gradients"][objective].items():
            scale = gradient.abs().max().clamp(min=1e-6)
            assert ((gradient - shared["gradients"][objective][name]).abs().max() / scale) < 1e-3, (objective, name)


def test_torchrun_trains(files: tuple[str, str], tmp_path: Path) -> None:
    launch = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc_per_node=2",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=localhost:0",
    ]
    more = command(files, tmp_path / "run", "--steps", "4", "--objective", "elastic:dims=8/32")
    subprocess.run([*launch, *more], env=environment(), check=True)
    assert dt.load(tmp_path / "run" / "model", device="cpu").exit_depths == [0, 1, 2]
    assert json.loads((tmp_path / "run" / "run.json").read_text())["processes"] == 2


def test_trackers_get_the_loss(encoder: TorchEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from accelerate import tracking

    heard: list[object] = []

    class Heard(tracking.GeneralTracker):
        name, requires_logging_directory, main_process_only = "tensorboard", False, True
        tracker = None

        def __init__(self, run_name: str, **options: object) -> None:
            super().__init__()
            heard.append(run_name)

        def store_init_configuration(self, values: dict[str, object]) -> None:
            heard.append(values)

        def log(self, values: dict[str, object], step: int | None, **options: object) -> None:
            heard.append((step, sorted(values)))

        def finish(self) -> None:
            heard.append("finished")

    monkeypatch.setitem(tracking.LOGGER_TYPE_TO_CLASS, "tensorboard", Heard)
    monkeypatch.setattr(tracking, "_available_trackers", [tracking.LoggerType.TENSORBOARD])
    options = replace(SMALL, trackers=("tensorboard",))
    dt.train(encoder, triples(), dt.Matryoshka(), out=tmp_path / "mine", options=options)
    assert heard[0] == "mine"
    assert "Matryoshka" in str(heard[1])
    assert heard[2:] == [(1, ["loss", "texts_per_second"]), (6, ["loss", "texts_per_second"]), "finished"]
