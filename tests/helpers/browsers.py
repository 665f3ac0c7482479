"""A real browser for tests of pages: Chromium or Chrome, as it is installed on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import web_pages
from playwright.sync_api import Browser, expect
from web_pages import PATIENCE

expect.set_options(timeout=PATIENCE)

# Elements that reach beyond the right edge of the window, unless they are in a box that scrolls.
STICKS_OUT = """[...document.querySelectorAll("body *")].filter(one =>
    !one.closest(".scroll, #tip, noscript, option") && one.getBoundingClientRect().right > innerWidth + 0.5
).map(one => one.outerHTML.slice(0, 80))"""

# For each element that a selector finds, the contrast of its text with what is behind it, as WCAG counts it.
CONTRAST = """selector => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const light = color => {
        canvas.fillStyle = color;
        canvas.fillRect(0, 0, 1, 1);
        const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3)
            .map(part => part / 255).map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = one => {
        const color = getComputedStyle(one).backgroundColor;
        return color === "rgba(0, 0, 0, 0)" && one.parentElement ? behind(one.parentElement) : color;
    };
    return [...document.querySelectorAll(selector)].map(one => {
        const both = [light(getComputedStyle(one).color), light(behind(one))].sort((a, b) => b - a);
        return (both[0] + 0.05) / (both[1] + 0.05);
    });
}"""


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser for a block of code; without one installed, the test is skipped, or fails where CI runs it."""
    chromium = web_pages.installed_chromium()
    if chromium is None:
        said = "no Chromium or Chrome is installed here; tests/browser.sh installs it where apt-get may"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(said)
    with web_pages.launched(chromium) as browser:
        yield browser
