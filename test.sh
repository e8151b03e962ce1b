#!/usr/bin/env bash
# Passes the tests on a fresh machine: gets what it needs, then checks everything.
# `./test.sh help` names the parts; each can be run by itself.
#
# Needs Rust (with rustfmt and clippy), git, Node.js and Python. What it fetches
# stays inside the repository (.cache, node_modules, target), apart from
# system packages, which it installs only as root and only when they are missing.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
exec </dev/null # Nothing here may wait for a keyboard.

readonly RUST_MINOR=95 # rust-version of Cargo.toml is 1.$RUST_MINOR.
readonly NODE_MAJOR=20
readonly PYTHON_MINOR=11
readonly DENY_VERSION=0.20.2
readonly FUZZ_VERSION=0.13.2
readonly MDBOOK_VERSION=0.5.4
readonly GUNGRAUN_VERSION=0.20.0 # As Cargo.toml has it.
readonly FUZZ_SECONDS=${FUZZ_SECONDS:-20} # For each target.
readonly ADVISORIES=https://github.com/RustSec/advisory-db

export PATH="$PWD/.cache/tools/bin:$PATH"
export GIT_TERMINAL_PROMPT=0

current="start"
not_checked=()

say() { printf '    %s\n' "$*"; }

fail() {
    printf '\ntest.sh: %s\n' "$*" >&2
    exit 1
}

# step TITLE COMMAND...: runs COMMAND under a heading, and says how long it took.
step() {
    current=$1
    local since=$SECONDS
    printf '\n==> %s\n' "$current"
    shift
    "$@"
    printf '<== %s: %d s\n' "$current" $((SECONDS - since))
}

at_exit() {
    local status=$?
    if ((status != 0)); then
        printf '\ntest.sh: FAILED in "%s" after %d s\n' "$current" "$SECONDS" >&2
        return
    fi
    local what
    for what in ${not_checked[@]+"${not_checked[@]}"}; do
        printf '\nNOT CHECKED: %s\n' "$what"
    done
    printf '\ntest.sh: passed in %d s\n' "$SECONDS"
}
trap at_exit EXIT

has() { command -v "$1" >/dev/null 2>&1; }

# --- what must be there -------------------------------------------------------

check_tools() {
    has rustc && has cargo || fail "Rust is missing; install it with rustup (https://rustup.rs)."
    has git || fail "git is missing."
    local minor
    minor=$(rustc --version | sed -E 's/^rustc 1\.([0-9]+).*/\1/')
    [ "$minor" -ge "$RUST_MINOR" ] || fail "rustc 1.$RUST_MINOR or later is needed, this is $(rustc --version)."
    cargo fmt --version >/dev/null 2>&1 || fail "rustfmt is missing: rustup component add rustfmt"
    cargo clippy --version >/dev/null 2>&1 || fail "clippy is missing: rustup component add clippy"
    say "$(rustc --version), $(git --version)"
}

check_peer_tools() {
    has node && has npm || fail "Node.js $NODE_MAJOR or later with npm is missing."
    local major
    major=$(node -p 'process.versions.node.split(".")[0]')
    [ "$major" -ge "$NODE_MAJOR" ] || fail "Node.js $NODE_MAJOR or later is needed, this is $(node --version)."
    has python3 || fail "Python 3.$PYTHON_MINOR or later is missing."
    python3 -c "import sys; sys.exit(sys.version_info < (3, $PYTHON_MINOR))" ||
        fail "Python 3.$PYTHON_MINOR or later is needed, this is $(python3 --version)."
    say "node $(node --version), $(python3 --version)"
}

# One that needs no libraries can be all there is in an image.
has_static_busybox() { has busybox && ! ldd "$(command -v busybox)" >/dev/null 2>&1; }

