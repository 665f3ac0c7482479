"""What a run over a corpus has done, in numbers and in one line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from demitasse.corpora.manifest import Counts


@dataclass(frozen=True)
class CorpusSummary:
    """What `embed_corpus` returns."""

    out: Path
    counts: Counts  # of the whole corpus
    encoded: int  # rows that this run has encoded; the others were there already
    seconds: float  # that this run took

    @property
    def rows_per_second(self) -> float:
        """The rate of this run; 0 if there was nothing left to do."""
        return self.encoded / self.seconds if self.encoded and self.seconds else 0.0

    def __str__(self) -> str:
        """One line for people to read."""
        counts = self.counts
        parts = [f"{counts.rows:,} rows, {counts.tokens:,} tokens"]
        left_out = {"truncated": counts.truncated, "empty": counts.empty}
        left_out |= {"duplicates": counts.duplicates, "bad": counts.bad}
        parts += [f"{count:,} {what}" for what, count in left_out.items() if count]
        if self.encoded:
            there = counts.rows - self.encoded
            parts.append(f"{self.seconds:,.1f} s, {self.rows_per_second:,.0f} rows/s")
            parts += [f"{there:,} of them were there already"] if there else []
        else:
            parts.append("all of them were there already")
        return "; ".join(parts)
