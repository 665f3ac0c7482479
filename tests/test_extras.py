from __future__ import annotations

import ast
import pickle
import re
import sys
import tomllib
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import pytest
import yaml
from command_line import RunCommand
from paths import ROOT
from python_programs import OPTIONAL, run_program

import demitasse
from demitasse import errors, extras
from demitasse.extras import Extra, need

SOURCE = Path(demitasse.__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = {name: extra for name, extra in vars(extras).items() if isinstance(extra, Extra)}
# Modules that come with another package, or whose package has another name.
ALIASES = {"huggingface_hub": "tokenizers", "haystack": "haystack_ai", "llama_index": "llama_index_core"}


def packages(requirements: list[str]) -> set[str]:
    """The names in a list of requirements, as they are imported."""
    return {re.split(r"[^\w-]", one)[0].replace("-", "_") for one in requirements}


BASE = packages(PROJECT["dependencies"])


@cache
def imports_of(path: Path, *, everywhere: bool) -> list[str]:
    """The modules that a file imports: at its top, or everywhere but for type checkers."""
    found: list[str] = []
    tree = ast.parse(path.read_text(encoding="utf-8"))
    checked = {node for block in ast.walk(tree) if _for_type_checkers(block) for node in ast.walk(block)}
    for node in ast.walk(tree) if everywhere else tree.body:
        if node not in checked:
            found += [one.name for one in node.names] if isinstance(node, ast.Import) else []
            found += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    return found


def _for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def imported(module: str) -> set[str]:
    """The packages outside demitasse that importing a module of it imports, and those that its functions import."""
    found, waiting, seen = set[str](), [module], set[str]()
    while waiting:
        name = waiting.pop()
        path = SOURCE.joinpath(*name.split(".")).with_suffix(".py")
        if name in seen or not path.is_file():
            continue
        seen.add(name)
        waiting += [one.partition(".")[2] for one in imports_of(path, everywhere=False) if one.startswith("demitasse.")]
        found |= outside(imports_of(path, everywhere=True))
    return found


def outside(modules: Iterable[str]) -> set[str]:
    """The packages of `modules` that belong neither to demitasse nor to Python."""
    found = {name.partition(".")[0] for name in modules} - {*sys.stdlib_module_names, "demitasse", "__future__"}
    return {ALIASES.get(name, name) for name in found}


@pytest.mark.parametrize("name", EXTRAS)
def test_the_extra_in_a_hint_installs_all_that_the_feature_needs(name: str) -> None:
    extra = EXTRAS[name]
    assert {*extra.packages} <= packages(PROJECT["optional-dependencies"][extra.name])


@pytest.mark.parametrize("name", demitasse.__all__)
def test_a_public_name_imports_what_its_extra_has(name: str) -> None:
    module, extra = demitasse._PUBLIC[name]
    lazily = {"peft", "matplotlib", "pyarrow", "usearch"}  # each asked for by name where it is used
    assert imported(module) <= BASE | lazily | {*(extra.packages if extra else ())}


def test_whatever_is_imported_anywhere_belongs_to_the_base_or_to_a_hint() -> None:
    known = {package for extra in EXTRAS.values() for package in extra.packages}
    assert outside(name for path in SOURCE.rglob("*.py") for name in imports_of(path, everywhere=True)) <= BASE | known


def test_several_missing_extras_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "pyarrow", "peft"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(errors.MissingExtra, match=r"it needs torch and pyarrow; pip install 'demitasse\[train,data\]'"):
        need("it", extras.TRAIN, extras.LORA, extras.PARQUET)
    with pytest.raises(errors.MissingExtra, match=r"it needs peft; pip install 'demitasse\[train\]'"):
        need("it", extras.LORA)
    need("it")


def test_without_any_extra_everything_can_be_looked_at() -> None:
    program = (
        f"sys.path.insert(0, {str(ROOT / 'tests' / 'helpers')!r})\n"
        "import base_install; base_install.check_names(); base_install.check_vectors(); print('whole')"
    )
    assert run_program(program, without=OPTIONAL).stdout == "whole\n"


@pytest.fixture
def model(model_folder: Callable[..., Path]) -> Path:
    """The folder of a tiny BERT; asked for before `run`, which would catch what is printed while it is written."""
    return model_folder("BERT")


@pytest.mark.parametrize(
    ("missing", "command", "said"),
    [
        ("torch", "export {model} -o out", "demitasse export needs torch; pip install 'demitasse[export]'"),
        ("onnx", "export {model} -o out", "demitasse export needs onnx; pip install 'demitasse[export]'"),
        ("torch", "measure {model}", "measuring {model} needs torch; pip install 'demitasse[export]'"),
        ("torch", "cut {model} 2x8 -o out", "not a folder of blocks, needs torch; pip install 'demitasse[train]'"),
        ("peft", "train a.jsonl -b {model} -o out --lora 4", "train needs peft; pip install 'demitasse[train]'"),
        ("pyarrow", "train a.parquet -b {model} -o out", "train needs pyarrow; pip install 'demitasse[data]'"),
    ],
)
def test_a_command_names_all_it_needs_at_once(
    model: Path, missing: str, command: str, said: str, run: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    ended = run(*command.format(model=model).split())
    assert ended.code == 2
    assert ended.err.endswith(f"{said.format(model=model)}\n")
    assert ended.err.count("\n") == 1


def test_loading_for_an_export_needs_no_accelerate(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "accelerate", None)
    assert str(demitasse.load(model).full) == "3x32"
    with pytest.raises(
        errors.MissingExtra, match=r"demitasse.train needs accelerate; pip install 'demitasse\[train\]'"
    ):
        demitasse.train(None, None, out="run")


def test_errors_survive_a_process_boundary() -> None:
    raised = errors.MissingExtra("a needs b; pip install 'demitasse[c]'")
    assert str(pickle.loads(pickle.dumps(raised))) == str(raised)


def test_the_lowest_versions_that_are_tried_are_those_that_are_promised() -> None:
    lines = (ROOT / "constraints-lowest.txt").read_text(encoding="utf-8").splitlines()
    tried = {line.replace(".0;", ";").removesuffix(".0") for line in lines if not line.startswith("#")}
    assert {line.replace("==", ">=").removesuffix(".0") for line in tried} == {*PROJECT["dependencies"]}


def test_the_python_versions_that_are_promised_are_those_that_ci_runs() -> None:
    tests = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8"))["jobs"]
    promised = [one.rpartition(" ")[2] for one in PROJECT["classifiers"] if re.search(r" 3\.\d+$", one)]
    assert PROJECT["requires-python"] == f">={promised[0]}"
    for job in ("linux", "other"):
        assert tests[job]["strategy"]["matrix"]["python"] == promised, job
    assert f"Python {promised[0]} or newer" in (ROOT / "README.md").read_text(encoding="utf-8")
