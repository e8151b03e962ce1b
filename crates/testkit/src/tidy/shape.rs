//! How long things are, and how files begin.

use super::at;
use crate::source::Source;

/// A file that is read in one sitting.
const FILE: usize = 800;
/// The same with its tests, or made of tests: those are read one at a time.
const FILE_WITH_TESTS: usize = 1000;
/// Files that handle credentials are read with more care, their tests too.
const OAUTH_FILE: usize = 400;
/// Where such files are.
const OAUTH: &[&str] = &[
    "crates/gateway/src/account",
    "crates/gateway/src/authenticator",
    "crates/gateway/src/config/oauth",
    "crates/gateway/src/connect",
    "crates/gateway/src/facade",
    "crates/gateway/src/idp",
    "crates/gateway/src/issuer",
    "crates/gateway/src/token",
    "crates/gateway/src/view/sign_in",
    "crates/net/src/access",
    "crates/net/src/auth",
    "crates/net/tests/it/auth",
    "crates/proto/src/auth",
];
/// A function that fits on a screen, counted in lines that hold something.
const FUNCTION: usize = 80;

pub(super) fn file_fits_its_budget(source: &Source) -> Vec<String> {
    let has_tests = source.lines.iter().filter(|line| line.is_test).count() > 2;
    let is_oauth = OAUTH.iter().any(|start| source.path.starts_with(start));
    let budget = match has_tests {
        _ if is_oauth => OAUTH_FILE,
        true => FILE_WITH_TESTS,
        false => FILE,
    };
    over_budget(source, source.is_rust(), budget)
}

fn over_budget(source: &Source, applies: bool, budget: usize) -> Vec<String> {
    let length = source.lines.len();
    if !applies || length <= budget {
        return Vec::new();
    }
    vec![at(source, length, &format!("{length} lines, the budget is {budget}; cut it by topic"))]
}

pub(super) fn functions_fit_their_budget(source: &Source) -> Vec<String> {
    let functions = if source.is_rust() { source.functions() } else { Vec::new() };
    let length = |first: usize, last: usize| {
        let lines = &source.lines[first - 1..last];
        lines.iter().filter(|l| !l.code.trim().is_empty() || !l.literals.trim().is_empty()).count()
    };
    functions
        .iter()
        .map(|function| (function, length(function.first, function.last)))
        .filter(|(_, length)| *length > FUNCTION)
        .map(|(function, length)| {
            let what = format!("`{}` has {length} lines, the budget is {FUNCTION}", function.name);
            at(source, function.first, &what)
        })
        .collect()
}

pub(super) fn no_mod_rs(source: &Source) -> Vec<String> {
    if source.path.ends_with("/mod.rs") {
        return vec![at(
            source,
            1,
            "name it `foo.rs` beside `foo/`, so that tabs can be told apart",
        )];
    }
    Vec::new()
}

pub(super) fn module_has_a_header(source: &Source) -> Vec<String> {
    let first = source.lines.iter().map(|line| line.text.trim());
    let first = first.into_iter().find(|line| !line.is_empty() && !line.starts_with("#!["));
    if !source.is_rust() || first.is_some_and(|line| line.starts_with("//!")) {
        return Vec::new();
    }
    vec![at(source, 1, "starts without a `//!` header that says what it is for")]
}
