"""The shape of the code: imports point down only, files and functions stay short, no option is swallowed."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import demitasse

SOURCE = Path(demitasse.__file__).parent
# From the bottom up; a module may import from the rows below its own, and from beside it where a row says so.
ROWS = [
    {"errors", "_version"},
    {
        "cut",
        "texts",
        "batching",
        "progress",
        "atomic",
        "exits",
        "pooling",
        "losses",
        "jsons",
        "fusing",
        "rows",
        "threads",
        "corpus",
        "extras",
        "row_files",
        "scores",
        "lines",
    },
    {"row_kinds", "storing", "charts", "result_files"},
    {
        "pairs",
        "compress",
        "pair_losses",
        "objective",
        "manifest",
        "devices",
        "backbone",
        "words",
        "readout",
        "refining",
        "vectors_out",
        "checkpoint",
        "sessions",
        "tasks",
        "pictures",
        "machine",
        "budget",
    },
    {"profile"},
    {"profile_files", "gate", "timing", "measure_options"},
    {"profile_table", "profile_series"},
    {"task_files", "resampling"},
    {"cut_scores"},
    {"evaluation"},
    {"evaluation_files", "eval_table", "eval_plots", "profile_plots"},
    {"sampling", "objectives", "elastic", "tokens", "device_rows", "word_workers", "layout", "blocks", "int8"},
    {"encoder", "tokenizers_hf", "fingerprints"},
    {"torch_encoder", "block_encoder", "embedding_cache", "agreement"},
    {"folder", "graphs", "task_rows"},
    {"evaluating"},
    {
        "dev_scores",
        "fitting",
        "sizes",
        "loading",
        "exporting",
        "student",
        "loader",
        "teacher_vectors",
        "run_folder",
        "choices",
    },
    {"train_options", "train_step", "adapters", "muon", "blending", "quality", "variants"},
    {"train_run", "measuring"},
    {"train_stage", "reporting"},
    {"training"},
    {"__init__"},
    {"using", "shared_options"},
    {"budget_options"},
    {"cli_train", "cli_eval", "cli_report"},
    {"cli_measure"},
    {"cli_plan", "cli_check"},
    {"demo"},
    {"cli"},
    {"__main__"},
]
LEVEL = {name: level for level, row in enumerate(ROWS) for name in row}
FILES = sorted(SOURCE.glob("*.py"))


def imports(path: Path) -> set[str]:
    """The modules of this package that `path` imports when it is itself imported."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("demitasse"):
            found |= {node.module.partition(".")[2]} if "." in node.module else {name.name for name in node.names}
        elif isinstance(node, ast.Import):
            found |= {name.name.partition(".")[2] for name in node.names if name.name.startswith("demitasse.")}
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_imports_point_down(path: Path) -> None:
    upward = {name for name in imports(path) if LEVEL[name] >= LEVEL[path.stem]}
    assert not upward, f"{path.name} imports {sorted(upward)}, which do not sit below it"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files_and_functions_are_short(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 300
    assert ast.get_docstring(ast.parse(text)), f"{path.name} does not say what it is"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.end_lineno:
            assert node.end_lineno - node.body[0].lineno < 60, f"{path.name}: {node.name} is long"


def test_no_public_call_swallows_options() -> None:
    for name in demitasse.__all__:
        thing = getattr(demitasse, name)
        calls = [thing] if inspect.isfunction(thing) else [f for _, f in inspect.getmembers(thing, inspect.isfunction)]
        for call in calls:
            if call.__module__.startswith("demitasse") and not call.__name__.startswith("__"):
                kinds = {parameter.kind for parameter in inspect.signature(call).parameters.values()}
                assert inspect.Parameter.VAR_KEYWORD not in kinds, f"{name}: {call.__name__}"
