"""examples/rag: a folder is asked, changes, and is asked again; a language model gets the passages."""

from __future__ import annotations

import json
import re
import runpy
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT

import demitasse as dt

SCRIPT = ROOT / "examples" / "rag" / "ask.py"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three documents, one of them in a folder of its own and longer than the model reads."""
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"):
        monkeypatch.delenv(name, raising=False)
    notes = tmp_path / "notes"
    (notes / "long").mkdir(parents=True)
    (notes / "coffee.md").write_text("A ristretto is a short shot of espresso.")
    (notes / "travel.txt").write_text("The night train to Lisbon leaves at nine.")
    (notes / "long" / "garden.md").write_text("\n\n".join(f"Row {n}: the tomatoes need water." for n in range(90)))
    (notes / "picture.png").write_bytes(b"\x89PNG")
    return notes


def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    """What the script prints."""
    monkeypatch.setattr(sys, "argv", ["ask.py", *words])
    capsys.readouterr()
    runpy.run_path(str(SCRIPT), run_name="__main__")
    return capsys.readouterr().out


def test_the_passages_are_printed(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = ask(capsys, monkeypatch, "notes", "a small coffee", "when does the train leave?", "-k", "1", "--layers", "3")
    assert out == (
        "> a small coffee\n[1] coffee.md\nA ristretto is a short shot of espresso.\n\n"
        "> when does the train leave?\n[1] travel.txt\nThe night train to Lisbon leaves at nine.\n\n"
    )
    index = dt.Index.open("rag-index")
    passages = index.get([f"long/garden.md#{number}" for number in range(20)])
    assert len(passages) > 2
    assert index.encoder.count_tokens([one.text for one in passages]).max() <= index.encoder.max_seq_length
    assert len(index) == len(passages) + 2


def test_only_what_changed_is_encoded_again(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(capsys, monkeypatch, "notes", "coffee", "--cut", "6x64")
    encoded: list[str] = []
    encode = dt.Encoder.encode_document

    def counting(encoder: dt.Encoder, texts: list[str], **named: Any) -> Any:
        encoded.extend(texts)
        return encode(encoder, texts, **named)

    monkeypatch.setattr(dt.Encoder, "encode_document", counting)
    (folder / "coffee.md").write_text("A cortado is espresso with a little milk.")
    (folder / "long" / "garden.md").unlink()
    out = ask(capsys, monkeypatch, "notes", "espresso", "-k", "9", "--cut", "6x64")
    assert encoded == ["A cortado is espresso with a little milk."]
    assert re.findall(r"^\[\d\] (.*)$", out, flags=re.MULTILINE) == ["coffee.md", "travel.txt"]
    assert "cortado" in out
    assert ask(capsys, monkeypatch, "notes", "espresso", "-k", "9", "--cut", "6x64") == out
    assert len(encoded) == 1


class _Model(BaseHTTPRequestHandler):
    """A server that speaks enough of the OpenAI API, and remembers what it was asked."""

    asked: list[tuple[str, str | None, dict[str, Any]]] = []  # noqa: RUF012 - one server at a time

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append((self.path, self.headers.get("Authorization"), body))
        reply: dict[str, Any] = {"choices": [{"message": {"role": "assistant", "content": "A ristretto [1]."}}]}
        if body["model"] == "broken":
            reply = {"choices": []}
        self.send_response(404 if body["model"] == "absent" else 200)
        self.end_headers()
        self.wfile.write(json.dumps(reply).encode())

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[_Model]]:
    """The address of a running one is in the environment."""
    _Model.asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Model)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1/")
    yield _Model
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_language_model_answers_from_the_passages(
    model: type[_Model], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("OPENAI_MODEL", "small")
    out = ask(capsys, monkeypatch, "notes", "a small coffee", "-k", "2")
    assert out.startswith("> a small coffee\nA ristretto [1].\n[1] coffee.md (0.")
    ((path, key, body),) = model.asked
    assert (path, key, body["model"]) == ("/v1/chat/completions", "Bearer secret", "small")
    assert "cite them" in body["messages"][0]["content"]
    assert "[1] coffee.md\nA ristretto is a short shot of espresso." in body["messages"][1]["content"]
    assert body["messages"][1]["content"].endswith("Question: a small coffee")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (None, "OPENAI_MODEL is not set; set it to the name of the model"),
        ("absent", r"/v1 gave no answer \(HTTP Error 404: Not Found\); check OPENAI_BASE_URL"),
        ("broken", r"/v1 gave no answer \(list index out of range\); check OPENAI_BASE_URL"),
    ],
)
def test_a_model_that_does_not_answer_is_one_sentence(
    name: str | None,
    said: str,
    model: type[_Model],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if name is not None:
        monkeypatch.setenv("OPENAI_MODEL", name)
    with pytest.raises(SystemExit, match=said):
        ask(capsys, monkeypatch, "notes", "a small coffee")


def test_bad_folders_are_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit, match=r"ask\.py: nowhere holds no \.md, \.rst, \.txt files; name a folder of"):
        ask(capsys, monkeypatch, "nowhere", "a small coffee")
    with pytest.raises(SystemExit, match=r"ask\.py: there is no folder './gone'"):
        ask(capsys, monkeypatch, "notes", "a small coffee", "--model", "./gone")


def test_its_readme_has_the_options_that_exist() -> None:
    readme = (SCRIPT.parent / "README.md").read_text(encoding="utf-8")
    source = SCRIPT.read_text(encoding="utf-8")
    for option in re.findall(r" (--?[a-z]+)\b", readme):
        assert f'"{option}"' in source
