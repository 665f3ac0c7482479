#!/bin/sh
# The browser in which the report is tested: Debian's chromium, installed where it is missing and may be.
# Where it cannot be had, the tests in it are skipped, and say so; with CI=true they fail instead.
for name in chromium chromium-browser google-chrome google-chrome-stable; do
    if command -v "$name" >/dev/null; then exit 0; fi
done
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then exit 0; fi
install() { DEBIAN_FRONTEND=noninteractive apt-get install --quiet --yes --no-install-recommends chromium; }
log=$(mktemp)
if ! install >"$log" 2>&1 && ! { apt-get update --quiet && install; } >"$log" 2>&1; then
    echo "chromium could not be installed:" >&2
    tail -n 3 "$log" >&2
fi
rm -f "$log"
