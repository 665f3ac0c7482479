"""`embed_corpus`: a corpus of any size to vectors, on one machine.

One thread reads, this one encodes (on as many cores as the encoder uses), one writes: each a shard ahead of the next,
so that nobody waits, and memory holds a few shards and never more. The folder is made beside its place and moved there
when it is complete. A run that was killed goes on with the first shard that is not there.
"""

from __future__ import annotations

import importlib
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from demitasse.arguments import flag, instance
from demitasse.arguments import path as path_of
from demitasse.corpora.bad_rows import as_lines
from demitasse.corpora.columns import choose_columns
from demitasse.corpora.distinct_texts import DistinctTexts
from demitasse.corpora.manifest import BAD_ROWS, LOCK, PART, Counts, Manifest, counts_of, own_files, total
from demitasse.corpora.options import CorpusOptions
from demitasse.corpora.shard_encoder import Encoded, ShardEncoder
from demitasse.corpora.shard_rows import ShardReader, ShardRows
from demitasse.corpora.shards import Shard, split
from demitasse.corpora.sources import Source, find_sources
from demitasse.corpora.summary import CorpusSummary
from demitasse.data.parquet_vectors import dictionary_columns
from demitasse.encoding.checked_encoder import checked_encoder
from demitasse.encoding.encoder import Encoder
from demitasse.errors import DataError, FolderError
from demitasse.extras import PARQUET, need
from demitasse.host.atomic import new_file, put_folder
from demitasse.host.full_disk import naming_full_disk
from demitasse.host.leftovers import remove, sweep
from demitasse.host.only_writer import only_writer
from demitasse.host.progress import Advance, progress_bar
from demitasse.host.replacing import check_replaceable

BEGUN = ".building"  # added to the name of the folder while it is not finished
_AHEAD = 2  # shards that are read before they are encoded


def embed_corpus(
    encoder: Encoder,
    sources: object,
    out: str | Path,
    options: CorpusOptions | None = None,
    *,
    force: bool = False,
    progress: bool | None = None,
) -> CorpusSummary:
    r"""Encode the texts of files of any size, and write a Parquet dataset of their vectors to the folder `out`.

    `sources` is a file, a folder or a glob, or a list of them: .parquet, .jsonl, .csv, .tsv and .txt, the last four
    also with .gz. The same call goes on with one that was killed, and finds nothing to do once `out` is complete.
    `force` replaces a dataset that is there, and begins again where sources, model or options have changed.

    >>> out.mkdir()
    >>> written = (out / "cups.txt").write_text("a ristretto\n\na lungo\n")
    >>> print(str(embed_corpus(encoder, out / "cups.txt", out / "vectors")).rpartition(";")[0])
    2 rows, 8 tokens; 1 empty
    """
    checked_encoder(encoder)
    options = (
        CorpusOptions() if options is None else instance("options", options, CorpusOptions, "write CorpusOptions()")
    )
    target, force = path_of("out", out), flag("force", force)
    need("embed_corpus", PARQUET)
    found = find_sources(sources)
    made = ShardEncoder(encoder, options, choose_columns(found, options))
    return _Run(target, made, found, force, progress).run()


