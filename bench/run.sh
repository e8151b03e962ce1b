#!/usr/bin/env bash
# The benchmark: builds, measures, and writes docs/performance.md with its plots.
# Takes about twelve minutes once it is built; three with --quick.
#
#   bench/run.sh [--peers] [OPTION OF `bench run`]...
#
# --peers gets other people's bridges and measures them, too (Node.js and Python are needed).
# Let nothing else run beside it. Needs Linux with two cores, and Rust.
#
# One part alone, without the page, while working on its speed:
#   bench/target/dist/bench run --only bridge-http,gateway --sizes 100 --connections 8

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

peers=()
if [ "${1:-}" = --peers ]; then
    shift
    folder=.cache/bench
    mkdir -p "$folder"
    cp bench/package.json bench/package-lock.json "$folder/"
    (cd "$folder" && npm ci --no-audit --no-fund --ignore-scripts)
    [ -x "$folder/venv/bin/pip" ] || python3 -m venv "$folder/venv"
    "$folder/venv/bin/pip" install --quiet --disable-pip-version-check -r bench/requirements.txt
    peers=(--peers "$folder")
fi

cargo build --profile dist --locked --package switchboard
cargo build --profile dist --locked --manifest-path bench/Cargo.toml
bench/target/dist/bench run "${peers[@]}" --report docs/performance.md --notes bench/what-paid.md "$@"
cat docs/performance.md
