//! The sessions of a gateway: how many, whose, and what goes on in the busiest.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use switchboard_net::connection::ClientConnection;
use switchboard_net::http::site::ConnectedClient;
use switchboard_net::http::site::Site;
use switchboard_proto::revision::Revision;

use super::era;
use crate::policy;

/// What those are called who do not say who they are.
const ANONYMOUS: &str = "anonymous";

/// Sessions that are shown one by one: more than anybody reads.
const MOST: usize = 200;

/// How everything stands with clients.
pub(super) fn sessions(sites: &[Site]) -> Value {
    let mut principals: BTreeMap<String, usize> = BTreeMap::new();
    let mut paths = Map::new();
    for site in sites {
        let open = site.sessions();
        if open > 0 {
            paths.insert(site.options().path.clone(), open.into());
        }
        for client in site.clients() {
            *principals.entry(who(&client)).or_default() += 1;
        }
    }
    let sum = |of: fn(&Site) -> usize| -> usize { sites.iter().map(of).sum() };
    let streams: u64 = sites.first().map_or(0, |site| site.options().tally.streams());
    json!({
        "count": sum(Site::sessions),
        "listens": sum(Site::listens),
        "streams": streams,
        "parked": sum(Site::parked),
        "paths": paths,
        "principals": principals,
        "list": list(sites),
    })
}

fn who(client: &ClientConnection) -> String {
    policy::who(client).unwrap_or_else(|| ANONYMOUS.to_owned())
}

/// The busiest first: those with most calls, then those that were used last.
fn list(sites: &[Site]) -> Vec<Value> {
    let mut seen: Vec<_> = sites.iter().flat_map(Site::seen).collect();
    seen.sort_by_cached_key(|seen| (Reverse(seen.client.owed()), seen.client.quiet()));
    seen.truncate(MOST);
    seen.iter().map(row).collect()
}

fn row(ConnectedClient { client, transport, path }: &ConnectedClient) -> Value {
    let said = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(escaped);
    let intro = client.intro();
    json!({
        // A modern client that listens has none.
        "session": client.session().filter(|_| client.phase().is_some()),
        "principal": who(client),
        "client": said(intro.map(|it| &*it.name)),
        "version": said(intro.map(|it| &*it.version)),
        "era": era(client.era()),
        "revision": client.revision().map(Revision::as_str),
        "transport": transport,
        "path": &**path,
        "ageSeconds": client.age().as_secs(),
        "idleSeconds": client.quiet().as_secs(),
        "calls": client.owed(),
        "streams": client.streams(),
    })
}

/// Words of a stranger, in which nothing is left that drives a terminal or turns
/// the text around it.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || is_hidden(character) {
            escaped.extend(character.escape_unicode());
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// Characters without a shape: marks of direction, joiners, separators.
fn is_hidden(character: char) -> bool {
    matches!(
        character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_drive_a_terminal_or_turn_the_text_around_it() {
        assert_eq!(escaped("a\u{1b}[2J\nb\u{202e}c é 漢"), "a\\u{1b}[2J\\u{a}b\\u{202e}c é 漢");
        assert_eq!(escaped("\u{9b}\u{200b}\u{2066}"), "\\u{9b}\\u{200b}\\u{2066}");
    }
}
