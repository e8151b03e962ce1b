//! Hosts and origins of other sites, in every disguise that a browser or a proxy may give them.

use std::fmt::Write as _;

use crate::gateway::{Gateway, ROOT};
use crate::http::{self, PATIENCE};

const HELLO: &str = r#"{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"page","version":"1"}}}"#;

#[rustfmt::skip]
const EVIL: [&str; 8] = [
    "evil.example", "EVIL.example", "10.0.0.1", "192.168.0.1", "[fd00::1]", "0.0.0.0", "[::]", "169.254.169.254",
];

/// What may stand between our name and another.
#[rustfmt::skip]
const JOINTS: [&str; 35] = [
    ".", "-", "_", "@", "#", "?", "/", "\\", "%00", "%2e", "%40", " ", "\t", ",", ", ", ";", "&", "|", ":80@", "%23", "%2f",
    "'", "\"", "(", "=", "+", "$", "!", "~", "^", "`", "{", "<", "[", "]",
];

/// Names that are nearly ours.
#[rustfmt::skip]
const ODD: [&str; 27] = [
    "localhost.evil.example", "127.0.0.1.nip.io", "localtest.me", "localhos", "localhostx", "xlocalhost", "127.0.0.1x",
    "1270.0.1", "128.0.0.1", "127.0.0.256", "::1", "[::1", "::1]", "[127.0.0.1]x", "", ",", ":", "@", "127.0.0.1:0x50",
    "127.0.0.1:+80", "127.0.0.1:80:80", "127.0.0.1:-1", "localhost:", "null", "*", "%6cocalhost", "l\u{f6}calhost",
];

/// Names that are not ours, though some look so.
fn strangers(port: u16) -> Vec<String> {
    let mut all: Vec<String> = EVIL.iter().chain(&ODD).map(ToString::to_string).collect();
    for evil in EVIL {
        for ours in ["localhost", "127.0.0.1", "[::1]"] {
            all.extend(JOINTS.map(|joint| format!("{ours}{joint}{evil}")));
            all.push(format!("{ours}:{port}@{evil}"));
            all.push(format!("{ours}:{port}.{evil}"));
            all.push(format!("{evil}#@{ours}"));
        }
        all.push(format!("{evil}."));
        all.push(format!("{evil}:{port}"));
        all.push(format!("user@{evil}"));
        all.push(format!("{evil}:99999"));
    }
    all
}

/// Tries them all as Host, as Origin, as both, and as the target; how many.
pub(super) async fn run(gateway: &Gateway) -> Result<u64, String> {
    let port = gateway.port;
    let mut times = 0;
    for name in strangers(port) {
        let own = format!("127.0.0.1:{port}");
        let scheme = ["http", "https", "HTTP", "file", "ws", "chrome-extension", ""][times % 7];
        let origin = if scheme.is_empty() { name.clone() } else { format!("{scheme}://{name}") };
        let double = format!("{own}\r\nHost: {name}");
        let both = format!("http://{own}\r\nOrigin: {origin}");
        for (what, target, host, origin) in [
            ("Host", "/mcp".to_owned(), name.as_str(), None),
            ("Origin", "/mcp".to_owned(), own.as_str(), Some(origin.as_str())),
            ("Host and Origin", "/mcp".to_owned(), name.as_str(), Some(origin.as_str())),
            ("a second Host", "/mcp".to_owned(), double.as_str(), None),
            ("a second Origin", "/mcp".to_owned(), own.as_str(), Some(both.as_str())),
            ("the target", format!("http://{name}/mcp"), own.as_str(), None),
        ] {
            times += 1;
            let mut head = format!(
                "POST {target} HTTP/1.1\r\nHost: {host}\r\nX-API-Key: {ROOT}\r\nContent-Type: application/json\r\n\
                 Accept: application/json, text/event-stream\r\nConnection: close\r\nContent-Length: {}\r\n",
                HELLO.len()
            );
            if let Some(origin) = origin {
                // Writing to a string does not fail.
                _ = write!(head, "Origin: {origin}\r\n");
            }
            let bytes = format!("{head}\r\n{HELLO}");
            // A connection that is closed without an answer lets nobody in.
            let Ok(reply) = http::send(port, bytes.as_bytes(), PATIENCE).await else { continue };
            // Userinfo of our own name is our own name still, in a target.
            let is_ours = what == "the target"
                && (target.contains('?')
                    || target.contains('#')
                    || target.contains("127.0.0.1/")
                    || target.contains("localhost/")
                    || target.contains("[::1]/"));
            if reply.status < 400 && !is_ours {
                return Err(format!("{what} {name:?} is let in: {}", reply.status));
            }
        }
    }
    // The honest ones come in, or all of the above shows nothing.
    for host in ["localhost", "127.0.0.1", "[::1]"] {
        for origin in ["", "http://localhost:1234"] {
            let host = format!("{host}:{port}");
            let mut headers = vec![("Host", host.as_str()), ("X-API-Key", ROOT)];
            headers.extend((!origin.is_empty()).then_some(("Origin", origin)));
            let reply = http::post(port, "/mcp", &headers, HELLO.as_bytes()).await;
            let status = reply.map_err(|lost| lost.to_string())?.status;
            if status != 200 {
                return Err(format!("the honest host {host} gets {status}"));
            }
            times += 1;
        }
    }
    gateway.lives().map(|()| times as u64)
}
