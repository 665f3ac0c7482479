"""Web folders: what is in them, what is refused, and what the command line writes."""

from __future__ import annotations

import gzip
import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from command_line import RunCommand
from hard_texts import every_character, hard_texts
from onnx.numpy_helper import to_array
from web_models import random_bert

import demitasse as dt
from demitasse.encoding.block_encoder import BlockEncoder
from demitasse.encoding.manifest import sha256_of
from demitasse.errors import DataError, FolderError
from demitasse.exporting.unread_words import unread_words
from demitasse.exporting.web import PAGE, RUNTIME, TEXTS_PER_FILE, WebIndex, export_web
from demitasse.host.bundled import BUILT_IN, corpus


@pytest.fixture
def small() -> BlockEncoder:
    encoder = dt.load().cut(layers=1, dims=64)
    assert isinstance(encoder, BlockEncoder)
    return encoder


def unpacked(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())


def web_index(encoder: dt.Encoder, texts: list[str]) -> WebIndex:
    vectors = dt.store(encoder.encode(texts, progress=False), "int8")
    return WebIndex(encoder.full, encoder.space, [str(number) for number in range(len(texts))], texts, vectors)


def test_blocks_and_tokenizer_are_those_of_the_model(small: dt.Encoder, tmp_path: Path) -> None:
    written = export_web(small, tmp_path / "web")
    names = {path.name.removesuffix(".packed") for path in (tmp_path / "web" / "model").iterdir()}
    assert names == {"tokenizer.json", "embeddings.onnx", "layer_1.onnx", "exit_0.onnx", "exit_1.onnx"}
    for name in names - {"embeddings.onnx"}:
        assert unpacked(tmp_path / "web" / "model" / f"{name}.packed") == (BUILT_IN / name).read_bytes()
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "web" / "model").iterdir()}
    assert written.model_bytes[1] - written.model_bytes[0] == (
        sizes["layer_1.onnx.packed"] + sizes["exit_1.onnx.packed"] - sizes["exit_0.onnx.packed"]
    )


def test_words_that_no_text_can_hold_are_zeros(small: BlockEncoder, tmp_path: Path) -> None:
    unread = unread_words((BUILT_IN / "tokenizer.json").read_bytes())
    assert len(unread) >= 994
    packed = small.reader.read([*hard_texts(), *every_character(), "[unused5] unused5 [MASK] ##s"])
    assert not {*unread} & {token for index in range(len(packed)) for token in packed.ids_of(index)}
    for encoder in (small, fp32(tmp_path)):
        export_web(encoder, tmp_path / "web", force=True)
        content = encoder.blocks.files.read("embeddings.onnx")
        before, after = (
            onnx.load_from_string(block)
            for block in (content, unpacked(tmp_path / "web" / "model" / "embeddings.onnx.packed"))
        )
        tables = 0
        for one, other in zip(before.graph.initializer, after.graph.initializer, strict=True):
            rows, changed = to_array(one), to_array(other).copy()
            if rows.shape[:1] == (30522,):
                assert not changed[unread].any()
                assert rows[unread].any()
                changed[unread] = rows[unread]
                tables += 1
            assert np.array_equal(rows, changed)
        assert tables == (2 if encoder is small else 1)  # int8 has scales, too
        del before.graph.initializer[:], after.graph.initializer[:]
        assert before == after


def fp32(folder: Path) -> BlockEncoder:
    dt.export(dt.load(str(random_bert(folder)), device="cpu"), folder / "fp32", format="blocks")
    encoder = dt.load(folder / "fp32")
    assert isinstance(encoder, BlockEncoder)
    return encoder


def test_no_word_of_another_kind_of_tokenizer_is_left_out() -> None:
    described = json.loads((BUILT_IN / "tokenizer.json").read_bytes())
    described["pre_tokenizer"] = {"type": "Whitespace"}
    assert unread_words(json.dumps(described).encode()) == []


def test_the_manifest_lists_every_file_with_its_hash(small: dt.Encoder, tmp_path: Path) -> None:
    export_web(small, tmp_path / "web", index=web_index(small, corpus()), page=True)
    manifest = json.loads((tmp_path / "web" / "demitasse.json").read_text())
    assert (manifest["kind"], manifest["full"], manifest["reader"]["max_tokens"]) == ("web", "1x64", 256)
    files = {path.relative_to(tmp_path / "web").as_posix(): path for path in (tmp_path / "web").rglob("*.*")}
    del files["demitasse.json"]
    assert manifest["sha256"] == {name: sha256_of(path) for name, path in files.items()}
    assert {*PAGE, *(f"runtime/{name}" for name in RUNTIME), "index/index.json"} <= {*files}


