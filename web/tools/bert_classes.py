"""Write `src/bert_classes.ts`: what each character is to the tokenizers of the BERT family.

Browsers follow the Unicode of their year and the tokenizers of Python that of another, so the classes are asked of the
latter, character by character, and kept. Run `python web/tools/bert_classes.py` after an upgrade of tokenizers; a test
compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

OUT = Path(__file__).parents[1] / "src" / "bert_classes.ts"
HEAD = """// Written by tools/bert_classes.py from the tokenizers of Python; do not edit.
// Each is the inside of a character class of a regular expression with the flags `u`.
"""


def characters() -> Iterator[int]:
    """Every code point that may be in a text."""
    yield from range(0xD800)
    yield from range(0xE000, 0x110000)


def ranges(belongs: Callable[[str], bool]) -> str:
    """The characters that belong, as ranges of a regular expression."""
    found: list[list[int]] = []
    for code in characters():
        if belongs(chr(code)):
            if found and found[-1][1] == code - 1:
                found[-1][1] = code
            else:
                found.append([code, code])
    return "".join(escaped(first) + ("" if first == last else f"-{escaped(last)}") for first, last in found)


def escaped(code: int) -> str:
    """A character as TypeScript writes it inside a string that becomes a regular expression."""
    return f"\\\\u{code:04x}" if code < 0x10000 else f"\\\\u{{{code:x}}}"


def content() -> str:
    """What the file is to hold."""
    off = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    clean, chinese = (
        BertNormalizer(**{**off, "clean_text": True}),
        BertNormalizer(**{**off, "handle_chinese_chars": True}),
    )
    accents, split = BertNormalizer(**{**off, "strip_accents": True}), BertPreTokenizer()
    classes: dict[str, Callable[[str], bool]] = {
        "CONTROL": lambda one: clean.normalize_str(f"a{one}b") == "ab",
        "CLEANED_SPACE": lambda one: clean.normalize_str(f"a{one}b") == "a b",
        "SPACE": lambda one: [piece for piece, _ in split.pre_tokenize_str(f"a{one}b")] == ["a", "b"],
        "PUNCTUATION": lambda one: [piece for piece, _ in split.pre_tokenize_str(f"a{one}b")] == ["a", one, "b"],
        "MARK": lambda one: accents.normalize_str(f"a{one}b") == "ab",
        "CHINESE": lambda one: chinese.normalize_str(f"a{one}b") == f"a {one} b",
    }
    return HEAD + "".join(f'export const {name} = "{ranges(belongs)}";\n' for name, belongs in classes.items())


if __name__ == "__main__":
    OUT.write_text(content(), encoding="utf-8")
