"""The exported page in Firefox and WebKitGTK beside Chromium: searches, vectors, and all of it without a connection.

    apt-get install firefox-esr webkit2gtk-driver xvfb
    python benchmarks/web_browsers.py --json benchmarks/results/web-browsers.json

Every browser opens the page as a visitor that has never seen it, searches at several depths, opens it again (the
service worker isolates it then, which gives it threads), and once more after the server has stopped. Then vectors of
200 texts are compared with Chromium's, number by number. No times are taken. A browser that is not installed, or that
does not get to the end, is in the JSON with the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))
from hard_texts import hard_texts
from playwright.sync_api import Page
from web_pages import FLAGS, PATIENCE, installed_chromium, served

import demitasse as dt
from demitasse.cli.web import sample_index
from demitasse.exporting.web import export_web

DEPTHS = (0, 1, 3, 6)
QUERIES = ("my card was stolen", "how to make better espresso at home")
WAIT = 600  # seconds: a busy machine is not a failure
# Scripts of a driver may not import modules in every browser, so they are put into the page, and answer in its title.
IN_PAGE = """
const script = document.createElement('script');
script.type = 'module';
script.textContent = arguments[0];
document.title = '';
document.head.append(script);
"""
VECTORS = """
const answer = (found) => { document.title = JSON.stringify(found); };
try {
    const { load } = await import('./runtime/demitasse.js');
    const texts = %s, found = {};
    const model = await load('./', { layers: 6 });
    for (const layers of %s) {
        found[layers] = (await model.encode(texts, { layers })).map((one) => Array.from(one));
    }
    const { threads, runtimeBytes } = model.info;
    document.body.textContent = JSON.stringify(found);
    answer({ threads, runtimeBytes });
} catch (problem) { answer({ problem: String(problem) }); }
"""
SEARCH = """
document.getElementById('query').value = arguments[0];
const layers = document.getElementById('layers');
layers.value = arguments[1];
document.getElementById('status').textContent = '';
document.getElementById('ask').requestSubmit();
"""
SHOWN = """
const text = (id) => document.getElementById(id).textContent;
const texts = (elements) => [...elements].map((one) => one.textContent);
return {
    status: text('status'),
    wrong: document.getElementById('status').classList.contains('wrong'),
    fetched: text('fetched'),
    facts: text('facts'),
    isolated: window.crossOriginIsolated,
    shared_memory: typeof SharedArrayBuffer !== 'undefined',
    ready: document.documentElement.dataset.ready === 'true',
    results: [...document.querySelectorAll('#results li')].map((one) => texts(one.children)),
};
"""
CONTROLLED = "return navigator.serviceWorker?.controller?.state === 'activated'"


class Driver(Protocol):
    """What all browsers are asked for here."""

    version: str

    def go(self, address: str) -> None: ...
    def run(self, script: str, *given: Any) -> Any: ...


class Chromium:
    """By Playwright, as everywhere else in the repository."""

    def __init__(self, page: Page, version: str) -> None:
        self.page, self.version = page, version

    def go(self, address: str) -> None:
        self.page.goto(address)

    def run(self, script: str, *given: Any) -> Any:
        return self.page.evaluate(f"(given) => (function () {{ {script} }})(...given)", list(given))


class Firefox:
    """By Marionette, the protocol that is built in: JSON with its length in front, on a socket."""

    def __init__(self, port: int) -> None:
        self.socket = connected(port)
        self.count = 0
        self._read()  # it says who it is
        self.version = self._ask("WebDriver:NewSession", {})["capabilities"]["browserVersion"]
        self._ask("WebDriver:SetTimeouts", {"script": WAIT * 1000, "pageLoad": WAIT * 1000})

    def go(self, address: str) -> None:
        self._ask("WebDriver:Navigate", {"url": address})

    def run(self, script: str, *given: Any) -> Any:
        return self._ask("WebDriver:ExecuteScript", {"script": script, "args": given})["value"]

    def _ask(self, command: str, values: dict[str, Any]) -> Any:
        self.count += 1
        message = json.dumps([0, self.count, command, values]).encode()
        self.socket.sendall(b"%d:%s" % (len(message), message))
        _, _, problem, result = self._read()
        if problem:
            raise RuntimeError(f"{command}: {problem['message']}")
        return result

    def _read(self) -> Any:
        length = b""
        while not length.endswith(b":"):
            length += self._bytes(1)
        return json.loads(self._bytes(int(length[:-1])))

    def _bytes(self, count: int) -> bytes:
        parts = b""
        while len(parts) < count:
            part = self.socket.recv(count - len(parts))
            if not part:
                raise RuntimeError("the browser ended")
            parts += part
        return parts


class WebKit:
    """By WebDriver over HTTP."""

    def __init__(self, port: int) -> None:
        connected(port).close()
        self.address = f"http://127.0.0.1:{port}/session"
        session = self._ask("", {"capabilities": {"alwaysMatch": {}}})
        self.address += f"/{session['sessionId']}"
        self.version = session["capabilities"]["browserVersion"]
        self._ask("/timeouts", {"script": WAIT * 1000, "pageLoad": WAIT * 1000})

    def go(self, address: str) -> None:
        self._ask("/url", {"url": address})

    def run(self, script: str, *given: Any) -> Any:
        return self._ask("/execute/sync", {"script": script, "args": given})

    def _ask(self, path: str, values: dict[str, Any]) -> Any:
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(self.address + path, json.dumps(values).encode(), headers)
        with urllib.request.urlopen(request, timeout=WAIT) as answer:
            return json.load(answer)["value"]


def connected(port: int) -> socket.socket:
    """A connection to a program that has just been started."""
    until = time.monotonic() + WAIT
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=WAIT)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def started(command: list[str], **settings: Any) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True, **settings)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


@contextmanager
def chromium() -> Iterator[Driver]:
    from playwright.sync_api import sync_playwright

    program = installed_chromium()
    if program is None:
        raise RuntimeError("not installed; run tests/browser.sh")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS, timeout=PATIENCE)
        page = browser.new_page()
        page.set_default_timeout(PATIENCE)
        yield Chromium(page, browser.version)
        browser.close()


@contextmanager
def firefox() -> Iterator[Driver]:
    program = shutil.which("firefox-esr") or shutil.which("firefox")
    if program is None:
        raise RuntimeError("not installed; apt-get install firefox-esr")
    port = free_port()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        (Path(profile) / "user.js").write_text(f'user_pref("marionette.port", {port});\n')
        command = [program, "--headless", "--marionette", "--no-remote", "--profile", profile]
        with started(command, stdout=subprocess.DEVNULL):
            yield Firefox(port)


@contextmanager
def webkit() -> Iterator[Driver]:
    if not shutil.which("WebKitWebDriver") or not shutil.which("Xvfb"):
        raise RuntimeError("not installed; apt-get install webkit2gtk-driver xvfb")
    port = free_port()
    with ExitStack() as stack:
        home = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        screen = stack.enter_context(started(["Xvfb", "-displayfd", "1"], stdout=subprocess.PIPE))
        assert screen.stdout is not None
        display = f":{int(screen.stdout.readline())}"
        places = dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"), home)
        command = ["WebKitWebDriver", f"--port={port}"]
        stack.enter_context(
            started(command, stdout=subprocess.DEVNULL, env={**os.environ, **places, "DISPLAY": display})
        )
        yield WebKit(port)


BROWSERS = {"Chromium": chromium, "Firefox": firefox, "WebKitGTK": webkit}


def waited(driver: Driver, script: str, done: Any) -> Any:
    """What `script` gives once `done` is true of it."""
    until = time.monotonic() + WAIT
    while True:
        found = driver.run(script)
        if done(found):
            return found
        if time.monotonic() > until:
            raise RuntimeError(f"nothing more happened after {json.dumps(found)[:300]}")
        time.sleep(0.2)


def opened(driver: Driver, address: str) -> dict[str, Any]:
    driver.go(address)
    return shown(waited(driver, SHOWN, lambda found: found["ready"] or found["wrong"]))


def shown(found: dict[str, Any]) -> dict[str, Any]:
    if found["wrong"]:
        raise RuntimeError(found["status"])
    return found


def searched(driver: Driver, query: str, layers: int) -> list[list[str]]:
    driver.run(SEARCH, query, str(layers))
    said = f"10 results with {layers} of 6 layers."
    found = shown(waited(driver, SHOWN, lambda found: found["wrong"] or found["status"] == said))
    results: list[list[str]] = found["results"]
    if len(results) != 10:
        raise RuntimeError(f"{said} But {len(results)} are shown.")
    return results


def all_searches(driver: Driver) -> list[list[list[str]]]:
    return [searched(driver, query, layers) for query in QUERIES for layers in DEPTHS]


def tried(driver: Driver, site: Path, texts: list[str]) -> dict[str, Any]:
    """Everything that is asked of one browser."""
    found: dict[str, Any] = {"version": driver.version}
    with served(site) as address:
        first = opened(driver, address)
        found["first_visit"] = {"fetched": first["fetched"], "facts": first["facts"]}
        found["searches"] = all_searches(driver)
        waited(driver, CONTROLLED, bool)  # the service worker keeps the page from here on
        second = opened(driver, address)
        found["second_visit"] = {name: second[name] for name in ("fetched", "facts", "isolated", "shared_memory")}
        driver.go(f"{address}vectors.html")
        driver.run(IN_PAGE, VECTORS % (json.dumps(texts), json.dumps(DEPTHS)))
        about = json.loads(waited(driver, "return document.title", bool))
        if "problem" in about:
            raise RuntimeError(about["problem"])
        found["vectors"] = json.loads(driver.run("return document.body.textContent"))
    # The server has stopped: everything comes from what the browser kept.
    third = opened(driver, address)
    found["offline"] = {"fetched": third["fetched"], "searches": all_searches(driver)}
    return found


def beside(found: dict[str, Any], chromium: dict[str, Any]) -> dict[str, Any]:
    """What a browser did, with its results and vectors as compared with Chromium's."""
    own, theirs = ({depth: np.float32(rows) for depth, rows in one["vectors"].items()} for one in (found, chromium))
    return {
        "version": found["version"],
        "first_visit": found["first_visit"],
        "second_visit": found["second_visit"],
        "offline_fetched": found["offline"]["fetched"],
        "searches": len(found["searches"]),
        "searches_as_in_chromium": alike(found["searches"], chromium["searches"]),
        "offline_searches_as_before": alike(found["offline"]["searches"], found["searches"]),
        "vectors": [
            {
                "layers": int(depth),
                "texts": len(own[depth]),
                "equal_to_the_bit": int((own[depth] == theirs[depth]).all(axis=1).sum()),
                "least_cosine": float((own[depth] * theirs[depth]).sum(axis=1).min()),
            }
            for depth in own
        ],
    }


def alike(ones: list[Any], others: list[Any]) -> int:
    return sum(one == other for one, other in zip(ones, others, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True)
    asked = parser.parse_args()
    texts = hard_texts()[::10]
    rows: list[dict[str, Any]] = []
    whole: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder) / "site"
        export_web(dt.load(), site, index=sample_index(dt.load()), page=True)
        (site / "vectors.html").write_text("<!doctype html><meta charset=utf-8><title></title><body></body>")
        for name, start in BROWSERS.items():
            try:
                with start() as driver:
                    found = tried(driver, site, texts)
            except (RuntimeError, OSError) as problem:
                rows.append({"browser": name, "problem": str(problem)})
            else:
                whole = whole or found
                rows.append({"browser": name, **beside(found, whole)})
            print(rows[-1], flush=True)
    asked.json.write_text(json.dumps({"system": "Linux x86-64, without a GPU", "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
