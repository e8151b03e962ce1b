//! The spellings of a URI.
//!
//! Many servers normalise a URI before they look for it, each in its own way. A
//! filter compares letters, so the same resource must not be had by other ones:
//!
//! ```text
//!   never the normal form of anything: `DB://x`, `db://a/../x`, ` db://x`   ──▶ not plain
//!   perhaps the same as another:       `db://X`, `db://x/%61`, `db://x/ä`  ──▶ folded alike
//! ```

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

use percent_encoding::percent_decode_str;

/// Schemes whose URLs browsers know, with the port that need not be said.
const WEB: [(&str, &str); 5] =
    [("http", "80"), ("https", "443"), ("ws", "80"), ("wss", "443"), ("ftp", "21")];

/// Whether some server may keep this URI as it is. One that is not plain means
/// the same as another to most of them.
pub(crate) fn is_plain(uri: &str) -> bool {
    if uri.trim() != uri || uri.contains(char::is_control) {
        return false;
    }
    let (scheme, rest) = parts(uri);
    let is_lower = !scheme.contains(|c: char| c.is_ascii_uppercase());
    let path = decoded(&rest[..rest.find(['?', '#']).unwrap_or(rest.len())]);
    let is_dots = |segment: &str| matches!(segment, "." | "..");
    is_lower && !path.split(['/', '\\']).any(is_dots) && is_plain_web(scheme, rest)
}

/// What servers may take two spellings for: with escapes resolved, and the host
/// in lower case. Also for patterns and templates.
pub(crate) fn folded(text: &str) -> String {
    let (_, rest) = parts(text);
    let start = text.len() - rest.len();
    let host = rest.strip_prefix("//").map_or(0, |rest| 2 + authority_end(rest));
    let (head, tail) = text.split_at(start + host);
    decoded(&(head.to_lowercase() + tail)).replace('\\', "/")
}

/// The scheme, if there is one, and what follows its colon.
fn parts(uri: &str) -> (&str, &str) {
    let is_scheme = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    };
    uri.split_once(':').filter(|(scheme, _)| is_scheme(scheme)).unwrap_or(("", uri))
}

fn authority_end(rest: &str) -> usize {
    rest.find(['/', '\\', '?', '#']).unwrap_or(rest.len())
}

/// `text` without escapes.
fn decoded(text: &str) -> Cow<'_, str> {
    percent_decode_str(text).decode_utf8_lossy()
}

/// Whether a URL is written as browsers write it. They know more of these than
/// of others: ports, addresses, and slashes that may be missing.
fn is_plain_web(scheme: &str, rest: &str) -> bool {
    let port = WEB.iter().find(|(web, _)| *web == scheme).map(|(_, port)| *port);
    let Some(rest) = rest.strip_prefix("//") else { return port.is_none() && scheme != "file" };
    let (authority, path) = rest.split_at(authority_end(rest));
    match port {
        Some(port) => path.starts_with('/') && is_plain_authority(authority, port),
        None if scheme == "file" => {
            path.starts_with('/') && !path.starts_with("//") && authority != "localhost"
        }
        None => true,
    }
}

fn is_plain_authority(authority: &str, usual: &str) -> bool {
    let named_port = authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
    let (host, port) = named_port.map_or((authority, None), |(host, port)| (host, Some(port)));
    let is_plain_port = |port: &str| {
        port != usual && port.parse::<u16>().is_ok_and(|number| number.to_string() == port)
    };
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_plain_host = if let Some(address) = host.strip_prefix('[') {
        let address = address.strip_suffix(']').unwrap_or_default();
        address.parse::<Ipv6Addr>().is_ok_and(|it| it.to_string() == address)
    } else if last.starts_with(|c: char| c.is_ascii_digit()) {
        host.parse::<Ipv4Addr>().is_ok()
    } else {
        !host.is_empty() && host.is_ascii() && !host.contains(['@', '%'])
    };
    is_plain_host && port.is_none_or(is_plain_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_that_most_servers_write_otherwise_is_not_plain() {
        for uri in [
            "DEMO://x/a",
            "Demo:x",
            "demo://x/../a",
            "demo://x/./a",
            "demo://x/%2e%2E/a",
            "demo://x/.%2e/a",
            "demo://x/..%2fa",
            "demo://x/..",
            "demo://x/..?q",
            "demo:../a",
            " demo://x/a",
            "demo://x/a ",
            "demo://x/a\n",
            "de\tmo://x/a",
            "demo://x/\u{0}a",
            "file:///a/..\\b",
            "file:/a",
            "file:a",
            "file:////a",
            "file:\\\\a",
            "file://localhost/a",
            "http://h",
            "http:h/a",
            "http:/h/a",
            "http:///h/a",
            "http://h:80/a",
            "http://h:/a",
            "https://h:0443/a",
            "http://@h/a",
            "http://%68/a",
            "http://127.1/a",
            "http://2130706433/a",
            "http://0x7f.0.0.1/a",
            "http://[0:0::1]/a",
        ] {
            assert!(!is_plain(uri), "{uri:?}");
        }
    }

    #[test]
    fn what_people_write_is_plain() {
        for uri in [
            "test://static-text",
            "note://Inbox/1",
            "note://ä/ö?x=ü",
            "urn:isbn:0451450523",
            "mailto:ada@example.com",
            "file:///a b",
            "file:///a%20b/.hidden/..a",
            "file:///C:/Users/Ada",
            "file://server/share",
            "http://h/",
            "https://h:8443/a?next=../b#..",
            "http://127.0.0.1:8080/",
            "http://[::1]:8080/",
            "db://{table}/{+path}",
            "demo://x/%zz",
            "plain words",
            "",
        ] {
            assert!(is_plain(uri), "{uri:?}");
        }
    }

    #[test]
    fn spellings_that_may_mean_the_same_are_folded_alike() {
        for (one, other) in [
            ("secret://BOX/doc", "secret://box/doc"),
            ("secret://box/%64oc", "secret://box/doc"),
            ("note://x/%C3%A4", "note://x/ä"),
            ("file:///a%20b", "file:///a b"),
            ("http://h\\a", "http://h/a"),
        ] {
            assert_eq!(folded(one), folded(other));
        }
        assert_ne!(folded("x://h/A"), folded("x://h/a"));
        assert_ne!(folded("x:A"), folded("x:a"));
        assert_eq!(folded("%f"), "%f");
        assert_eq!(folded("x://h/%ff"), "x://h/\u{fffd}");
    }
}
