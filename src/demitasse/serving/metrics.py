"""Counters of one process, and of all workers together, in the text format that Prometheus reads.

A `Metrics` is plain counters, gauges and histograms under names with labels. `snapshot` gives them as plain values, so
that a worker can show its own to the others; `text` adds up the snapshots of all workers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

# Every metric: its kind and what it means. A histogram also has the upper ends of its buckets.
KINDS: dict[str, tuple[str, str]] = {
    "demitasse_requests_total": ("counter", "Requests answered, by path and status."),
    "demitasse_request_seconds": ("histogram", "Time from a request's first byte to its reply, by path."),
    "demitasse_embed_seconds": ("histogram", "Time in the engine, queue included, by the layers that were used."),
    "demitasse_queue_seconds": ("histogram", "Time in the queue, by the layers that were used."),
    "demitasse_inputs_total": ("counter", "Texts embedded, by the layers that were used."),
    "demitasse_tokens_total": ("counter", "Tokens embedded, special tokens included."),
    "demitasse_truncated_total": ("counter", "Texts that were truncated."),
    "demitasse_shed_requests_total": ("counter", "Requests that were given fewer layers than they asked for."),
    "demitasse_shed_layers_total": ("counter", "Layers left out of those requests."),
    "demitasse_refused_total": ("counter", "Requests turned away because too much was waiting."),
    "demitasse_batches_total": ("counter", "Batches computed."),
    "demitasse_batch_texts_total": ("counter", "Texts in those batches."),
    "demitasse_batch_tokens_total": ("counter", "Tokens in those batches."),
    "demitasse_queue_requests": ("gauge", "Requests waiting."),
    "demitasse_queue_tokens": ("gauge", "Tokens waiting."),
    "demitasse_queue_wait_seconds": ("gauge", "Time until all that waits is done; the longest of all workers."),
    "demitasse_running_batches": ("gauge", "Batches being computed."),
    "demitasse_allowed_layers": ("gauge", "Layers that the load allows a query that may be shed; the fewest of all."),
    "demitasse_connections": ("gauge", "Open connections."),
    "demitasse_ready": ("gauge", "Workers that are ready."),
}
BUCKETS: dict[str, Sequence[float]] = {name: SECONDS for name, (kind, _) in KINDS.items() if kind == "histogram"}
# What the engine counts, by its own names.
LOAD = {
    "demitasse_shed_requests_total": "requests_shed",
    "demitasse_shed_layers_total": "layers_shed",
    "demitasse_refused_total": "refused",
    "demitasse_batches_total": "batches",
    "demitasse_batch_texts_total": "batch_texts",
    "demitasse_batch_tokens_total": "batch_tokens",
    "demitasse_queue_requests": "queue_requests",
    "demitasse_queue_tokens": "queue_tokens",
    "demitasse_queue_wait_seconds": "queue_seconds",
    "demitasse_running_batches": "running",
    "demitasse_allowed_layers": "layers",
}
# All others are added up over workers.
_OVER_WORKERS: dict[str, Callable[[float, float], float]] = {
    "demitasse_queue_wait_seconds": max,
    "demitasse_allowed_layers": min,
}

Labels = tuple[tuple[str, str], ...]
Snapshot = dict[str, list[Any]]  # by name: labels and value, or labels, counts and sum


@dataclass
class Metrics:
    """What one process has counted."""

    _values: dict[tuple[str, Labels], float] = field(default_factory=dict)
    _histograms: dict[tuple[str, Labels], list[float]] = field(default_factory=dict)

    def add(self, name: str, count: float = 1, **labels: str) -> None:
        """Count up."""
        key = name, tuple(labels.items())
        self._values[key] = self._values.get(key, 0) + count

    def set(self, name: str, value: float) -> None:
        """What a gauge shows now, or what somebody else has counted up to now."""
        self._values[name, ()] = value

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Count a value in its bucket of a histogram."""
        key = name, tuple(labels.items())
        counts = self._histograms.get(key)
        if counts is None:
            counts = self._histograms[key] = [0.0] * (len(BUCKETS[name]) + 2)  # the last two: above all ends; the sum
        counts[bisect_left(BUCKETS[name], value)] += 1
        counts[-1] += value

    def snapshot(self) -> Snapshot:
        """Everything counted so far, as plain values."""
        plain: Snapshot = {}
        for (name, labels), value in self._values.items():
            plain.setdefault(name, []).append([labels, value])
        for (name, labels), counts in self._histograms.items():
            plain.setdefault(name, []).append([labels, list(counts)])
        return plain


def text(snapshots: Iterable[Mapping[str, Any]]) -> str:
    """What Prometheus reads: the sum of `snapshots`.

    >>> one, two = Metrics(), Metrics()
    >>> one.add("demitasse_tokens_total", 5)
    >>> two.add("demitasse_tokens_total", 7)
    >>> print(text([one.snapshot(), two.snapshot()]), end="")
    # HELP demitasse_tokens_total Tokens embedded, special tokens included.
    # TYPE demitasse_tokens_total counter
    demitasse_tokens_total 12
    """
    lines: list[str] = []
    total = merged(snapshots)
    for name, (kind, about) in KINDS.items():
        if name in total:
            lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
            for labels, value in sorted(total[name].items()):
                lines += _histogram(name, labels, value) if kind == "histogram" else [_line(name, labels, value)]
    return "".join(f"{line}\n" for line in lines)


def merged(snapshots: Iterable[Mapping[str, Any]]) -> dict[str, dict[Labels, Any]]:
    """By name and labels, the sum of what `snapshots` hold."""
    total: dict[str, dict[Labels, Any]] = {}
    for snapshot in snapshots:
        for name, entries in snapshot.items():
            for labels, value in entries:
                key = tuple((str(label), str(word)) for label, word in labels)
                known = total.setdefault(name, {})
                known[key] = _joined(name, known[key], value) if key in known else value
    return total


def _joined(name: str, first: Any, second: Any) -> Any:
    if isinstance(first, list):
        return [one + other for one, other in zip(first, second, strict=True)]
    return _OVER_WORKERS[name](first, second) if name in _OVER_WORKERS else first + second


def _histogram(name: str, labels: Labels, counts: Sequence[float]) -> list[str]:
    lines, below = [], 0.0
    for end, count in zip([*(f"{end:g}" for end in BUCKETS[name]), "+Inf"], counts[:-1], strict=True):
        below += count
        lines.append(_line(f"{name}_bucket", (*labels, ("le", end)), below))
    return [*lines, _line(f"{name}_sum", labels, counts[-1]), _line(f"{name}_count", labels, below)]


def _line(name: str, labels: Labels, value: float) -> str:
    inside = ",".join(f'{label}="{_escaped(word)}"' for label, word in labels)
    return f"{name}{{{inside}}} {value:.12g}" if inside else f"{name} {value:.12g}"


def _escaped(word: str) -> str:
    return word.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
