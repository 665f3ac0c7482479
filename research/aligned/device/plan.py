"""Which texts are in which batch: made by a process of its own, so that the one that drives the GPU never waits."""

from __future__ import annotations

import json
import multiprocessing as mp
import os

import numpy as np
from packed import PASSAGE
from places import folder, read_json

CHUNK = 32  # batches that are sent at once
LONGEST = 96  # tokens of a short text: the few that are longer would make every other one wait


class Planner:
    """Batches without end. A batch is (letter, rows, pairs): s short texts, p passages, q queries with passages."""

    def __init__(self, options):
        data = np.load(folder("train.npz"))
        self.lens, self.kind, source = data["lens"].astype(np.int64), data["kind"], data["src"]
        self.pairs, self.triples = data["pairs"].astype(np.int64), data["triples"].astype(np.int64)
        pair_source = data["pair_src"]
        names = read_json(folder("sources.json"))
        times = np.ones(len(names))
        for name, value in json.loads(options.source_weights).items():
            chosen = [i for i, n in enumerate(names) if name in n]
            assert chosen, f"no source is called {name}"
            times[chosen] = value
        self.random = np.random.default_rng(options.seed)
        self.options = options
        lots = times[source]
        self.short = self._lottery(np.flatnonzero((self.kind != PASSAGE) & (self.lens <= LONGEST)), lots)
        self.passages = self._lottery(np.flatnonzero(self.kind == PASSAGE), lots)
        # Pairs of short texts go into batches of short texts; those with a passage (or an answer) are q.
        short = self.kind[self.pairs] != PASSAGE
        wants = (~short.all(1)) | np.isin(
            pair_source, [i for i, n in enumerate(names) if n.startswith(("squad", "fever", "openstax-term"))]
        )
        self.related = self._lottery(np.flatnonzero(short.all(1)), times[pair_source])
        self.asked = self._lottery(np.flatnonzero(wants), times[pair_source])
        self.near = self._table("near")
        self.near_passages = self._table("near_passages")
        mix = {m.split(":")[0]: float(m.split(":")[1]) for m in options.mix.split(",")}
        self.letters, self.shares = list(mix), np.array(list(mix.values())) / sum(mix.values())
        self.owed = np.zeros(len(mix))

    @staticmethod
    def _lottery(rows, lots):
        return rows, np.cumsum(lots[rows])

    def _table(self, name):
        path = folder(f"{name}.npy")
        return np.load(path, mmap_mode="r") if os.path.exists(path) else None

    def _draw(self, lottery, count):
        rows, sums = lottery
        return rows[np.searchsorted(sums, self.random.random(count) * sums[-1], "right").clip(max=len(rows) - 1)]

    def _neighbours(self, rows, table):
        """One neighbour of each of `rows`, at random."""
        found = table[rows, self.random.integers(0, table.shape[1], len(rows))].astype(np.int64)
        return found[found >= 0]

    def batch(self):
        """The next one."""
        self.owed += self.shares
        at = int(np.argmax(self.owed))
        self.owed[at] -= 1
        letter, o = self.letters[at], self.options
        if letter == "q":
            return ("q", *self._asked(o.pairs, o.hard))
        size, lottery = (o.sentences, self.short) if letter == "s" else (o.passages, self.passages)
        some = []
        if letter == "s" and o.related:
            chosen = self._draw(self.related, int(size * o.related / 2))
            some.append(self.pairs[chosen].reshape(-1))
            if o.triples:
                some.append(
                    self.triples[self.random.integers(0, len(self.triples), int(size * o.triples / 3))].reshape(-1)
                )
        share = o.near if letter == "s" else o.near_passages
        if share and self.near is not None:
            seeds = self._draw(lottery, int(size * share / 2))
            some += [seeds, self._neighbours(seeds, self.near)]
        rows = np.unique(np.concatenate(some)) if some else np.zeros(0, np.int64)
        rows = rows[self.lens[rows] <= LONGEST] if letter == "s" else rows
        rows = self.random.permutation(rows)[:size]
        while len(rows) < size:
            rows = np.unique(np.concatenate([rows, self._draw(lottery, size - len(rows))]))
        return letter, rows, 0

    def _asked(self, count, hard):
        chosen = self.pairs[self._draw(self.asked, int(count * 1.6) + 32)]
        _, first = np.unique(chosen[:, 1], return_index=True)  # a passage once, a query once
        chosen = chosen[np.sort(first)]
        _, first = np.unique(chosen[:, 0], return_index=True)
        chosen = chosen[np.sort(first)][:count]
        rows = [chosen[:, 0], chosen[:, 1]]
        if hard and self.near_passages is not None:
            seeds = self.random.choice(chosen[:, 0], min(len(chosen), int(hard * count)), replace=False)
            extra = self._neighbours(seeds[self.kind[seeds] == 1], self.near_passages)
            rows.append(np.setdiff1d(extra, chosen))
        return np.concatenate(rows), len(chosen)

    def chunk(self):
        batches = [self.batch() for _ in range(CHUNK)]
        facts = []
        for letter, rows, pairs in batches:
            lens = self.lens[rows]
            facts.append((letter, len(rows), pairs, int(lens.sum()), int(lens.max())))
        return facts, np.concatenate([rows for _, rows, _ in batches])


def _work(options, queue):
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    planner = Planner(options)
    while True:
        queue.put(planner.chunk())


def start(options):
    """A queue of chunks, and the process that fills it (call before CUDA is touched)."""
    context = mp.get_context("fork")
    queue = context.Queue(maxsize=8)
    process = context.Process(target=_work, args=(options, queue), daemon=True)
    process.start()
    return queue, process