# The compiler links with cc, the fuzzer's library is C++, Debian keeps venv in
# a package of its own, containers need an engine, and people sign in with a browser.
system_packages() {
    local missing=()
    has cc || missing+=(gcc libc6-dev)
    has c++ || missing+=(g++)
    has make || missing+=(make) # for jemalloc
    # An engine for the tests of servers in containers, and what its image is made of.
    has podman || missing+=(podman)
    has runc || has crun || missing+=(runc)
    has_static_busybox || missing+=(busybox-static)
    has redis-server || missing+=(redis-server) # the store of a cluster
    has valgrind || missing+=(valgrind) # counts instructions
    has chromium || missing+=(chromium) # a real browser for the OAuth flows
    # A keyring for the test of the key of the store, and a program that looks into it.
    has dbus-run-session || missing+=(dbus-daemon)
    has gnome-keyring-daemon || missing+=(gnome-keyring)
    has secret-tool || missing+=(libsecret-tools)
    if has python3 && ! python3 -c 'import ensurepip, venv' >/dev/null 2>&1; then
        missing+=(python3-venv)
    fi
    if ((${#missing[@]} == 0)); then
        say "nothing is missing"
        return
    fi
    install_packages "${missing[@]}"
}

# install_packages PACKAGE...: has these packages of the system.
install_packages() {
    if ! has apt-get || [ "$(id -u)" -ne 0 ]; then
        fail "system packages are missing and only root on Debian can install them here: $*"
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q || fail "apt-get update failed; the packages needed are: $*"
    apt-get install -qy --no-install-recommends "$@" ||
        fail "apt could not install: $*"
}

# --- what is fetched for the outside suites -----------------------------------

# is_current STAMP FILE: whether STAMP was written for FILE as it is.
is_current() { [ -f "$1" ] && [ "$(cat "$1")" = "$(git hash-object "$2")" ]; }

# npm_packages FOLDER: has what its lock file names.
npm_packages() {
    local lock=$1/package-lock.json stamp=$1/node_modules/.stamp
    [ -f "$lock" ] || fail "$lock is missing; this is not a whole clone."
    if is_current "$stamp" "$lock"; then
        say "as locked already"
        return
    fi
    (cd "$1" && npm ci --no-audit --no-fund) || fail "npm could not install what $lock names."
    git hash-object "$lock" >"$stamp"
}

# python_packages LIST VENV: has what LIST pins, in a folder of its own.
python_packages() {
    local list=$1 venv=$2
    [ -f "$list" ] || fail "$list is missing; this is not a whole clone."
    if is_current "$venv/.stamp" "$list" && "$venv/bin/python" -c '' 2>/dev/null; then
        say "as pinned already"
        return
    fi
    rm -rf "$venv"
    python3 -m venv "$venv" || fail "python3 -m venv failed."
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$list" ||
        fail "pip could not install what $list names."
    git hash-object "$list" >"$venv/.stamp"
}

# cargo_tool NAME VERSION [OPTION...]: has the program NAME at VERSION, building it if need be.
cargo_tool() {
    # `cargo-deny deny --version`, but `gungraun-runner --version`.
    local command=("$1")
    [[ $1 = cargo-* ]] && command+=("${1#cargo-}")
    if [ "$("${command[@]}" --version 2>/dev/null | tr -dc '0-9.')" = "$2" ]; then
        return
    fi
    say "building $1 $2, once; this takes a minute or two"
    # Unoptimised: it runs for a second, and builds in half the time.
    CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --debug --locked --version "=$2" --root .cache/tools "${@:3}" "$1" ||
        fail "$1 $2 could not be installed."
}

# --- the checks ---------------------------------------------------------------

check_fmt() { cargo fmt --all --check; }
check_clippy() {
    cargo clippy --workspace --all-targets --locked -- -D warnings
    # What programs leave out of the library, beside nothing.
    local some
    for some in server,schema server,http,validate client; do
        cargo clippy --package switchboard-net --no-default-features --features "$some" --locked -- -D warnings
    done
    # The first is the README's.
    for some in console keyring redis; do
        cargo clippy --package switchboard --no-default-features --features "$some" --locked -- -D warnings
    done
}

# A lock file that is behind its Cargo.toml would stop a part minutes from now.
check_locks() {
    local manifest
    for manifest in Cargo.toml bench/Cargo.toml fuzz/Cargo.toml peers/rmcp/Cargo.toml; do
        local said
        said=$(cargo metadata --quiet --format-version 1 --locked --manifest-path "$manifest" 2>&1 >/dev/null) && continue
        case $said in
            *--locked*) fail "the lock file beside $manifest is behind it; \`cargo metadata --manifest-path $manifest\` renews it." ;;
            *) fail "what $manifest needs cannot be fetched: $said" ;;
        esac
    done
}

# One build for all parts. `--package` would choose other features of our dependencies
# than the tests do, and build all that depends on them once more.
build() { cargo build --workspace --all-targets --locked; }

# The benchmark has a lock file of its own; it is not run here, but it must not rot.
check_build() {
    build
    cargo check --quiet --locked --manifest-path bench/Cargo.toml
}

# Containers are tested where there is podman; `./test.sh` installs it first. Most tests
# wait for processes more than they compute: twice as many as cores run at once.
check_tests() {
    export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((2 * $(nproc)))}
    if has podman && has_static_busybox; then
        cargo test --workspace --locked
    else
        not_checked+=("servers in containers, because podman or busybox-static is missing; ./test.sh setup installs them.")
        cargo test --workspace --locked -- --skip container::
    fi
}

