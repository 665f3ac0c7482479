"""The JavaScript that ships is what its sources give; and its own tests pass in Node."""

from __future__ import annotations

import gzip
import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from demitasse.exporting.web import PAGE, RUNTIME
from demitasse.host.bundled import WEB

SOURCES = Path(__file__).parents[2] / "web"


@pytest.fixture(scope="module")
def node() -> str:
    found = shutil.which("node")
    if found is None or not (SOURCES / "node_modules").is_dir():
        said = "Node or the packages of web/ are not installed; tests/node.sh installs them where it may"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(said)
    return found


def ran(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=SOURCES, capture_output=True, text=True, encoding="utf-8", check=False)


def test_what_ships_is_what_the_sources_give(node: str, tmp_path: Path) -> None:
    built = ran(node, "build.mjs", "--out", str(tmp_path))
    assert built.returncode == 0, built.stderr
    made = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")}
    assert made == {*(f"page/{name}" for name in PAGE), *(f"runtime/{name}" for name in RUNTIME)}
    for name in sorted(made):
        new, shipped = (tmp_path / name).read_bytes(), (WEB / name).read_bytes()
        if name.endswith(".packed"):  # another zlib may pack it otherwise
            new, shipped = gzip.decompress(new), gzip.decompress(shipped)
        assert new == shipped, f"{name} is not what web/ gives; run npm run build in web/"


def test_types_are_right(node: str) -> None:
    checked = ran(node, "node_modules/typescript/bin/tsc", "--noEmit")
    assert checked.returncode == 0, checked.stdout


def test_the_tests_of_the_package_pass_in_node(node: str) -> None:
    assert ran(node, "build.mjs", "--tests").returncode == 0
    files = sorted(str(path) for path in (SOURCES / "build" / "tests").glob("*.test.mjs"))
    assert len(files) == len(list((SOURCES / "test").glob("*.test.ts")))
    tested = ran(node, "--test", *files)
    assert tested.returncode == 0, tested.stdout[-4000:]


def test_the_classes_of_characters_are_those_of_the_tokenizers_of_python() -> None:
    spec = importlib.util.spec_from_file_location("bert_classes", SOURCES / "tools" / "bert_classes.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert (SOURCES / "src" / "bert_classes.ts").read_text(encoding="utf-8") == tool.content()


def test_the_lock_file_names_no_registry() -> None:
    assert "resolved" not in (SOURCES / "package-lock.json").read_text()
