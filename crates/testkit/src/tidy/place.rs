//! Things that live in one place, so that there is one place to look.

use super::at;
use crate::source::{Line, Source};

/// Where a `select!` may wait. One owner per machine means few loops; a new
/// one has to say here why an existing one will not do.
const LOOPS: &[&str] = &["crates/net/src/drive.rs", "crates/net/src/http/listen.rs"];

/// Who finds members in JSON text. Everybody else asks a `Message`, which knows where
/// they are, or a `Part` of one.
const READERS: &[&str] = &[
    // Records of the store.
    "crates/cli/src/command/account.rs",
    "crates/cli/src/command/account/mcp_remote_import.rs",
    // Status that a gateway of ours reports, which is no message.
    "crates/cli/src/command/status.rs",
    // What servers send that may be no message at all.
    "crates/cli/src/doctor/wire.rs",
    // Documents of issuers, and tokens, which are no messages.
    "crates/gateway/src/facade/record.rs",
    "crates/gateway/src/facade/registration.rs",
    "crates/net/src/auth/bounded.rs",
    "crates/net/src/auth/jws.rs",
    "crates/net/src/auth/sign_in/discovery.rs",
    "crates/net/src/auth/sign_in/drive.rs",
    "crates/proto/src/auth/flow/discover.rs",
    "crates/proto/src/auth/flow/registration.rs",
    "crates/proto/src/auth/record.rs",
    "crates/proto/src/auth/token_answer.rs",
    // The envelope, and what it is made of.
    "crates/proto/src/json.rs",
    "crates/proto/src/jsonrpc.rs",
    "crates/proto/src/jsonrpc/edit.rs",
    "crates/proto/src/jsonrpc/part.rs",
    "crates/proto/src/patch.rs",
    // Whole results in the words of another revision.
    "crates/proto/src/project.rs",
];

/// How one finds them.
const READING: &[&str] = &["patch::", "Walker", "serde_json::from_slice"];

/// Where code may be for one kind of system only.
const PLATFORM: &[&str] = &[
    // Each system has a keyring, and a crate for it, of its own.
    "crates/cli/src/keyring.rs",
    // Which signals mean what is for the binary to say.
    "crates/cli/src/signal.rs",
    "crates/net/src/platform.rs",
    "crates/net/src/platform/guard.rs",
];

/// How one writes such code.
const SYSTEM: &[&str] = &[
    "cfg(not(target_os",
    "cfg(not(unix",
    "cfg(not(windows",
    "cfg(target_os",
    "cfg(unix",
    "cfg(windows",
    "close_fds::",
    "libc::",
    "rustix::",
    "signal::unix",
    "std::os::",
];

/// What the pure core must not reach, not even through somebody else.
const IMPURE: &[&str] =
    &["async-std", "getrandom", "hyper", "mio", "rand", "rand_core", "smol", "socket2", "tokio"];

/// Reads our environment for the command of a one-liner, which has no room for it.
const ONE_LINER: &str = "crates/net/src/upstream/into_target.rs";

/// How one talks to the terminal and the process.
const PROCESS: &[&str] = &[
    "print!(",
    "println!(",
    "eprint!(",
    "eprintln!(",
    "std::env",
    "env::var",
    "env::args",
    "process::exit",
    "process::abort",
];

pub(super) fn dates_live_in_revision(source: &Source) -> Vec<String> {
    let elsewhere = source.path != "crates/proto/src/revision.rs";
    let what = "a revision by its date; ask `revision.rs` for a rule instead";
    complain(source, elsewhere, what, |line| has_quoted_date(&line.literals))
}

pub(super) fn error_codes_live_in_refusal(source: &Source) -> Vec<String> {
    let elsewhere = source.path != "crates/proto/src/refusal.rs";
    let what = "a JSON-RPC code; `refusal.rs` has them all, with their statuses";
    complain(source, elsewhere, what, |line| has_code(&line.code) || has_code(&line.literals))
}

pub(super) fn select_lives_in_the_loops(source: &Source) -> Vec<String> {
    let elsewhere = !LOOPS.contains(&source.path.as_str());
    let what = "a `select!`; wait in one of the loops that are there, or argue for another";
    complain(source, elsewhere, what, |line| line.code.contains("select!"))
}

pub(super) fn few_read_json(source: &Source) -> Vec<String> {
    let is_reader = READERS.contains(&source.path.as_str());
    if is_reader && !source.lines.iter().any(reads_json) {
        return vec![at(source, 1, "reads no JSON text any more; take it off the list of those")];
    }
    let what = "members out of JSON text; ask the `Message` for a `Member`, or read a `Part`";
    complain(source, !is_reader, what, reads_json)
}

/// Whether a line of the product finds members in JSON text.
pub fn reads_json(line: &Line) -> bool {
    !line.is_test && READING.iter().any(|word| has_call(&line.code, word))
}

pub(super) fn only_the_binary_touches_the_process(source: &Source) -> Vec<String> {
    let elsewhere = !source.path.starts_with("crates/cli/") && source.path != ONE_LINER;
    let what = "printing, the environment and exiting belong to the binary; return it, or take it";
    complain(source, elsewhere, what, |line| {
        // Splitting a list of paths reads nothing, wherever std keeps it.
        let code = line.code.replace("std::env::split_paths", "");
        PROCESS.iter().any(|word| has_call(&code, word))
    })
}

pub(super) fn systems_differ_in_the_platform_module(source: &Source) -> Vec<String> {
    let elsewhere = !PLATFORM.contains(&source.path.as_str());
    let what = "what only one kind of system has; give `platform` of net a function for it";
    complain(source, elsewhere, what, |line| SYSTEM.iter().any(|word| has_call(&line.code, word)))
}

/// The crates in `tree` (as `cargo tree --prefix none` prints it) that bring
/// I/O, a clock or randomness.
pub fn impure_dependencies(tree: &str) -> Vec<String> {
    let names = tree.lines().filter_map(|line| line.split_whitespace().next());
    names.filter(|name| IMPURE.contains(name)).map(str::to_owned).collect()
}

fn complain(
    source: &Source,
    applies: bool,
    what: &str,
    is_wrong: impl Fn(&Line) -> bool,
) -> Vec<String> {
    let applies = applies && source.is_product();
    let wrong = source.numbered().filter(|(_, line)| applies && !line.is_test && is_wrong(line));
    wrong.map(|(number, _)| at(source, number, what)).collect()
}

/// Whether a literal is a date, or holds one in quotes of its own. A date in
/// the middle of a sentence is for people, and may stay.
fn has_quoted_date(literals: &str) -> bool {
    literals.match_indices("\"20").any(|(quote, _)| {
        let date = literals.as_bytes().get(quote + 1..quote + 11);
        let is_date = date.is_some_and(|date| {
            let is_dash = |index| index == 4 || index == 7;
            let mut bytes = date.iter().enumerate();
            bytes.all(|(index, byte)| {
                is_dash(index) == (*byte == b'-') && b"-0123456789".contains(byte)
            })
        });
        is_date && literals[quote + 11..].starts_with(['"', '\\'])
    })
}

/// Whether `text` has a number from -32999 to -32000.
fn has_code(text: &str) -> bool {
    text.match_indices("-32").any(|(start, _)| {
        let digits = text[start + 3..].trim_start_matches('_');
        let length = digits.len() - digits.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        length == 3
    })
}

/// Whether `code` has `word` from the start of a word on.
fn has_call(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(start, _)| !code[..start].ends_with(crate::source::is_ident))
}
