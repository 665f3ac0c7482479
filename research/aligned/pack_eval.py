"""Evaluation sets as token ids with what they are scored against. Dev sets choose; test sets are only reported.

    python research/aligned/pack_eval.py --data DATA --tokenizer TEACHERS/minilm/tokenizer.json --out PACKED

DATA has sts/, retrieval/ (BEIR folders), search/experiments-only/ and train/quora-pairs.jsonl.gz, which may be measured
on but are not trained on here. PACKED gets eval_raw.npz. Needs scikit-learn, to find questions that share words.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from pack_texts import LONGEST, PASSAGE, QUERY, SENTENCE, records
from sklearn.feature_extraction.text import TfidfVectorizer
from tokenizers import Tokenizer

STS = {
    "stsb-dev": "dev",
    "sick-trial": "dev",
    **{f"sts{year}": "test" for year in (12, 13, 14, 15, 16)},
    "stsb-test": "test",
    "sick-test": "test",
}
SEARCHES = {"reqa-squad-dev": "dev", "medline": "dev", "hotpotqa-500": "test", "scifact": "test"}
# Data that may not train what is shipped: evaluation only. Name, file, most queries.
HELD_OUT = (
    ("nqswap", "nqswap-question-passage", 1000),
    ("bioasq", "bioasq-question-snippet", 500),
    ("climatefever", "climatefever-claim-evidence", 1000),
)
Judged = dict[Any, dict[Any, int]]


class Sets:
    """Evaluation sets over one list of texts."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.kinds: list[int] = []
        self.sets: list[dict[str, str]] = []
        self.arrays: dict[str, np.ndarray] = {}
        self._at: dict[str, int] = {}

    def numbers(self, texts: list[str], kind: int) -> np.ndarray:
        found = []
        for text in texts:
            text = text.strip() or " "
            if text not in self._at:
                self._at[text] = len(self.texts)
                self.texts.append(text)
                self.kinds.append(kind)
            found.append(self._at[text])
        return np.array(found, np.int32)

    def add_pairs(self, name: str, role: str, kind: str, rows: list[tuple[str, str, float]], *, of: int) -> None:
        self.arrays[f"{name}/a"] = self.numbers([a for a, _, _ in rows], of)
        self.arrays[f"{name}/b"] = self.numbers([b for _, b, _ in rows], of)
        self.arrays[f"{name}/y"] = np.array([y for _, _, y in rows], np.float32)
        self.sets.append({"name": name, "role": role, "kind": kind})

    def add_search(
        self, name: str, role: str, queries: dict[Any, str], documents: dict[Any, str], judged: Judged
    ) -> None:
        asked = [i for i in queries if i in judged]
        place = {document: n for n, document in enumerate(documents)}
        related = [
            (n, place[d], grade)
            for n, i in enumerate(asked)
            for d, grade in judged[i].items()
            if d in place and grade > 0
        ]
        self.arrays[f"{name}/q"] = self.numbers([queries[i] for i in asked], QUERY)
        self.arrays[f"{name}/d"] = self.numbers(list(documents.values()), PASSAGE)
        self.arrays[f"{name}/rel"] = np.array(related, np.int32)
        self.sets.append({"name": name, "role": role, "kind": "search"})
        print(name, len(asked), "queries", len(documents), "documents", len(related), "judged")


def add_beir(sets: Sets, data: Path, name: str, role: str) -> None:
    folder = data / "retrieval" / name
    judged: Judged = defaultdict(dict)
    for line in (folder / "qrels.tsv").read_text().split("\n")[1:]:
        if line.strip():
            query, document, grade = line.split("\t")[:3]
            judged[query][document] = int(float(grade))
    queries = {row["_id"]: row["text"] for row in records(folder / "queries.jsonl.gz")}
    documents = {
        row["_id"]: f"{row.get('title') or ''} {row['text']}".strip() for row in records(folder / "corpus.jsonl.gz")
    }
    sets.add_search(name, role, queries, documents, judged)