check_doc() { RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked; }

# The documents: their links, anchors and messages, and all of them as a book.
check_book() {
    has node || fail "Node.js $NODE_MAJOR or later is missing."
    node --test book/*.test.mjs
    node book/check.mjs
    # It serves nothing and watches nothing here.
    cargo_tool mdbook "$MDBOOK_VERSION" --no-default-features --features search
    mdbook build
}

check_deny() {
    cargo_tool cargo-deny "$DENY_VERSION"
    local checks=(licenses bans sources)
    if timeout 60 git ls-remote -q "$ADVISORIES" HEAD >/dev/null 2>&1; then
        checks+=(advisories)
    else
        not_checked+=("security advisories, because their database ($ADVISORIES) cannot be reached from here.")
    fi
    cargo deny --locked check --hide-inclusion-graph "${checks[@]}"
}

# A nightly compiler that can build us, fetched if rustup can.
has_nightly() {
    has rustup || return 1
    if ! rustup run nightly rustc --version >/dev/null 2>&1; then
        say "no nightly toolchain; asking rustup for one"
        timeout 300 rustup toolchain install nightly --profile minimal >/dev/null 2>&1 || return 1
    fi
    local minor
    minor=$(rustup run nightly rustc --version | sed -E 's/^rustc 1\.([0-9]+).*/\1/')
    [ "$minor" -ge "$RUST_MINOR" ]
}

