"""Texts that two tokenizers are likely to read differently: every script, emoji, control characters, very long ones."""

from __future__ import annotations

import random
import sys
import unicodedata
from collections.abc import Iterator

from demitasse.host.bundled import corpus

_CHOSEN = (
    *("", " ", "\n\t \r", "\0", "\ufeff", "\u200b\u200d", "[MASK]", "a[SEP]b [CLS] [PAD][UNK]", "[mask] [ MASK ]"),
    *(
        "ΟΔΥΣΣΕΥΣ ΣΑΣ Σ",
        "İstanbul ıI",
        "STRASSE straße ẞ",
        "ﬁne ﬀ",
        "Å Å A\u030a",
        "한국어 텍스트",
        "日本語 𠮷野家 㐀 豈",
    ),
    *(
        "👩‍👩‍👧‍👦 family",
        "🇩🇪🇯🇵",
        "👍🏽 ok",
        "☕️ demitasse ☕",
        "e\u0301\u0323 x\u20dd",
        "नमस्ते दुनिया",
        "שָׁלוֹם",
        "مرحبا بالعالم",
    ),
    *(
        "a" * 100,
        "a" * 101,
        "é" * 100,
        "𝒜" * 101,
        "don't e-mail me@example.com; $5.00 (50%)!",
        "a\u00adb\u2028c\u2029d",
    ),
    *("\u0085x\u000by\u001cz", "\ud7a3\uffff\ufffd\ufffe", "\U0010ffff\U000e0001", "x" * 5000, "word " * 2000),
)


def hard_texts(count: int = 2000, seed: int = 0) -> list[str]:
    """`count` texts, always the same."""
    chance = random.Random(seed)
    texts = [*_CHOSEN, *corpus()]
    sentences = corpus()
    kinds = (_any_characters, _assigned_characters, _emoji, _spoiled, _long)
    while len(texts) < count:
        texts.append(kinds[len(texts) % len(kinds)](chance, sentences))
    return texts[:count]


def every_character() -> Iterator[str]:
    """Every assigned character of Unicode, between letters, alone and at the end of a word, sixteen to a text."""
    codes = [
        code
        for code in range(sys.maxunicode + 1)
        if not 0xD800 <= code <= 0xDFFF and unicodedata.category(chr(code)) not in ("Cn", "Co")
    ]
    for start in range(0, len(codes), 16):
        yield " ".join(f"a{chr(code)}b {chr(code)} x{chr(code)}" for code in codes[start : start + 16])


def _any_characters(chance: random.Random, _: list[str]) -> str:
    codes = (chance.randrange(0x110000) for _ in range(chance.randrange(1, 60)))
    return "".join(chr(code) for code in codes if not 0xD800 <= code <= 0xDFFF)


def _assigned_characters(chance: random.Random, _: list[str]) -> str:
    first = chance.choice((0x20, 0xA0, 0x370, 0x590, 0x900, 0x1E00, 0x2000, 0x3040, 0x4E00, 0xAC00, 0xF900, 0x1D400))
    return "".join(
        chance.choice((chr(first + chance.randrange(256)), " ", "a")) for _ in range(chance.randrange(1, 80))
    )


def _emoji(chance: random.Random, sentences: list[str]) -> str:
    marks = ("\u200d", "\ufe0f", "\U0001f3fd", "", " ")
    some = "".join(chr(chance.randrange(0x1F300, 0x1FAFF)) + chance.choice(marks) for _ in range(12))
    return f"{chance.choice(sentences)} {some}"


def _spoiled(chance: random.Random, sentences: list[str]) -> str:
    text = list(chance.choice(sentences))
    for _ in range(chance.randrange(1, 8)):
        text.insert(
            chance.randrange(len(text) + 1), chr(chance.choice((chance.randrange(32), 0x7F, 0x300, 0x200B, 0xFEFF)))
        )
    return "".join(text).upper() if chance.random() < 0.3 else "".join(text)


def _long(chance: random.Random, sentences: list[str]) -> str:
    return " ".join(chance.choices(sentences, k=chance.randrange(5, 60)))
