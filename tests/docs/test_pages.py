"""README, the quick start and the how-to pages do what they say: every line of Python and every command runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pages
import pytest
from paths import ROOT

ELSEWHERE = {
    "frameworks.md",  # test_frameworks.py, since each section needs a library
    "serve.md",  # test_serving_docs.py, since its commands go on for ever
}
HOW_TO = [
    str(path.relative_to(ROOT))
    for path in sorted((ROOT / "docs" / "how-to").glob("*.md"))
    if path.name not in ELSEWHERE
]
RUN = ["README.md", "docs/index.md", "docs/quick-start.md", *HOW_TO, "docs/planning.md"]
# What a page leaves behind when all of it has run.
WRITTEN = {
    "README.md": ["report.html", "small64/demitasse.json", "small/modules.json", "run/model/modules.json", "grid.png"],
    "docs/quick-start.md": ["profile.json", "report.html"],
    "docs/how-to/choose-a-cut.md": ["profile.json", "report.html", "small64/demitasse.json"],
    "docs/how-to/cut-your-own-model.md": ["small/modules.json", "elastic/modules.json", "three-layers/modules.json"],
    "docs/how-to/train.md": [
        "run/model/modules.json",
        "small/modules.json",
        "trained/model/modules.json",
        "aligned/start",
    ],
    "docs/how-to/evaluate.md": ["grid.json", "grid.png", "cache"],
    "docs/how-to/export.md": ["blocks/layer_6.onnx", "graph/model.onnx"],
    "docs/how-to/encode-files.md": ["vectors.npy", "vectors.parquet"],
    "docs/how-to/embed-a-corpus.md": ["vectors/part-000000.parquet", "vectors/_corpus.json"],
    "docs/how-to/search.md": ["cups/index.json", "docs/texts.sqlite", "beir-index/index.json"],
    "docs/how-to/command-line.md": [
        "vectors.npy",
        "vectors.jsonl",
        "small.npy",
        "small/modules.json",
        "blocks/layer_3.onnx",
    ],
    "docs/how-to/web.md": ["site/index.html", "web/index/index.json", "small-web/demitasse.json"],
    "docs/how-to/other-libraries.md": ["three-layers/modules.json"],
    "docs/planning.md": ["report.html", "small/demitasse.json"],
}
TIMED = {"--latency-ms", "--texts-per-second", "--max-slowdown"}


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # a page may read a file in one line
@pytest.mark.parametrize("page", RUN)
def test_all_code_of_the_page_runs(
    page: str, model_folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages.prepare(tmp_path, monkeypatch)
    pages.run_page(pages.read(page), model_folder("MiniLM shape"), monkeypatch)
    assert [name for name in WRITTEN.get(page, []) if not (tmp_path / name).exists()] == []


@pytest.mark.parametrize("page", RUN)
def test_no_command_depends_on_the_speed_of_the_machine(page: str) -> None:
    """A limit on time is shown on a profile that is part of the repository: a fresh one may have nothing that fast."""
    for words in pages.commands(pages.read(page)):
        if TIMED & set(words):
            profile = ROOT / words[2]
            assert profile.is_file(), words
            assert json.loads(profile.read_text())["kind"] == "profile"
