#!/bin/sh
# The Postgres with pgvector that the tests of demitasse.integrations.pgvector start for themselves: Debian's packages,
# installed where they are missing and may be. Debian 12 has no package of pgvector, so there its source package, as
# Debian 13 has it, is compiled for the server. Without Postgres those tests fail. Elsewhere install postgresql and
# pgvector yourself, for example
#     brew install postgresql@17 pgvector
SOURCE=http://deb.debian.org/debian/pool/main/p/pgvector/pgvector_0.8.0.orig.tar.gz
SHA256=867a2c328d4928a5a9d6f052cd3bc78c7d60228a9b914ad32aa3db88e9de27b0

there() { ls /usr/share/postgresql/*/extension/vector.control >/dev/null 2>&1; }
if there || [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then exit 0; fi

install() { DEBIAN_FRONTEND=noninteractive apt-get install --quiet --yes --no-install-recommends "$@"; }

compile() { # the server's headers are unpacked aside: their package would bring a compiler of 500 MB
    version=$1
    install gcc libc6-dev curl ca-certificates || return 1
    (
        set -e
        cd "$work"
        apt-get download --quiet "postgresql-server-dev-$version"
        dpkg -x postgresql-server-dev-*.deb headers
        curl --silent --show-error --fail --output pgvector.tar.gz "$SOURCE"
        echo "$SHA256  pgvector.tar.gz" | sha256sum --check --quiet
        tar --extract --gzip --strip-components 1 --file pgvector.tar.gz
        gcc -O2 -fPIC -shared -I "headers/usr/include/postgresql/$version/server" src/*.c -o vector.so -lm
        cp vector.so "/usr/lib/postgresql/$version/lib/"
        cp sql/vector.sql "/usr/share/postgresql/$version/extension/vector--0.8.0.sql"
        cp vector.control "/usr/share/postgresql/$version/extension/" # last: it says that all is there
    )
}

set_up() {
    apt-get update --quiet && install postgresql || return 1
    version=$(ls /usr/lib/postgresql | sort --numeric-sort | tail -n 1)
    if apt-cache show "postgresql-$version-pgvector" >/dev/null 2>&1; then
        install "postgresql-$version-pgvector"
    else
        compile "$version"
    fi
}

work=$(mktemp -d)
if ! set_up >"$work/log" 2>&1 || ! there; then
    echo "Postgres with pgvector could not be installed:" >&2
    tail -n 3 "$work/log" >&2
fi
rm -rf "$work"
