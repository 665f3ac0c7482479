"""Inside the real mteb package, on tasks defined here: nothing is downloaded."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import mteb
import numpy as np
import pytest
import pytrec_eval
import zoo
from datasets import Dataset, DatasetDict
from mteb.abstasks import AbsTaskRetrieval, AbsTaskSTS
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.models import EncoderProtocol
from mteb.types import PromptType

from demitasse.cut import Cut
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.loading import load
from demitasse.encoding.vectors import Vectors
from demitasse.errors import CutError, DataError
from demitasse.evaluation.evaluate import evaluate
from demitasse.evaluation.tasks import PairTask, SearchTask, Task
from demitasse.integrations.mteb import mteb_model

PAIRS = 60
DOCUMENTS = 80
QUERIES = 25
WORDS = zoo.sentences(2 * PAIRS + DOCUMENTS + QUERIES, seed=7)
LEFT, RIGHT = WORDS[:PAIRS], WORDS[PAIRS : 2 * PAIRS]
GOLD = [random.Random(number).randint(0, 10) / 2 for number in range(PAIRS)]
BODIES = WORDS[2 * PAIRS : 2 * PAIRS + DOCUMENTS]
TITLES = ["" if number % 2 else f"ruxes {number}" for number in range(DOCUMENTS)]
QUESTIONS = WORDS[-QUERIES:]
JUDGEMENTS = [{(7 * query + step) % DOCUMENTS: 1 + step for step in range(1 + query % 3)} for query in range(QUERIES)]

METADATA: dict[str, Any] = {
    "description": "a local task",
    "reference": None,
    "dataset": {"path": "none/none", "revision": "none"},
    "category": "t2t",
    "eval_splits": ["test"],
    "eval_langs": ["eng-Latn"],
    "bibtex_citation": "",
}


class LocalPairs(AbsTaskSTS):
    metadata = TaskMetadata(type="STS", name="LocalPairs", main_score="cosine_spearman", **METADATA)

    def load_data(self, **_: Any) -> None:
        columns = {"sentence1": LEFT, "sentence2": RIGHT, "score": GOLD}
        self.dataset = DatasetDict(test=Dataset.from_dict(columns))
        self.data_loaded = True


class LocalSearch(AbsTaskRetrieval):
    metadata = TaskMetadata(type="Retrieval", name="LocalSearch", main_score="ndcg_at_10", **METADATA)

    def load_data(self, **_: Any) -> None:
        documents = {"id": [f"d{number}" for number in range(DOCUMENTS)], "title": TITLES, "text": BODIES}
        queries = {"id": [f"q{number}" for number in range(QUERIES)], "text": QUESTIONS}
        judged = {
            f"q{query}": {f"d{doc}": grade for doc, grade in grades.items()} for query, grades in enumerate(JUDGEMENTS)
        }
        split = {
            "corpus": Dataset.from_dict(documents),
            "queries": Dataset.from_dict(queries),
            "relevant_docs": judged,
            "top_ranked": None,
        }
        self.dataset = {"default": {"test": cast(Any, split)}}
        self.data_loaded = True


def our_task(kind: type[AbsTaskSTS | AbsTaskRetrieval]) -> Task:
    """The same task in demitasse."""
    if kind is LocalPairs:
        return PairTask("pairs", "pairs", tuple(LEFT), tuple(RIGHT), np.array(GOLD), binary=False, sha256="0" * 64)
    documents = tuple(f"{title} {body}" if title else body for title, body in zip(TITLES, BODIES, strict=True))
    judged = tuple({doc: float(grade) for doc, grade in grades.items()} for grades in JUDGEMENTS)
    return SearchTask("search", "search", documents, tuple(QUESTIONS), judged, (None,) * QUERIES, sha256="1" * 64)


def main_score(model: EncoderProtocol, kind: type[AbsTaskSTS | AbsTaskRetrieval], **options: Any) -> float:
    results = mteb.evaluate(model, kind(), **{"cache": None, "show_progress_bar": False, "num_proc": 1, **options})
    return float(results.task_results[0].get_score())


# mteb rounds the metrics of a search to five decimals.
@pytest.mark.parametrize(("kind", "within"), [(LocalPairs, 1e-6), (LocalSearch, 0.501e-5)])
@pytest.mark.parametrize("cut", [Cut(3, 32), Cut(2, 16), Cut(0, 8)], ids=str)
def test_mteb_gets_the_score_of_evaluate(encoder: Encoder, kind: Any, within: float, cut: Cut) -> None:
    task = our_task(kind)
    score = evaluate(encoder, [task], cuts=[cut], resamples=0).score(task.name, cut) / 100
    assert abs(score) > 0.01
    assert main_score(mteb_model(encoder, cut), kind) == pytest.approx(score, abs=within)


def test_trec_eval_gives_each_query_our_score(encoder: Encoder, tmp_path: Path) -> None:
    main_score(mteb_model(encoder), LocalSearch, prediction_folder=tmp_path)
    (written,) = tmp_path.glob("*.json")
    predictions = json.loads(written.read_text())["default"]["test"]
    judged = {
        f"q{query}": {f"d{doc}": grade for doc, grade in grades.items()} for query, grades in enumerate(JUDGEMENTS)
    }
    theirs = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.10"}).evaluate(predictions)
    task = cast(SearchTask, our_task(LocalSearch))
    documents = encoder.encode(task.documents, prompt_name="document")
    units = task.score(encoder.encode(QUESTIONS, prompt_name="query"), documents).units
    assert [theirs[f"q{query}"]["ndcg_cut_10"] for query in range(QUERIES)] == pytest.approx(list(units), abs=1e-6)


def test_mteb_accepts_the_built_in_model() -> None:
    model = mteb_model(load(), Cut(1, 64))
    assert isinstance(model, EncoderProtocol)
    assert np.isfinite(main_score(model, LocalPairs))
    meta = model.mteb_model_meta
    assert meta is not None
    assert meta.name == "demitasse/all-MiniLM-L6-v2-1x64"
    assert (meta.n_parameters, meta.framework) == (None, ["ONNX"])


def test_the_metadata_that_mteb_stores(encoder: Encoder) -> None:
    meta = mteb_model(encoder, Cut(2, 16)).mteb_model_meta
    assert meta is not None
    assert (meta.name, meta.revision) == ("demitasse/tiny-2x16", encoder.cut(2, 16).fingerprint)
    assert (meta.embed_dim, meta.max_tokens, meta.similarity_fn_name) == (16, 32, "cosine")
    assert (meta.framework, meta.use_instructions) == (["PyTorch"], True)
    small = encoder.cut(layers=2)
    assert meta.n_parameters == sum(p.numel() for p in cast(Any, small).backbone.model.parameters())
    full = mteb_model(encoder).mteb_model_meta
    assert full is not None
    assert full.name == "demitasse/tiny-3x32"
    assert full.n_parameters is not None
    assert full.n_parameters > meta.n_parameters


@pytest.mark.parametrize(
    ("given", "prompt"),
    [(None, None), (PromptType.query, "query"), (PromptType.document, "document")],
)
def test_queries_and_documents_get_their_prompts(encoder: Encoder, given: PromptType | None, prompt: str) -> None:
    assert encoder.reader.prompts == {"query": "kan lor ", "document": "mist "}
    assert np.array_equal(encoded(encoder, LocalSearch, given), encoder.encode(QUESTIONS, prompt_name=prompt))


def test_a_prompt_for_a_type_of_task_is_used(encoder: Encoder) -> None:
    prompts = {**encoder.reader.prompts, "STS": "zen "}
    other = replace(cast(Any, encoder), reader=replace(encoder.reader, prompts=prompts))
    assert np.array_equal(encoded(other, LocalPairs, None), other.encode(QUESTIONS, prompt_name="STS"))
    assert np.array_equal(encoded(other, LocalSearch, None), other.encode(QUESTIONS))


def encoded(
    encoder: Encoder, kind: type[AbsTaskSTS | AbsTaskRetrieval], prompt_type: PromptType | None, **options: Any
) -> Vectors:
    loader = [{"text": QUESTIONS[:10]}, {"text": QUESTIONS[10:]}]
    return cast(
        Vectors,
        mteb_model(encoder).encode(
            cast(Any, loader),
            task_metadata=kind.metadata,
            hf_split="test",
            hf_subset="default",
            prompt_type=prompt_type,
            **options,
        ),
    )


def test_bad_requests_are_refused_with_one_sentence(encoder: Encoder) -> None:
    with pytest.raises(CutError, match="cut 9x32 is deeper"):
        mteb_model(encoder, Cut(9, 32))
    with pytest.raises(DataError, match=r"precision 'int8' .*; leave it out"):
        encoded(encoder, LocalPairs, None, precision="int8")


def test_results_are_stored_for_each_cut(encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = mteb.ResultCache(cache_path=tmp_path)
    scores = [main_score(mteb_model(encoder, cut), LocalPairs, cache=cache) for cut in (Cut(3, 32), Cut(1, 4))]
    monkeypatch.setattr(type(encoder), "encode", None)
    again = [main_score(mteb_model(encoder, cut), LocalPairs, cache=cache) for cut in (Cut(3, 32), Cut(1, 4))]
    assert scores == pytest.approx(again, abs=1e-6)  # mteb rounds them in its files
    assert scores[0] != scores[1]
    assert len(list(tmp_path.rglob("LocalPairs.json"))) == 2


def test_without_mteb_the_message_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['mteb'] = None\n"
        "try: import demitasse.integrations.mteb\n"
        "except ImportError as problem: print(problem)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "needs mteb; pip install 'demitasse[mteb]'" in run.stdout
