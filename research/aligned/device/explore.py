"""Align MiniLM at every depth with teachers in one space, as fast as the GPU allows.

    python explore.py --name base --seconds 60 --teachers nomic:0.5,mpnet:0.3,minilm:0.2

Runs end when planned: rates fall with the share of `--seconds` (or `--steps`) that has passed. runs/NAME gets log.txt,
last.pt (to go on: --resume), model.pt (weights alone) and score.json.
"""

from __future__ import annotations

import json
import os
import sys
import time

import numpy as np
import plan
import score
import torch
from objective import Loss
from optimizers import Muon, adam_groups, rate_at
from options import parse
from packed import Packed, device_of
from places import folder, read_json
from space import Space
from student import WIDTH, released, states_of
from torch.nn import functional

AHEAD = 12  # steps that the host may be ahead of the GPU


class Log:
    def __init__(self, path):
        self.path = path

    def __call__(self, *parts):
        line = " ".join(str(p) for p in parts)
        print(line, flush=True)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(line + "\n")


def settled(options, device):
    """What `auto` means here: best.json (written by bench.py), or what is sure to work."""
    best = read_json(folder("best.json")) if os.path.exists(folder("best.json")) else {}
    cuda = device.type == "cuda"
    found = best.get("attention", "pad") if cuda else "pad"
    wanted = options.compile == "on" or (options.compile == "auto" and best.get("compile", False))
    return {
        "attention": found if options.attention == "auto" else options.attention,
        "compiled": wanted and cuda,
        "dtype": torch.bfloat16 if cuda and options.dtype != "fp32" else torch.float32,
    }


