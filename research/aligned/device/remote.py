"""The GPU machine's end: takes what is uploaded, runs a queue of jobs, says how they stand, packs weights.

    python3 remote.py take                          copy parts and code, put files together, start the daemon
    python3 remote.py add JOBS.json | NAME -- ARGS… queue jobs (a file), or one run of explore.py
    python3 remote.py status | log NAME | wait SECONDS [NAMES] | stop NAME
    python3 remote.py table [--tests] [NAMES]       scores of runs
    python3 remote.py pack NAME [--single 0 or 1]   weights and logs -> $OUT
    python3 remote.py logs                          logs alone -> $OUT

State lies in $ALIGNED_ROOT (default: ~/aligned).
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import time

import jobs
from places import ROOT, folder, read_json

HERE = os.path.dirname(os.path.abspath(__file__))
PIECE = 15 << 20  # bytes of a file that comes back


# ---- uploads ---------------------------------------------------------------------------------------------------------


def take():
    for path in glob.glob(os.path.join(HERE, "*")):
        if os.path.isfile(path):
            shutil.copy2(path, folder("code", os.path.basename(path)))
    for path in sorted(glob.glob(os.path.join(HERE, "..", "part*", "part*.bin"))):
        target = folder("parts", os.path.basename(path))
        if not os.path.exists(target) or os.path.getsize(target) != os.path.getsize(path):
            shutil.copyfile(path, target + ".new")
            os.replace(target + ".new", target)
    assemble()
    jobs.start_daemon()
    if not os.path.exists(folder("first-jobs")):
        with open(folder("first-jobs"), "w"):
            pass
        jobs.add_file(folder("code", "first_jobs.json"))


def assemble():
    """Write every file whose parts are all there."""
    index = read_json(folder("code", "index.json"))
    have, missing = [], []
    for one in index["files"]:
        whole = os.path.exists(folder(one["name"])) or put_together(one, index["part_size"])
        (have if whole else missing).append(one["name"])
    print("have", have, "| missing", missing, "| parts", len(glob.glob(folder("parts", "part??.bin"))))


def put_together(one, size):
    """Write a file from its parts and unpack it; False if one is missing or damaged."""
    path = folder(one["name"])
    first, last = one["begin"] // size, (one["begin"] + one["size"] - 1) // size
    parts = {n: folder("parts", f"part{n:02d}.bin") for n in range(first, last + 1)}
    if not all(os.path.exists(part) for part in parts.values()):
        return False
    digest = hashlib.sha256()
    with open(path + ".new", "wb") as out:
        for n, part in parts.items():
            begin = max(0, one["begin"] - n * size)
            end = min(size, one["begin"] + one["size"] - n * size)
            with open(part, "rb") as source:
                source.seek(begin)
                block = source.read(end - begin)
            digest.update(block)
            out.write(block)
    if digest.hexdigest() != one["sha256"]:
        print("DAMAGED", one["name"], "send its parts again:", first, "to", last)
        for damaged in (path + ".new", *parts.values()):
            os.unlink(damaged)
        return False
    os.replace(path + ".new", path)
    if path.endswith(".bin"):
        with open(folder("logs", "unpack.log"), "a") as log:
            command = [sys.executable, folder("code", "unpack.py"), one["name"]]
            subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    return True


# ---- how things stand ------------------------------------------------------------------------------------------------


def tail(path, count=1):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = [line.rstrip("\n") for line in file if line.strip()]
    except OSError:
        return ""
    return "\n".join(line[:260] for line in lines[-count:])


def status():
    for path in sorted(glob.glob(folder("done", "*")), key=os.path.getmtime):
        job = read_json(path)
        failure = f" FAILED {job['code']}\n" + tail(folder("logs", f"{job['name']}.log"), 6)
        print(f"done    {job['name']} {job['seconds']:.0f} s{failure if job['code'] else ''}")
    for path in sorted(glob.glob(folder("running", "*"))):
        job = read_json(path)
        said = tail(folder("logs", job["name"] + ".log"))
        print(f"running {job['name']} {time.time() - job['began']:.0f} s: {said}")
    for path in sorted(glob.glob(folder("queue", "*.json"))):
        job = read_json(path)
        lacks = [n for n in job.get("needs", ()) if not os.path.exists(folder(n))]
        print(f"queued  {job['name']} {'waits for ' + ', '.join(lacks) if lacks else ''}")
    print(tail(folder("logs", "daemon.log"), 3))
    query = ["nvidia-smi", "--query-gpu=utilization.gpu,memory.used,clocks.sm", "--format=csv,noheader"]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        print(subprocess.run(query, capture_output=True, text=True, timeout=10).stdout.strip())


def wait(seconds, names):
    """Until the jobs called `names` are done, or all; at most so long. The last thing a call does."""
    end = time.time() + seconds
    while time.time() < end:
        busy = glob.glob(folder("running", "*")) + glob.glob(folder("queue", "*.json"))
        if all(os.path.exists(folder("done", name)) for name in names) if names else not busy:
            break
        time.sleep(0.5)
    status()


def table(names, *, tests):
    import numpy as np
    import score

    sets = score.sets_of(np.load(folder("eval.npz")))
    scores = {os.path.basename(os.path.dirname(p)): p for p in glob.glob(folder("runs", "*", "score.json"))}
    names = names or sorted(scores, key=lambda name: os.path.getmtime(scores[name]))
    rows = [(name, score.summary(read_json(scores[name]), sets)) for name in names]
    print(score.table(rows, sets, tests=tests))


# ---- what comes back -------------------------------------------------------------------------------------------------


def pack(name, single):
    """Half precision for matrices by default (one call's worth); `single` 0 or 1: fp32, in two calls."""
    import torch

    out = os.environ["OUT"]
    os.makedirs(out, exist_ok=True)
    saved = torch.load(folder("runs", name, "model.pt"), map_location="cpu")
    if single is None:
        saved["weights"] = {n: w.half() if w.numel() > 100_000 else w for n, w in saved["weights"].items()}
    buffer = io.BytesIO()
    torch.save(saved, buffer)
    blob = buffer.getvalue()
    pieces = [blob[i : i + PIECE] for i in range(0, len(blob), PIECE)]
    chosen = range(len(pieces)) if single is None else list(range(len(pieces)))[4 * single : 4 * single + 4]
    for n in chosen:
        with open(os.path.join(out, f"{name}{'' if single is None else '-fp32'}.{n:02d}"), "wb") as file:
            file.write(pieces[n])
    print(name, len(blob), "bytes,", len(pieces), "pieces, sha256", hashlib.sha256(blob).hexdigest())
    if single is None:
        pack_logs(out)


def pack_logs(out):
    patterns = (("runs", "*", "*.json"), ("runs", "*", "log.txt"), ("done", "*"), ("*.json",))
    with tarfile.open(os.path.join(out, "logs.tar.gz"), "w:gz") as tar:
        tar.add(folder("logs"), "logs")
        for path in (path for pattern in patterns for path in glob.glob(folder(*pattern))):
            tar.add(path, os.path.relpath(path, ROOT))


def add(words):
    if words[0].endswith(".json"):
        jobs.add_file(words[0])
    else:
        jobs.add(jobs.explore_job(words[0], [w for w in words[1:] if w != "--"]))


VERBS = {
    "take": lambda words: take(),
    "daemon": lambda words: jobs.Daemon().work(),
    "add": add,
    "status": lambda words: status(),
    "log": lambda words: print(tail(folder("logs", f"{words[0]}.log"), 60)),
    "wait": lambda words: wait(float(words[0]), words[1:]),
    "table": lambda words: table([w for w in words if w != "--tests"], tests="--tests" in words),
    "stop": lambda words: jobs.stop(words[0]),
    "logs": lambda words: pack_logs(os.environ["OUT"]),
    "pack": lambda words: pack(words[0], int(words[2]) if "--single" in words else None),
}


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in VERBS:
        sys.exit(__doc__)
    jobs.make_folders()
    VERBS[sys.argv[1]](sys.argv[2:])
