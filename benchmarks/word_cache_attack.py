"""The attack on the cache of tokenised words, against a checkout before its cure and one after.

    git clone . ../before && git -C ../before checkout c5eeb34
    python benchmarks/word_cache_attack.py ../before . --json benchmarks/results/word-cache-attack.json

The old one finds words by a hash whose base is a constant in its source, and does not compare them. For such a hash,
lattice reduction finds a string of letters that has the hash of any word. Each checkout runs with its built-in model:
one caller encodes that string, then another a text with the word. The cosine is that of the second caller's vector to
the one that a fresh process gives: 1 is right.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

WORD = "bank"
ATTACK = "ooknlomknmnlmmmlmmlknmmmmmnmnmlmkn"  # has the hash of the word; tests/encoding/test_word_cache.py shows that
TEXT = f"i walked along the {WORD} of the river"

CALLERS = """
import json, sys
import demitasse as dt
attack, text = json.loads(sys.argv[1])
corpus = open(sys.argv[2], encoding="utf-8").read().splitlines()[:40]  # a few dozen texts: fewer do not use the cache
encoder = dt.load()
if attack:
    encoder.encode([attack, *corpus])
print(json.dumps(encoder.encode([text, *corpus])[0].tolist()))
"""


def vector(checkout: Path, attack: str | None) -> list[float]:
    source = checkout.resolve() / "src"
    corpus = next((source / "demitasse" / "assets").rglob("corpus.txt"))
    line = [sys.executable, "-c", CALLERS, json.dumps([attack, TEXT]), str(corpus)]
    environment = {**os.environ, "PYTHONPATH": str(source), "HF_HUB_OFFLINE": "1"}
    return json.loads(subprocess.run(line, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout)


def cosine(checkout: Path) -> float:
    """Between what the second caller got and what it should have got; vectors have unit length."""
    pairs = zip(vector(checkout, ATTACK), vector(checkout, None), strict=True)
    return round(sum(given * right for given, right in pairs), 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = {"before": cosine(options.old), "now": cosine(options.new)}
    print(found)
    if options.json:
        plain = {"made_by": "benchmarks/word_cache_attack.py", "word": WORD, "attack": ATTACK, "text": TEXT, **found}
        options.json.write_text(json.dumps(plain, indent=1) + "\n")


if __name__ == "__main__":
    main()
