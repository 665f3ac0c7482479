"""docs/results.md is what results/paper holds; its tables, sentences and figures are right on made-up results."""

from __future__ import annotations

import argparse
import gzip
import json
import re
import shlex
import statistics
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import compare_objectives
import paper_results
import pytest
import results_page
import results_tables
import tried_tables
from paths import ROOT

from demitasse.data.pairs import read_pairs
from demitasse.encoding.loading import load
from demitasse.evaluation.task_files import STS
from demitasse.host.bundled import BUILT_IN

LAYERS, DIMS = 4, (32, 64, 128, 256)
ROWS = {  # a run, how good it is, and how much better with all layers
    "none": (50.0, 28.0),
    "fit": (60.0, 18.0),
    "matryoshka rate=1e-4": (51.0, 30.0),
    "espresso": (65.0, 16.0),
    "espresso-released": (62.0, 22.0),
    "elastic:tune=0.3": (75.0, 5.0),
}
OBJECTIVES = ("matryoshka", "espresso", "espresso-released", "elastic")
SEARCH = ("hotpotqa-500", "hotpotqa-500 recall@10", "hotpotqa-500 all@10", "hotpotqa-500 answer@5")


def score(text: str, layers: int, dims: int, seed: int = 0) -> float:
    """Any numbers will do, if they differ by all that they could be mixed up with."""
    low, more = ROWS.get(text, (70.0, 3.0))
    drift = 0.0 if text == "none" else 1.0 * seed * (1 + layers % 2)
    return round(low + more * (layers / LAYERS) ** 2 + dims / 100 + drift, 3)


def run(text: str, seed: int = 0, layers: int = LAYERS, shift: float = 0.0) -> dict[str, Any]:
    name = text.split()[0].partition(":")[0]
    rate = float(dict(part.split("=") for part in text.split()[1:]).get("rate", 5e-5))
    objective = {"name": text.split()[0], "options": {"rate": rate}} if name in OBJECTIVES else None
    tables = {}
    for place, task in enumerate(("sts", "stsb-dev", "sick-trial", *SEARCH)):
        for kind, less in (("same", 0.0), ("against_full", 7.0)):
            tables[f"{task}/{kind}"] = {
                f"{count}x{dims}": round(score(text, count, dims, seed) + shift - place - less, 3)
                for count in range(layers + 1)
                for dims in DIMS
            }
    return {"run": text, "objective": objective, "seconds": 90.0, "scores": tables}


def file(runs: list[dict[str, Any]], seed: int = 0, **changed: Any) -> dict[str, Any]:
    source = {"name": "a.jsonl.gz", "kind": "pairs", "rows": 100, "skipped": 0, "weight": 2.0, "sha256": "a" * 64}
    other = {**source, "name": "b c.jsonl", "weight": 6.0, "sha256": "b" * 64}
    common = {"steps": 327, "batch": 512, "rate": 5e-5, "seed": seed} | changed
    return {"demitasse": "0", "device": "a GPU", "common": common, "data": [source, other], "runs": runs}


def write(folder: Path, **files: dict[str, Any]) -> list[paper_results.File]:
    folder.mkdir(exist_ok=True)
    for name, plain in files.items():
        (folder / f"{name.replace('_', '-')}.json").write_text(json.dumps(plain))
    return paper_results.read_files(folder)


def seeds(count: int) -> dict[str, dict[str, Any]]:
    return {f"minilm_seed{seed}": file([run(text, seed) for text in ROWS], seed) for seed in range(count)}


def model(files: list[paper_results.File]) -> paper_results.Backbone:
    found = paper_results.backbone(files, "minilm")
    assert found
    return found


def cells(lines: list[str]) -> dict[str, dict[str, str]]:
    """A table by row and column."""
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("| ")]
    return {row[0]: dict(zip(rows[0][1:], row[1:], strict=True)) for row in rows[1:]}


def page_of(files: list[paper_results.File]) -> str:
    return results_page.page(files, results_page.TEMPLATE.read_text())


