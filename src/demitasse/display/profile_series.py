"""What is shown beside a profile: the models it was compared with, the fronts of other profiles. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from demitasse.errors import DataError
from demitasse.planning.profile import Profile, Row


@dataclass(frozen=True)
class Series:
    """Rows of one other model, from the fastest on."""

    name: str
    rows: Sequence[Row]
    note: str = ""  # what must be known to read them


def shown_beside(profile: Profile, compare: Sequence[Profile] = ()) -> list[Series]:
    """The comparison models of a profile, then the fronts of other profiles, which must be of the same measure.

    Times of another machine are not those of this one, which is said beside them.
    """
    found = [Series(row.name or "another model", [row]) for row in profile.others]
    for other in compare:
        if other.measure != profile.measure:
            raise DataError(
                f"the quality of {other.model} is {other.measure}, and that of {profile.model} {profile.measure}; "
                "measure both in the same way to compare them"
            )
        same = other.made.get("machine") == profile.made.get("machine")
        note = "" if same else f"timed on another machine ({other.machine or 'unknown'})"
        found.append(Series(other.model, other.front("quality", "latency"), note))
    return found
