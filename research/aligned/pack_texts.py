"""All texts to train on, once each, as token ids; pairs and triples as index pairs and triples.

    python research/aligned/pack_texts.py --data DATA --tokenizer TEACHERS/minilm/tokenizer.json --out PACKED

DATA has search/*.jsonl.gz (anchor and positive per line), search/passages-*.txt.gz and train/ (NLI, WikiSplit, WordNet,
Tatoeba, ACL, Debian, sentences.txt.gz). PACKED gets train_raw.npz and sources.json. About 7 minutes on two cores.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

LONGEST = 256  # tokens of a text
SENTENCE, QUERY, PASSAGE = 0, 1, 2
SHORT_ANSWERS = ("squad-question-sentence", "openstax-term")
TITLES = ("acl-title-abstract", "debian-synopsis-description")
SENTENCES = ("nli-triples", "nli-pairs", "wikisplit-pairs", "wordnet-lemma-gloss")
COMMON, MOST_WORDS = 200, 30  # words that are never swapped; of a text that is varied
TERMS = ("wordnet-lemma", "openstax-term")
# What somebody wants to do, in a sentence of Tatoeba: "I want to learn French." -> "learn French".
DEED = re.compile(
    r"\b(?:want|need|like|trying|tried|going|able|how|have|decided|hope) to ([a-z]+(?: [A-Za-z]+){1,6})[.?!]"
)
ABOUT = (
    "What is {}?",
    "What does {} mean?",
    "What is meant by {}?",
    "What is the meaning of {}?",
    "How does {} work?",
    "How would you explain {} to a child?",
    "Why is {} important?",
    "What are the advantages of {}?",
    "What are the benefits of {}?",
    "What are the disadvantages of {}?",
    "What are some examples of {}?",
    "What are the best books about {}?",
    "What is the best book on {}?",
    "Where can I learn more about {}?",
    "How can I learn about {}?",
    "What is the best way to learn about {}?",
    "How do I get started with {}?",
    "What is the history of {}?",
    "What causes {}?",
    "What is the cause of {}?",
    "How can I get rid of {}?",
    "How do you deal with {}?",
    "What is the difference between {} and {}?",
    "Is {} better than {}?",
    "Which is better, {} or {}?",
    "How are {} and {} related?",
    "What should I know about {}?",
    "What do you think about {}?",
    "How much does {} cost?",
    "Where can I buy {}?",
    "Who uses {}?",
    "Is {} dangerous?",
    "What is {} used for?",
    "What are the uses of {}?",
)
DOING = (
    "How do I {}?",
    "How can I {}?",
    "How can one {}?",
    "What is the best way to {}?",
    "What is the easiest way to {}?",
    "What should I do to {}?",
    "What do I need to {}?",
    "Why should I {}?",
    "Why do people {}?",
    "Is it possible to {}?",
    "Is it a good idea to {}?",
    "Should I {}?",
    "Should I {} or {}?",
    "Can I {}?",
    "How long does it take to {}?",
    "How much does it cost to {}?",
    "When is the best time to {}?",
    "Where can I {}?",
    "What happens if I {}?",
    "What is it like to {}?",
    "I want to {}. How can I do it?",
    "I can't {}. What should I do?",
)
BETWEEN_SENTENCES = re.compile(r'(?<=[.!?])\s+(?=[A-Z0-9"(])')


def lines(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return file.read().split("\n")[:-1]


def records(path: Path) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in lines(path) if line)


class Texts:
    """Every text once, with its kind and the source that brought it first."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.kinds: list[int] = []
        self.sources: list[int] = []
        self.names: list[str] = []
        self.pairs: list[tuple[int, int]] = []
        self.pair_sources: list[int] = []
        self.triples: list[tuple[int, int, int]] = []
        self._at: dict[str, int] = {}

    def begin(self, name: str) -> None:
        """What is added from here on comes from this source."""
        self.names.append(name)

    def add(self, text: str, kind: int) -> int:
        """The number of a text; -1 if it is empty."""
        text = " ".join(text.split())
        if not text:
            return -1
        if text not in self._at:
            self._at[text] = len(self.texts)
            self.texts.append(text)
            self.kinds.append(kind)
            self.sources.append(len(self.names) - 1)
        return self._at[text]

    def add_pair(self, left: int, right: int) -> bool:
        if min(left, right) < 0 or left == right:
            return False
        self.pairs.append((left, right))
        self.pair_sources.append(len(self.names) - 1)
        return True

    def add_pairs(self, path: Path, anchor: int, positive: int) -> None:
        self.begin(path.name.split(".")[0])
        for row in records(path):
            left, right = self.add(row["anchor"], anchor), self.add(row["positive"], positive)
            if self.add_pair(left, right) and "negative" in row:
                other = self.add(row["negative"], anchor)
                if other >= 0:
                    self.triples.append((left, right, other))
        print(self.names[-1], len(self.texts), flush=True)

    def add_groups(self, path: Path) -> None:
        """Texts that mean the same, each a pair with the next, and the last with the first."""
        self.begin(path.name.split(".")[0])
        for row in records(path):
            numbers = [self.add(text, SENTENCE) for text in row["texts"]]
            group = list(dict.fromkeys(n for n in numbers if n >= 0))
            if len(group) == 2:
                self.add_pair(*group)
            elif len(group) > 2:
                for left, right in zip(group, group[1:] + group[:1], strict=True):
                    self.add_pair(left, right)

    def add_lines(self, path: Path, kind: int) -> None:
        self.begin(path.name.split(".")[0])
        for text in lines(path):
            self.add(text, kind)
        print(self.names[-1], len(self.texts), flush=True)

    def add_sentences_of_passages(self, most: int) -> None:
        """Up to `most` of each passage: short texts of the domains that searches have."""
        choose = random.Random(0)
        self.begin("passage-sentences")
        for number in range(len(self.texts)):
            if self.kinds[number] != PASSAGE:
                continue
            parts = [p for p in BETWEEN_SENTENCES.split(self.texts[number]) if 6 <= len(p.split()) <= 50]
            if len(parts) > 1:
                for part in choose.sample(parts, min(most, len(parts) // 2)):
                    self.add(part, SENTENCE)
        print(self.names[-1], len(self.texts), flush=True)

    def add_variations(self, swaps: int, mixtures: int) -> None:
        """Short texts with one word of another text of their source, and questions that end like another one.

        Teachers say how far the meaning moves. Each is a pair with the text it was made from, so that both are often
        in one batch: without them a student hardly sees texts that share all words but one.
        """
        choose = random.Random(1)
        self.begin("variations")
        short = [n for n, kind in enumerate(self.kinds) if kind != PASSAGE and len(self.texts[n].split()) <= MOST_WORDS]
        questions = [n for n in short if self.texts[n].endswith("?")]
        counts = Counter(word for n in short for word in self.texts[n].lower().split())
        common = {word for word, _ in counts.most_common(COMMON)}
        words = WordsOfSources(self, short, common)
        for number in choose.choices(questions, k=swaps // 2) + choose.choices(short, k=swaps - swaps // 2):
            self._add_variation(number, words.swapped(number, choose))
        by_start = defaultdict(list)
        for number in questions:
            by_start[" ".join(self.texts[number].lower().split()[:2])].append(number)
        groups = [group for group in by_start.values() if len(group) > 1]
        for group in choose.choices(groups, weights=[len(group) for group in groups], k=mixtures):
            left, right = choose.sample(group, 2)
            at = choose.randint(3, 5)
            mixed = self.texts[left].split()[:at] + self.texts[right].split()[at:]
            self._add_variation(left, " ".join(mixed) if len(mixed) > at else "")
        print(self.names[-1], len(self.texts), flush=True)

    def add_questions(self, count: int, sentences: Path) -> None:
        """Questions in the words of people who ask: about a term, or how to do what somebody in a sentence wants to do.

        Two at a time: one thing asked in two ways, or two things asked in one way. There are few open pairs of
        questions, and a student that has seen few of them forgets which ones are the same.
        """
        choose = random.Random(2)
        terms = [
            n for n, at in enumerate(self.sources) if self.names[at].startswith(TERMS) and self.kinds[n] != PASSAGE
        ]
        things = [term for term in (self.texts[n] for n in terms) if re.fullmatch(r"[A-Za-z][A-Za-z -]{2,40}", term)]
        deeds = sorted({found for line in lines(sentences) for found in DEED.findall(line)})
        self.begin("made-questions")
        before = len(self.pairs)
        while len(self.pairs) - before < count:
            subjects, ways = (things, ABOUT) if choose.random() < 0.6 else (deeds, DOING)
            one, other = choose.sample(subjects, 2)
            first, second = choose.sample(ways, 2)
            pair = ((first, one), (second, one)) if choose.random() < 0.5 else ((first, one), (first, other))
            self.add_pair(*(self.add(way.format(subject, choose.choice(subjects)), QUERY) for way, subject in pair))
        print(self.names[-1], len(self.texts), "from", len(things), "terms and", len(deeds), "deeds", flush=True)

    def _add_variation(self, number: int, text: str) -> None:
        self.add_pair(number, self.add(text, self.kinds[number]))


class WordsOfSources:
    """The rarer words of each source, as often as they occur."""

    def __init__(self, texts: Texts, numbers: list[int], common: set[str]) -> None:
        self.texts, self.common = texts, common
        self._words: dict[int, list[str]] = defaultdict(list)
        for number in numbers:
            self._words[texts.sources[number]] += [w for w in texts.texts[number].split() if self._counts(w)]

    def _counts(self, word: str) -> bool:
        return len(word) > 2 and word.isalpha() and word.lower() not in self.common

    def swapped(self, number: int, choose: random.Random) -> str:
        """The text with one of its rarer words replaced; nothing if it has none."""
        words = self.texts.texts[number].split()
        places = [n for n, word in enumerate(words) if self._counts(word)]
        if not places:
            return ""
        place, other = choose.choice(places), choose.choice(self._words[self.texts.sources[number]])
        words[place] = other.capitalize() if words[place][0].isupper() else other
        return " ".join(words)


def gathered(data: Path) -> Texts:
    texts = Texts()
    for path in sorted((data / "search").glob("*.jsonl.gz")):
        short = path.name.startswith(SHORT_ANSWERS)
        positive = QUERY if "duplicate-titles" in path.name else SENTENCE if short else PASSAGE
        texts.add_pairs(path, QUERY, positive)
    for name in TITLES:
        texts.add_pairs(data / "train" / f"{name}.jsonl.gz", QUERY, PASSAGE)
    for name in SENTENCES:
        texts.add_pairs(data / "train" / f"{name}.jsonl.gz", SENTENCE, SENTENCE)
    texts.add_groups(data / "train" / "tatoeba-groups.jsonl.gz")
    texts.add_lines(data / "train" / "sentences.txt.gz", SENTENCE)
    for path in sorted((data / "search").glob("passages-*.txt.gz")):
        texts.add_lines(path, PASSAGE)
    texts.add_sentences_of_passages(most=4)
    texts.add_variations(swaps=200_000, mixtures=100_000)
    texts.add_questions(120_000, data / "train" / "sentences.txt.gz")
    return texts


def encoded(tokenizer: Tokenizer, texts: list[str], at_once: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    """The ids of all texts one after another, and how many each has."""
    tokenizer.no_padding()
    tokenizer.enable_truncation(LONGEST)
    ids, lens = [], []
    for begin in range(0, len(texts), at_once):
        found = [one.ids for one in tokenizer.encode_batch_fast(texts[begin : begin + at_once])]
        lens += [len(one) for one in found]
        ids.append(np.concatenate([np.asarray(one, np.uint16) for one in found]))
    return np.concatenate(ids), np.array(lens, np.uint16)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    texts = gathered(options.data)
    ids, lens = encoded(Tokenizer.from_file(options.tokenizer), texts.texts)
    np.savez(
        options.out / "train_raw.npz",
        ids=ids,
        lens=lens,
        kind=np.array(texts.kinds, np.uint8),
        src=np.array(texts.sources, np.uint8),
        pairs=np.array(texts.pairs, np.uint32),
        pair_src=np.array(texts.pair_sources, np.uint8),
        triples=np.array(texts.triples, np.uint32),
    )
    (options.out / "sources.json").write_text(json.dumps(texts.names))
    print(len(texts.texts), "texts", len(ids), "tokens", len(texts.pairs), "pairs", len(texts.triples), "triples")


if __name__ == "__main__":
    main()