def headings(page: str) -> list[str]:
    return re.findall(r"^## (.*)$", page, flags=re.MULTILINE)


def test_the_main_table_has_means_and_spreads_over_seeds(tmp_path: Path) -> None:
    table = cells(results_tables.main_table(model(write(tmp_path, **seeds(3)))))
    assert list(table) == ["RAW", "MRL", "ESE (paper)", "ESE (released code)", "fitted exits", "Elastic"]
    below = [statistics.fmean(score("espresso", count, 128, seed) for count in range(1, LAYERS)) for seed in range(3)]
    expected = f"{statistics.fmean(below):.1f} ± {statistics.stdev(below):.1f}".split()
    assert table["ESE (paper)"]["mean of 1 to 3, 128 dims"].split() == expected
    assert table["RAW"]["all layers"] == f"{score('none', LAYERS, 256):.1f}"  # the same with every seed
    assert table["Elastic"]["seeds"] == "3"
    assert table["Elastic"]["0 layers"].startswith("**")
    assert table["ESE (released code)"]["all layers"].startswith("**")
    assert sum(cell.startswith("**") for row in table.values() for cell in row.values()) == len(table["RAW"]) - 1
    assert table["MRL"]["hotpotqa-500 at 3x128"] != "-"


def test_one_seed_has_no_spread_and_runs_that_differ_have_rows_of_their_own(tmp_path: Path) -> None:
    files = write(tmp_path, mpnet=file([run("none"), run("elastic:tune=0.3"), run("elastic:tune=0.5")]))
    found = paper_results.backbone(files, "mpnet")
    assert found
    assert [row.label for row in found.rows] == ["RAW", "Elastic `elastic:tune=0.3`", "Elastic `elastic:tune=0.5`"]
    assert "±" not in "\n".join(results_tables.main_table(found))


def test_sections_without_results_are_left_out(tmp_path: Path) -> None:
    few = page_of(write(tmp_path, **seeds(1)))
    assert headings(few) == ["At a glance", "Protocol", "all-MiniLM-L6-v2", "Search for RAG"]
    separate = file([run(f"matryoshka layers={count}", layers=count) for count in (1, 2)], seed=0)
    more = page_of(
        write(
            tmp_path,
            minilm_separate_seed0=separate,
            minilm_ablations=file([run("espresso:compress=none")]),
            minilm_rates=file([run("espresso"), run("espresso rate=1e-3")]),
            smollm=file([run("none"), run("elastic")]),
        )
    )
    assert headings(more)[3:] == [
        "SmolLM2-135M-Instruct",
        "Elastic against models trained separately",
        "Ablations",
        "Search for RAG",
        "Rates that were tried",
    ]
    for page in (few, more):
        linked = re.findall(r"^- \[(.*)\]\(#", page, flags=re.MULTILINE)
        assert linked == headings(page)
        assert not re.search(r"-->\n<!-- end", page)


def test_separate_models_are_compared_on_shared_seeds_and_layers(tmp_path: Path) -> None:
    alone = file([run(f"matryoshka layers={count}", 1, count) for count in (1, 3)], seed=1)
    found = model(write(tmp_path, **seeds(3), minilm_separate_seed1=alone))
    table = cells(results_tables.separate(found))
    assert list(table) == ["3", "1", "mean of these"]
    before, after = score("matryoshka layers=3", 3, 32, 1), score("elastic:tune=0.3", 3, 32, 1)
    assert table["3"]["STS, 32 dims"] == f"{before:.1f} → {after:.1f} ({after - before:+.1f})"
    main = cells(results_tables.main_table(found))["separate models"]
    assert main["3 layers"].strip("*") == f"{score('matryoshka layers=3', 3, 256, 1):.1f}"
    assert main["all layers"] == main["mean of 1 to 3, 256 dims"] == "-"  # two layers alone were not trained
    assert main["seeds"] == "1"


