//! Holds the table of bounds in `docs/reliability.md` to the code.
//!
//! A bound is a number or a time: a constant, or the default of an option. The
//! last cell of a row names it: `` `net/src/drive.rs DEFAULT_GRACE = Duration::from_secs(10)` ``.
//! Every constant and default of that kind has a row, or is listed in `NO_BOUNDS`.

use std::collections::BTreeMap;

use crate::source::Source;

/// Where the processes that serve are written.
const CRATES: &[&str] =
    &["crates/proto/src/", "crates/net/src/", "crates/gateway/src/", "crates/cli/src/"];

/// Commands that run for a moment and for one person, and the built-in server.
const NOT_SERVING: &[&str] = &[
    "cli/src/command.rs",
    "cli/src/command/",
    "cli/src/compat/",
    "cli/src/completion.rs",
    "cli/src/demo.rs",
    "cli/src/demo/",
    "cli/src/doctor.rs",
    "cli/src/doctor/",
    "cli/src/output.rs",
    "cli/src/progress.rs",
];

/// The types of constants that may be bounds.
const TYPES: &[&str] = &["Duration", "NonZeroUsize", "u32", "u64", "usize"];

/// Numbers and times that bound nothing: ids, sizes of single reads, and how often
/// somebody looks.
const NO_BOUNDS: &[&str] = &[
    "gateway/src/config.rs LOOK",
    "gateway/src/config/reader.rs DEFAULT_WORD",
    "gateway/src/console/charts.rs STEP",
    "gateway/src/console/config_file.rs MIN_HIDDEN",
    "gateway/src/console/feed.rs KEEP_ALIVE",
    "gateway/src/console/feed.rs RETRY",
    "gateway/src/console/feed.rs SLOW_TICKS",
    "gateway/src/console/feed.rs TICK",
    "gateway/src/facade.rs LOOK_AT_KEYS",
    "gateway/src/facade.rs SWEEP",
    "gateway/src/view/session.rs LAST_WATCH",
    "gateway/src/view/tool_search.rs FEW",
    "gateway/src/catalog.rs HASH_LENGTH",
    "gateway/src/search.rs MIN_PREFIX",
    "gateway/src/redis_store/scripts.rs DIGITS",
    "gateway/src/span.rs SEND_PAUSE",
    "gateway/src/stderr_logs.rs LINE_COST",
    "proto/src/client.rs OWN_IDS",
    "gateway/src/span.rs STEP",
    "gateway/src/authenticator/token_user.rs LOOK",
    "gateway/src/view/people.rs LOOK",
    "gateway/src/watch.rs QUIET",
    "net/src/auth/store/files.rs SELDOM",
    "net/src/auth/store/files.rs SOONEST",
    "net/src/auth/store/record.rs ID_DIGITS",
    "net/src/bridge/admission.rs NOBODY",
    "net/src/http/endpoint.rs LATE",
    "net/src/bridge/idle.rs LOOK",
    "net/src/client/cache.rs OVERHEAD",
    "net/src/client/call.rs PACE",
    "net/src/client/call.rs SLOWEST",
    "net/src/client/client_tasks.rs INTERVAL",
    "net/src/client/client_tasks.rs SOONEST",
    "net/src/connection/unread.rs SMALL",
    "net/src/connection.rs SHOWN",
    "net/src/http/body.rs NEVER",
    "net/src/http/body.rs PIECE",
    "net/src/http/fetch.rs KEEP_ALIVE",
    "net/src/drive.rs AGAIN",
    "net/src/http/fetch/connect.rs KEEP_ALIVE",
    "net/src/drive.rs MOST_STEPS",
    "net/src/http/listen/slots.rs ACCEPT_PAUSE",
    "net/src/http/site_options.rs SiteOptions::keep_alive",
    "net/src/parked_calls.rs GATHER",
    "net/src/parked_calls.rs SWEEP",
    "net/src/roster/state.rs SOONEST",
    "net/src/roster/server_entry.rs AGAIN",
    "net/src/roster/supervisor.rs LONG_LIFE",
    "net/src/roster/state.rs RosterOptions::coalesce",
    "net/src/seal.rs KEY_LENGTH",
    "net/src/secret.rs LONG",
    "net/src/secret.rs SHORT",
    "net/src/server/server_tasks.rs POLL_MS",
    "net/src/server/server_tasks.rs SHORTEST",
    "net/src/stdio/child/stderr.rs CHUNK",
    "net/src/upstream/timers.rs LEAST_LOOK",
    "net/src/upstream/timers.rs LONGEST_LOOK",
    "net/src/upstream/pipe.rs OVERHEAD",
    "net/src/upstream/flood.rs PAUSE",
    "net/src/upstream/http.rs OUR_HEADERS",
    "net/src/upstream/http/stream.rs SELDOM",
    "net/src/upstream/http/stream.rs SOUND",
    "net/src/upstream/era.rs FOR_GOOD",
    "net/src/upstream/target.rs SAME_ATTEMPT",
    "proto/src/backoff.rs FIRST",
    "proto/src/backoff.rs LONG_LIFE",
    "proto/src/backoff.rs SHORTEST_RETRY",
    "proto/src/backoff.rs STEPS_TO_LONGEST",
    "proto/src/client.rs FOR_EVER",
    "proto/src/cluster.rs SESSION_DIGITS",
    "proto/src/cluster/model.rs UNITS",
    "proto/src/client/to_legacy.rs LINGER",
    "proto/src/client/to_modern/listen_stream.rs LINGER",
    "proto/src/client/to_modern.rs PACE",
    "proto/src/client/to_modern/extension_tasks.rs POLL",
    "proto/src/header.rs LEGIBLE",
    "proto/src/json.rs BLOCK",
    "proto/src/json.rs HIGHS",
    "proto/src/json.rs ONES",
    "proto/src/jsonrpc.rs COUNT",
    "proto/src/limits.rs Limits::retry",
    "proto/src/framing.rs READ",
    "proto/src/server/legacy/abilities.rs SELF",
    "proto/src/server/modern.rs HELD_OVERHEAD",
    "proto/src/server/legacy.rs MAIN",
    "proto/src/framing.rs LONGEST_FIELD",
    "proto/src/framing.rs FIELD",
    "proto/src/framing.rs ROOM",
    "proto/src/types.rs SHOWN",
];