@dataclass(frozen=True)
class _Run:
    target: Path
    made: ShardEncoder
    sources: Sequence[Source]
    force: bool
    progress: bool | None

    def run(self) -> CorpusSummary:
        started = time.monotonic()
        with naming_full_disk(self.target):
            there = Manifest.read(self.real)
            if there is not None and there.complete and self._difference(there) is None:
                remove(self.begun)  # what this dataset has replaced, if anything is left of that
                return CorpusSummary(self.target, total(there.counts), 0, 0.0)
            self._check(there)
            self._clear()
            self.begun.mkdir(parents=True, exist_ok=True)
            with only_writer(self.begun, LOCK):
                sweep(self.begun)
                sweep(self.begun / BAD_ROWS)
                manifest = self._manifest()
                counts, encoded = self._fill(manifest)
                manifest.with_counts(counts).write(self.begun)
            put_folder(self.begun, self.real, own_files)
            remove(self.begun)  # what was replaced, if anything was
        return CorpusSummary(self.target, total(counts), encoded, time.monotonic() - started)

    @property
    def real(self) -> Path:
        """The folder that will hold the vectors, not a link to it."""
        return Path(os.path.realpath(self.target))

    @property
    def begun(self) -> Path:
        """Where they are until all are there."""
        return self.real.with_name(self.real.name + BEGUN)

    @property
    def _options(self) -> dict[str, Any]:
        """What the shards depend on, beside the model and the sources."""
        options, columns = self.made.options, self.made.columns
        types = {name: str(kind) for name, kind in columns.types.items()}
        choices = {"deduplicate": options.deduplicate, "shard_rows": options.shard_rows}
        return {"column": columns.text, "id": columns.id, "columns": types, **choices}

    def _difference(self, manifest: Manifest) -> str | None:
        return manifest.difference(self.made.facts, self._options, self.sources)

    def _check(self, there: Manifest | None) -> None:
        """Refuse a folder that must not be replaced."""
        if there is not None and not self.force:
            raise FolderError(
                f"{self.target} holds vectors already, and {self._difference(there) or 'they are not complete'}; "
                "choose a new folder, or use force (--force) to replace it"
            )
        check_replaceable(self.target, own_files, force=self.force)

    def _clear(self) -> None:
        """Remove what cannot be gone on with."""
        begun = Manifest.read(self.begun)
        difference = None if begun is None else self._difference(begun)
        if begun is None or difference is None:
            return
        # One that is complete is what another run has replaced.
        if not (self.force or begun.complete):
            raise FolderError(
                f"{self.begun} holds an unfinished run, and {difference}; restore that to go on, or use force "
                "(--force) to begin again"
            )
        remove(self.begun)

    def _manifest(self) -> Manifest:
        """What is to be done: as it was begun, so that large files are not looked through again, or new."""
        begun = Manifest.read(self.begun)
        if begun is not None:
            return begun
        shards = split(self.sources, self.made.options.shard_rows)
        if not shards:
            raise DataError("the sources have no rows; give files with at least one")
        manifest = Manifest(self.made.facts, self._options, tuple(self.sources), tuple(shards))
        manifest.write(self.begun)
        return manifest

    def _fill(self, manifest: Manifest) -> tuple[list[Counts], int]:
        """Make all shards that are not there; their counts, and how many rows were encoded."""
        known = {shard.number: counts_of(self.begun / f"{shard.name}{PART}") for shard in manifest.shards}
        rows = sum(shard.rows for shard in manifest.shards)
        encoded = 0
        with progress_bar("embedding", rows, show=self.progress) as advance:
            advance(sum(counts.read for counts in known.values() if counts is not None))
            rate = _Rate(advance)
            for shard, counts in self._made(manifest, known, rate.add):
                known[shard.number] = counts
                encoded += counts.rows
        done = [counts for counts in known.values() if counts is not None]
        assert len(done) == len(known)
        if not total(done).rows:
            raise DataError(f"none of the {rows:,} rows has a text; see the reasons in {self.begun / BAD_ROWS}")
        return done, encoded

    def _made(
        self, manifest: Manifest, known: dict[int, Counts | None], advance: Advance
    ) -> Iterator[tuple[Shard, Counts]]:
        """Each shard that was written, with its counts."""
        seen = DistinctTexts() if self.made.options.deduplicate else None
        reader = ShardReader(manifest.sources, self.made.columns, seen)
        # Where texts are to be distinct, those that were encoded before have to be seen again.
        wanted = [shard for shard in manifest.shards if seen is not None or known[shard.number] is None]
        reading, writing = ThreadPoolExecutor(1, "demitasse-reads"), ThreadPoolExecutor(1, "demitasse-writes")
        ahead: deque[tuple[Shard, Future[ShardRows]]] = deque()
        written: deque[tuple[Shard, Future[Counts]]] = deque()
        upcoming = iter(wanted)
        taken: deque[tuple[Shard, ShardRows]] = deque()  # that are being encoded

        def texts() -> Iterator[list[str]]:
            while True:
                while len(ahead) < _AHEAD and (shard := next(upcoming, None)) is not None:
                    ahead.append((shard, reading.submit(reader.read, shard)))
                if not ahead:
                    return
                shard, read = ahead.popleft()
                rows = read.result()
                if known[shard.number] is None:
                    taken.append((shard, rows))
                    yield rows.texts

        try:
            for encoded in self.made.encode(texts(), advance):
                shard, rows = taken.popleft()
                advance(shard.rows - len(rows.texts))
                written.append((shard, writing.submit(self._write, shard, manifest, rows, encoded)))
                del rows, encoded
                if len(written) > 1:
                    yield _result(written.popleft())
            while written:
                yield _result(written.popleft())
        finally:
            for pool in (reading, writing):
                pool.shutdown(cancel_futures=True)
            reader.close()

    def _write(self, shard: Shard, manifest: Manifest, rows: ShardRows, encoded: Encoded) -> Counts:
        """Write what was left out of a shard, then the shard itself: one that is there is complete."""
        parquet = importlib.import_module("pyarrow.parquet")
        tally = encoded.tally
        counts = Counts(len(rows.texts), tally.tokens, tally.truncated, rows.empty, rows.duplicates, len(rows.bad))
        if rows.bad:
            (self.begun / BAD_ROWS).mkdir(exist_ok=True)
            with new_file(self.begun / BAD_ROWS / f"{shard.name}.jsonl") as file:
                file.write(as_lines(rows.bad))
        source = manifest.sources[shard.source]
        about = {"input": source.path, "digest": source.digest, "first_row": shard.first, "rows": shard.rows}
        table = self.made.table(rows, encoded.stored(), {**about, "counts": asdict(counts)})
        repeated = dictionary_columns(self.made.columns.kept, self.made.options.vectors)
        with new_file(self.begun / f"{shard.name}{PART}") as file:
            parquet.write_table(table, file, use_dictionary=repeated)
        return counts


def _result(written: tuple[Shard, Future[Counts]]) -> tuple[Shard, Counts]:
    shard, counts = written
    return shard, counts.result()


class _Rate:
    """Passes on what was done to a progress bar, with the rate of this run beside it."""

    def __init__(self, advance: Callable[..., None]) -> None:
        self._advance, self._began, self._rows = advance, time.monotonic(), 0

    def add(self, rows: int) -> None:
        self._rows += rows
        self._advance(rows, f"{self._rows / max(time.monotonic() - self._began, 1e-9):,.0f} rows/s")
