"""Ask a folder of documents: the passages that answer a question, and what a language model makes of them.

    python examples/rag/ask.py docs "How do I cut my own model?"

The folder's .md, .txt and .rst files are chunked by semchunk to what the encoder reads, and kept in an index. Each run
brings the index up to date first: new and changed files are encoded, the passages of removed ones are taken out. If
OPENAI_BASE_URL or OPENAI_API_KEY is set, that model answers from the passages (any server that speaks the OpenAI API:
Ollama, vLLM, llama.cpp); otherwise the passages are printed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import semchunk

import demitasse as dt

KINDS = {".md", ".txt", ".rst"}
INSTRUCTIONS = (
    "Answer the question from the numbered passages alone, in a few sentences, and cite them like [1]. "
    "If they do not answer it, say so."
)


class Refused(Exception):  # noqa: N818 - what a user reads is its message
    """Something that a user can put right."""


@dataclass(frozen=True)
class Source:
    """A file of the folder as it was indexed: its content's hash, and how many passages it gave."""

    sha256: str
    passages: int

    def ids(self, name: str) -> list[str]:
        """The ids of its passages."""
        return [f"{name}#{number}" for number in range(self.passages)]


def read(folder: Path) -> dict[str, str]:
    """The texts in a folder by their path in it."""
    paths = (path for path in sorted(folder.rglob("*")) if path.suffix.lower() in KINDS and path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8", errors="replace") for path in paths}


def chunked(texts: Mapping[str, str], encoder: dt.Encoder) -> dict[str, list[str]]:
    """The passages of each text, as long as the encoder reads."""

    def tokens(text: str) -> int:
        return int(encoder.count_tokens([text], prompt_name="document")[0])

    chunker = semchunk.chunkerify(tokens, encoder.max_seq_length)
    return {name: chunker(text) for name, text in texts.items()}


def synchronised(folder: Path, place: Path, encoder: dt.Encoder) -> dt.Index:
    """The index at `place` of what `folder` holds now; only what has changed is encoded."""
    texts = read(folder)
    if not texts:
        raise Refused(f"{folder} holds no {', '.join(sorted(KINDS))} files; name a folder of documents")
    record = place.with_name(place.name + ".files.json")
    there = {name: Source(**source) for name, source in _read_json(record).items()} if place.is_dir() else {}
    hashes = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
    changed = [name for name in texts if name not in there or there[name].sha256 != hashes[name]]
    passages = chunked({name: texts[name] for name in changed}, encoder)
    new = {name: Source(hashes[name], len(passages[name])) for name in changed}
    index = _indexed(place, encoder, passages, new)
    now = {name: new.get(name) or there[name] for name in texts}
    kept = {id_ for name, source in now.items() for id_ in source.ids(name)}
    index.delete([id_ for name, source in there.items() for id_ in source.ids(name) if id_ not in kept])
    # Last, and at once: a run that was killed before is made good by the next one.
    aside = record.with_name(record.name + ".new")
    aside.write_text(json.dumps({name: vars(source) for name, source in now.items()}, indent=1), encoding="utf-8")
    aside.replace(record)
    return index


def _indexed(
    place: Path, encoder: dt.Encoder, passages: Mapping[str, Sequence[str]], sources: Mapping[str, Source]
) -> dt.Index:
    texts = [passage for parts in passages.values() for passage in parts]
    ids = [id_ for name, source in sources.items() for id_ in source.ids(name)]
    files = [{"file": name} for name, parts in passages.items() for _ in parts]
    if not place.is_dir():
        return dt.Index.build(encoder, texts, place, ids=ids, metadata=files)
    index = dt.Index.open(place, encoder)
    index.add(texts, ids, files)
    return index


def _read_json(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def numbered(hits: Sequence[dt.Hit]) -> str:
    """Passages for people and models to read."""
    return "\n\n".join(f"[{place}] {hit.metadata['file']}\n{hit.text}" for place, hit in enumerate(hits, start=1))


def messages(question: str, hits: Sequence[dt.Hit]) -> list[dict[str, str]]:
    """What the language model is asked."""
    return [
        {"role": "system", "content": INSTRUCTIONS},
        {"role": "user", "content": f"{numbered(hits)}\n\nQuestion: {question}"},
    ]


def answered(asked: list[dict[str, str]], environment: Mapping[str, str]) -> str | None:
    """What the language model of the environment says; `None` if none is set."""
    if not (environment.get("OPENAI_BASE_URL") or environment.get("OPENAI_API_KEY")):
        return None
    base = (environment.get("OPENAI_BASE_URL") or "https://api.openai.com/v1").rstrip("/")
    headers = {"Content-Type": "application/json"}
    if environment.get("OPENAI_API_KEY"):
        headers["Authorization"] = f"Bearer {environment['OPENAI_API_KEY']}"
    if not environment.get("OPENAI_MODEL"):
        raise Refused("OPENAI_MODEL is not set; set it to the name of the model that should answer")
    body = {"model": environment["OPENAI_MODEL"], "messages": asked}
    request = urllib.request.Request(f"{base}/chat/completions", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=300) as reply:
            return str(json.load(reply)["choices"][0]["message"]["content"])
    except (OSError, LookupError, TypeError, ValueError) as problem:
        raise Refused(
            f"{base} gave no answer ({problem}); check OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL"
        ) from None


def report(question: str, hits: Sequence[dt.Hit], answer: str | None) -> Iterator[str]:
    """The lines for one question: the answer and where it comes from, or the passages."""
    yield f"> {question}"
    if answer is None:
        yield numbered(hits) or "nothing was found"
        return
    yield answer
    for place, hit in enumerate(hits, start=1):
        yield f"[{place}] {hit.metadata['file']} ({hit.score:.2f})"


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Ask a folder of documents.")
    parser.add_argument("folder", type=Path, help="documents: .md, .txt and .rst")
    parser.add_argument("questions", nargs="+", help="what to ask")
    parser.add_argument("--index", type=Path, default=Path("rag-index"), help="where the index is kept")
    parser.add_argument("--model", help="folder or hub name; the built-in model if left out")
    parser.add_argument("--cut", default=None, help="layers and dims of the index, such as 6x128")
    parser.add_argument("--layers", type=int, help="layers for the question; fewer are faster")
    parser.add_argument("-k", type=int, default=5, help="passages for a question")
    given = parser.parse_args(arguments)
    try:
        encoder = dt.load(given.model)
        index = synchronised(given.folder, given.index, encoder if given.cut is None else encoder.cut(given.cut))
        for question in given.questions:
            hits = index.search(question, given.k, layers=given.layers)
            answer = answered(messages(question, hits), os.environ)
            print("\n".join(report(question, hits, answer)), end="\n\n")
    except (dt.DemitasseError, Refused, OSError) as problem:
        sys.exit(f"ask.py: {problem}")


if __name__ == "__main__":
    main()
