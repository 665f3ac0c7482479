from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from demitasse import Cut, DataError
from demitasse.objectives.compression import Principal, Published
from demitasse.objectives.elastic import Elastic
from demitasse.objectives.names import LOSSES, OBJECTIVES, choice
from demitasse.objectives.published import AdaptiveLayer, Matryoshka

KNOWN = {**OBJECTIVES, **LOSSES}
# For each type of field, what may be written and what it means.
WRITTEN: dict[str, list[tuple[str, Any]]] = {
    "int": [("3", 3), ("-1", -1)],
    "float": [("0.25", 0.25), ("2e-4", 2e-4), ("1", 1.0)],
    "float | None": [("2e-4", 2e-4), ("none", None)],
    "bool": [("true", True), ("False", False)],
    "str": [],  # only some strings are allowed; below
    "str | None": [("owner/model", "owner/model"), ("/some/folder", "/some/folder"), ("7", "7"), ("none", None)],
    "tuple[int, ...] | None": [("16", (16,)), ("16/32", (16, 32)), ("none", None)],
    "tuple[float, ...] | None": [("none", None)],  # as many as dims; below
    "tuple[str, ...]": [("owner/model", ("owner/model",)), ("a/b+/some/folder", ("a/b", "/some/folder"))],
    "tuple[Cut, ...] | None": [("2x16", (Cut(2, 16),)), ("1x8/2x16", (Cut(1, 8), Cut(2, 16))), ("none", None)],
    "Compress | None": [("published", Published()), ("Principal", Principal()), ("none", None)],
    "Matryoshka | None": [("16/32", Matryoshka((16, 32))), ("none", None)],
}
CASES = [
    (name, field.name, text, value)
    for name, chosen in KNOWN.items()
    for field in fields(chosen)
    for text, value in WRITTEN[str(field.type)]
    if (field.name, text) not in {("tune", "1"), ("back", "1")}  # shares below 1
]


@pytest.mark.parametrize("name", KNOWN)
def test_a_name_alone_has_the_defaults(name: str) -> None:
    assert choice(name, KNOWN, "objective") == type(KNOWN[name])()
    assert choice(f"{name}:", KNOWN, "objective") == KNOWN[name]


@pytest.mark.parametrize(("name", "field", "text", "value"), CASES, ids=[f"{n}:{f}={t}" for n, f, t, _ in CASES])
def test_every_field_of_every_name_can_be_written(name: str, field: str, text: str, value: Any) -> None:
    chosen = choice(f"{name}:{field}={text}", KNOWN, "objective")
    assert getattr(chosen, field) == value
    assert type(getattr(chosen, field)) is type(value)
    same = {other.name for other in fields(chosen)} - {field}
    assert all(getattr(chosen, other) == getattr(KNOWN[name], other) for other in same)


@pytest.mark.parametrize(
    ("text", "weighting"),
    [
        ("2dmse:weighting=inverse", "inverse"),
        ("adaptive-layer:weighting=log", "log"),
        ("matryoshka2d:weighting=linear", "linear"),
    ],
)
def test_strings_are_passed_on_as_they_are(text: str, weighting: str) -> None:
    assert choice(text, OBJECTIVES, "objective").weighting == weighting


def test_several_fields_at_once() -> None:
    assert choice("elastic:tune=0.3,dims=32/64/128,teacher=a/b", OBJECTIVES, "objective") == Elastic(
        dims=(32, 64, 128), tune=0.3, teacher="a/b"
    )
    assert choice("matryoshka:dims=16/32,weights=1/0.5", OBJECTIVES, "objective") == Matryoshka((16, 32), (1.0, 0.5))
    chosen = choice("adaptive-layer:inner=8,layers_per_step=2", OBJECTIVES, "objective")
    assert chosen == AdaptiveLayer(Matryoshka((8,)), 2)


SENTENCES = [
    (
        "elastik",
        "objective 'elastik' is not known (did you mean 'elastic'?); use one of elastic, aligned, matryoshka, 2dmse,",
    ),
    ("xyz", "objective 'xyz' is not known; use one of elastic,"),
    ("", "objective '' is not known; use one of elastic,"),
    (
        "matryoshka:dim=32",
        "objective matryoshka has no option 'dim' (did you mean 'dims'?); it has dims, per_step, weights",
    ),
    ("matryoshka:q=32", "objective matryoshka has no option 'q'; it has dims, per_step, weights"),
    ("elastic:last_only=true", "objective elastic has no option 'last_only'; it has anchor,"),
    ("elastic:tune", "objective elastic was given 'tune' without a value; write tune=VALUE"),
    ("elastic:tune=much", "objective elastic cannot have 'tune=much'; write a number"),
    ("elastic:tune=", "objective elastic cannot have 'tune='; write a number"),
    ("espresso:dims=32/64", "objective espresso cannot have 'dims=32/64'; write a whole number"),
    (
        "matryoshka:dims=32/x",
        "objective matryoshka cannot have 'dims=32/x'; write a whole number, or several separated by /, or none",
    ),
    ("espresso-released:compress=1", "objective espresso-released cannot have 'compress=1'; write true or false"),
    (
        "espresso:compress=best",
        "objective espresso cannot have 'compress=best'; write published or principal, or none",
    ),
    (
        "starbucks:sizes=2x16/3",
        "objective starbucks cannot have 'sizes=2x16/3'; write a cut such as 3x128",
    ),
    ("cosent:scale=none", "objective cosent cannot have 'scale=none'; write a number"),
    # What the objective itself refuses is reported as it is.
    ("elastic:tune=2.0", "tune must be at least 0 and below 1, not 2.0; it is a share of the steps"),
    ("2dmse:weighting=odd", "weighting must be one of uniform, inverse, not 'odd'"),
    ("matryoshka:weights=1/2", "2 weights for 0 dims"),
    ("infonce:temperature=0", "temperature must be above 0, not 0.0"),
]


@pytest.mark.parametrize(("text", "sentence"), SENTENCES, ids=[text or "nothing" for text, _ in SENTENCES])
def test_mistakes_are_explained_in_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(DataError) as raised:
        choice(text, KNOWN, "objective")
    assert str(raised.value).startswith(sentence)


def test_the_sentence_says_whether_it_is_about_an_objective_or_a_loss() -> None:
    with pytest.raises(DataError, match=r"^loss 'angel' is not known \(did you mean 'angle'\?\)"):
        choice("angel", LOSSES, "loss")
