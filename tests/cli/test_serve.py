from __future__ import annotations

import sys
from pathlib import Path

import pytest
from command_line import RunCommand

from demitasse.cli import serve as command
from demitasse.serving import serve as serving
from demitasse.serving.options import ServeOptions


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> list[ServeOptions]:
    """What would be served."""
    given: list[ServeOptions] = []
    monkeypatch.setattr(serving, "serve", lambda options, tell: given.append(options))
    return given


def test_it_listens_on_this_machine_alone_and_to_no_other_page(run: RunCommand, options: list[ServeOptions]) -> None:
    assert run("serve").code == 0
    assert (options[0].host, options[0].port, options[0].workers, options[0].origins) == ("127.0.0.1", 8000, 1, ())
    assert not options[0].engine.shed
    assert not options[0].keys.digests
    assert not options[0].log_requests


def test_options_reach_their_place(run: RunCommand, options: list[ServeOptions]) -> None:
    words = "folder --port 7 --workers 3 --name a --name b --cors https://example.org --shed --min-layers 2 --threads 1"
    limits = "--timeout-ms 50 --max-inputs 9 --max-tokens 8 --max-bytes 7 --max-queue-tokens 6 --client-seconds 5"
    assert run("serve", *words.split(), *limits.split()).code == 0
    (given,) = options
    assert (given.model, given.port, given.workers, given.names) == ("folder", 7, 3, ("a", "b"))
    assert given.origins == ("https://example.org",)
    assert (given.engine.shed, given.engine.floor, given.engine.threads) == (True, 2, 1)
    assert given.engine.max_queue_tokens == 6
    limited = given.limits
    assert (limited.timeout_ms, limited.max_inputs, limited.max_tokens, limited.max_bytes) == (50, 9, 8, 7)
    assert limited.client_seconds == 5


def test_keys_come_from_options_files_and_the_environment(
    run: RunCommand, options: list[ServeOptions], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "keys").write_text("# the team's\nkey-of-a-team\n\n  another-key-7\n")
    monkeypatch.setenv(command.KEY_VARIABLE, "from-the-environment")
    assert run("serve", "--api-key", "first-key", "--api-key-file", tmp_path / "keys").code == 0
    keys = options[0].keys
    assert len(keys.digests) == 4
    for key in ("first-key", "key-of-a-team", "another-key-7", "from-the-environment"):
        keys.check({b"authorization": f"Bearer {key}".encode()})
        assert key not in repr(options[0])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--api-key short", "an API key must have at least 8"),
        ("--api-key-file {empty}", "has no API key; write one per line"),
        ("--api-key-file {empty}/none", "none"),
        ("--cors example.org", "'example.org' is not an origin; write https://example.org"),
        ("--cors https://example.org/page", "is not an origin"),
        ("--timeout-ms 0", "timeout_ms must be above 0, not 0"),
        ("--timeout-ms nan", "timeout_ms must be a finite number"),
        ("--client-seconds -1", "client_seconds must be above 0"),
        ("--name ''", "--name '' cannot be used"),
    ],
)
def test_a_wrong_option_is_one_sentence(run: RunCommand, words: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("# nothing here\n")
    given = [word if word != "''" else "" for word in words.format(empty=tmp_path / "empty").split()]
    ended = run("serve", *given)
    assert ended.code == 2
    assert said in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("missing", ["uvicorn", "starlette"])
def test_a_missing_extra_is_the_line_to_type(run: RunCommand, missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    ended = run("serve")
    assert ended.code == 2
    assert ended.err == f"error: demitasse serve needs {missing}; pip install 'demitasse[serve]'\n"
