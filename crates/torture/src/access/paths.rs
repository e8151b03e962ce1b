//! A table of paths, a thousand and more, that all mean something that is not for the caller.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::gateway::{ADA, Gateway};
use crate::http::{self, Connection, PATIENCE, Reply, request};

/// A path with some of its characters escaped.
fn escaped(path: &str, lower: bool, which: impl Fn(usize, char) -> bool) -> String {
    let mut made = String::new();
    for (at, c) in path.chars().enumerate() {
        // Writing to a string does not fail.
        match (which(at, c), lower) {
            (false, _) => made.push(c),
            (true, true) => _ = write!(made, "%{:02x}", u32::from(c)),
            (true, false) => _ = write!(made, "%{:02X}", u32::from(c)),
        }
    }
    made
}

/// What every slash may be written as.
const SLASHES: [&str; 8] = ["//", "/./", "/%2e/", "/%5c", "\\", "/%00/", "/%c0%af/", "/%EF%BC%8F"];

/// What the first slash may be written as.
const FIRST: [&str; 8] = [
    "/x/../",
    "/x/%2e%2e/",
    "/healthz/../",
    "/healthz/%2E%2E/",
    "/healthz/..%2f",
    "/healthz;/..;/",
    "/..;/",
    "/%2f/",
];

#[rustfmt::skip]
const ENDS: [&str; 27] = [
    "/", "//", "/.", "/..", "/%2e", "%20", "%00", "%0a", "%0d%0a", ".", "..", ";", ";a=b", "?", "?/healthz", "?key=x", "#",
    "%23", "%3f", ".json", "/healthz", "/../healthz", "%2fhealthz", "\t", "~", "*", "%2f..%2fhealthz",
];

#[rustfmt::skip]
const STARTS: [&str; 16] = [
    "//", "/./", "/../", "/.//", "/%2f", "/%2e%2e", "/;", "/healthz", "/healthz?", "/healthz/", "/readyz/..",
    "http://127.0.0.1", "http://localhost/healthz?", "//127.0.0.1", "///", "x",
];

/// What a path may be made into. Some mean the same, some nothing; none may open anything.
fn disguises(path: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::from([path.to_owned(), path.to_uppercase()]);
    for lower in [false, true] {
        for at in 1..path.chars().count() {
            all.insert(escaped(path, lower, |index, _| index == at));
        }
        all.insert(escaped(path, lower, |index, _| index > 0));
        all.insert(escaped(path, lower, |index, c| index > 0 && c == '/'));
    }
    all.insert(escaped(path, false, |index, _| index > 0).replace('%', "%25"));
    all.extend(SLASHES.map(|slash| path.replace('/', slash)));
    all.extend(FIRST.map(|slash| path.replacen('/', slash, 1)));
    all.extend(ENDS.map(|end| format!("{path}{end}")));
    all.extend(STARTS.map(|start| format!("{start}{path}")));
    all
}

const METHODS: [&str; 9] =
    ["GET", "POST", "HEAD", "DELETE", "PUT", "PATCH", "OPTIONS", "TRACE", "CONNECT"];

/// Everything that asks for a key, disguised.
fn targets(secret: &str) -> Vec<String> {
    let mut targets: Vec<_> =
        ["/mcp", "/sse", "/message", "/status", "/metrics", "/servers/demo/mcp", "/ws"]
            .map(ToOwned::to_owned)
            .to_vec();
    targets.push(format!("/servers/{secret}/mcp"));
    targets.push("/groups/vaultgroup/mcp".to_owned());
    targets
}

const HELLO: &str = r#"{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"stranger","version":"1"}}}"#;

async fn ask(
    gateway: &Gateway,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> Option<Reply> {
    let is_post = method == "POST";
    let body = if is_post { HELLO.as_bytes() } else { b"" };
    let mut all = http::POST.to_vec();
    if !is_post {
        all = vec![("Accept", "application/json, text/event-stream")];
    }
    all.extend(headers);
    all.push(("Connection", "close"));
    let bytes = request(&format!("{method} {path}"), gateway.port, &all, body);
    let mut connection = Connection::open(gateway.port).await.ok()?.patient(PATIENCE);
    connection.send(&bytes).await.ok()?;
    if method == "HEAD" {
        let (status, head) = connection.head().await.ok()?;
        return Some(Reply { status, head, body: Vec::new() });
    }
    connection.reply().await.ok()
}

/// Whether it says no more than that we are well.
fn is_page_for_all(reply: &Reply) -> bool {
    matches!(reply.body.as_slice(), b"ok" | b"ok\n" | b"not yet" | b"read it\n")
        || reply.body.is_empty() && reply.status == 204
}

/// Tries every disguise of every path without a key; how many.
pub(super) async fn without_key(gateway: &Gateway, secret: &str) -> Result<u64, String> {
    let mut times = 0;
    for target in targets(secret) {
        for path in disguises(&target) {
            let method = METHODS[usize::try_from(times).unwrap_or(0) % METHODS.len()];
            for method in ["GET", method] {
                times += 1;
                let Some(reply) = ask(gateway, method, &path, &[]).await else { continue };
                let is_open = reply.status < 300 && !(method == "HEAD" || is_page_for_all(&reply));
                if is_open
                    || reply.text().contains("protocolVersion")
                    || tells(&reply, secret, &path)
                {
                    return Err(format!(
                        "{method} {path} without a key: {} {:.200}",
                        reply.status,
                        reply.text()
                    ));
                }
            }
        }
    }
    gateway.lives().map(|()| times)
}

/// Whether an answer has a name in it that the request did not.
fn tells(reply: &Reply, secret: &str, path: &str) -> bool {
    let has = |name: &str| reply.text().contains(name) && !path.contains(name);
    has(secret) || has("vaultgroup")
}

/// The same for somebody with a key who may not see the secret server.
pub(super) async fn with_less(gateway: &Gateway, secret: &str) -> Result<u64, String> {
    let mut times = 0;
    let key = [("X-API-Key", ADA)];
    for target in [
        format!("/servers/{secret}/mcp"),
        "/groups/vaultgroup/mcp".to_owned(),
        "/status".to_owned(),
        "/metrics".to_owned(),
    ] {
        let nothing = ask(gateway, "POST", "/servers/nobody/mcp", &key).await.ok_or("no answer")?;
        for path in disguises(&target) {
            for method in METHODS {
                times += 1;
                let Some(reply) = ask(gateway, method, &path, &key).await else { continue };
                let is_open = reply.status < 300
                    && !(matches!(method, "HEAD" | "OPTIONS") || is_page_for_all(&reply));
                if is_open || tells(&reply, secret, &path) {
                    return Err(format!(
                        "{method} {path} with less: {} {:.200}",
                        reply.status,
                        reply.text()
                    ));
                }
            }
        }
        if target.starts_with("/servers") {
            let there = ask(gateway, "POST", &target, &key).await.ok_or("no answer")?;
            if (there.status, &there.body) != (nothing.status, &nothing.body) {
                return Err(format!(
                    "{target} answers {} where nothing answers {}",
                    there.status, nothing.status
                ));
            }
        }
    }
    gateway.lives().map(|()| times)
}