check_fuzz() {
    [ -d fuzz ] || fail "fuzz/ is missing; this is not a whole clone."
    if ! has_nightly; then
        not_checked+=("fuzz targets, because no nightly toolchain of 1.$RUST_MINOR or later is here and rustup cannot fetch one.")
        return
    fi
    cargo_tool cargo-fuzz "$FUZZ_VERSION"
    cargo +nightly fuzz build
    local target lines=()
    local options="-max_total_time=$FUZZ_SECONDS -timeout=10 -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1"
    for target in $(cargo +nightly fuzz list); do
        lines+=("set -o pipefail; cargo +nightly fuzz run $target -- $options 2>&1 | tail -n 20 # $target, $FUZZ_SECONDS s")
    done
    while ((${#lines[@]} > 0)); do
        at_once "${lines[@]:0:2}" || fail "a fuzz target found something; see fuzz/artifacts."
        lines=("${lines[@]:2}")
    done
}

# Instruction counts do not depend on what else the machine does, so that a test may hold
# them. UPDATE=1 keeps the counts of this run.
check_counts() {
    cargo_tool gungraun-runner "$GUNGRAUN_VERSION"
    mkdir -p .cache
    local bench=(cargo bench --locked --package switchboard-counts --bench counts)
    "${bench[@]}" --no-run
    timeout 30m "${bench[@]}" -- --output-format=json --parallel="$(nproc)" >.cache/counts.json ||
        fail "instructions could not be counted."
    node bench/counts.mjs .cache/counts.json ${UPDATE:+--update} | tee .cache/counts.log
    if [ -z "${UPDATE:-}" ] && grep -q '^The counts that are kept were made elsewhere' .cache/counts.log; then
        not_checked+=("instruction counts to within 3 %, because those that are kept were made with other tools or on another processor; no count grew by more than 10 %.")
    fi
}

target_directory() {
    cargo metadata --no-deps --format-version 1 --locked |
        node -p 'JSON.parse(require("fs").readFileSync(0)).target_directory'
}

# check_peers [--full]: a cover of the matrix, or all of its cells.
check_peers() {
    local target
    node --test peers/lib/*.test.mjs bench/*.test.mjs
    target=$(target_directory)
    build
    if [ -f peers/rmcp/Cargo.toml ]; then
        cargo build --locked --manifest-path peers/rmcp/Cargo.toml --workspace
        node peers/programs.mjs --ours "$target/debug" --rmcp peers/rmcp/target/debug
    fi
    # Before the bridge: what fails here would fail there too, and is easier to see. The
    # cells wait more than they compute, so that four of them keep two cores busy.
    node peers/run.mjs --ours --jobs 4 --bridge "$target/debug/switchboard" "$@"
    node peers/run.mjs --jobs 4 --bridge "$target/debug/switchboard" "$@"
    say "real servers, good and bad, behind one gateway"
    local without=()
    if ! has podman || ! has_static_busybox; then
        not_checked+=("a container behind the gateway, because podman or busybox-static is missing; ./test.sh setup installs them.")
        without+=(--no-container)
    fi
    node peers/gateway.mjs --switchboard "$target/debug/switchboard" ${without[@]+"${without[@]}"}
}

check_conformance() {
    local target
    target=$(target_directory)
    node --test conformance/lib/*.test.mjs
    build
    local switchboard="'$target/debug/switchboard'"
    local demo="$switchboard demo --http --port 0"
    # On a pipe a server cannot hang up on a call (SEP-1699), so the bridge does it.
    local bridge="$switchboard bridge --port 0 --hang-up-after 1"
    local gateway="env DEMO_URL={url} $switchboard serve --no-cache --port 0 --config conformance"
    local across=(--expected conformance/expected-across.txt --brief)
    # The suite splits the command at spaces and knows no quotes.
    mkdir -p .cache
    ln -sf "$target/debug/examples/conformance_client" .cache/conformance-client
    local client=(client --command .cache/conformance-client)
    local before="CONFORMANCE_BRIDGE=$switchboard"
    at_once \
        "$(suites "the server" server --serve "$demo")" \
        "$(suites "a server that speaks one revision" server --brief --only '^server/20' \
            --serve "$demo --revision {revision}")"
    at_once \
        "$(suites "a server that speaks the legacy era" server --brief --only '^server/2025-11' \
            --serve "$demo --era {era}")" \
        "$(suites "on stdio, through the bridge" server --brief --serve "$bridge -- $switchboard demo")"
    at_once \
        "$(suites "over HTTP, through the bridge" server --brief --behind "$demo" \
            --serve "$switchboard bridge --port 0 {url}")" \
        "$(suites "over HTTP, at a server's own path behind the gateway" server --brief --behind "$demo" \
            --at /servers/demo/mcp --serve "$gateway/gateway.json")"
    at_once \
        "$(suites "over HTTP, at /mcp of a gateway with one server that keeps its names" server --brief \
            --behind "$demo" --at /mcp --expected conformance/expected-gateway.txt --serve "$gateway/gateway-plain.json")" \
        "$(suites "the client" "${client[@]}")"
    at_once \
        "$(suites "legacy suites, a modern server behind the bridge, on stdio" server "${across[@]}" \
            --only '^server/(stable|2025)' --serve "$bridge -- $switchboard demo --era modern")" \
        "$(suites "legacy suites, a modern server behind the bridge, over HTTP" server "${across[@]}" \
            --only '^server/(stable|2025)' --serve "$bridge {url}" --behind "$demo --era modern")"
    at_once \
        "$(suites "modern suites, a legacy server behind the bridge, on stdio" server "${across[@]}" \
            --only '^server/2026' --serve "$bridge -- $switchboard demo --era legacy")" \
        "$(suites "modern suites, a legacy server behind the bridge, over HTTP" server "${across[@]}" \
            --only '^server/2026' --serve "$bridge {url}" --behind "$demo --era legacy")"
    at_once \
        "$before $(suites "the client in the other era, before the bridge, on a pipe" "${client[@]}" "${across[@]}")" \
        "$before CONFORMANCE_OVER=http $(suites "the client in the other era, before the bridge, over HTTP" \
            "${client[@]}" "${across[@]}")"
}

# The client of the suites signs in by itself, then the bridge with its own listener.
check_oauth_conformance() {
    build
    mkdir -p .cache
    ln -sf "$target/debug/examples/conformance_client" .cache/conformance-client
    at_once \
        "$(suites "OAuth, the client" client --brief --oauth all --command .cache/conformance-client)" \
        "SWITCHBOARD='$target/debug/switchboard' $(suites "OAuth, through the bridge" client --brief --oauth person \
            --command "node peers/oauth/bridge-client.mjs")"
}

# The test bed by itself, with other people's clients; then our binary against it.
check_oauth() {
    local target
    target=$(target_directory)
    node --test peers/oauth/*.test.mjs
    build
    node peers/oauth/run.mjs --switchboard "$target/debug/switchboard" "$@"
    node peers/oauth/run.mjs --switchboard "$target/debug/switchboard" --authority facade --only 'at the gateway'
    check_oauth_conformance
}

# The page of the gateway in a real browser, and its types.
check_console() {
    local target
    target=$(target_directory)
    (cd peers/console && node_modules/.bin/tsc -p .)
    build
    # Each file has a gateway and a browser of its own; they wait more than they compute.
    SWITCHBOARD="$target/debug/switchboard" timeout --kill-after=10 15m \
        node --test --test-concurrency=2 --test-reporter=spec peers/console/*.test.mjs
}

# The small form of the campaign, against the binary that the tests have built.
check_torture_small() {
    build
    "$(target_directory)/debug/torture" --quick
}

check_torture() {
    cargo build --locked --release --package switchboard --package switchboard-torture
    "$(target_directory)/release/torture"
}

# What people install, made of the debug program, or of the one that SWITCHBOARD names: each package is
# installed and used, and the examples of deployments are checked.
check_packages() {
    if [ -z "${SWITCHBOARD:-}" ]; then
        build
        SWITCHBOARD="$(target_directory)/debug/switchboard"
    fi
    # A tree without a commit has no time of its own. Only the packages know this variable: build
    # scripts look at it, and each later part would build their crates anew.
    local epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 315532800)}
    # In their order: the second uses what the first has made.
    local each
    for each in packages_test deploy_test; do
        SOURCE_DATE_EPOCH="$epoch" SWITCHBOARD="$SWITCHBOARD" PYTHONDONTWRITEBYTECODE=1 .cache/packages-venv/bin/python "dist/test/$each.py" ||
            fail "a package or an example of a deployment does not work."
    done
}

# suites TITLE SIDE OPTION...: the line that runs suites and keeps their files under TITLE.
suites() {
    printf 'node conformance/run.mjs'
    printf ' %q' "${@:2}" --keep "${1//[^a-zA-Z0-9]/-}"
    printf ' # %s' "$1"
}

# at_once LINE...: runs all at the same time, shows what each said under the comment at
# its end, and fails if one did. Two of ours take little more time than one.
at_once() {
    local lines=("$@") each failed=0 said
    local pids=()
    said=$(mktemp -d)
    for each in "${!lines[@]}"; do
        bash -c "${lines[each]}" >"$said/$each" 2>&1 &
        pids+=($!)
    done
    for each in "${!lines[@]}"; do
        wait "${pids[each]}" || failed=1
        say "${lines[each]##* # }"
        cat "$said/$each"
    done
    rm -r "$said"
    return "$failed"
}

# --- the parts ----------------------------------------------------------------

tools() { step "tools" check_tools; }

peers_setup() {
    step "tools for the outside suites" check_peer_tools
    step "system packages" system_packages
    step "npm packages" npm_packages peers
    step "Python packages" python_packages peers/requirements.txt .cache/venv
}

# What peers/oauth needs beside the packages of the other peers.
oauth_packages() {
    step "npm packages of the authorization server" npm_packages peers/oauth
    step "Python packages of the clients that sign in" python_packages peers/oauth/requirements.txt .cache/oauth-venv
}

console_packages() { step "npm packages of the browser that looks at the console" npm_packages peers/console; }

console_setup() {
    step "tools for the outside suites" check_peer_tools
    step "system packages" system_packages
    console_packages
}

oauth_setup() {
    peers_setup
    oauth_packages
    step "npm packages of the conformance suites" npm_packages conformance
}

# Installers, shells and an engine, for what people install.
package_tools() {
    local missing=()
    has cc || missing+=(gcc libc6-dev)
    has make || missing+=(make)
    python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || missing+=(python3-venv)
    has strip || missing+=(binutils)
    has dpkg-deb || missing+=(dpkg)
    has man || missing+=(man-db)
    has fish || missing+=(fish)
    has zsh || missing+=(zsh)
    has systemd-analyze || missing+=(systemd)
    has podman || missing+=(podman)
    has runc || has crun || missing+=(runc)
    has_static_busybox || missing+=(busybox-static)
    has catatonit || [ -x /usr/libexec/podman/catatonit ] || missing+=(catatonit) # the first process of a pod
    if ((${#missing[@]} > 0)); then
        install_packages "${missing[@]}"
    fi
}

packages_setup() {
    step "tools for the packages" check_peer_tools
    step "system packages for the packages" package_tools
    step "Python packages that check the packages" python_packages dist/requirements.txt .cache/packages-venv
}

counts_setup() {
    has node || fail "Node.js $NODE_MAJOR or later is missing."
    has valgrind || step "valgrind" install_packages valgrind
}

conformance_setup() {
    step "tools for the outside suites" check_peer_tools
    step "npm packages of the conformance suites" npm_packages conformance
}

quick() {
    step "formatting" check_fmt
    step "lock files" check_locks
    step "clippy" check_clippy
    step "tests" check_tests
}

everything() {
    peers_setup
    step "npm packages of the conformance suites" npm_packages conformance
    oauth_packages
    packages_setup
    console_packages
    step "formatting" check_fmt
    step "lock files" check_locks
    step "clippy" check_clippy
    step "build" check_build
    step "tests" check_tests
    step "attacks and faults, in small" check_torture_small
    step "documentation" check_doc
    step "book" check_book
    step "licences, sources, advisories" check_deny
    step "fuzzing" check_fuzz
    step "instruction counts" check_counts
    step "outside suites" check_peers
    step "conformance suites" check_conformance
    step "OAuth flows" check_oauth
    step "packages" check_packages
    step "the console in a browser" check_console
}

usage() {
    trap - EXIT
    cat <<'TEXT'
./test.sh [PART] [--full]

  (none)   everything, as CI does
  quick    formatting, clippy, tests
  fmt      formatting only        clippy   clippy only
  test     cargo test only        doc      documentation only
  book     the documents as a book; each link, anchor and message in them is there
  deny     licences, sources, advisories
  fuzz     each fuzz target for FUZZ_SECONDS (20)
  counts   the instructions of pure parts and whole calls, against those in crates/counts/counts.txt; a count that grows
           by more than 3 % fails, or 10 % with other tools than the file names; UPDATE=1 keeps the counts of this run
  peers    other people's SDKs with our client and server, on both sides of the bridge and of the gateway:
           cells in which each two values meet; with --full every client with every server in every way
  conformance  the official suites against the built-in server, through the bridge, and with our client
  oauth    a certified authorization server and a real browser: the flows of peers/oauth, and the OAuth scenarios of the
           official suites; with --full 20 runs of ten bridges and 100 rounds of renewals
  console  the page of the gateway in a real browser: every view, every kind of form, hostile servers and pages
  torture  attacks and faults against a release build, every answer checked; some minutes
  torture-small  the same against the debug build, fewer of each
  packages  what dist/build.py makes of the debug program, or of the one that SWITCHBOARD names: each package is installed
           and used, and the examples of deployments are checked
  setup    only get what the outside suites need
TEXT
}

full=()
if [ "${2:-}" = --full ] && { [ "$1" = peers ] || [ "$1" = oauth ]; }; then
    full=(--full)
elif (($# > 1)); then
    usage
    exit 2
fi

# No && between the parts: it would switch off `set -e` inside them.
case "${1:-all}" in
    all) tools; everything ;;
    quick) tools; quick ;;
    fmt) step "formatting" check_fmt ;;
    clippy) step "clippy" check_clippy ;;
    test) step "tests" check_tests ;;
    doc) step "documentation" check_doc ;;
    book) tools; step "book" check_book ;;
    deny) tools; step "licences, sources, advisories" check_deny ;;
    fuzz) tools; step "fuzzing" check_fuzz ;;
    counts) tools; counts_setup; step "instruction counts" check_counts ;;
    peers) tools; peers_setup; step "outside suites" check_peers ${full[@]+"${full[@]}"} ;;
    conformance) tools; conformance_setup; step "conformance suites" check_conformance ;;
    oauth) tools; oauth_setup; step "OAuth flows" check_oauth ${full[@]+"${full[@]}"} ;;
    console) tools; console_setup; step "the console in a browser" check_console ;;
    torture) tools; step "attacks and faults" check_torture ;;
    torture-small) tools; step "attacks and faults, in small" check_torture_small ;;
    packages) tools; packages_setup; step "packages" check_packages ;;
    setup) tools; oauth_setup; console_packages ;;
    help | -h | --help) usage ;;
    *) usage; exit 2 ;;
esac
