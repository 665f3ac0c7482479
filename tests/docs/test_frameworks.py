"""docs/how-to/frameworks.md: every example runs, each where its library is installed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import langchain_core.load  # noqa: F401 - it shows its warnings once more where it is first imported
import pages
import postgres
import pytest
from psycopg.conninfo import conninfo_to_dict

from demitasse import extras

PAGE = pages.read("docs/how-to/frameworks.md")
FIRST, *SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)
NAMED = {section.split("\n", 1)[0]: section for section in SECTIONS}
SMALL = ["LangChain", "Haystack", "Qdrant"]
LARGE = ["LlamaIndex", "Chroma", "LanceDB", "Postgres"]
LEFT = {
    "LangChain": "langchain-index",
    "LlamaIndex": "llama-index",
    "Haystack": "haystack-index",
    "Chroma": "chroma",
    "LanceDB": "lance",
    "Qdrant": "qdrant",
}


def test_every_integration_has_a_section_and_an_extra() -> None:
    assert set(NAMED) == {*SMALL, *LARGE}
    named = set(re.findall(r"\.\[([\w-]+)\]", FIRST))
    assert named == {extras.LANGCHAIN.name, extras.LLAMA_INDEX.name, extras.HAYSTACK.name, extras.CHROMA.name} | {
        extras.LANCEDB.name,
        extras.QDRANT.name,
        extras.PGVECTOR.name,
    }


@contextmanager
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A Postgres that plain `psycopg.connect("dbname=postgres")` finds."""
    with postgres.server() as connection:
        facts = conninfo_to_dict(connection)
        monkeypatch.setenv("PGHOST", str(facts["host"]))
        monkeypatch.setenv("PGUSER", str(facts["user"]))
        yield


@pytest.mark.filterwarnings("ignore:The function `load` is in beta")
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # a page does not close what it opened
@pytest.mark.parametrize("name", [*SMALL, *(pytest.param(one, marks=pytest.mark.adapters) for one in LARGE)])
def test_the_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with server(monkeypatch) if name == "Postgres" else nullcontext():
        defined = pages.run_page(FIRST + NAMED[name], tmp_path, monkeypatch)
        for opened in ("client", "connection"):
            if opened in defined:
                defined[opened].close()
    assert name not in LEFT or (tmp_path / LEFT[name]).is_dir()
