"""`BlockEncoder`: the encoder that runs exported blocks on onnxruntime. No torch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from demitasse.arguments import flag, path
from demitasse.cut import Cut
from demitasse.encoding.batching import pace, token_batches
from demitasse.encoding.block_files import SPACE, TOKENIZER, Blocks, files_at
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.fingerprints import fingerprint, reading
from demitasse.encoding.finite import finite
from demitasse.encoding.listed_files import ListedFiles
from demitasse.encoding.manifest import Manifest, own_files
from demitasse.encoding.mixed_depths import Axes, MixedTexts, axes_of, cut_rows, fronts, sliced
from demitasse.encoding.ort_sessions import PROVIDERS, Values, choose_provider
from demitasse.encoding.packed_tokens import Batch, PackedTokens
from demitasse.encoding.pooling import Pooling, without_prompt
from demitasse.encoding.reader import BatchTokenizer, Reader, fastest_tokenizer
from demitasse.encoding.spaces import Space, chained, space_of
from demitasse.encoding.teacher_space import TeacherSpace, read_back, written
from demitasse.encoding.token_tally import TokenTally
from demitasse.encoding.tokenizer_errors import check_ids, told
from demitasse.encoding.vectors import Vectors, unit_length
from demitasse.errors import DeviceError, FolderError
from demitasse.host.atomic import new_folder
from demitasse.host.bundled import BUILT_IN
from demitasse.host.machine import cores
from demitasse.host.progress import Advance

_PER_TOKEN = ("input_ids", "attention_mask", "pooled_mask")
_PROBES = ((2, 3), (4, 5))  # texts and tokens, all different, so that a shape says what its axes count


@dataclass(frozen=True, eq=False, repr=False)
class BlockEncoder(Encoder):
    """An encoder on onnxruntime that runs the first `layers` of its blocks."""

    blocks: Blocks
    reader: Reader
    pooling: Pooling
    layers: int
    dims: int
    manifest: Manifest
    threads: int | None = None  # all cores

    @property
    def full(self) -> Cut:
        """The largest cut this encoder gives, and the one `encode` uses."""
        return Cut(self.layers, self.dims)

    @property
    def teacher_space(self) -> TeacherSpace | None:  # type: ignore[override]
        """The space that it shares with its teachers, if it was aligned with any."""
        teachers, files = self.manifest.teachers, self.blocks.files
        if not teachers:
            return None
        widest = self.manifest.full.dims
        return read_back(teachers, widest, files.read(SPACE), files.folder / SPACE).first(self.dims)

    @property
    def record(self) -> Mapping[str, Any]:  # type: ignore[override]
        """Where it comes from, what was fitted or trained."""
        return self.manifest.record

    @property
    def folder(self) -> Path:  # type: ignore[override]
        """The folder it was loaded from."""
        return self.manifest.folder

    @property
    def architecture(self) -> str:
        """The class of the exported model, such as `BertModel`."""
        return self.manifest.architecture

    @property
    def exit_depths(self) -> list[int]:
        """The depths that have an exit of their own."""
        return [depth for depth in self.manifest.exits if depth <= self.layers]

    @property
    def runtime(self) -> str:
        """What runs the model."""
        return "blocks"

    @property
    def device_kind(self) -> str:
        """The kind of device it runs on."""
        return next(short for short, long in PROVIDERS.items() if long == self.blocks.provider)

    @property
    def place(self) -> str:
        """Precision and device."""
        return f"{self.precision} blocks, {self.device_kind}"

    @property
    def precision(self) -> str:
        """The number format of the weights."""
        return self.manifest.precision

    @cached_property
    def fingerprint(self) -> str:
        """Names everything that makes the vectors; the weights were fingerprinted when they were exported."""
        facts = [self.blocks.fingerprint, self.precision, str(self.full), repr(self.pooling)]
        return fingerprint([*facts, self._reading])

    @cached_property
    def space(self) -> Space:
        """What its vectors have in common with those of all cuts of this model, and of the model it was made from."""
        depths = tuple(self.manifest.space[: self.layers + 1])
        if len(depths) <= self.layers:  # exported before a manifest named the space: the files stand for the weights
            files = self.content
            base = fingerprint([repr(self.pooling), files["embeddings.onnx"]])
            own = ([files.get(f"layer_{depth}.onnx"), files[f"exit_{depth}.onnx"]] for depth in range(self.layers + 1))
            depths = chained(base, map(fingerprint, own))
        return space_of(depths, self._reading)

    @property
    def _reading(self) -> dict[str, Any]:
        return reading(self.reader, self.blocks.files.read(TOKENIZER).decode())

    @property
    def content(self) -> dict[str, str]:
        """The sha256 of every file that makes the vectors; a fingerprint only says what a folder claims to hold."""
        files = self.blocks.files
        return {name: files.hashes.get(name) or sha256(files.read(name)).hexdigest() for name in files_at(self.layers)}

    def model_bytes(self, cut: Cut) -> int:
        """How many bytes of blocks are opened to run `cut`."""
        cut = Cut.of(cut).within(self.full)
        layers = [f"layer_{layer}" for layer in range(1, cut.layers + 1)]
        return sum(self.blocks.files.sizes[f"{name}.onnx"] for name in ["embeddings", *layers, f"exit_{cut.layers}"])

    def save(self, folder: str | Path, *, force: bool = False) -> None:
        """Write this encoder as a folder of the blocks it needs."""
        with new_folder(path("folder", folder), own_files, self.folder, force=flag("force", force)) as aside:
            for name in files_at(self.layers):
                (aside / name).write_bytes(self.blocks.files.read(name))
            if self.teacher_space is not None:
                (aside / SPACE).write_bytes(written(self.teacher_space))
            manifest = self.manifest.narrowed(self.full, aside, self.max_seq_length).with_files()
            manifest.write()
            open_blocks(manifest)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as where it is and what is used of it; unpickling opens the folder, which must be the same."""
        folder = None if self.folder == BUILT_IN else str(self.folder)
        settings = (self.device_kind, self.full, self.max_seq_length, self.threads)
        return reopened, (folder, *settings, self.fingerprint)

    def _on_threads(self, count: int) -> BlockEncoder:
        """The same encoder, computing on `count` threads."""
        return replace(self, threads=count)

    def _cut_to(self, cut: Cut) -> BlockEncoder:
        return replace(self, layers=cut.layers, dims=cut.dims)

    def _embed_windows(
        self, parts: Iterable[list[str]], cuts: Sequence[Cut], prefix: str, tally: TokenTally, advance: Advance
    ) -> Iterator[dict[Cut, Vectors]]:
        prompt_tokens = 0 if self.pooling.include_prompt else self.reader.prompt_tokens(prefix)
        device_kind = self.device_kind
        on_cpu = device_kind == "cpu"
        workers = (self.threads or cores()) if on_cpu else 1
        pool: ThreadPoolExecutor | None = None  # started when there is work for it: one text takes 0.1 ms
        feed = pace(self.runtime, device_kind)
        ahead: deque[_Window] = deque()
        try:
            for window in parts:
                packed = self.reader.read(window, prefix)
                tally.add(packed, self.max_seq_length)
                lengths = packed.lengths.tolist()
                # Even a few texts are spread over the cores.
                budget = min(feed.budget, -(-sum(lengths) // workers)) if on_cpu else feed.budget
                batches = token_batches(lengths, budget, feed.least)

                def embed(batch: list[int], packed: PackedTokens = packed) -> dict[Cut, Vectors]:
                    return self._embed(self.reader.padded(packed, batch), cuts, prompt_tokens)

                # Where one thread is asked for, and for a few texts, handing them to another would only take longer.
                if self.threads == 1 or (len(batches) == 1 and not ahead):
                    results = deque(_done(embed(batch)) for batch in batches)
                else:
                    pool = pool or ThreadPoolExecutor(workers, "demitasse")
                    results = deque(pool.submit(embed, batch).result for batch in batches)
                ahead.append(_Window(batches, results, len(packed)))
                if len(ahead) > 1:
                    yield finite(ahead.popleft().vectors(cuts, advance), self._why_not_finite)
            while ahead:
                yield finite(ahead.popleft().vectors(cuts, advance), self._why_not_finite)
        finally:
            if pool is not None:
                pool.shutdown(cancel_futures=True)  # after Ctrl-C, leave the rest

    def _why_not_finite(self) -> tuple[str, str]:
        return f"{self.name} in {self.precision}", "so its weights are damaged; copy or export the model again"

    def _embed(self, batch: Batch, cuts: Sequence[Cut], prompt_tokens: int) -> dict[Cut, Vectors]:
        values = {"input_ids": batch.ids, "attention_mask": batch.mask}
        values["pooled_mask"] = without_prompt(batch.mask, prompt_tokens) if prompt_tokens else batch.mask
        values.update(self.blocks.run("embeddings", values, "hidden"))
        depths = {cut.layers for cut in cuts}
        embeddings = {}
        for depth in range(max(depths) + 1):
            if depth:
                values["hidden"] = self.blocks.run(f"layer_{depth}", values, "next_hidden")["next_hidden"]
            if depth in depths:
                embeddings[depth] = self._checked(depth, self.blocks.run(f"exit_{depth}", values, "embedding"))
        return {cut: unit_length(embeddings[cut.layers][:, : cut.dims]) for cut in cuts}

    def _embed_mixed(self, texts: MixedTexts) -> Vectors:
        order, widest = texts.order, max(cut.dims for cut in texts.cuts)
        cuts, lengths = [texts.cuts[index] for index in order], texts.packed.lengths[order]
        batch = self.reader.padded(texts.packed, order)  # type: ignore[arg-type]
        values: Values = {"input_ids": batch.ids, "attention_mask": batch.mask, "pooled_mask": batch.mask}
        if texts.prompt_tokens.any():
            values["pooled_mask"] = without_prompt(batch.mask, texts.prompt_tokens[order][:, None])
        values.update(self.blocks.run("embeddings", values, "hidden"))
        vectors = np.zeros((len(order), widest), np.float32)
        for front in fronts([cut.layers for cut in cuts], lengths):
            if front.depth:
                values["hidden"] = self.blocks.run(f"layer_{front.depth}", values, "next_hidden")["next_hidden"]
            if front.staying < front.reaching:
                leaving = slice(front.staying, front.reaching)
                seen = {name: values[name][leaving] for name in ("hidden", "attention_mask", "pooled_mask")}
                embeddings = self._checked(front.depth, self.blocks.run(f"exit_{front.depth}", seen, "embedding"))
                cut_rows(embeddings, cuts[leaving], vectors, order[leaving])
            if 0 < front.staying < front.reaching:
                values = self._front(values, front.staying, front.tokens)
        return finite({max(cuts): vectors}, self._why_not_finite)[max(cuts)]

    def _front(self, values: Values, texts: int, tokens: int) -> Values:
        """What the next layer is given for the first `texts` and `tokens`."""
        axes = self._value_axes
        if axes is not None:
            return sliced(values, axes, texts, tokens)
        # Of a value whose axes are not known no part can be taken, but it can be computed again for fewer texts.
        fewer = sliced(values, dict.fromkeys(_PER_TOKEN, ("texts", "tokens")), texts, tokens)
        hidden = np.ascontiguousarray(values["hidden"][:texts, :tokens])
        return {**fewer, **self.blocks.run("embeddings", fewer, "hidden"), "hidden": hidden}

    @cached_property
    def _value_axes(self) -> dict[str, Axes] | None:
        """What the axes of each value count that blocks pass on; `None` where that is not clear for one of them."""
        shapes = []
        for texts, tokens in _PROBES:
            mask = np.ones((texts, tokens), np.int64)
            mask[0, -1] = 0
            values = {
                "input_ids": np.full_like(mask, self.reader.empty_id),
                "attention_mask": mask,
                "pooled_mask": mask,
            }
            values.update(self.blocks.run("embeddings", values, "hidden"))
            shapes.append({name: value.shape for name, value in values.items()})
        found = {name: axes_of(shapes[0][name], shapes[1][name], _PROBES) for name in shapes[0]}
        known = {name: axes for name, axes in found.items() if axes is not None}
        return known if len(known) == len(found) else None

    def _checked(self, depth: int, values: Values) -> Vectors:
        """The embeddings among the outputs of an exit; fewer dims than the manifest promises are refused."""
        embeddings = values["embedding"]
        widest = self.manifest.full.dims
        if embeddings.ndim != 2 or embeddings.dtype != np.float32 or embeddings.shape[1] < widest:
            raise FolderError(
                f"exit_{depth}.onnx in {self.folder} gives {embeddings.dtype} of shape {embeddings.shape}, and "
                f"the folder says {widest} dims; copy or export the model again"
            )
        return embeddings


@dataclass(frozen=True)
class _Window:
    """Texts that are being embedded, in batches."""

    batches: list[list[int]]
    results: deque[Callable[[], dict[Cut, Vectors]]]  # wait for each batch, once
    count: int

    def vectors(self, cuts: Sequence[Cut], advance: Advance) -> dict[Cut, Vectors]:
        vectors = {cut: np.empty((self.count, cut.dims), np.float32) for cut in cuts}
        for batch in self.batches:
            # No variable holds what is waited for: an error that it raises would hold itself then, through the frames
            # of its traceback, and keep its blocks in memory until garbage is collected.
            for cut, of_batch in self.results.popleft()().items():
                vectors[cut][batch] = of_batch
            advance(len(batch))
        return vectors


def _done(result: dict[Cut, Vectors]) -> Callable[[], dict[Cut, Vectors]]:
    return lambda: result


# One is kept, since a pool of processes unpickles the same encoder for each of its tasks.
@lru_cache(maxsize=1)
def reopened(
    folder: str | None, device: str, cut: Cut, max_tokens: int, threads: int | None, fingerprint: str
) -> BlockEncoder:
    """An encoder as it was pickled, or one sentence if its folder is gone or another model by now."""
    place = BUILT_IN if folder is None else Path(folder)
    manifest = Manifest.read(place) if place.is_dir() else None
    if manifest is None or manifest.kind != "blocks":
        raise FolderError(f"{place}, where this pickled encoder was loaded from, holds no blocks; put them back there")
    encoder = open_blocks(manifest, device)
    if max_tokens < encoder.max_seq_length:
        encoder = encoder._limited_to(max_tokens)
    if cut.fits(encoder.full):
        encoder = encoder.cut(cut)
    if encoder.fingerprint != fingerprint:
        raise FolderError(
            f"{place} holds another model than when this encoder was pickled; load it and pickle it again"
        )
    return replace(encoder, threads=threads)


def open_blocks(manifest: Manifest, device: str | None = None, dtype: str | None = None) -> BlockEncoder:
    """The encoder in a folder of blocks; nothing but its tokenizer is read yet."""
    folder = manifest.folder
    manifest.check()
    if dtype is not None:
        raise DeviceError(
            f"{folder} holds {manifest.precision} blocks, so dtype {dtype!r} cannot be chosen; leave it out, or "
            "load the model they were exported from"
        )
    full, reading = manifest.full, manifest.reading
    blocks = Blocks(ListedFiles(manifest), manifest.fingerprint, choose_provider(device))
    blocks.check(full.layers)
    reader = Reader(_read_tokenizer(blocks.files, reading["max_tokens"]), **reading)
    return BlockEncoder(blocks, reader, manifest.pooling, full.layers, full.dims, manifest)


def _read_tokenizer(files: ListedFiles, max_tokens: int) -> BatchTokenizer:
    content, path = files.read(TOKENIZER), files.folder / TOKENIZER
    check_ids(content, path)
    with told(f"{path} cannot be read", "copy or export the model again"):
        tokenizer = Tokenizer.from_buffer(content)
        return fastest_tokenizer(tokenizer, max_tokens, (tokenizer.truncation or {}).get("direction", "right"))
