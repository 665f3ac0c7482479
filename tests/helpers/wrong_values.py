"""Every public call with values of the wrong type: what each call is given when it is right, and what is wrong."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from evaluations import evaluation
from profiles import made_profile

import demitasse as dt


def anything(*given: object) -> None:
    """A function that can be called with anything."""


class Unshown:
    """What cannot be shown in a sentence."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


NESTED: Any = {}
for _ in range(2000):
    NESTED = {"and": [NESTED]}

# What people give by mistake: nothing, text, numbers of all kinds, lists, tables, bytes, functions and things.
WRONG: dict[str, Any] = {
    "None": None,
    "text": "banana",
    "empty": "",
    "cut": "3x64",
    "number": 3,
    "negative": -1,
    "huge": 10**30,
    "gigantic": 10**5000,
    "half a character": "\ud800",
    "a zero": "a\0b",
    "nested": NESTED,
    "unshown": Unshown(),
    "float": 2.5,
    "nan": float("nan"),
    "flag": True,
    "bytes": b"3x64",
    "list": ["a", 1, None],
    "numbers": [1, 2],
    "nothing": [],
    "dict": {"text": ["a"]},
    "array": np.ones((2, 3)),
    "function": anything,
    "object": object(),
    "path": Path("no-such-place/at-all"),
}


