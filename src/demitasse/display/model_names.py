"""Short names of models that are compared, each different from the others."""

from __future__ import annotations

import re
from collections.abc import Sequence

from demitasse.evaluation.evaluation import Evaluation


def short_names(evaluations: Sequence[Evaluation]) -> list[str]:
    """As little of the end of each model's path as tells it apart; its precision or a number where none does.

    Full paths would be cut off in a narrow table, often before the place where they differ.
    """
    precise = [f"{one.model}, {one.precision}" for one in evaluations]
    for names in ([one.model for one in evaluations], precise):
        if len({*names}) == len(names):
            return shortened(names)
    return [f"{name} ({number})" for number, name in enumerate(precise, 1)]


def shortened(names: Sequence[str]) -> list[str]:
    """Different paths, each reduced to as many of its last parts as it takes to be the only one that ends so.

    >>> shortened(["runs/old/model", "runs/new/model", "hub/bert"])
    ['old/model', 'new/model', 'bert']
    """
    parts = [re.findall(r"[^/\\]*[/\\]|[^/\\]+", name.rstrip("/\\") or name) for name in names]  # slashes stay
    short = []
    for own in parts:
        others = [other for other in parts if other is not own]
        length = next(
            (length for length in range(1, len(own)) if all(other[-length:] != own[-length:] for other in others)),
            len(own),
        )
        short.append("".join(own[-length:]))
    return short
