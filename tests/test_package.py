from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from paths import ROOT

import demitasse


def test_the_package_exports_exactly_what_it_lists() -> None:
    assert demitasse.__all__ == sorted(demitasse.__all__)
    for name in demitasse.__all__:
        assert getattr(demitasse, name) is not None
    assert set(demitasse.__all__) <= set(dir(demitasse))
    with pytest.raises(AttributeError, match="no attribute 'encoderr'"):
        demitasse.encoderr  # noqa: B018


def test_type_checkers_see_the_table() -> None:
    source = Path(demitasse.__file__).read_text(encoding="utf-8")
    blocks = [node for node in ast.parse(source).body if isinstance(node, ast.If)]
    seen = {
        name.asname: (node.module or "").partition(".")[2]
        for block in blocks
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    assert seen == {name: module for name, (module, _) in demitasse._PUBLIC.items()}


def test_no_module_takes_the_place_of_a_public_name() -> None:
    """A package called `demitasse.train` would become `dt.train` the moment something imports it."""
    program = (
        "import importlib, pkgutil, types, demitasse\n"
        "before = {name: getattr(demitasse, name) for name in demitasse.__all__}\n"
        "for found in pkgutil.walk_packages(demitasse.__path__, 'demitasse.'):\n"
        "    other_library = found.name.startswith('demitasse.integrations.')\n"
        "    if not other_library and found.name != 'demitasse.__main__': importlib.import_module(found.name)\n"
        "for name, thing in before.items():\n"
        "    assert getattr(demitasse, name) is thing, name\n"
        "    assert not isinstance(thing, types.ModuleType), name\n"
        "modules = {found.name for found in pkgutil.iter_modules(demitasse.__path__)}\n"
        "assert not modules & set(demitasse.__all__), modules & set(demitasse.__all__)\n"
        "print('kept')"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.stdout == "kept\n", run.stderr


def test_old_homes_of_objectives_still_work() -> None:
    for name in ("Espresso", "EspressoReleased", "Matryoshka", "TwoDMSE", "Starbucks"):
        assert getattr(importlib.import_module("demitasse.objectives"), name) is getattr(demitasse, name)


def test_importing_it_and_its_command_line_imports_no_torch() -> None:
    program = (
        "import sys, demitasse, demitasse.cli.app; demitasse.Cut(6, 128);"
        "print({'torch', 'transformers', 'safetensors'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"


@pytest.mark.parametrize(("name", "extra"), [("torch", "export"), ("transformers", "export"), ("onnxscript", "export")])
def test_a_missing_extra_is_the_line_to_type(name: str, extra: str) -> None:
    program = (
        f"import sys; sys.modules['{name}'] = None; import demitasse\n"
        "try: demitasse.export(1, 2)\n"
        "except ImportError as problem: print(problem)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == f"demitasse.export needs {name}; pip install 'demitasse[{extra}]'\n"


def test_every_error_is_an_ordinary_one_too() -> None:
    errors = importlib.import_module("demitasse.errors")
    public = [getattr(demitasse, name) for name in demitasse.__all__]
    kinds = [kind for kind in public if isinstance(kind, type) and issubclass(kind, Exception)]
    assert {kind for kind in vars(errors).values() if isinstance(kind, type)} < set(kinds)
    assert len(kinds) == 11
    for kind in kinds:
        assert issubclass(kind, errors.DemitasseError)
        assert kind is errors.DemitasseError or issubclass(kind, (ValueError, ImportError, RuntimeError))
        assert kind.__name__ in (errors.__doc__ or "")


@pytest.mark.parametrize("command", ["encode -m {model} a", "fit {here} -b {model} -o y", "cut {model} 2x8 -o y"])
def test_commands_without_torch_end_with_the_line_to_type(command: str, model_folder: Callable[..., Path]) -> None:
    arguments = command.format(here=__file__, model=model_folder("BERT")).split()
    program = f"import sys; sys.modules['torch'] = None; sys.argv[1:] = {arguments}; import demitasse.__main__"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert run.stderr.endswith("needs torch; pip install 'demitasse[train]'\n")
    assert run.stderr.count("\n") == 1


def test_the_built_in_model_never_imports_torch() -> None:
    program = (
        "import sys, demitasse as dt; encoder = dt.load(); encoder.encode(['a', 'b'] * 30);"
        "encoder.cut(1, 32).encode(['a']);"
        "print({'torch', 'transformers', 'safetensors', 'onnx'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"


@pytest.mark.posix
def test_onnxruntime_reports_nothing_and_nothing_is_left_at_home(tmp_path: Path) -> None:
    """Since 1.29 it reports what it runs, by way of files in the home directory, unless it is told not to."""
    program = "import demitasse, time; demitasse.load().encode(['a small cup']); time.sleep(1)"
    # Without the environment of CI, where it reports nothing anyway.
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src")}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    assert list(tmp_path.rglob("*")) == []
    chosen = {**environment, "ORT_DISABLE_TELEMETRY": "0"}  # whoever sets it has decided
    program = "import demitasse, os; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    ran = subprocess.run([sys.executable, "-c", program], env=chosen, check=True, capture_output=True, text=True)
    assert ran.stdout == "0\n"
