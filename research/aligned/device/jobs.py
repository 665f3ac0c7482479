"""A queue of jobs on one GPU: what waits, what runs, what is done, each a JSON file in a folder of its own.

A job is {"name", "cmd", "needs": files, "after": jobs, "slots": how many of the places at once, "fallback": arguments
to try once more with when it fails}.
"""

from __future__ import annotations

import glob
import os
import signal
import subprocess
import sys
import time

from places import ROOT, folder, read_json, write_json

SLOTS = int(os.environ.get("ALIGNED_SLOTS", "3"))


def make_folders():
    for name in ("parts", "code", "queue", "running", "done", "logs", "vec", "runs"):
        os.makedirs(folder(name), exist_ok=True)


def add(job):
    write_json(folder("queue", f"{time.time():.3f}-{job['name']}.json"), job)
    print("queued", job["name"])


def add_file(path):
    for job in read_json(path):
        add(job)
        time.sleep(0.01)  # names are times, and jobs start in their order


def explore_job(name, arguments):
    spec = arguments[arguments.index("--teachers") + 1] if "--teachers" in arguments else "nomic,mpnet,minilm"
    return {
        "name": name,
        "cmd": ["explore.py", "--name", name, *arguments],
        "needs": ["near_passages.npy", *(f"vec/{part.split(':')[0]}.npy" for part in spec.split(","))],
        "fallback": ["--resume", "--attention", "pad", "--compile", "off"],
    }


def stop(name):
    os.killpg(read_json(folder("running", name))["pid"], signal.SIGTERM)


def _alive(pid):
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def start_daemon():
    """The process that works through the queue, unless it is running."""
    try:
        with open(folder("daemon.pid")) as file:
            if _alive(int(file.read())):
                return
    except (OSError, ValueError):
        pass
    with open(folder("logs", "daemon.log"), "a") as log:
        started = subprocess.Popen(
            [sys.executable, folder("code", "remote.py"), "daemon"],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "ALIGNED_ROOT": ROOT},
        )
    with open(folder("daemon.pid"), "w") as file:
        file.write(str(started.pid))
    print("daemon", started.pid)


class Daemon:
    def __init__(self):
        self.running = {}  # name -> (process, job)
        self.environment = {
            **os.environ,
            "ALIGNED_ROOT": ROOT,
            "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
            "PYTORCH_ALLOC_CONF": "expandable_segments:True",
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "4"),
            "TORCHINDUCTOR_CACHE_DIR": folder("inductor"),
            "PYTHONUNBUFFERED": "1",
        }

    def work(self):
        make_folders()
        while True:
            self._collect()
            self._start_ready()
            time.sleep(0.3)

    def _launch(self, job):
        script, *arguments = job["cmd"]
        with open(folder("logs", f"{job['name']}.log"), "a") as log:
            process = subprocess.Popen(
                [sys.executable, folder("code", script), *arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                cwd=folder("code"),
                env=self.environment,
                start_new_session=True,
            )
        job["began"] = time.time()
        write_json(folder("running", job["name"]), {**job, "pid": process.pid})
        self.running[job["name"]] = (process, job)

    def _collect(self):
        """Note what has ended; what failed is tried once more in its other way, if it has one."""
        for name, (process, job) in list(self.running.items()):
            code = process.poll()
            if code is None:
                continue
            del self.running[name]
            if os.path.exists(folder("running", name)):
                os.unlink(folder("running", name))
            if code not in (0, -signal.SIGTERM) and job.get("fallback"):
                print(name, "failed with", code, "and is tried again with", job["fallback"], flush=True)
                job["cmd"] = [*job["cmd"], *job.pop("fallback")]
                self._launch(job)
                continue
            write_json(folder("done", name), {"code": code, "seconds": time.time() - job["began"], **job})

    def _start_ready(self):
        used = sum(job.get("slots", 1) for _, job in self.running.values())
        for path in sorted(glob.glob(folder("queue", "*.json"))):
            job = read_json(path)
            here = all(os.path.exists(folder(need)) for need in job.get("needs", ()))
            ready = here and all(os.path.exists(folder("done", name)) for name in job.get("after", ()))
            if ready and (used == 0 or used + job.get("slots", 1) <= SLOTS):
                os.unlink(path)
                self._launch(job)
                used += job.get("slots", 1)
            elif ready and job.get("slots", 1) > 1:
                break  # what wants the whole device is next