def test_ablations_stand_below_the_row_they_change(tmp_path: Path) -> None:
    tried = [run("elastic:tune=0 optimizer=muon"), run("espresso:compress=none"), run("espresso")]
    tried.append(run("elastic:exits=false"))
    found = model(files := write(tmp_path, **seeds(2), minilm_ablations=file(tried, seed=1)))
    table = cells(results_tables.ablations(found, paper_results.of_kind(files, "minilm", "ablations")))
    assert list(table) == [
        "ESE (paper), as above",
        "ESE (paper): learn-to-express only",
        "Elastic, as above",
        "Elastic: teacher: the model as released, Muon",
        "Elastic: no exits, the default tune",
    ]
    assert table["Elastic, as above"]["all layers"] == f"{score('elastic:tune=0.3', LAYERS, 256, 1):.1f}"


def test_rates_say_what_is_best_and_what_is_used(tmp_path: Path) -> None:
    tried = [run("espresso", shift=-20.0), run("espresso rate=1e-3"), run("elastic:tune=0.9")]
    found = model(files := write(tmp_path, **seeds(1), minilm_rates=file(tried)))
    rates = paper_results.of_kind(files, "minilm", "rates")
    lines = tried_tables.rates(found, rates)
    ours, other = (next(line for line in lines if f"`{text}`" in line) for text in ("espresso", "espresso rate=1e-3"))
    assert ours.endswith("✓ |")
    assert "**" not in ours
    assert "✓" not in other
    assert other.count("**") == 2 * 10
    said = " ".join(tried_tables.chosen(found, rates))
    assert all(text in said for text in ("`espresso`", "2 of 2", "`elastic:tune=0.3`"))


def test_search_has_a_table_for_each_metric(tmp_path: Path) -> None:
    text = "\n".join(results_tables.search_tables(model(write(tmp_path, **seeds(1)))))
    parts = dict(zip(*[iter(re.split(r"^(\S.*):\n$", text, flags=re.MULTILINE)[1:])] * 2, strict=True))
    assert list(parts)[:4] == ["nDCG@10", "Recall@10", "Both gold paragraphs in the first 10", "Answer in the first 5"]
    assert list(parts)[4:] == ["nDCG@10, documents at all layers: only the question is cut to fewer"]
    recall = cells(parts["Recall@10"].splitlines())
    assert recall["ESE (paper)"]["64 dims"] == f"{score('espresso', LAYERS, 64) - 4:.1f}"
    assert recall["ESE (paper)"]["1 layer"] == f"{score('espresso', 1, 256) - 4:.1f}"


def test_a_model_that_was_cut_first_is_scored_at_its_own_last_layer(tmp_path: Path) -> None:
    texts = ("matryoshka layers=2 rate=1e-4", "matryoshka layers=2 rate=1e-3")
    tried = [run("matryoshka rate=1e-4"), *(run(text, layers=2) for text in texts)]
    apart = file([run(texts[0], layers=2)])
    found = model(files := write(tmp_path, **seeds(1), minilm_rates=file(tried), minilm_separate=apart))
    lines = tried_tables.rates(found, paper_results.of_kind(files, "minilm", "rates"))
    used, other = (next(line for line in lines if f"`{text}`" in line) for text in texts)
    assert used.startswith("| separate models, 2 layers |")
    assert used.endswith("✓ |")
    assert not other.endswith("✓ |")
    assert f"{score(texts[0], 2, DIMS[-1]) - 1:.1f}" in used  # stsb-dev is the second task


