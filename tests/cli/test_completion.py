"""Tab completion: what a shell is offered after a part of a command."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from command_line import RunCommand

from demitasse.cli.app import app
from demitasse.encoding.vectors import STORED
from demitasse.objectives.names import LOSSES, OBJECTIVES
from demitasse.planning.budget import PREFER

COMMANDS = [
    *("embed", "encode", "fit", "train", "eval", "measure", "plan", "check", "report", "info", "cut", "export"),
    *("index", "search", "serve", "web", "demo"),
]


@pytest.fixture
def offered(run: RunCommand, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """Gives what bash is offered for the last word of a line."""

    def ask(line: str) -> list[str]:
        words = line.split(" ")
        monkeypatch.setenv("_DEMITASSE_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", "\n".join(words))
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        ran = run()
        assert "Traceback" not in ran.err
        return ran.out.split()

    return ask


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("demitasse ", COMMANDS),
        ("demitasse e", ["embed", "encode", "eval", "export"]),
        ("demitasse encode --co", ["--column"]),
        ("demitasse encode --vectors ", list(STORED)),
        ("demitasse encode --vectors flo", ["float32", "float16"]),
        ("demitasse encode --device ", ["cpu", "cuda", "mps"]),
        (
            "demitasse export model --format ",
            ["blocks", "blocks-int8", "onnx", "onnx-int8", "sentence-transformers", "web"],
        ),
        ("demitasse plan p.json --prefer ", list(PREFER)),
        ("demitasse plan p.json --vectors b", ["binary"]),
        ("demitasse train pairs.jsonl --loss ", list(LOSSES)),
        ("demitasse encode -i ", []),  # bash then offers the names of files
        ("demitasse encode -o v", []),
    ],
)
def test_commands_options_and_values_are_offered(
    line: str, values: list[str], offered: Callable[[str], list[str]]
) -> None:
    assert sorted(offered(line)) == sorted(values)


def test_every_objective_is_offered(offered: Callable[[str], list[str]]) -> None:
    assert {*offered("demitasse train pairs.jsonl --objective ")} == {*OBJECTIVES}


def test_every_value_that_is_offered_is_allowed_by_its_help() -> None:
    group = typer.main.get_command(app)
    for command in group.commands.values():  # type: ignore[attr-defined]
        for option in command.params:
            offer = getattr(option, "_custom_shell_complete", None)
            if offer is not None and option.name not in ("precision",):
                for value in offer(None, option, ""):
                    assert getattr(value, "value", value) in option.help, (command.name, option.name)


def test_the_script_is_shown_and_the_help_names_the_two_options(
    run: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shellingham.detect_shell", lambda *_: ("bash", "/bin/bash"))
    shown = run("--show-completion")
    assert shown.code == 0, shown.err
    assert "complete -o default -F _demitasse_completion demitasse" in shown.out
    page = run("--help").out
    assert page.count("completion") <= 4
    assert "--install-completion" in page
    assert "completion" not in run("encode", "--help").out


@pytest.mark.posix
def test_bash_completes_with_it(tmp_path: Path) -> None:
    """The real thing: the script in bash, with a command `demitasse` on the path."""
    command = tmp_path / "demitasse"
    command.write_text(f"#!{sys.executable}\nfrom demitasse.cli.app import main\n\nmain()\n")  # as pip writes it
    command.chmod(0o755)
    script = f"""
        export PATH="{tmp_path}:$PATH"
        eval "$(_DEMITASSE_COMPLETE=source_bash demitasse)"
        COMP_WORDS=(demitasse encode --vectors in); COMP_CWORD=3
        _demitasse_completion demitasse
        echo "${{COMPREPLY[@]}}"
    """
    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["int8"], ran.stderr
