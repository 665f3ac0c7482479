"""The options of a run of explore.py."""

from __future__ import annotations

import argparse

OFTEN = '{"wordnet": 0.5, "nli": 3, "duplicate": 5, "squad": 2}'


def parse(description, arguments=None):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--name", required=True)
    add("--seconds", type=float, help="of training, setting up not counted")
    add("--steps", type=int)
    add("--until", type=float, help="instead of --seconds: end training at this time of the clock (time.time())")
    add("--resume", action="store_true")
    add("--start", help="a run whose weights (exits too) to start from")
    add("--weights", default="minilm", help="whose layers to start from, exits fitted anew: minilm, or begun")
    add("--seed", type=int, default=0)
    _add_data(parser)
    _add_loss(parser)
    _add_optimizers(parser)
    add("--attention", default="auto", choices=("auto", "varlen", "pad"))
    add("--compile", default="auto", choices=("auto", "on", "off"))
    add("--dtype", default="auto", choices=("auto", "bf16", "fp32"))
    add("--fit", type=int, default=60000, help="texts for the closed form of exits")
    add("--save-every", type=float, default=120)
    add("--no-score", action="store_true")
    options = parser.parse_args(arguments)
    if options.until:
        options.seconds = None
    if not (options.seconds or options.steps or options.until):
        parser.error("give --seconds, --steps or --until")
    return options


def _add_data(parser):
    add = parser.add_argument
    add("--teachers", default="nomic:0.5,mpnet:0.3,minilm:0.2")
    add("--centre", default="all", choices=("none", "all", "kind"))
    add("--mix", default="s:1,p:1,q:1", help="how often batches of short texts, passages, queries with passages come")
    add("--sentences", type=int, default=1536)
    add("--passages", type=int, default=512)
    add("--pairs", type=int, default=448)
    add(
        "--related", type=float, default=0.3, help="share of a batch of short texts that are pairs that belong together"
    )
    add("--triples", type=float, default=0.1, help="share that are NLI triples")
    add("--near", type=float, default=0.3, help="share that are texts with a neighbour (near.npy, if it is there)")
    add("--near-passages", type=float, default=0.3)
    add("--hard", type=float, default=0.0, help="neighbours of queries among passages, as a share of the pairs")
    add("--source-weights", default=OFTEN, help='JSON: how many times as often a source comes, such as {"squad": 3}')


def _add_loss(parser):
    add = parser.add_argument
    add("--widths", default="32,64,128,256,384")
    add("--width-weights", default="1,1,1,1,1")
    add("--depth-weights", default="1,1,1,1,1,1,1")
    add("--temperature", type=float, default=0.05)
    add("--teacher-temperature", type=float, help="default: that of the student")
    add("--distil", type=float, default=1.0)
    add("--anchor", type=float, default=20.0)
    add("--across", type=float, default=0.0)
    add("--contrast", type=float, default=0.0, help="weight of InfoNCE in batches of queries with passages")
    add("--contrast-temperature", type=float, default=0.05)
    add("--contrast-margin", type=float, default=0.0)


def _add_optimizers(parser):
    add = parser.add_argument
    add("--muon", type=float, default=6e-4)
    add("--adam", type=float, default=2e-4)
    add("--words", type=float, default=5e-4)
    add("--exits", type=float, default=1e-3)
    add("--decay", type=float, default=0.01)
    add("--beta2", type=float, default=0.999)
    add("--momentum", type=float, default=0.95)
    add("--warmup", type=float, default=0.01)
    add("--hold", type=float, default=0.0, help="share of the run at full rates before they fall")
    add("--shape", default="linear", choices=("linear", "cosine"))
    add("--ema", type=float, default=0.0, help="such as 0.999: the mean of weights is what is saved and scored")
