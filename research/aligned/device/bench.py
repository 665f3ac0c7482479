"""How fast a step is, and whether fast attention gives the same: best.json, for `--attention auto --compile auto`.

    python bench.py             compares ways of attention
    python bench.py --compile   then, beside other jobs, says whether compiling is worth it

Targets are random here, so it can run before any teacher has.
"""

from __future__ import annotations

import sys
import time
import types

import plan
import torch
from objective import Loss
from optimizers import Muon, adam_groups
from options import parse
from packed import Packed, device_of
from places import folder, read_json, write_json
from student import released
from torch.nn import functional


def random_space(count, device):
    wide = torch.randn(count, 64, device=device)
    if device.type != "cuda":
        whole = functional.normalize(wide, dim=-1)
        return types.SimpleNamespace(whole=whole, target=torch.randn(count, 384, device=device))
    whole = functional.normalize(wide @ torch.randn(64, 1920, device=device), dim=-1).half()
    return types.SimpleNamespace(whole=whole, target=torch.randn(count, 384, device=device).half())


class Bench:
    def __init__(self):
        self.device = device_of()
        self.cuda = self.device.type == "cuda"
        sizes = [] if self.cuda else ["--sentences", "12", "--passages", "4", "--pairs", "4"]
        arguments = ["--name", "bench", "--steps", "1", "--near", "0", "--near-passages", "0", *sizes]
        self.options = parse(__doc__, arguments)
        planner = plan.Planner(self.options)
        torch.backends.cuda.matmul.allow_tf32 = True
        self.tokens = Packed.train(self.device)
        self.space = random_space(len(self.tokens), self.device)
        self.dtype = torch.bfloat16 if self.cuda else torch.float32
        self.batches = [self._prepared(planner, *planner.batch()) for _ in range(12)]

    def _prepared(self, planner, letter, rows, pairs):
        lens = planner.lens[rows]
        return letter, torch.from_numpy(rows).to(self.device), pairs, int(lens.sum()), max(64, int(lens.max()))

    def _sync(self):
        if self.cuda:
            torch.cuda.synchronize()

    def sound(self, attention):
        """Whether bf16 with this attention gives the vectors of fp32, and gradients that are finite."""
        _, rows, _, total, longest = self.batches[0]
        exact = released(dtype=torch.float32, attention="pad").to(self.device)
        with torch.no_grad():
            truth = exact(self.tokens, rows, total, longest)
        student = released(dtype=self.dtype, attention=attention).to(self.device)
        vectors = student(self.tokens, rows, total, longest)
        vectors.square().sum().backward()
        away = float((1 - functional.cosine_similarity(vectors.detach(), truth, dim=-1)).max())
        finite = all(bool(torch.isfinite(p.grad).all()) for p in student.parameters() if p.grad is not None)
        print(f"{attention}: 1 - cosine to fp32 at most {away:.5f}, gradients finite: {finite}", flush=True)
        return away < 0.01 and finite

    def _stepper(self, attention, compiled):
        student = released(dtype=self.dtype, attention=attention, compiled=bool(compiled)).to(self.device)
        muon = Muon(student, 0.95, 0.01)
        adam = torch.optim.AdamW(adam_groups(student, self.options), fused=self.cuda)
        loss_of = Loss(self.options, self.space, self.device)

        def step(batch):
            letter, rows, pairs, total, longest = batch
            loss, _ = loss_of(letter, student(self.tokens, rows, total, longest), rows, pairs)
            for p in student.parameters():
                p.grad = None
            loss.backward()
            adam.step()
            muon.step(1e-6)

        return step

    def milliseconds(self, attention, compiled=None):
        """The mean time of a step over the three kinds of batches."""
        begun = time.time()
        step = self._stepper(attention, compiled)
        for batch in self.batches[:3] * (2 if self.cuda else 1):
            step(batch)
        self._sync()
        ready = time.time() - begun
        times, rounds = {}, 5 if self.cuda else 1
        for letter in "spq":
            mine = [b for b in self.batches if b[0] == letter] * rounds
            self._sync()
            begun = time.time()
            for batch in mine:
                step(batch)
            launched = time.time() - begun
            self._sync()
            times[letter] = 1000 * (time.time() - begun) / len(mine)
            times[letter + " host"] = 1000 * launched / len(mine)
        mean = sum(times[letter] for letter in "spq") / 3
        memory = torch.cuda.max_memory_allocated() / 2**30 if self.cuda else 0
        shown = ", ".join([f"{mean:.1f} ms a step", *(f"{k} {v:.1f}" for k, v in times.items())])
        way = f"{attention} compile={bool(compiled)}"
        print(f"{way}: {shown}; ready in {ready:.0f} s; {memory:.1f} GiB", flush=True)
        return mean


def tried(work, *way):
    """What `work` gives, or None if it fails: whatever it is, the other way stays."""
    try:
        return work(*way)
    except Exception as problem:
        print(*way, "fails:", repr(problem)[:500], flush=True)
        return None


def compare_attention(bench):
    ways = ["pad", "varlen"] if bench.cuda else ["pad"]
    sound = {way: tried(bench.sound, way) if bench.cuda else True for way in reversed(ways)}
    best = {"attention": "pad", "compile": False}
    for way in ways:
        mean = tried(bench.milliseconds, way) if sound[way] else None
        if mean is not None and mean < best.get("ms", 1e9):
            best = {"attention": way, "compile": False, "ms": mean}
            write_json(folder("best.json"), best)
    return best


def compare_compiling(bench):
    """Beside other jobs, what counts is the ratio to the same without compiling, measured just before."""
    best = read_json(folder("best.json"))
    means = {}
    for compiled in (False, True, False, True):
        mean = tried(bench.milliseconds, best["attention"], compiled)
        if mean is not None:
            means[compiled] = min(mean, means.get(compiled, mean))
    best["compiled / eager"] = means[True] / means[False] if len(means) == 2 else None
    best["compile"] = len(means) == 2 and means[True] < 0.95 * means[False]
    write_json(folder("best.json"), best)
    return best


if __name__ == "__main__":
    compare = compare_compiling if "--compile" in sys.argv else compare_attention
    print("best", compare(Bench()), flush=True)
