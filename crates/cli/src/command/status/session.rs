//! The sessions of a gateway, for people: the busiest as a table, and a line about all.

use serde_json::Value;

use crate::output::{cell, counted, plain, table};

/// Sessions in the table: with some servers above they fit a screen.
const MOST: usize = 20;

const HEAD: [&str; 11] = [
    "SESSION",
    "PRINCIPAL",
    "CLIENT",
    "ERA",
    "REVISION",
    "TRANSPORT",
    "PATH",
    "AGE",
    "IDLE",
    "CALLS",
    "STREAMS",
];

fn count(of: &Value) -> usize {
    usize::try_from(of.as_u64().unwrap_or_default()).unwrap_or(usize::MAX)
}

/// A row for each of the first; none if there is nobody.
pub(super) fn rows(status: &Value) -> Option<String> {
    let sessions = &status["sessions"];
    let list = sessions["list"].as_array().filter(|list| !list.is_empty())?;
    let rows: Vec<_> = list.iter().take(MOST).map(row).collect();
    let text = table(&HEAD, &rows, "");
    // What the gateway leaves out of its list is more, too.
    let all = count(&sessions["count"]) + count(&sessions["listens"]);
    let more = all.max(list.len()).saturating_sub(rows.len());
    Some(if more > 0 { format!("{text}\nand {more} more") } else { text })
}

fn row(session: &Value) -> Vec<String> {
    let word = |key: &str| match cell(&session[key]) {
        none if none.is_empty() => "-".to_owned(),
        word => word,
    };
    let number = |key: &str| session[key].as_u64().map_or("-".to_owned(), |n| n.to_string());
    let time = |key: &str| session[key].as_u64().map_or("-".to_owned(), elapsed);
    let client = match cell(&session["version"]) {
        version if version.is_empty() => word("client"),
        version => format!("{} {version}", word("client")),
    };
    let words = ["era", "revision", "transport", "path"].map(word);
    [word("session"), word("principal"), client]
        .into_iter()
        .chain(words)
        .chain(["ageSeconds", "idleSeconds"].map(time))
        .chain(["calls", "streams"].map(number))
        .collect()
}

/// How many there are, and whose.
pub(super) fn summary(status: &Value) -> String {
    let sessions = &status["sessions"];
    let counted = |key: &str, noun: &str| counted(count(&sessions[key]), noun);
    let mut text = counted("count", "session");
    let principals = sessions["principals"].as_object().into_iter().flatten();
    let principals: Vec<_> =
        principals.map(|(who, count)| format!("{} {count}", plain(who))).collect();
    if !principals.is_empty() {
        text = format!("{text} ({})", principals.join(", "));
    }
    let listens = counted("listens", "listen");
    let (streams, parked) = (counted("streams", "stream"), counted("parked", "parked call"));
    let up = elapsed(status["uptimeSeconds"].as_u64().unwrap_or_default());
    let version = cell(&status["version"]);
    format!("{text}, {listens}, {streams}, {parked}; up {up}, version {version}")
}

/// `3 d 4 h`, `5 min 6 s`.
fn elapsed(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(count: usize, listed: usize) -> Value {
        let one = json!({
            "session": "ab12cd", "principal": "ada", "client": "c\u{1b}", "version": "1.0",
            "era": "legacy", "revision": "r", "transport": "http", "path": "/mcp",
            "ageSeconds": 3700, "idleSeconds": 5, "calls": 2, "streams": 1,
        });
        let list = vec![one; listed];
        json!({"version": "1.2.3", "uptimeSeconds": 61, "sessions": {"count": count,
            "listens": 1, "streams": 1, "parked": 0, "principals": {"ada": count}, "list": list}})
    }

    #[test]
    fn a_session_is_a_row_and_all_are_a_line() {
        let expected = "\
SESSION  PRINCIPAL  CLIENT  ERA     REVISION  TRANSPORT  PATH  AGE        IDLE  CALLS  STREAMS
ab12cd   ada        c 1.0   legacy  r         http       /mcp  1 h 1 min  5 s   2      1";
        assert_eq!(rows(&status(0, 1)).unwrap(), expected);
        let line =
            "2 sessions (ada 2), 1 listen, 1 stream, 0 parked calls; up 1 min 1 s, version 1.2.3";
        assert_eq!(summary(&status(2, 1)), line);
        assert_eq!([5, 3700, 90_000].map(elapsed), ["5 s", "1 h 1 min", "1 d 1 h"]);
    }

    #[test]
    fn those_beyond_the_table_are_counted_listed_or_not() {
        for (count, listed, more) in [(19, 20, None), (20, 21, Some(1)), (999, 200, Some(980))] {
            let text = rows(&status(count, listed)).unwrap();
            let last = text.lines().last().unwrap();
            assert_eq!(last.strip_prefix("and "), more.map(|n| format!("{n} more")).as_deref());
            assert_eq!(text.lines().count(), 1 + MOST + usize::from(more.is_some()));
        }
        assert_eq!(rows(&status(0, 0)), None);
    }

    #[test]
    fn an_older_gateway_has_no_list() {
        assert_eq!(rows(&json!({"sessions": {"count": 3}})), None);
        assert!(rows(&json!({"sessions": {"list": [{}]}})).unwrap().contains('-'));
    }
}
