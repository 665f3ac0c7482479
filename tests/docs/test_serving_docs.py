"""The pages about serving do what they say: their servers are started, their requests sent, and nothing is left out."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from pages import blocks, first_column, options, read
from paths import ROOT
from servers import RunningServer, running

from demitasse.host.bundled import PLAYGROUND
from demitasse.serving.api_errors import ApiError
from demitasse.serving.app import ENDPOINTS
from demitasse.serving.asking import answer_headers
from demitasse.serving.connections import HEADER_BYTES
from demitasse.serving.embeddings import fields
from demitasse.serving.engine import Answer, EngineOptions, Times
from demitasse.serving.limits import ServerLimits
from demitasse.serving.metrics import KINDS
from demitasse.serving.offer import Offer
from demitasse.serving.options import ServeOptions
from demitasse.serving.status import MOST_STREAMS

HOW_TO, PAGE = read("docs/how-to/serve.md"), read("docs/serving.md")
PLACE = "127.0.0.1:8000"


def lines(code: str) -> list[str]:
    return [line for line in code.replace("\\\n", " ").splitlines() if line.strip()]


def started(stack: ExitStack, words: list[str]) -> RunningServer:
    """The server of a line such as `KEY=value demitasse serve …`, on a free port of this machine."""
    variables = dict(word.split("=", 1) for word in words[: words.index("demitasse")])
    given = words[words.index("serve") + 1 :]
    for option in ("--port", "--host"):
        if option in given:
            del given[given.index(option) : given.index(option) + 2]
    return stack.enter_context(running(*given, **variables))


def asked(words: list[str], server: RunningServer) -> Any:
    """What a line with curl gives."""
    command = [word.replace(PLACE, f"127.0.0.1:{server.port}") for word in words]
    ended = subprocess.run([*command, "--silent", "--show-error"], capture_output=True, text=True, check=True)
    return json.loads(ended.stdout)


@pytest.mark.parametrize("page", ["docs/how-to/serve.md", "docs/serving.md"])
def test_all_code_of_the_page_runs(page: str) -> None:
    names: dict[str, Any] = {}
    with ExitStack() as stack:
        server = stack.enter_context(running()) if "demitasse serve\n" not in read(page) else None
        for language, code in blocks(read(page), "python", "bash"):
            if language == "python":
                assert server is not None
                exec(code.replace(PLACE, f"127.0.0.1:{server.port}"), names)
                continue
            for line in lines(code):
                words = shlex.split(line)
                if "serve" in words:
                    server = started(stack, words)
                else:
                    assert words[0] == "curl", line
                    assert server is not None
                    assert ("error" in asked(words, server)) == ("500" in line)
    if page == "docs/how-to/serve.md":
        assert [len(vector) for vector in names["vectors"]] == [128, 128]
        assert (names["answer"].model, names["answer"].usage.total_tokens) == ("demitasse:3x128", 12)
    else:
        assert names["vector"].dtype == "int8"
        assert len(names["vector"]) == 384


def test_every_option_has_a_row_and_exists() -> None:
    assert first_column(PAGE, "| option of `serve` | meaning |") - {"MODEL"} == options("serve")
    for page in (HOW_TO, PAGE):
        for line in (line for _, code in blocks(page, "bash") for line in lines(code) if "demitasse serve" in line):
            assert {word for word in shlex.split(line) if word[:2] == "--"} <= options("serve")


def test_every_path_has_a_row() -> None:
    listed = first_column(PAGE, "| path | what it gives |")
    assert {one.partition(" ")[2] for one in listed} == {
        endpoint.paths[0].replace(":path", "") for endpoint in ENDPOINTS
    }
    for endpoint in ENDPOINTS:
        assert all(f"`{path}`" in PAGE for path in endpoint.paths[1:])


def test_every_field_header_and_metric_has_a_row() -> None:
    offer = Offer(("demitasse",), *_facts())
    assert first_column(PAGE, "| field | meaning |") == set(fields(offer, ServerLimits()))
    answer = Answer(None, offer.full, 1, 0, Times(0, 0, 0, 0))  # type: ignore[arg-type]
    own = {"x-total-time", "x-request-id", "x-demitasse-query-cut"}
    assert first_column(PAGE, "| header | meaning |") == {name for name, _ in answer_headers(answer)} | own
    metrics = {name for name in first_column(PAGE, "| metric | labels |") if name.startswith("demitasse_")}
    assert metrics == set(KINDS)


def _facts() -> tuple[Any, ...]:
    from demitasse.cut import Cut

    return Cut(6, 384), 256, 30521, {}, [], {}, 0


def test_its_numbers_are_those_of_the_code() -> None:
    limits, engine, served = ServerLimits(), EngineOptions(), ServeOptions()
    for number in (limits.max_inputs, limits.max_tokens, engine.max_queue_tokens, limits.max_connections):
        assert f"{number:,}" in PAGE
    assert f"{limits.timeout_ms:,.0f}" in PAGE
    assert (limits.max_bytes, limits.held_bytes, HEADER_BYTES) == (4 << 20, 256 << 20, 64 << 10)
    assert (limits.client_seconds, limits.drain_seconds, engine.max_queue_seconds) == (20, 30, 30)
    assert engine.shed_seconds == 0.25
    assert MOST_STREAMS == 16
    assert "MOST_LINES = 10000;" in (PLAYGROUND / "ranking.js").read_text(encoding="utf-8")
    assert (served.host, served.port, served.workers) == ("127.0.0.1", 8000, 1)


def test_every_status_that_is_sent_has_a_row() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/demitasse/serving").glob("*.py"))
    sent = {int(status) for status in re.findall(r"ApiError\(\s*(\d{3})", sources)}
    rows = {int(status) for status in re.findall(r"^\| (\d{3})", PAGE, flags=re.MULTILINE)}
    rows |= {int(status) for status in re.findall(r"^\| \d{3}, (\d{3})", PAGE, flags=re.MULTILINE)}
    assert sent <= rows
    assert issubclass(ApiError, Exception)


@pytest.mark.posix
def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    unit = (ROOT / "deploy" / "demitasse.service").read_text(encoding="utf-8")
    if shutil.which("systemd-analyze"):
        (tmp_path / "demitasse.service").write_text(unit.replace("/opt/demitasse/bin/demitasse", sys.executable))
        command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / "demitasse.service")]
        checked = subprocess.run(command, capture_output=True, text=True, check=False)
        complaints = [line for line in checked.stderr.splitlines() if "demitasse.service" in line]
        assert not complaints
    (command,) = re.findall(r"^ExecStart=\S+/demitasse (.*)$", unit, flags=re.MULTILINE)
    assert {word for word in command.split() if word[:2] == "--"} <= options("serve")
    drain = ServerLimits().drain_seconds
    assert int(re.findall(r"^TimeoutStopSec=(\d+)$", unit, flags=re.MULTILINE)[0]) > drain


def test_containers_are_started_with_options_that_exist() -> None:
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    entry, command = (
        json.loads(found) for found in re.findall(r"^(?:ENTRYPOINT|CMD) (\[.*\])$", dockerfile, re.MULTILINE)
    )
    compose = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8"))
    service = compose["services"]["demitasse"]
    for words in (entry, command, service["command"]):
        assert {word for word in words if word[:2] == "--"} <= options("serve")
    assert entry[:2] == ["demitasse", "serve"]
    assert (ROOT / "deploy" / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
    for source in re.findall(r"^COPY (?!--)(.*) \S+$", dockerfile, re.MULTILINE):
        assert all((ROOT / name).exists() for name in source.split())
    ignored = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    copied = {
        name for source in re.findall(r"^COPY (?!--)(.*) \S+$", dockerfile, re.MULTILINE) for name in source.split()
    }
    assert {line[1:] for line in ignored if line.startswith("!")} == copied