@torch.no_grad()
def fit_exits(student, tokens, space, count):
    """The closed form of the exit at every depth: ridge regression from states of unit length to the targets."""
    random = np.random.default_rng(0)
    of_kind = [np.flatnonzero(tokens.kind == kind) for kind in range(3)]
    rows = np.concatenate([random.choice(own, min(count // 3, len(own)), replace=False) for own in of_kind])
    states = functional.normalize(states_of(student, tokens, rows).clone(), dim=-1)
    x = torch.cat([states, torch.ones_like(states[..., :1])], -1)
    t = functional.normalize(space.target[torch.from_numpy(rows).to(x.device)].float(), dim=-1)
    xx = torch.bmm(x.mT, x).double()
    xt = torch.bmm(x.mT, t.expand(len(x), -1, -1)).double()
    ridge = 1e-5 * xx.diagonal(dim1=-2, dim2=-1).mean(-1)
    one = torch.eye(WIDTH + 1, device=x.device, dtype=torch.double)
    solution = torch.linalg.solve(xx + ridge[:, None, None] * one, xt).float()
    student.exit_w.copy_(solution[:, :WIDTH].mT)
    student.exit_b.copy_(solution[:, WIDTH])
    return functional.cosine_similarity(student.embedded(states), t[None], dim=-1).mean(-1)


def batches_of(queue, device):
    """The batches of the planner, their rows on the device: (letter, rows, pairs, tokens in all, longest text)."""
    while True:
        facts, flat = queue.get(timeout=60)
        flat = torch.from_numpy(flat)
        flat = (flat.pin_memory() if device.type == "cuda" else flat).to(device, non_blocking=True)
        begin = 0
        for letter, count, pairs, total, longest in facts:
            yield letter, flat[begin : begin + count], pairs, total, max(longest, 64)
            begin += count


class Progress:
    """A line every five seconds."""

    def __init__(self, step, log):
        self.shown, self.shown_step, self.history, self.log = time.time(), step, [], log

    def add(self, letter, facts):
        self.history.append((letter, facts))

    def show(self, step, seconds, share):
        now = time.time()
        if now - self.shown <= 5 or step == self.shown_step:
            return
        line = []
        for letter in "spq":
            mine = [facts for own, facts in self.history if own == letter]
            if mine:
                line.append(letter + " " + "/".join(f"{v:.3f}" for v in torch.stack(mine).mean(0).tolist()))
        ms = (time.time() - self.shown) * 1000 / (step - self.shown_step)
        memory = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else 0
        self.log(
            f"step {step} {seconds:.0f} s {share:.1%} {ms:.1f} ms a step, {memory:.1f} GiB, "
            f"loss/divergence/distance: {'; '.join(line)}"
        )
        self.shown, self.shown_step, self.history = time.time(), step, []


class Training:
    """A run: the student, what it learns from, and how far it is."""

    def __init__(self, options, run, log):
        begun = time.time()
        self.options, self.run, self.log = options, run, log
        self.device = device_of()
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.manual_seed(options.seed)
        self.tokens = Packed.train(self.device)
        self.space = Space(options.teachers, options.centre, self.device, self.tokens.kind, log=log)
        self.student = self._student()
        self.params = dict(self.student.named_parameters())
        self.muon = Muon(self.student, options.momentum, options.decay)
        groups = adam_groups(self.student, options)
        fused = self.device.type == "cuda"
        self.adam = torch.optim.AdamW(groups, betas=(0.9, options.beta2), eps=1e-8, fused=fused)
        self.ema = {n: p.detach().clone() for n, p in self.params.items()} if options.ema else None
        self.loss_of = Loss(options, self.space, self.device)
        self.step, self.passed = 0, 0.0
        self.waiting = []
        if options.resume and os.path.exists(self._at("last.pt")):
            self._resume()
        log(f"set up in {time.time() - begun:.1f} s")

    def _at(self, name):
        return os.path.join(self.run, name)

    def _student(self):
        how = settled(self.options, self.device)
        self.log("runs as", how)
        student = released(self.options.weights, **how).to(self.device)
        if self.options.start:
            saved = torch.load(folder("runs", self.options.start, "model.pt"), map_location=self.device)
            student.load_state_dict(saved["weights"])
        else:
            cosines = fit_exits(student, self.tokens, self.space, self.options.fit).tolist()
            self.log("exits start at cosine", [round(c, 4) for c in cosines])
        return student

    def _resume(self):
        saved = torch.load(self._at("last.pt"), map_location=self.device)
        self.student.load_state_dict(saved["weights"])
        self.adam.load_state_dict(saved["adam"])
        for mean, kept in zip(self.muon.means, saved["muon"], strict=True):
            mean.copy_(kept)
        for name, mean in (self.ema or {}).items():
            mean.copy_(saved["ema"][name])
        self.step, self.passed = saved["step"], saved["passed"]
        self.log(f"goes on at step {self.step}, {self.passed:.0f} s")

    def train(self, batches):
        o = self.options
        begun = time.time() - self.passed
        if o.until:
            o.seconds = max(1.0, o.until - begun)
        shown, saved_at = Progress(self.step, self.log), time.time()
        while True:
            now = time.time()
            passed = now - begun
            share = max(passed / o.seconds if o.seconds else 0.0, self.step / o.steps if o.steps else 0.0)
            if share >= 1:
                break
            letter, *batch = next(batches)
            shown.add(letter, self._learn(letter, *batch, factor=rate_at(share, o)))
            shown.show(self.step, passed, share)
            if now - saved_at > o.save_every:
                self._checkpoint(passed)
                saved_at = time.time()
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        self._finish(time.time() - begun)

    def _learn(self, letter, rows, pairs, total, longest, *, factor):
        for group in self.adam.param_groups:
            group["lr"] = group["base"] * factor
        loss, facts = self.loss_of(letter, self.student(self.tokens, rows, total, longest), rows, pairs)
        for p in self.params.values():
            p.grad = None
        loss.backward()
        self.adam.step()
        self.muon.step(self.options.muon * factor)
        if self.ema:
            now = [p.detach() for p in self.params.values()]
            torch._foreach_lerp_(list(self.ema.values()), now, 1 - self.options.ema)
        self.step += 1
        self._stay_close()
        return facts

    def _stay_close(self):
        """Wait for the GPU once the host is too far ahead of it."""
        if self.device.type != "cuda":
            return
        event = torch.cuda.Event()
        event.record()
        self.waiting.append(event)
        if len(self.waiting) > AHEAD:
            self.waiting.pop(0).synchronize()

    def _save(self, name, ema, extra):
        weights = {n: (ema[n] if ema else p).detach().cpu() for n, p in self.params.items()}
        torch.save({"weights": weights, **extra}, self._at(name + ".part"))
        os.replace(self._at(name + ".part"), self._at(name))

    def _checkpoint(self, passed):
        state = {"adam": self.adam.state_dict(), "muon": self.muon.means, "ema": self.ema}
        self._save("last.pt", None, {**state, "step": self.step, "passed": passed})
        self._save("model.pt", self.ema, {"step": self.step, "options": vars(self.options)})

    def _finish(self, spent):
        self.log(f"trained {self.step} steps in {spent:.1f} s: {1000 * spent / max(self.step, 1):.1f} ms a step")
        bad = [n for n, p in self.params.items() if not bool(torch.isfinite(p).all())]
        if bad:
            self.log("NOT FINITE:", bad)
        space = {"turn": self.space.turn.cpu(), "means": self.space.means, "kept": self.space.kept}
        facts = {"step": self.step, "seconds": spent, "options": vars(self.options), **space}
        self._save("model.pt", self.ema, facts)
        if self.ema:
            self._save("model-last.pt", None, facts)


def main(arguments):
    options = parse(__doc__, arguments)
    run = folder("runs", options.name)
    os.makedirs(run, exist_ok=True)
    log = Log(os.path.join(run, "log.txt"))
    log("options", json.dumps(vars(options)))
    queue, process = plan.start(options)  # before CUDA is touched
    try:
        training = Training(options, run, log)
        training.train(batches_of(queue, training.device))
    finally:
        process.kill()
    del training  # its memory is needed for scoring
    if not options.no_score:
        begun = time.time()
        log(score.report([options.name]))
        log(f"scored in {time.time() - begun:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
