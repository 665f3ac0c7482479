from __future__ import annotations

from dataclasses import replace

import pytest
from evaluations import evaluation

from demitasse.display.model_names import short_names


@pytest.mark.parametrize(
    ("models", "names"),
    [
        (["a/b/model"], ["model"]),
        (["a/b/one", "a/b/two", "built-in"], ["one", "two", "built-in"]),
        (["a/b/model", "a/c/model"], ["b/model", "c/model"]),
        (["x/a/model", "y/a/model", "a/model"], ["x/a/model", "y/a/model", "a/model"]),
        (["a/model/", "b/model/"], ["a/model", "b/model"]),
        (["C:\\runs\\a\\model", "C:\\runs\\b\\model"], ["a\\model", "b\\model"]),
        (["model", "model"], ["model, fp32 (1)", "model, fp32 (2)"]),
        (["/", "."], ["/", "."]),
    ],
)
def test_models_get_the_shortest_names_that_differ(models: list[str], names: list[str]) -> None:
    assert short_names([evaluation(model=model) for model in models]) == names


def test_the_same_model_in_two_precisions_is_told_apart() -> None:
    made = evaluation(model="runs/model")
    assert short_names([made, replace(made, precision="int8")]) == ["model, fp32", "model, int8"]
