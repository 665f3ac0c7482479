"""Objectives and pair losses by name, as on the command line and in `train`: `elastic:tune=0.3,dims=32/64/128`."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, cast

from demitasse.cut import Cut
from demitasse.errors import DataError, shown
from demitasse.objectives.aligned import Aligned
from demitasse.objectives.compression import Principal, Published
from demitasse.objectives.elastic import Elastic
from demitasse.objectives.pair_losses import AnglE, CoSENT, InfoNCE, PairLoss
from demitasse.objectives.protocol import Objective
from demitasse.objectives.published import (
    AdaptiveLayer,
    Espresso,
    EspressoReleased,
    Matryoshka,
    Matryoshka2d,
    Starbucks,
    TwoDMSE,
)

OBJECTIVES: dict[str, Any] = {
    "elastic": Elastic(),
    "aligned": Aligned(),
    "matryoshka": Matryoshka(),
    "2dmse": TwoDMSE(),
    "espresso": Espresso(),
    "espresso-released": EspressoReleased(),
    "adaptive-layer": AdaptiveLayer(),
    "matryoshka2d": Matryoshka2d(),
    "starbucks": Starbucks(),
}
LOSSES: dict[str, Any] = {"infonce": InfoNCE(), "cosent": CoSENT(), "angle": AnglE()}
_COMPRESS = {"published": Published(), "principal": Principal()}


def choice(text: str, known: Mapping[str, Any], what: str) -> Any:
    """The one of `known` that `text` names, with the options that follow the name.

    >>> choice("matryoshka:dims=32/64", OBJECTIVES, "objective")
    Matryoshka(dims=(32, 64), weights=None, per_step=-1)
    """
    name, _, rest = text.partition(":")
    if name not in known:
        raise DataError(f"{what} {name!r} is not known{_suggestion(name, known)}; use one of {', '.join(known)}")
    chosen = known[name]
    types = {field.name: str(field.type) for field in fields(chosen)}
    changes = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if key not in types:
            raise DataError(
                f"{what} {name} has no option {key!r}{_suggestion(key, types)}; it has {', '.join(sorted(types))}"
            )
        if not equals:
            raise DataError(f"{what} {name} was given {key!r} without a value; write {key}=VALUE")
        try:
            changes[key] = _value(value, types[key])
        except (ValueError, KeyError) as problem:
            raise DataError(f"{what} {name} cannot have {part!r}; {_expected(types[key])}") from problem
    return replace(chosen, **changes)


def objective_of(given: object) -> Objective:
    """An objective: itself, or by the name and the options that the command line knows.

    >>> objective_of("espresso:dims=64")
    Espresso(dims=64, compress=Published(temperature=1.0), express=True)
    """
    if isinstance(given, str):
        return cast(Objective, choice(given, OBJECTIVES, "objective"))
    parts = ("cuts", "last_only", "raw", "needs_teacher", "__call__")
    if isinstance(given, type) or not all(hasattr(given, part) for part in parts):
        raise DataError(f"objective must be one such as Elastic() or 'elastic', not {shown(given)}")
    return cast(Objective, given)


def loss_of(given: object) -> PairLoss:
    """A pair loss: itself, or by the name and the options that the command line knows."""
    if isinstance(given, str):
        return cast(PairLoss, choice(given, LOSSES, "loss"))
    if isinstance(given, type) or not callable(given):
        raise DataError(f"loss must be one such as InfoNCE() or 'infonce', not {shown(given)}")
    return given


def _value(text: str, kind: str) -> Any:
    """`text` as the value of a field whose type annotation is `kind`."""
    kind, optional, _ = kind.partition(" | None")
    if optional and text.lower() == "none":
        return None
    if kind.startswith("tuple["):
        parse = _KINDS[_item(kind)][0]
        return tuple(parse(part) for part in text.split(_separator(kind)))
    return _KINDS[kind][0](text)


def _expected(kind: str) -> str:
    """What to write for a field whose type annotation is `kind`."""
    kind, optional, _ = kind.partition(" | None")
    several = f", or several separated by {_separator(kind)}" if kind.startswith("tuple[") else ""
    return f"write {_KINDS[_item(kind)][1]}{several}{', or none' if optional else ''}"


def _item(kind: str) -> str:
    return kind.removeprefix("tuple[").removesuffix(", ...]")


def _separator(kind: str) -> str:
    """What stands between several values; strings may be paths."""
    return "+" if _item(kind) == "str" else "/"


def _flag(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _widths(text: str) -> Matryoshka:
    return Matryoshka(_value(text, "tuple[int, ...]"))


# How the values of each type are parsed, and what to write for them.
_KINDS: dict[str, tuple[Callable[[str], Any], str]] = {
    "int": (int, "a whole number"),
    "float": (float, "a number"),
    "str": (str, "a string"),
    "bool": (_flag, "true or false"),
    "Cut": (Cut.parse, "a cut such as 3x128"),
    "Compress": (lambda text: _COMPRESS[text.lower()], " or ".join(_COMPRESS)),
    "Matryoshka": (_widths, "dims separated by /"),
}


def _suggestion(word: str, known: Any) -> str:
    close = difflib.get_close_matches(word, list(known), 1)
    return f" (did you mean {close[0]!r}?)" if close else ""
