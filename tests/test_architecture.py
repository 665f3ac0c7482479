"""The shape of the code: packages import only from below, functions stay short, no option is swallowed."""

from __future__ import annotations

import ast
import inspect
from collections import defaultdict
from pathlib import Path

import pytest

import demitasse

SOURCE = Path(demitasse.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
# From the bottom up: a package may import from the rows above its own here, and from itself; not from its neighbours
# in a row. The files beside the packages (cut, errors, extras) are the root.
LAYERS = [
    {"root"},
    {"host"},
    {"encoding"},
    {"torch_model", "data", "objectives"},
    {"exporting", "evaluation"},
    {"training", "planning", "search", "corpora"},
    {"display", "serving"},
    {"public"},  # `import demitasse`
    {"cli", "integrations"},
]
LEVEL = {package: level for level, row in enumerate(LAYERS) for package in row}
# The only files that may import from above: the public table, which reaches everything when it is asked, `python -m
# demitasse`, and `load`, which opens torch only for folders that need it.
REACH_UP = {("public", "__init__.py"), ("public", "__main__.py"), ("encoding", "loading.py")}


def package_of(path: Path) -> str:
    """The package that a file of demitasse lives in."""
    inside = path.relative_to(SOURCE).parts
    return inside[0] if len(inside) > 1 else "public" if path.name in ("__init__.py", "__main__.py") else "root"


def imported_names(path: Path) -> set[str]:
    """The dotted names that `path` imports, wherever in the file: inside functions and for type checkers too."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import; write demitasse.…"
            names |= {f"{node.module}.{name.name}" for name in node.names}
        elif isinstance(node, ast.Import):
            names |= {name.name for name in node.names}
    return names


def imported(path: Path) -> set[str]:
    """The packages of demitasse that `path` imports from."""
    packages = set()
    for name in imported_names(path):
        first, _, rest = name.partition(".")
        inside = rest.partition(".")[0]
        if first != "demitasse":
            continue
        if (SOURCE / inside / "__init__.py").is_file() and inside:
            packages.add(inside)
        else:
            packages.add("root" if (SOURCE / f"{inside}.py").is_file() else "public")
    return packages


def arrows() -> dict[str, dict[str, list[str]]]:
    """For each package, the packages it imports from, each with the files that do."""
    drawn: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path in FILES:
        for package in sorted(imported(path) - {package_of(path)}):
            drawn[package_of(path)][package].append(path.name)
    return drawn


def printed(drawn: dict[str, dict[str, list[str]]]) -> str:
    """The arrows as lines such as `training -> data (train.py, run.py)`."""
    lines = []
    for package in sorted(drawn, key=lambda name: LEVEL.get(name, -1)):
        for target, files in drawn[package].items():
            lines.append(f"{package} -> {target} ({', '.join(files)})")
    return "\n".join(lines)


def test_packages_import_only_from_below() -> None:
    drawn = arrows()
    upward = [
        f"{package} -> {target}: {name}"
        for package, targets in drawn.items()
        for target, names in targets.items()
        for name in names
        if (package, name) not in REACH_UP and LEVEL[target] >= LEVEL[package]
    ]
    assert not upward, "\n".join(["these arrows do not point down:", *upward, "", "all arrows:", printed(drawn)])


def test_load_is_the_only_file_that_opens_a_package_above_its_own() -> None:
    above = {package for package in imported(SOURCE / "encoding" / "loading.py") if LEVEL[package] > LEVEL["encoding"]}
    assert above == {"torch_model"}


def test_every_package_is_placed() -> None:
    there = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert there | {"root", "public"} == set(LEVEL)


def test_no_command_imports_another() -> None:
    def modules(path: Path) -> set[str]:
        return {name.split(".")[2] for name in imported_names(path) if name.startswith("demitasse.cli.")}

    commands = modules(SOURCE / "cli" / "app.py")
    for command in commands:
        assert not modules(SOURCE / "cli" / f"{command}.py") & commands, f"{command}.py imports another command"


def test_no_test_or_script_imports_a_test() -> None:
    root = Path(__file__).parents[1]
    for path in (*(root / "tests").rglob("*.py"), *(root / "research").rglob("*.py"), root / "conftest.py"):
        modules = {part for name in imported_names(path) for part in name.split(".")[:-1] or [name]}
        tests = {name for name in modules if name.startswith("test_")}
        assert not tests, f"{path.relative_to(root)} imports {', '.join(tests)}; move what is shared into tests/helpers"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE).with_suffix("")))
def test_files_and_functions_are_short(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 400
    assert ast.get_docstring(ast.parse(text)), f"{path.name} does not say what it is"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.end_lineno:
            assert node.end_lineno - node.body[0].lineno < 60, f"{path.name}: {node.name} is long"


def test_no_public_call_swallows_options() -> None:
    for name in demitasse.__all__:
        thing = getattr(demitasse, name)
        calls = [thing] if inspect.isfunction(thing) else [f for _, f in inspect.getmembers(thing, inspect.isfunction)]
        for call in calls:
            if call.__module__.startswith("demitasse") and not call.__name__.startswith("__"):
                kinds = {parameter.kind for parameter in inspect.signature(call).parameters.values()}
                assert inspect.Parameter.VAR_KEYWORD not in kinds, f"{name}: {call.__name__}"


if __name__ == "__main__":
    print(printed(arrows()))