def add_held_out(sets: Sets, path: Path, name: str, most: int) -> None:
    """Pairs as a search: every positive is a document, some anchors are queries."""
    judged: Judged = defaultdict(dict)
    queries, documents, ids = {}, {}, {}
    for row in records(path):
        query = ids.setdefault("q" + row["anchor"], "q" + str(len(ids)))
        document = ids.setdefault("d" + row["positive"], "d" + str(len(ids)))
        queries[query], documents[document] = row["anchor"], row["positive"]
        judged[query][document] = 1
    kept = random.Random(0).sample(sorted(judged), min(most, len(judged)))
    sets.add_search(name, "dev", {q: queries[q] for q in kept}, documents, {q: judged[q] for q in kept})


class Questions:
    """Quora's duplicates: which questions belong together."""

    def __init__(self, path: Path) -> None:
        self.rows = list(records(path))
        self._group: dict[str, str] = {}
        for row in self.rows:
            self._group[self._root(row["anchor"])] = self._root(row["positive"])
        self.texts = sorted(self._group)
        self.number = {text: n for n, text in enumerate(self.texts)}
        self.roots = np.array([self.number[self._root(text)] for text in self.texts])

    def _root(self, text: str) -> str:
        group = self._group
        while group.setdefault(text, text) != text:
            group[text] = group[group[text]]
            text = group[text]
        return text

    def pairs(self, choose: random.Random, count: int = 3000, at_once: int = 250) -> list[tuple[str, str, float]]:
        """Duplicates, each with three of the nearest other questions by words: no model chose them."""
        words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=1).fit_transform(self.texts)
        chosen = [self.rows[n] for n in choose.sample(range(len(self.rows)), count)]
        found = []
        for begin in range(0, count, at_once):
            part = chosen[begin : begin + at_once]
            shared = (words[[self.number[row["anchor"]] for row in part]] @ words.T).toarray()
            for row, scores in zip(part, shared, strict=True):
                own = self.roots[self.number[row["anchor"]]]
                scores = np.where(self.roots == own, -1, scores)
                near = np.argpartition(-scores, 6)[:6]
                near = near[np.argsort(-scores[near])]
                found.append((row["anchor"], row["positive"], 1.0))
                found += [(row["anchor"], self.texts[n], 0.0) for n in near[[0, 2, 4]]]
        return found

    def add_search(self, sets: Sets, choose: random.Random, count: int = 1000, among: int = 15_000) -> None:
        """`count` questions that have duplicates, among `among` questions."""
        members: dict[int, list[int]] = defaultdict(list)
        for n, root in enumerate(self.roots):
            members[root].append(n)
        roots = sorted(root for root, group in members.items() if len(group) > 1)
        choose.shuffle(roots)
        queries, documents, judged = {}, {}, {}
        for root in roots[:count]:
            first, *others = members[root]
            queries[first], judged[first] = self.texts[first], dict.fromkeys(others, 1)
            documents.update({n: self.texts[n] for n in others})
        for root in roots[count:]:
            if len(documents) >= among:
                break
            documents.update({n: self.texts[n] for n in members[root]})
        sets.add_search("quora-search", "dev", queries, documents, judged)


def gathered(data: Path) -> Sets:
    sets = Sets()
    for name, role in STS.items():
        rows = [(row["a"], row["b"], row["score"]) for row in records(data / "sts" / f"{name}.jsonl.gz")]
        sets.add_pairs(name, role, "sts", rows, of=SENTENCE)
    for name, role in SEARCHES.items():
        add_beir(sets, data, name, role)
    for name, file, most in HELD_OUT:
        add_held_out(sets, data / "search" / "experiments-only" / f"{file}.jsonl.gz", name, most)
    questions, choose = Questions(data / "train" / "quora-pairs.jsonl.gz"), random.Random(1)
    sets.add_pairs("questions", "dev", "pairs", questions.pairs(choose), of=QUERY)
    questions.add_search(sets, choose)
    return sets


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    sets = gathered(options.data)
    tokenizer = Tokenizer.from_file(options.tokenizer)
    tokenizer.no_padding()
    tokenizer.enable_truncation(LONGEST)
    found = [one.ids for one in tokenizer.encode_batch(sets.texts)]
    np.savez(
        options.out / "eval_raw.npz",
        ids=np.concatenate([np.asarray(ids, np.uint16) for ids in found]),
        lens=np.array([len(ids) for ids in found], np.uint16),
        kind=np.array(sets.kinds, np.uint8),
        sets=np.frombuffer(json.dumps(sets.sets).encode(), np.uint8),
        **sets.arrays,
    )
    print(len(sets.texts), "texts")


if __name__ == "__main__":
    main()
