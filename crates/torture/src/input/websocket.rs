//! `WebSockets` whose frames break the rules.

use std::time::Duration;

use serde_json::json;

use super::GROWTH;
use crate::campaign::{Campaign, Verdict, ensure};
use crate::gateway::{Gateway, Plan};
use crate::http::{Connection, Lost, request};

/// A frame of a client: masked with zeros unless it is not to be.
fn frame(first: u8, payload: &[u8], is_masked: bool) -> Vec<u8> {
    let mask = if is_masked { 0x80 } else { 0 };
    let mut bytes = vec![first];
    match payload.len() {
        length @ 0..=125 => bytes.push(mask | u8::try_from(length).unwrap_or(0)),
        length @ 126..=0xffff => {
            bytes.push(mask | 0x7e);
            bytes.extend(u16::try_from(length).unwrap_or(0).to_be_bytes());
        }
        length => {
            bytes.push(mask | 0x7f);
            bytes.extend((length as u64).to_be_bytes());
        }
    }
    if is_masked {
        bytes.extend([0; 4]);
    }
    bytes.extend(payload);
    bytes
}

/// Frames, and whether the socket must be closed for them.
fn frames() -> Vec<(&'static str, Vec<u8>, bool)> {
    let ping = br#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#;
    let huge = [&[0x81, 0x80 | 0x7f][..], &u64::MAX.to_be_bytes(), &[0; 4]].concat();
    let long = [&[0x81, 0x80 | 0x7f][..], &(1_u64 << 40).to_be_bytes(), &[0; 4]].concat();
    let mut fragments = frame(0x01, b"[", true);
    fragments.extend(frame(0x00, &vec![b'['; 1 << 20], true).repeat(64));
    vec![
        ("unmasked", frame(0x81, ping, false), true),
        ("a reserved bit", frame(0xc1, ping, true), true),
        ("all reserved bits", frame(0xf1, ping, true), true),
        ("opcode 3", frame(0x83, ping, true), true),
        ("opcode 15", frame(0x8f, ping, true), true),
        ("a ping in pieces", frame(0x09, b"x", true), true),
        ("a close in pieces", frame(0x08, &[3, 232], true), true),
        ("a ping of 126 bytes", frame(0x89, &[0; 126], true), true),
        ("a close of one byte", frame(0x88, &[3], true), true),
        ("a close with a code that is none", frame(0x88, &[0, 1], true), true),
        ("a close with a text that is none", frame(0x88, &[3, 232, 0xff], true), true),
        ("a piece of nothing", frame(0x80, ping, true), true),
        (
            "a message inside a message",
            [frame(0x01, b"{", true), frame(0x81, ping, true)].concat(),
            true,
        ),
        ("a text that is none", frame(0x81, b"\xff\xfe", true), true),
        ("a length of 2^64-1", huge, true),
        ("a length of 2^40", long, true),
        ("a message of 64 MiB in pieces", fragments, true),
        ("binary", frame(0x82, ping, true), false),
        ("no JSON", frame(0x81, b"hello", true), false),
        ("a batch of nothing", frame(0x81, b"[]", true), false),
        ("5,000 pings", frame(0x89, b"x", true).repeat(5_000), false),
        (
            "5,000 empty pieces",
            [frame(0x01, b"", true), frame(0x00, b"", true).repeat(5_000)].concat(),
            false,
        ),
    ]
}

async fn open(gateway: &Gateway) -> Result<Connection, Lost> {
    let headers = [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Protocol", "mcp"),
    ];
    let mut connection = Connection::open(gateway.port).await?.patient(Duration::from_secs(10));
    connection.send(&request("GET /ws", gateway.port, &headers, b"")).await?;
    match connection.head().await? {
        (101, _) => Ok(connection),
        (status, _) => Err(Lost::Garbage(format!("status {status}"))),
    }
}

pub(super) async fn run(cx: &Campaign) -> Verdict {
    let mut plan = Plan::new(json!({}));
    let words = [
        "bridge",
        "--port",
        "0",
        "--serve",
        "http,ws",
        "--health",
        "/healthz",
        "--children",
        "shared",
        "--session-timeout",
        "4",
        "--",
    ];
    let server = cx.hostile("tools");
    let mut words = words.map(ToOwned::to_owned).to_vec();
    words.push(server["command"].as_str().unwrap_or_default().to_owned());
    words.extend(["hostile", "tools"].map(ToOwned::to_owned));
    plan.instead = Some(words);
    let gateway = cx.gateway(&plan).await?;
    gateway.serves("echo").await?;
    let before = gateway.footprint().await?;
    let mut times = 0;
    for (what, bytes, must_close) in frames() {
        let mut connection = open(&gateway).await.map_err(|lost| format!("{what}: {lost}"))?;
        // It may hang up while we send.
        _ = connection.send(&bytes).await;
        if must_close {
            let gone = connection.closed().await;
            ensure(gone.is_ok(), || format!("{what}: the socket stays open"))?;
        }
        gateway.lives().map_err(|why| format!("{what}: {why}"))?;
        times += 1;
    }
    for (name, value) in
        [("Sec-WebSocket-Version", "7"), ("Upgrade", "h2c"), ("Origin", "http://evil.example")]
    {
        let headers = [
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("Sec-WebSocket-Version", "13"),
        ];
        let mut headers: Vec<_> = headers.into_iter().filter(|(key, _)| *key != name).collect();
        headers.push((name, value));
        let bytes = request("GET /ws", gateway.port, &headers, b"");
        let mut connection =
            Connection::open(gateway.port).await.map_err(|lost| lost.to_string())?;
        connection.send(&bytes).await.map_err(|lost| lost.to_string())?;
        let status = connection.head().await.map_or(0, |(status, _)| status);
        ensure(status != 101, || format!("{name}: {value} opens a socket"))?;
        times += 1;
    }
    gateway.serves("echo").await?;
    let peak = gateway.process.peak_memory().unwrap_or(0);
    ensure(peak < before.memory + GROWTH, || format!("memory grew to {} MiB", peak >> 20))?;
    cx.at_rest(&gateway, before).await.map(|()| times)
}