def test_commands_make_the_files_again(tmp_path: Path) -> None:
    files = write(tmp_path, **seeds(2), minilm_rates=file([run("espresso rate=1e-3")], seed=4))
    loop = results_page.command(model(files).files)
    assert loop[1] == "for seed in 0 1; do"
    script = "\n".join(loop[2:-2]).replace("\\\n", " ")
    known = re.findall(r'add_argument\(\s*"(--\w+)"', Path(compare_objectives.__file__).read_text())
    words = shlex.split(script)
    assert {word for word in words if word.startswith("--")} <= set(known)
    parser = argparse.ArgumentParser()
    for name, count in (("--train", "+"), ("--weights", "+"), ("--search", "*")):
        parser.add_argument(name, nargs=count)
    parser.add_argument("--run", action="append")
    options, _ = parser.parse_known_args(words[3:])
    assert options.train == ["a.jsonl.gz", "b c.jsonl"]
    assert options.weights == ["2", "6"]
    assert options.search == ["hotpotqa-500"]
    assert options.run == list(ROWS)
    assert words[-1] == "research/results/paper/minilm-seed$seed.json"
    alone = results_page.command(paper_results.of_kind(files, "minilm", "rates"))
    assert " ".join(shlex.split("".join(alone[1:-1]).replace("\\", " "))[-4:]) == (
        "--seed 4 --json research/results/paper/minilm-rates.json"
    )


def script(*arguments: object) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, ROOT / "research" / "results_page.py", *arguments]
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)


def test_check_fails_when_the_page_or_a_figure_is_stale(tmp_path: Path) -> None:
    results, page = tmp_path / "paper", tmp_path / "docs" / "results.md"
    places = ("--results", results, "--page", page)
    files = write(results, **seeds(2))
    assert results_page.stale(files, page)[0] == "results.md"
    assert script(*places).returncode == 0
    assert script("--check", *places).returncode == 0
    figures = sorted(path.name for path in (page.parent / "figures").iterdir())
    assert figures == ["minilm-layers.svg", "minilm-search.svg"]
    assert all(f"figures/{name}" in page.read_text() for name in figures)

    page.write_text(page.read_text().replace("±", "± 9", 1))
    failed = script("--check", *places)
    assert failed.returncode == 1
    assert failed.stderr.startswith("results.md: ")
    results_page.write(files, page)

    changed = seeds(2)
    changed["minilm_seed1"]["runs"][3]["scores"]["sts/same"]["2x32"] += 30
    other = write(results, **changed)
    assert results_page.stale(other, page) == ["results.md", "minilm-layers.svg"]
    results_page.write(other, page)
    assert results_page.stale(other, page) == []
    (page.parent / "figures" / "mpnet-layers.svg").write_text("<svg/>")
    assert results_page.stale(other, page) == ["mpnet-layers.svg"]


def test_without_results_there_is_no_page(tmp_path: Path) -> None:
    places = ("--results", tmp_path / "nothing", "--page", tmp_path / "results.md")
    assert script("--check", *places).returncode == 0
    assert script(*places).returncode == 1
    assert not (tmp_path / "results.md").exists()
    (tmp_path / "results.md").write_text("numbers from nowhere")
    assert script("--check", *places).returncode == 1


@pytest.mark.parametrize(
    ("name", "plain", "said"),
    [
        ("bert", file([run("none")]), "bert.json"),
        ("minilm_seed1", file([run("none")], steps=3), "differ in steps"),
        ("minilm_seed1", file([{**run("none"), "run": "sonnet"}], seed=1), "'sonnet'"),
    ],
)
def test_files_that_do_not_belong_are_refused(name: str, plain: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=said):
        model(write(tmp_path, **seeds(1), **{name: plain}))


def test_time_is_measured_at_each_number_of_layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results_page, "ROUNDS", 3)
    monkeypatch.setattr(results_page, "corpus", lambda: ["a small cup of coffee", "a large one"] * 10)
    measured = results_page.timed(str(BUILT_IN))
    times = measured["milliseconds_a_text"]
    assert isinstance(times, dict)
    assert list(times) == [str(count) for count in range(7)]
    assert min(times.values()) > 0
    made_up = {**measured, "milliseconds_a_text": {str(count): 1.5 + count for count in range(LAYERS + 1)}}
    page = page_of(files := write(tmp_path, **seeds(1), minilm_time=made_up))
    assert "| 1.5 | 2.5 | 3.5 | 4.5 | 5.5 |" in page
    assert "| 3.7 | 2.2 | 1.6 | 1.2 | 1.0 |" in page
    assert "figures/minilm-time.svg" in page
    (picture,) = (one for one in results_page.pictures(files) if one.name == "minilm-time")
    elastic = picture.panels[-1].lines[-1]
    assert [(point.x, point.y, point.name) for point in elastic.points] == [
        (1.5 + count, score("elastic:tune=0.3", count, 256), str(count)) for count in range(LAYERS + 1)
    ]


