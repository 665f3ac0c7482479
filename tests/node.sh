#!/bin/sh
# Node 20 and the packages that build and test web/: Debian's nodejs and npm, installed where they are missing and may be.
# Where they cannot be had, the tests that need them are skipped, and say so; with CI=true they fail instead.
cd "$(dirname "$0")/../web" || exit 1
if ! command -v npm >/dev/null && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    install() { DEBIAN_FRONTEND=noninteractive apt-get install --quiet --yes --no-install-recommends nodejs npm; }
    log=$(mktemp)
    if ! install >"$log" 2>&1 && ! { apt-get update --quiet && install; } >"$log" 2>&1; then
        echo "nodejs and npm could not be installed:" >&2
        tail -n 3 "$log" >&2
    fi
    rm -f "$log"
fi
if ! command -v npm >/dev/null; then exit 0; fi
if [ node_modules/.package-lock.json -nt package-lock.json ]; then exit 0; fi
npm ci --no-audit --no-fund --silent || echo "npm ci failed in web/" >&2