/// What is wrong with the page, given all files of the repository.
pub fn check(page: &str, sources: &[Source]) -> Vec<String> {
    check_except(NO_BOUNDS, page, sources)
}

/// The same with another list of what is no bound.
pub fn check_except(no_bounds: &[&str], page: &str, sources: &[Source]) -> Vec<String> {
    let found: BTreeMap<_, _> = sources.iter().flat_map(bounds).collect();
    let mut rows = BTreeMap::new();
    let mut complaints = Vec::new();
    for line in page.lines().filter(|line| line.starts_with("| ") && line.contains(" = ")) {
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let code = cells.last().map(|cell| cell.trim_matches('`')).unwrap_or_default();
        match code.split_once(" = ") {
            Some((name, value))
                if cells.len() == 5 && cells.iter().all(|cell| !cell.is_empty()) =>
            {
                if rows.insert(name.to_owned(), value.to_owned()).is_some() {
                    complaints.push(format!("{name} has two rows"));
                }
            }
            _ => complaints.push(format!("not five cells with the code in the last: {line}")),
        }
    }
    for (name, value) in &rows {
        match found.get(name) {
            None => complaints.push(format!("{name} has a row and is not in the code")),
            Some(real) if real != value => {
                complaints.push(format!("{name} is {real} in the code and {value} in its row"));
            }
            Some(_) => {}
        }
    }
    for (name, value) in &found {
        if !rows.contains_key(name) && !no_bounds.contains(&name.as_str()) {
            complaints.push(format!(
                "{name} = {value} has no row in docs/reliability.md; if it bounds nothing, list it in NO_BOUNDS"
            ));
        }
    }
    let gone = no_bounds.iter().filter(|name| !found.contains_key(**name));
    complaints.extend(gone.map(|name| format!("{name} is in NO_BOUNDS and not in the code")));
    complaints
}

/// The constants and defaults of a file that may be bounds, with their values.
fn bounds(source: &Source) -> Vec<(String, String)> {
    let path = source.path.strip_prefix("crates/").unwrap_or_default();
    let is_meant = source.is_product()
        && CRATES.iter().any(|folder| source.path.starts_with(folder))
        && !NOT_SERVING.iter().any(|folder| path.starts_with(folder));
    if !is_meant {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut options = None;
    for line in source.lines.iter().filter(|line| !line.is_test) {
        let text = line.text.split("//").next().unwrap_or_default().trim();
        if let Some(name) = text.strip_prefix("impl Default for ") {
            options = name.split_whitespace().next();
        } else if line.text.starts_with('}') {
            options = None;
        }
        if let Some((name, value)) = constant(text) {
            found.push((format!("{path} {name}"), value.to_owned()));
        } else if let Some(options) = options {
            let fields = defaults(text);
            found.extend(fields.map(|(name, value)| (format!("{path} {options}::{name}"), value)));
        }
    }
    found
}

/// The name and value of a constant on one line.
fn constant(text: &str) -> Option<(&str, &str)> {
    let (before, rest) = text.split_once("const ")?;
    if !before.is_empty() && !before.starts_with("pub") {
        return None;
    }
    let (name, rest) = rest.split_once(": ")?;
    let (kind, value) = rest.split_once(" = ")?;
    TYPES.contains(&kind).then(|| (name, value.trim_end_matches(';')))
}

/// The fields on a line that are set to a number or a time.
fn defaults(text: &str) -> impl Iterator<Item = (String, String)> {
    text.split(['{', '}', ',']).filter_map(|field| {
        let (name, value) = field.trim().split_once(": ")?;
        let is_number =
            value.starts_with(|first: char| first.is_ascii_digit()) && !value.contains('.');
        let is_time = value.starts_with("Duration::from_");
        (is_number || is_time).then(|| (name.to_owned(), value.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(page: &str, code: &str) -> Vec<String> {
        check_except(&[], page, &[Source::new("crates/net/src/a.rs", code)])
    }

    #[test]
    fn each_bound_has_a_row_with_its_value() {
        let code = "/// Calls.\npub(crate) const MOST: usize = 1 << 4;\nconst NAME: &str = \"a\";\n\
            impl Default for Bounds {\n    fn default() -> Self {\n        Self { most: 5, is_on: true }\n    }\n}\n\
            #[cfg(test)]\nmod tests {\n    const FEW: usize = 2;\n}\n";
        let row = |code: &str| format!("| calls | 16 | fixed | an error | `{code}` |\n");
        let right =
            [row("net/src/a.rs MOST = 1 << 4"), row("net/src/a.rs Bounds::most = 5")].concat();
        assert_eq!(complaints(&right, code), Vec::<String>::new());
        assert_eq!(complaints(&right.replace("1 << 4", "16"), code).len(), 1, "another value");
        assert_eq!(complaints(&right.replace("MOST", "LEAST"), code).len(), 2, "another name");
        assert_eq!(complaints(&row("net/src/a.rs MOST = 1 << 4"), code).len(), 1, "no row");
        assert_eq!(complaints(&right.replace("an error", ""), code).len(), 4, "no words");
        assert_eq!(complaints(&[right.as_str(), &right].concat(), code).len(), 2, "two rows");
    }
}
