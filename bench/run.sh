#!/usr/bin/env bash
# The benchmark: builds, gets other people's bridges to compare with, measures,
# and writes docs/performance.md. Takes about four minutes once it is built.
#
#   bench/run.sh [--no-peers] [OPTION OF `bench run`]...
#
# Let nothing else run beside it. Needs Linux with two cores, Rust, util-linux,
# and for the peers Node.js and Python.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

peers=.cache/bench
if [ "${1:-}" = --no-peers ]; then
    shift
    peers=/nonexistent
else
    mkdir -p "$peers"
    cp bench/package.json bench/package-lock.json "$peers/"
    (cd "$peers" && npm ci --no-audit --no-fund --ignore-scripts)
    [ -x "$peers/venv/bin/pip" ] || python3 -m venv "$peers/venv"
    "$peers/venv/bin/pip" install --quiet --disable-pip-version-check -r bench/requirements.txt
fi

cargo build --release --locked --package switchboard
cargo build --release --locked --manifest-path bench/Cargo.toml
bench/target/release/bench run --peers "$peers" --report docs/performance.md "$@"
cat docs/performance.md