def test_the_index_holds_texts_in_files_and_vectors_as_they_are(small: dt.Encoder, tmp_path: Path) -> None:
    texts = [f"text {number}" for number in range(TEXTS_PER_FILE + 1)]
    index = WebIndex(small.full, small.space, texts, texts, np.ones((len(texts), 64), np.int8))
    assert export_web(small, tmp_path / "web", index=index).texts == len(texts)
    folder = tmp_path / "web" / "index"
    description = json.loads((folder / "index.json").read_text())
    assert (description["count"], description["cut"]) == (len(texts), "1x64")
    assert json.loads(unpacked(folder / "texts_1.json.packed")) == [[texts[-1], texts[-1]]]
    assert unpacked(folder / "vectors.i8.packed") == b"\1" * 64 * len(texts)
    for name, hashed in description["sha256"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == hashed


def test_the_same_folder_is_written_twice_and_files_of_others_are_kept(small: dt.Encoder, tmp_path: Path) -> None:
    export_web(small, tmp_path / "web", page=True)
    first = (tmp_path / "web" / "demitasse.json").read_bytes()
    export_web(small, tmp_path / "web", page=True)
    assert (tmp_path / "web" / "demitasse.json").read_bytes() == first
    (tmp_path / "web" / "CNAME").write_text("example.org")
    with pytest.raises(FolderError, match="has files that demitasse did not write"):
        export_web(small, tmp_path / "web")
    export_web(small, tmp_path / "web", force=True)
    assert (tmp_path / "web" / "CNAME").read_text() == "example.org"
    assert not (tmp_path / "web" / "index.html").exists()


def test_python_says_that_it_is_for_browsers(small: dt.Encoder, tmp_path: Path) -> None:
    export_web(small, tmp_path / "web")
    with pytest.raises(FolderError, match="is a web folder, which browsers load; load the model it was exported from"):
        dt.load(tmp_path / "web")


def test_an_index_of_another_model_is_refused(small: dt.Encoder, tmp_path: Path) -> None:
    index = web_index(small, corpus()[:2])
    other = replace(index, space=replace(index.space, depths=("x",)))
    with pytest.raises(DataError, match="made by another model than the one to export"):
        export_web(small, tmp_path / "web", index=other)
    assert not (tmp_path / "web").exists()


def test_a_model_on_torch_is_exported_as_int8_blocks(tmp_path: Path) -> None:
    export_web(dt.load(str(random_bert(tmp_path)), device="cpu").cut(layers=1), tmp_path / "web")
    manifest = json.loads((tmp_path / "web" / "demitasse.json").read_text())
    assert (manifest["precision"], len(manifest["space"]["depths"])) == ("int8", 2)


def test_a_tokenizer_that_javascript_does_not_know_is_refused(encoder: dt.Encoder, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"of the kind 'WordLevel', .*; a web folder takes WordPiece, BPE, Unigram"):
        export_web(encoder.cut(layers=1), tmp_path / "web")
    assert not (tmp_path / "web").exists()


def test_the_command_line_writes_the_folder_and_the_site(run: RunCommand, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("one text\nanother text\n")
    assert run("index", "build", str(tmp_path / "texts.txt"), "--out", str(tmp_path / "docs")).code == 0
    ran = run("export", "--format", "web", "--index", str(tmp_path / "docs"), "--out", str(tmp_path / "web"))
    assert ran.code == 0, ran.err
    assert "MB to fetch by layers: 0: " in ran.out
    assert "an index of 2 texts" in ran.out
    assert not (tmp_path / "web" / "index.html").exists()
    ran = run("web", "--cut", "1x64", "--out", str(tmp_path / "site"))
    assert ran.code == 0, ran.err
    assert "to look at it: python -m http.server --directory" in ran.err
    description = json.loads((tmp_path / "site" / "index" / "index.json").read_text())
    assert (description["count"], description["cut"]) == (len(corpus()), "1x64")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--format", "blocks"), "the format blocks was asked for without a model; give a model folder or a hub name"),
        (("model", "--index", "docs"), "--index was given with the format blocks-int8; only the format web takes an"),
        (("--format", "web", "--sentences", "x.txt"), "--sentences was given with the format web"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    options: tuple[str, ...], said: str, run: RunCommand, tmp_path: Path
) -> None:
    ran = run("export", *options, "--out", str(tmp_path / "out"))
    assert ran.code == 2
    assert said in ran.err
