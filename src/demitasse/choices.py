"""Objectives and pair losses by name, as the command line writes them: `elastic:tune=0.3,dims=32/64/128`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from demitasse.compress import Principal, Published
from demitasse.cut import Cut
from demitasse.elastic import Elastic
from demitasse.errors import DataError
from demitasse.objectives import (
    AdaptiveLayer,
    Espresso,
    EspressoReleased,
    Matryoshka,
    Matryoshka2d,
    Starbucks,
    TwoDMSE,
)
from demitasse.pair_losses import AnglE, CoSENT, InfoNCE

OBJECTIVES: dict[str, Any] = {
    "elastic": Elastic(),
    "matryoshka": Matryoshka(),
    "2dmse": TwoDMSE(),
    "espresso": Espresso(),
    "espresso-released": EspressoReleased(),
    "adaptive-layer": AdaptiveLayer(),
    "matryoshka2d": Matryoshka2d(),
    "starbucks": Starbucks(),
}
LOSSES: dict[str, Any] = {"infonce": InfoNCE(), "cosent": CoSENT(), "angle": AnglE()}
_WORDS: dict[str, Any] = {
    "true": True,
    "false": False,
    "none": None,
    "published": Published(),
    "principal": Principal(),
}


def choice(text: str, known: Mapping[str, Any], what: str) -> Any:
    """One of `known`, with the fields that `text` names changed.

    >>> choice("matryoshka:dims=32/64", OBJECTIVES, "objective")
    Matryoshka(dims=(32, 64), weights=None, per_step=-1)
    """
    name, _, rest = text.partition(":")
    if name not in known:
        raise DataError(f"{what} {name!r} is not known{_close(name, known)}; use one of {', '.join(known)}")
    chosen = known[name]
    own = {field.name for field in fields(chosen)}
    changed = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if key not in own or not equals:
            raise DataError(f"{what} {name} has no option {key!r}{_close(key, own)}; it has {', '.join(sorted(own))}")
        changed[key] = _value(value, tuple_wanted=key in ("dims", "weights", "sizes") and not _is_number(chosen, key))
    try:
        return replace(chosen, **changed)
    except TypeError as problem:
        raise DataError(f"{what} {text!r} cannot be made ({problem}); look at its values") from problem


def _is_number(chosen: Any, key: str) -> bool:
    return isinstance(getattr(chosen, key), int)


def _value(text: str, *, tuple_wanted: bool) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if tuple_wanted or "/" in text:
        return tuple(_single(part) for part in text.split("/"))
    return _single(text)


def _single(text: str) -> Any:
    for kind in (int, float, Cut.parse):
        try:
            return kind(text)
        except ValueError:  # a CutError is one too
            continue
    return text


def _close(word: str, known: Any) -> str:
    found = difflib.get_close_matches(word, list(known), 1)
    return f" (did you mean {found[0]!r}?)" if found else ""
