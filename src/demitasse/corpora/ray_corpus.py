"""The same on many machines, by Ray Data: it reads, schedules and writes; the shard encoder runs inside its actors.

Ray keeps the ids of rows that were written, and a run that was killed leaves those out: so ids must be unique. Its
reader has no numbers of rows, so there must be a column of ids, which keeps its name in the output.

The filter of ids is an actor of its own, and so are reading and writing: a cluster whose cores are all taken by
encoders would wait for ever when it resumes. `actors_for` leaves cores for them, and a local cluster is told that it
has more than it has. When a node goes, encoders may still take all cores that are left, so reading and writing ask for
none.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from demitasse.arguments import check_fields, instance, whole
from demitasse.corpora.bad_rows import BadRow, as_lines
from demitasse.corpora.columns import Columns
from demitasse.corpora.manifest import BAD_ROWS
from demitasse.corpora.options import ID, CorpusOptions
from demitasse.corpora.shard_encoder import ShardEncoder
from demitasse.corpora.shard_rows import ShardReader
from demitasse.encoding.checked_encoder import checked_encoder
from demitasse.encoding.encoder import Encoder
from demitasse.errors import DataError, FolderError
from demitasse.extras import RAY, need
from demitasse.host.machine import cores

LOCAL = "local"
SPARE = 3  # cores for the filter of ids, reading and writing
_BATCH = 16_384  # rows that an actor encodes at a time, sorted by length
_BLOCK = 8 << 20  # bytes that go from one step to the next; Ray's own 128 MB are minutes of work, lost with the driver
_READERS = {"parquet": "read_parquet", "jsonl": "read_json", "csv": "read_csv"}
VECTORS, _MANIFEST, _CHECKPOINT = "vectors", "_ray.json", "_checkpoint"


@dataclass(frozen=True)
class RayCluster:
    """Where Ray runs, and what each of its encoders is given.

    >>> RayCluster().address
    'local'
    """

    address: str = LOCAL  # `local`, `auto`, or the address of a cluster
    actor_cores: int = 4  # of one encoder, where there is no GPU; a local cluster has one encoder for all cores
    actor_gpus: float = 1.0  # of one encoder, where there are GPUs

    def __post_init__(self) -> None:
        check_fields(self)
        whole("actor_cores", self.actor_cores, least=1)

    def start(self) -> None:
        """Connect to Ray, or start it here."""
        ray = importlib.import_module("ray")
        if not ray.is_initialized():
            # `local` is said to Ray too, or it would join a cluster that somebody else has started on this machine.
            local = {"num_cpus": cores() + SPARE, "include_dashboard": False} if self.address == LOCAL else {}
            ray.init(self.address, **local, log_to_driver=False)


def actors_for(cluster: RayCluster, resources: dict[str, float]) -> dict[str, Any]:
    """How many encoders a cluster has room for, and what each takes.

    >>> actors_for(RayCluster(), {"CPU": 5.0})
    {'size': 1, 'num_cpus': 2}
    >>> actors_for(RayCluster("auto"), {"CPU": 64.0, "GPU": 8.0})
    {'size': 8, 'num_cpus': 1, 'num_gpus': 1.0}
    """
    room = int(resources.get("CPU", 0)) - SPARE
    gpus = resources.get("GPU", 0.0)
    if room < 1:
        few = f"the cluster has {room + SPARE} cores"
        raise DataError(f"{few}; give it at least {SPARE + 1}, {SPARE} of them for Ray itself")
    if gpus:
        return {
            "size": max(1, min(room, int(gpus / cluster.actor_gpus))),
            "num_cpus": 1,
            "num_gpus": cluster.actor_gpus,
        }
    each = room if cluster.address == LOCAL else min(room, cluster.actor_cores)
    return {"size": max(1, room // each), "num_cpus": each}


def embed_on_ray(
    encoder: Encoder,
    sources: str | Sequence[str],
    out: str,
    options: CorpusOptions | None = None,
    cluster: RayCluster | None = None,
) -> int:
    """Embed a corpus on a Ray cluster; returns how many rows there are. The same call goes on with one that was killed.

    Paths may be those of S3 and other stores that Arrow knows (`s3://bucket/texts/`), and every node must be able to
    read them and the folder of the model. All sources have one format.
    """
    need("embedding on Ray", RAY)
    checked_encoder(encoder)
    options = instance("options", options or CorpusOptions(), CorpusOptions, "write CorpusOptions()")
    cluster = instance("cluster", cluster or RayCluster(), RayCluster, "write RayCluster()")
    paths = [_whole(str(one)) for one in ([sources] if isinstance(sources, str) else sources)]
    out = _whole(out)
    if options.id is None:
        raise DataError("Ray resumes by ids, and no column of ids was named; give one whose values are unique (--id)")
    if options.deduplicate:
        raise DataError("texts are not compared across machines; deduplicate on one (leave out --ray), or beforehand")
    cluster.start()
    _check_same(out, {"facts": _facts(encoder, options), "options": asdict(options), "sources": paths})
    return _run(encoder, paths, out, options, cluster)


def _whole(path: str) -> str:
    """A path as processes that run elsewhere need it; Ray takes a relative one for a broken URI."""
    return path if "://" in path else os.path.abspath(path)


def _facts(encoder: Encoder, options: CorpusOptions) -> dict[str, Any]:
    return ShardEncoder(encoder, options, Columns("", None, {})).facts


def _run(encoder: Encoder, paths: list[str], out: str, options: CorpusOptions, cluster: RayCluster) -> int:
    ray, data = importlib.import_module("ray"), importlib.import_module("ray.data")
    checkpoint = importlib.import_module("ray.data.checkpoint")
    context = data.DataContext.get_current()
    context.checkpoint_config = checkpoint.CheckpointConfig(
        id_column=options.id, checkpoint_path=f"{out}/{_CHECKPOINT}", delete_checkpoint_on_success=False
    )
    block, context.target_max_block_size = context.target_max_block_size, _BLOCK
    try:
        actors = actors_for(cluster, ray.cluster_resources())
        size = actors.pop("size")
        text = options.column or "text"
        read = _read(data, paths, [*dict.fromkeys((options.id or "", text, *options.keep))])
        encoded = read.map_batches(
            EncodeBatch,
            fn_constructor_kwargs={
                "encoder": encoder,
                "options": options,
                "text": text,
                "out": out,
                "name": ", ".join(paths),
                "threads": None if "num_gpus" in actors else actors["num_cpus"],
            },
            batch_size=_BATCH,
            batch_format="pyarrow",
            compute=data.ActorPoolStrategy(size=size),
            **actors,
        )
        rows = options.shard_rows
        encoded.write_parquet(f"{out}/{VECTORS}", min_rows_per_file=rows, ray_remote_args={"num_cpus": 0})
    finally:
        context.checkpoint_config, context.target_max_block_size = None, block
    return int(data.read_parquet(f"{out}/{VECTORS}", columns=[options.id]).count())


def _read(data: Any, paths: list[str], columns: list[str]) -> Any:
    names = {path.rstrip("/").removesuffix(".gz").rpartition(".")[2].lower() for path in paths}
    kinds = {name if name in _READERS else "parquet" for name in names}  # a folder is one of Parquet files
    if len(kinds) > 1:
        raise DataError(f"the sources are of several formats ({', '.join(sorted(kinds))}); embed each by itself")
    kind = kinds.pop()
    if kind == "parquet":
        return data.read_parquet(paths, columns=columns, num_cpus=0)
    options = {"file_extensions": None} if kind == "jsonl" else {}
    return getattr(data, _READERS[kind])(paths, num_cpus=0, **options).select_columns(columns)


class EncodeBatch:
    """What an actor does: a table of rows in, a table of vectors out."""

    def __init__(
        self, encoder: Encoder, options: CorpusOptions, text: str, out: str, name: str, threads: int | None = None
    ) -> None:
        # Several encoders share a machine, and each would use all of its cores.
        self._encoder = encoder if threads is None else encoder._on_threads(threads)
        self._options, self._text, self._out, self._name = options, text, out, name

    def __call__(self, batch: Any) -> Any:
        """The vectors of a batch, without rows that are empty or bad."""
        options, schema = self._options, batch.schema
        types = {ID: schema.field(options.id).type} | {name: schema.field(name).type for name in options.keep}
        columns = Columns(self._text, options.id, types)
        rows = ShardReader([], columns).read_batch(batch, self._name)
        if rows.bad:
            _write_bad(rows.bad, self._out)
        made = ShardEncoder(self._encoder, options, columns)
        encoded = next(made.encode([rows.texts], lambda done: None))
        table = made.table(rows, encoded.stored(), {})
        return table.rename_columns([options.id if name == ID else name for name in table.column_names])


def _write_bad(rows: Sequence[BadRow], out: str) -> None:
    """Write what was left out; the same rows make the same file, however often they are tried."""
    lines = as_lines(rows)
    filesystem, folder = _at(f"{out}/{BAD_ROWS}")
    filesystem.create_dir(folder, recursive=True)
    with filesystem.open_output_stream(f"{folder}/{sha256(lines).hexdigest()[:16]}.jsonl") as file:
        file.write(lines)


def _check_same(out: str, wanted: dict[str, Any]) -> None:
    """Refuse to go on with what another model or other options have begun; else say what is begun."""
    filesystem, folder = _at(out)
    path = f"{folder}/{_MANIFEST}"
    kinds = importlib.import_module("pyarrow.fs").FileType
    if filesystem.get_file_info(path).type != kinds.NotFound:
        with filesystem.open_input_stream(path) as file:
            begun = json.loads(file.read())
        if begun != json.loads(json.dumps(wanted)):
            names = [name for name in wanted if begun.get(name) != json.loads(json.dumps(wanted[name]))]
            raise FolderError(f"{out} was begun with other {', '.join(names)}; choose a new folder, or use these again")
        return
    filesystem.create_dir(folder, recursive=True)
    with filesystem.open_output_stream(path) as file:
        file.write(json.dumps(wanted, indent=1).encode())


def _at(path: str) -> tuple[Any, str]:
    """The file system of a path, local or not, and the path in it."""
    arrow: Any = importlib.import_module("pyarrow.fs")
    if "://" in path:
        filesystem, inside = arrow.FileSystem.from_uri(path)
        return filesystem, str(inside)
    return arrow.LocalFileSystem(), path