class Call:
    """A public call with arguments that work, each of which is then replaced.

    `fine` names the values of parameters that are right after all and would start long work.
    """

    def __init__(self, name: str, function: Callable[..., Any], *right: Any, fine: tuple[str, ...] = (), **named: Any):
        self.name, self.function, self.fine = name, function, fine
        self.right = inspect.signature(function).bind(*right, **named)

    def wrong(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """Every parameter with every wrong value, the others right."""
        for parameter in inspect.signature(self.function).parameters.values():
            for what, value in WRONG.items():
                if f"{parameter.name}={what}" not in self.fine:
                    yield f"{self.name}({parameter.name}={what})", partial(self.run, parameter, value)

    def run(self, parameter: inspect.Parameter, value: Any) -> None:
        """The call with one argument replaced; what it gives back is used up, if it is an iterator."""
        several = parameter.kind is inspect.Parameter.VAR_POSITIONAL
        bound = inspect.BoundArguments(self.right.signature, dict(self.right.arguments))  # type: ignore[arg-type]
        bound.arguments[parameter.name] = (value,) if several else value
        bound.apply_defaults()
        made = self.function(*bound.args, **bound.kwargs)
        if isinstance(made, Iterator):
            for _ in made:
                pass


def constructors() -> list[Call]:
    """Options and values."""
    kinds = (
        "AdaptiveLayer",
        "Aligned",
        "AnglE",
        "CoSENT",
        "Elastic",
        "Espresso",
        "EspressoReleased",
        "InfoNCE",
        "Matryoshka",
    )
    more = ("Matryoshka2d", "Principal", "Published", "Starbucks", "TwoDMSE", "TrainOptions", "Budget")
    made = [Call(kind, getattr(dt, kind)) for kind in (*kinds, *more, "MeasureOptions", "CorpusOptions")]
    return [*made, Call("Cut", dt.Cut, 3, 64), Call("Cut.parse", dt.Cut.parse, "3x64"), Call("grid", dt.grid, [1], [8])]


def results(folder: Path) -> list[Call]:
    """What is asked of profiles, evaluations and files."""
    profile, made, cut = made_profile(), evaluation(), dt.Cut(2, 8)
    profile.save(folder / "profile.json")
    budget, vectors = dt.Budget(latency_ms=2), np.ones((2, 8), np.float32)
    return [
        Call("Cut.fits", cut.fits, cut),
        Call("Cut.within", cut.within, cut),
        Call("MeasureOptions.cuts_of", dt.MeasureOptions(cuts=[cut]).cuts_of, cut),
        Call("TrainOptions.rate_at", dt.TrainOptions().rate_at, 1, 5),
        Call("Budget.describe", budget.describe, "latency_ms"),
        Call("Profile.best", profile.best, budget),
        Call("Profile.front", profile.front, "quality"),
        Call("Profile.select", profile.select, [dt.Cut(2, 32)], ["int8"], ["float32"]),
        Call("Profile.share", profile.share, profile.rows[0]),
        Call("Profile.save", profile.save, folder / "again.json"),
        Call("Evaluation.find", made.find, "both", cut),
        Call("Evaluation.score", made.score, "both", cut),
        Call("Evaluation.interval", made.interval, "both", cut),
        Call("Evaluation.difference", made.difference, evaluation(seed=1), "both", cut),
        Call("Evaluation.share", made.share, "both", cut),
        Call("Evaluation.shallow", made.shallow, "both", 8),
        Call("Evaluation.shallow_interval", made.shallow_interval, "both", 8),
        Call("Evaluation.shallow_difference", made.shallow_difference, evaluation(seed=1), "both", 8),
        Call("Evaluation.save", made.save, folder / "evaluation.json"),
        Call("read_evaluation", dt.read_evaluation, folder / "evaluation.json"),
        Call("read_profile", dt.read_profile, folder / "profile.json"),
        Call("report", dt.report, profile, folder / "report.html"),
        Call("store", dt.store, vectors, "int8"),
        Call("restore", dt.restore, dt.store(vectors, "int8"), "int8"),
        Call("read_pairs", dt.read_pairs, [("a", "b")]),
        Call("Pairs.texts", dt.read_pairs([("a", "b")]).texts),
    ]


def encoding(name: str, encoder: dt.Encoder, folder: Path) -> list[Call]:
    """What is asked of an encoder."""
    texts, vectors, cut = ["a", "b"], np.ones((2, 8), np.float32), dt.Cut(1, 8)
    return [
        Call(f"{name}.encode", encoder.encode, texts),
        Call(f"{name}.encode_iter", encoder.encode_iter, texts),
        Call(f"{name}.encode_cuts", encoder.encode_cuts, texts, [cut]),
        Call(f"{name}.encode_query", encoder.encode_query, texts),
        Call(f"{name}.encode_document", encoder.encode_document, texts),
        Call(f"{name}.count_tokens", encoder.count_tokens, texts),
        Call(f"{name}.similarity", encoder.similarity, vectors, vectors),
        Call(f"{name}.similarity_pairwise", encoder.similarity_pairwise, vectors, vectors),
        Call(f"{name}.cut", encoder.cut, 1, 8),
        Call(f"{name}.model_bytes", encoder.model_bytes, cut),
        Call(f"{name}.save", encoder.cut(0, 8).save, folder / "saved", force=True),
    ]


def indexing(encoder: dt.Encoder, folder: Path) -> list[Call]:
    """What is asked of an index."""
    index = dt.Index.build(encoder, ["a", "b"], folder / "index")
    return [
        Call("Scan", dt.Scan, "bits", 0.9, 30),
        Call("Index.build", dt.Index.build, encoder, ["a", "b"], folder / "again", force=True, graph=False),
        Call("Index.open", dt.Index.open, folder / "index", encoder),
        Call("Index.search", index.search, "a", 1),
        Call("Index.search_vectors", index.search_vectors, np.ones((1, 32)), 1),
        Call("Index.add", index.add, ["c"]),
        Call("Index.delete", index.delete, ["c"]),
        Call("Index.rebuild", index.rebuild, encoder),
        Call("Index.compact", index.compact, graph=False),
    ]


def work(encoder: dt.Encoder, folder: Path, model: Path, sentences: list[str]) -> list[Call]:
    """The calls that take long when they are right."""
    pairs = dt.read_pairs([("a cup", "a mug")] * 8)
    quick = dt.TrainOptions(steps=1, batch=2)
    measuring = dt.MeasureOptions(cuts=[dt.Cut(0, 8)], precisions=["fp32"], rounds=2, seconds=0.01)
    none = {"fine": ("encoder=None", "options=None", "tasks=None", "texts=None", "compare=nothing")}
    return [
        Call("load", dt.load, model, device="cpu"),
        Call("load_teacher", dt.load_teacher, encoder, model),
        Call("fit_exits", dt.fit_exits, encoder, sentences, order=False, refine=False),
        Call(
            "train",
            dt.train,
            encoder,
            pairs,
            dt.Matryoshka(),
            out=folder / "run",
            options=quick,
            fine=("options=None",),
        ),
        Call("export", dt.export, encoder.cut(0, 8), folder / "blocks", force=True),
        Call("evaluate", dt.evaluate, encoder, cuts=[dt.Cut(0, 8)], resamples=0),
        Call("measure", dt.measure, encoder, texts=sentences[:60], options=measuring, **none),
        Call(
            "embed_corpus",
            dt.embed_corpus,
            encoder.cut(0, 8),
            _text_file(folder / "corpus.txt", sentences[:9]),
            folder / "corpus",
            force=True,
            fine=("options=None",),
        ),
        Call("mteb_model", dt.mteb_model, encoder, dt.Cut(1, 8)),
    ]


def _text_file(path: Path, texts: list[str]) -> Path:
    path.write_text("\n".join(texts))
    return path
