"""Optional parts: whether they are installed, the line to type if they are not, and what stands in for them meanwhile.

An `Extra` is what one feature imports beside the base install, and the extra of pyproject.toml that installs all of it,
so that one line is enough. tests/test_extras.py compares both with what the sources import.
"""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from typing import Any, NamedTuple, NoReturn

from demitasse.errors import MissingExtra


class Extra(NamedTuple):
    """The packages that a feature imports, and the extra of demitasse that brings them all."""

    name: str
    packages: tuple[str, ...]


_TORCH = ("torch", "transformers", "safetensors")
TORCH = Extra("train", _TORCH)  # to run a model on torch; the extra export has these, too
TRAIN = Extra("train", (*_TORCH, "accelerate"))
TENSORS = Extra("train", ("torch",))
LORA = Extra("train", ("peft",))
EXPORT = Extra("export", (*_TORCH, "onnx", "onnxscript"))
PARQUET = Extra("data", ("pyarrow",))
ANN = Extra("ann", ("usearch",))
RAY = Extra("ray", ("ray", "pyarrow"))
PLOTS = Extra("plots", ("matplotlib",))
SERVE = Extra("serve", ("starlette", "uvicorn"))
MTEB = Extra("mteb", (*_TORCH, "mteb"))
SENTENCE_TRANSFORMERS = Extra("sentence-transformers", (*_TORCH, "sentence_transformers"))
LANGCHAIN = Extra("langchain", ("langchain_core", "pydantic"))
LLAMA_INDEX = Extra("llama-index", ("llama_index_core",))
HAYSTACK = Extra("haystack", ("haystack_ai",))
CHROMA = Extra("chroma", ("chromadb",))
LANCEDB = Extra("lancedb", ("lancedb", "pydantic"))
QDRANT = Extra("qdrant", ("qdrant_client",))
PGVECTOR = Extra("pgvector", ("psycopg", "pgvector"))
_MODULES = {"llama_index_core": "llama_index.core", "haystack_ai": "haystack"}  # where a package is named otherwise


def need(feature: str, *extras: Extra) -> None:
    """Refuse `feature` with the line to type unless all packages of `extras` are installed."""
    absent: dict[str, str] = {}  # the first missing package of each extra
    for extra in extras:
        for package in extra.packages:
            if extra.name not in absent and not _installed(package):
                absent[extra.name] = package.replace("_", "-")
    if absent:
        packages, names = " and ".join(absent.values()), ",".join(absent)
        raise MissingExtra(f"{feature} needs {packages}; pip install 'demitasse[{names}]'")


@cache  # the same name gives the same object every time
def stand_in(name: str, words: str) -> Any:
    """What a public name is while its extra is missing: it can be looked at, and is refused with `words` when used."""
    body = {"__doc__": f"Not installed: {words}.", "__module__": "demitasse", "_words": words}
    if name[0].isupper():
        return _Absent(name, (), body)

    def absent(*arguments: object, **options: object) -> NoReturn:
        raise MissingExtra(words)

    absent.__name__ = absent.__qualname__ = name
    absent.__module__, absent.__doc__ = body["__module__"], body["__doc__"]
    return absent


class _Absent(type):
    """A class whose extra is missing: nothing is an instance of it, and no instance or subclass can be made."""

    _words: str

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        for base in bases:
            if isinstance(base, _Absent):
                raise MissingExtra(base._words)
        return super().__new__(cls, name, bases, body)

    def __call__(cls, *arguments: object, **options: object) -> NoReturn:
        raise MissingExtra(cls._words)

    def __getattr__(cls, attribute: str) -> NoReturn:
        raise AttributeError(f"there is no {attribute}, since {cls._words}")


def _installed(package: str) -> bool:
    module = _MODULES.get(package, package)
    if module in sys.modules:
        return sys.modules[module] is not None  # None: importing it is blocked
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it is missing, too
        return False
