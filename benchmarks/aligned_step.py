"""What a step of `Aligned` costs: with everything on the GPU, and the way steps were made before, interleaved.

    PYTHONPATH=src python3 benchmarks/aligned_step.py --json benchmarks/results/aligned-step.json

The model has the shape of all-MiniLM-L6-v2 and random weights, texts are random words, teachers' vectors are random
numbers of 768 dims: nothing is downloaded. A step is everything from drawing rows to moving weights (Muon and AdamW),
at all depths and five widths. "before" draws and tokenises texts while the last step runs, pads batches of similar
length, fetches teachers' vectors from the host, and reads each loss a step later, as `Elastic` does; "now" is what
`Aligned` does. On a CPU, sizes are tiny and times mean nothing: it shows that the script runs. `--profile` prints where
the time of "now" goes.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

import demitasse as dt
from demitasse.data.pairs import Pairs
from demitasse.data.sampler import Sampler
from demitasse.encoding.exits import Exit
from demitasse.encoding.teacher_space import SpaceTeacher, TeacherSpace
from demitasse.objectives.protocol import Step
from demitasse.torch_model.torch_encoder import TorchEncoder
from demitasse.training.gradients import Teaching
from demitasse.training.numbered_texts import number_texts
from demitasse.training.stage import Goal, Stage
from demitasse.training.teacher_vectors import TeacherVectors, key
from demitasse.training.text_bank import TextBank, read_tokens

WIDTHS = (32, 64, 128, 256, 384)
TEACHER_DIMS = 768
LETTERS = "bcdfgklmnprstvz"


@dataclass(frozen=True)
class Sizes:
    """How large everything is."""

    batches: dict[str, int]  # rows of a batch, by kind of text
    words: dict[str, tuple[int, int]]
    rows: int  # of data, in batches
    layers: int
    hidden: int
    widths: tuple[int, ...]
    steps: int  # timed at a time
    rounds: int


LARGE = Sizes(
    {"sentences": 1536, "passages": 512, "pairs": 448},
    {"sentences": (8, 34), "passages": (60, 240), "queries": (6, 16)},
    rows=12,
    layers=6,
    hidden=384,
    widths=WIDTHS,
    steps=10,
    rounds=4,
)
TINY = replace(LARGE, batches={"sentences": 24, "passages": 8, "pairs": 8}, layers=2, hidden=64, widths=(16, 64))
TINY = replace(TINY, words={"sentences": (4, 9), "passages": (10, 30), "queries": (3, 6)}, steps=2, rounds=2)


def write_model(folder: Path, sizes: Sizes) -> list[str]:
    """A sentence-transformers folder with random weights; returns the words that its tokenizer knows."""
    drawn = random.Random(0)
    words = sorted({"".join(drawn.choices(LETTERS, k=drawn.randint(3, 9))) for _ in range(28_000)})
    vocabulary = {word: index for index, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", model_max_length=256
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=30522,
        hidden_size=sizes.hidden,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.hidden // 32,
        intermediate_size=4 * sizes.hidden,
    )
    BertModel(config).save_pretrained(folder)
    return words


def with_exits(encoder: TorchEncoder) -> TorchEncoder:
    layers, dims = encoder.full
    noise = np.random.default_rng(0)
    exits = {
        depth: Exit(
            np.eye(dims, dtype=np.float32) + noise.normal(0, 0.02, (dims, dims)).astype(np.float32),
            np.zeros(dims, np.float32),
        )
        for depth in range(layers + 1)
    }
    return replace(encoder, exits=exits)


def data_of(kind: str, words: list[str], sizes: Sizes) -> Pairs:
    drawn, count = random.Random(1), sizes.rows * sizes.batches[kind]

    def text(of: str) -> str:
        return " ".join(drawn.choices(words, k=drawn.randint(*sizes.words[of])))

    rows: list[Any] = [(text("queries"), text("passages")) if kind == "pairs" else text(kind) for _ in range(count)]
    return dt.read_pairs(rows)


def teacher_files(folder: Path, name: str, data: Pairs, dims: int) -> TeacherVectors:
    keys = [key(0, row, text) for row in range(len(data)) for text in range(len(data.sources[0][row].texts))]
    np.save(folder / f"{name}-texts.npy", np.array(sorted(keys)))
    np.save(folder / f"{name}-vectors.npy", vectors_of(len(keys), dims))
    return TeacherVectors(folder, name)


def vectors_of(count: int, dims: int) -> np.ndarray:
    vectors = np.random.default_rng(0).normal(size=(count, dims))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)


class Arm:
    """One way to make steps on one kind of text."""

    def __init__(self, accelerator: Accelerator, base: TorchEncoder, data: Pairs, batch: int, sizes: Sizes) -> None:
        self.accelerator, self.base, self.data, self.batch, self.sizes = accelerator, base, data, batch, sizes

    def stage(self, objective: Any, teaching: Teaching, sampler: Sampler) -> Stage:
        on_gpu = self.accelerator.device.type == "cuda"
        optimizer = "muon" if on_gpu else "adamw"
        goal = Goal(0, objective, 1 << 40, 2e-4, False, optimizer, True, matrix_rate=6e-4, embedding_rate=5e-4)  # noqa: FBT003
        options = dt.TrainOptions(batch=self.batch, schedule="constant")
        return Stage(self.accelerator, options, goal, self.base, sampler, teaching)

    def before(self, folder: Path) -> Stage:
        # The same arithmetic as Aligned: similarities of the teacher, and an anchor at every depth.
        objective = dt.Elastic(dims=self.sizes.widths, temperature=0.05, anchor=20.0, keep=0.0)
        teacher = teacher_files(folder, "teacher", self.data, TEACHER_DIMS)
        anchor = teacher_files(folder, "anchor", self.data, self.base.full.dims)
        teaching = Teaching(objective, dt.InfoNCE(), teacher, anchor)
        stage = self.stage(objective, teaching, Sampler(self.data, self.batch, 0))
        stage._student._one_line = False
        return stage

    def now(self, *, one_line: bool | None = None) -> Stage:
        objective = dt.Aligned(teachers=("random",), dims=self.sizes.widths)
        texts = number_texts(self.data)
        tokens = read_tokens(texts, np.arange(len(texts)), self.base.reader, (), pool_prompt=True)
        device, dims = self.accelerator.device, self.base.full.dims
        vectors = torch.from_numpy(vectors_of(len(texts), TEACHER_DIMS)).to(device)
        turn = np.linalg.qr(np.random.default_rng(1).normal(size=(TEACHER_DIMS, dims)))[0].T.astype(np.float32)
        space = TeacherSpace(
            (SpaceTeacher("random", "", TEACHER_DIMS, 1.0),), np.ascontiguousarray(turn), np.zeros(dims, np.float32)
        )
        bank = TextBank(tokens, vectors, space, None, device)
        stage = self.stage(
            objective, Teaching(objective, dt.InfoNCE(), bank=bank), Sampler(texts.data, self.batch, 0, key=texts.key)
        )
        stage._student._one_line = one_line
        return stage


@contextmanager
def running(stage: Stage, *, late: int) -> Iterator[Any]:
    """A function that makes so many steps and returns the milliseconds of one; a loss is read `late` steps later."""
    pending: list[Any] = []
    with stage.steps(0) as steps:

        def make(count: int) -> float:
            begun = time.perf_counter()
            for _ in range(count):
                pending.append(next(steps))
                if len(pending) > late:
                    value = float(pending.pop(0).loss)
                    assert value == value
                    if late == 1 and torch.cuda.is_available():
                        torch.cuda.synchronize()  # as reading a loss on the device did
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            return 1000 * (time.perf_counter() - begun) / count

        yield make


def compared(arm: Arm) -> dict[str, float]:
    """How far the loss and the gradients of one batch are with and without padding."""
    found = []
    for one_line in (False, None if arm.accelerator.device.type == "cuda" else True):
        stage = arm.now(one_line=one_line)
        stage._student.eval()
        prepared = stage._loader.prepare(stage._sampler.next(), {})
        loss = stage._descent.add(prepared, Step(), 0)
        gradients = {
            name: p.grad.float().flatten() for name, p in stage._student.named_parameters() if p.grad is not None
        }
        found.append((float(loss), gradients, stage._student._tried))
    (loss, slow, _), (fast_loss, fast, tried) = found
    names = [name for name in slow if name in fast and slow[name].norm() > 0]
    one, other = (torch.cat([side[name] for name in names]) for side in (slow, fast))
    return {
        "in_one_line": bool(tried),
        "loss": loss,
        "loss_difference": abs(loss - fast_loss),
        "gradient_cosine": float(torch.nn.functional.cosine_similarity(one, other, dim=0)),
        "gradient_norm_ratio": float(other.norm() / one.norm()),
    }


def measure(sizes: Sizes, *, profile: bool) -> dict[str, Any]:
    cuda = torch.cuda.is_available()
    accelerator = Accelerator(cpu=not cuda, mixed_precision="bf16" if cuda else "no")
    rows: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        words = write_model(Path(place) / "model", sizes)
        base = with_exits(dt.load(Path(place) / "model", device=str(accelerator.device)))
        arms, stages, memory = {}, {}, {}
        for kind, batch in sizes.batches.items():
            arms[kind] = Arm(accelerator, base, data_of(kind, words, sizes), batch, sizes)
            folder = Path(place) / kind
            folder.mkdir()
            for name, stage in (("before", arms[kind].before(folder)), ("now", arms[kind].now())):
                make = stack.enter_context(running(stage, late=1 if name == "before" else 3))
                if cuda:
                    torch.cuda.synchronize()
                    held = torch.cuda.memory_allocated()
                    torch.cuda.reset_peak_memory_stats()
                make(3)
                memory[kind, name] = (torch.cuda.max_memory_allocated() - held) / 2**30 if cuda else 0.0
                stages[kind, name] = make
        times: dict[Any, list[float]] = {case: [] for case in stages}
        for _ in range(sizes.rounds):
            for case, make in stages.items():
                times[case].append(make(sizes.steps))
        print(f"{'':10}  rows   before ms     now ms    ratio   before GiB   now GiB")
        for kind, batch in sizes.batches.items():
            before, now = (statistics.median(times[kind, name]) for name in ("before", "now"))
            rows[kind] = {
                "rows": batch,
                "before_ms": round(before, 2),
                "now_ms": round(now, 2),
                "before_gib": round(memory[kind, "before"], 2),
                "now_gib": round(memory[kind, "now"], 2),
            }
            print(
                f"{kind:10} {batch:5} {before:11.1f} {now:10.1f} {before / now:8.2f} "
                f"{memory[kind, 'before']:12.2f} {memory[kind, 'now']:9.2f}",
                flush=True,
            )
        totals = [sum(rows[kind][f"{name}_ms"] for kind in rows) / len(rows) for name in ("before", "now")]
        print(f"{'in turn':10} {'':5} {totals[0]:11.1f} {totals[1]:10.1f} {totals[0] / totals[1]:8.2f}")
        same = compared(arms["pairs"])
        print("with and without padding:", json.dumps({name: round(value, 5) for name, value in same.items()}))
        if profile:
            profiled(stages["passages", "now"])
    return {"kinds": rows, "with_and_without_padding": same}


def profiled(make: Any) -> None:
    activities = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as found:
        make(5)
    for order in (
        ("self_cuda_time_total", "self_cpu_time_total") if torch.cuda.is_available() else ("self_cpu_time_total",)
    ):
        print(found.key_averages().table(sort_by=order, row_limit=25, max_name_column_width=60))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    cuda = torch.cuda.is_available()
    begun = time.perf_counter()
    device = torch.cuda.get_device_name() if cuda else platform.processor()
    result = {"device": device, "torch": torch.__version__, **measure(LARGE if cuda else TINY, profile=options.profile)}
    print(f"{time.perf_counter() - begun:.0f} s on {device}")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