def test_the_page_is_what_the_results_hold() -> None:
    files = paper_results.read_files(ROOT / "research" / "results" / "paper")
    page = ROOT / "docs" / "results.md"
    assert page.exists() == bool(files)
    assert results_page.stale(files, page) == []


def test_scores_of_a_search_keep_its_other_metrics(model_folder: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "sts").mkdir()
    for name in (*STS, "stsb-dev", "sick-trial"):
        rows = [{"a": f"{name} cup {row}", "b": f"bean {row * row}", "score": row} for row in range(6)]
        (tmp_path / "sts" / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    search = tmp_path / "retrieval" / "tiny"
    search.mkdir(parents=True)
    documents = [{"_id": f"d{row}", "title": "", "text": f"cup number {row}"} for row in range(12)]
    queries = [{"_id": f"q{row}", "text": f"which cup is {row}", "answer": str(row)} for row in range(3)]
    for name, rows in (("corpus", documents), ("queries", queries)):
        with gzip.open(search / f"{name}.jsonl.gz", "wt") as lines:
            lines.writelines(json.dumps(row) + "\n" for row in rows)
    judged = "".join(f"q{row}\td{row}\t1\nq{row}\td{row + 5}\t1\n" for row in range(3))
    (search / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)

    base = load(model_folder("MiniLM shape"), device="cpu")
    pairs = read_pairs([(f"cup {row}", f"mug {row}") for row in range(8)])
    common = {"steps": 1, "batch": 4, "rate": 1e-5, "seed": 0}
    encoder = compare_objectives.trained(base, pairs, "matryoshka layers=2 rate=2e-5", common, tmp_path / "run")
    assert encoder.full.layers == 2
    assert encoder.record["objective"]["options"]["rate"] == 2e-5
    scores = compare_objectives.scores_of(encoder, tmp_path, ["tiny"])
    metrics = ("", " recall@10", " all@10", " answer@5", " answer@10")
    wanted = {f"tiny{metric}" for metric in metrics} | {"sts", "stsb-dev", "sick-trial"}
    assert set(scores) == {f"{name}/{kind}" for name in wanted for kind in ("same", "against_full")}
    cuts = {f"{count}x{dims}" for count in range(3) for dims in (32, 64, 128, 256, 384)}
    assert all(set(table) == cuts for table in scores.values())
    assert all(cut["all@10"] <= cut["recall@10"] for cut in _by_cut(scores, "tiny"))
    summary = compare_objectives.summary(encoder, scores)
    assert summary["sts"]["shallow 128"] == pytest.approx(scores["sts/same"]["1x128"], abs=0.01)
    assert "shallow 128" not in compare_objectives.summary(encoder.cut(layers=1), scores)["sts"]


def _by_cut(scores: dict[str, dict[str, float]], task: str) -> list[dict[str, float]]:
    names = ("recall@10", "all@10")
    return [{name: scores[f"{task} {name}/same"][cut] for name in names} for cut in scores[f"{task}/same"]]


@pytest.mark.parametrize("layers", [1, 6, 12, 24, 28, 30, 96])
def test_of_many_layers_few_are_written_and_the_last_is_one_of_them(layers: int) -> None:
    found = paper_results.few(range(layers + 1))
    assert found[-1] == layers
    assert len(found) <= 14
    assert len({after - before for before, after in pairwise(found)}) == 1
    assert found == list(range(layers + 1)) or layers > 12
