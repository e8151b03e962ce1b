//! HTTP/2 with prior knowledge, written as raw frames: floods, and every rule broken once.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::SOON;
use crate::campaign::{Campaign, Verdict, ensure};
use crate::gateway::Gateway;

/// How long a peer is watched that need not hang up.
const LOOK: Duration = Duration::from_millis(700);

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(0).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A header, spelled out: never indexed, no Huffman code.
fn literal(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0x10];
    for text in [name, value] {
        // Up to 126 bytes a length is one byte, beyond that what is over follows in sevens.
        if text.len() < 127 {
            bytes.push(u8::try_from(text.len()).unwrap_or(0));
        } else {
            bytes.push(127);
            let mut rest = text.len() - 127;
            while rest >= 128 {
                bytes.push(u8::try_from(rest % 128).unwrap_or(0) | 128);
                rest /= 128;
            }
            bytes.push(u8::try_from(rest).unwrap_or(0));
        }
        bytes.extend(text.as_bytes());
    }
    bytes
}

/// The head of a request.
fn head(method: &str, path: &str, port: u16) -> Vec<u8> {
    let authority = format!("127.0.0.1:{port}");
    [
        (":method", method),
        (":scheme", "http"),
        (":path", path),
        (":authority", authority.as_str()),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
    ]
    .iter()
    .flat_map(|(name, value)| literal(name, value))
    .collect()
}

/// Opens a connection, says hello, sends `frames`, reads whatever comes until the peer hangs
/// up or `patience` is over. Whether the peer hung up.
async fn play(port: u16, frames: &[u8], patience: Duration) -> bool {
    let Ok(stream) = TcpStream::connect(("127.0.0.1", port)).await else { return true };
    let (mut reader, mut writer) = stream.into_split();
    let hello = [PREFACE, &frame(SETTINGS, 0, 0, &[]), frames].concat();
    let write = async {
        // The peer may hang up at any byte; that is what we want to see.
        _ = writer.write_all(&hello).await;
        _ = writer.flush().await;
        writer
    };
    let read = async {
        let mut buffer = vec![0; 64 << 10];
        while matches!(reader.read(&mut buffer).await, Ok(1..)) {}
    };
    let both = async {
        // Both at once: a peer that answers each frame must not wait for us to read.
        let (_writer, ()) = tokio::join!(write, read);
    };
    timeout(patience, both).await.is_ok()
}

async fn all(gateway: &Gateway, each: &[(&str, Vec<u8>)]) -> Verdict {
    for (what, frames) in each {
        play(gateway.port, frames, LOOK).await;
        gateway.lives().map_err(|why| format!("{what}: {why}"))?;
        gateway.is_well(Duration::from_secs(10)).await.map_err(|why| format!("{what}: {why}"))?;
    }
    Ok(each.len() as u64)
}

pub(super) async fn floods(cx: &Campaign, gateway: &Gateway) -> Verdict {
    let many = cx.size(20_000, 200_000);
    let flood = |one: Vec<u8>| one.repeat(many);
    let setting = [&[0, 4][..], &[0, 0, 255, 255]].concat();
    let get = frame(HEADERS, END_HEADERS, 1, &head("POST", "/mcp", gateway.port));
    let mut data = get.clone();
    data.extend(flood(frame(DATA, 0, 1, b"")));
    let each = [
        ("empty SETTINGS", flood(frame(SETTINGS, 0, 0, b""))),
        ("changing SETTINGS", flood(frame(SETTINGS, 0, 0, &setting))),
        ("acknowledged SETTINGS", flood(frame(SETTINGS, 1, 0, b""))),
        ("PING", flood(frame(PING, 0, 0, b"12345678"))),
        ("PRIORITY", flood(frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 5]))),
        ("WINDOW_UPDATE", flood(frame(WINDOW, 0, 0, &[0, 0, 0, 1]))),
        ("empty DATA", data),
        ("unknown frames", flood(frame(0xfe, 0xff, 0, b"x"))),
    ];
    let mut times = 0;
    for (what, frames) in each {
        times += all(gateway, &[(what, frames)]).await?;
    }
    Ok(times * many as u64)
}

pub(super) async fn streams(cx: &Campaign, gateway: &Gateway) -> Verdict {
    let many = u32::try_from(cx.size(5_000, 50_000)).unwrap_or(5_000);
    let post = head("POST", "/mcp", gateway.port);
    let mut rapid = Vec::new();
    let mut unfinished = Vec::new();
    for number in 0..many {
        let stream = number * 2 + 1;
        rapid.extend(frame(
            HEADERS,
            END_HEADERS | END_STREAM,
            stream,
            &head("GET", "/status", gateway.port),
        ));
        rapid.extend(frame(RST, 0, stream, &[0, 0, 0, 8]));
        unfinished.extend(frame(HEADERS, END_HEADERS, stream, &post));
    }
    let mut endless = frame(HEADERS, 0, 1, &post);
    endless.extend(frame(CONTINUATION, 0, 1, &literal("x", &"y".repeat(8000))).repeat(3_000));
    let mut empty = frame(HEADERS, 0, 1, &post);
    empty.extend(frame(CONTINUATION, 0, 1, b"").repeat(many as usize));
    // One large entry for the table, then a reference to it, a byte each.
    let mut bomb = post.clone();
    bomb.push(0x40);
    bomb.extend(&literal("x", &"y".repeat(3_900))[1..]);
    bomb.extend(std::iter::repeat_n(0xbe_u8, 12_000));
    let each = [
        ("rapid reset", rapid),
        ("streams that never end", unfinished),
        ("CONTINUATION without end", endless),
        ("empty CONTINUATION", empty),
        ("a header bomb", frame(HEADERS, END_HEADERS | END_STREAM, 1, &bomb)),
    ];
    all(gateway, &each).await.map(|times| times * u64::from(many))
}

/// Frames that break one rule each.
fn wrong_frames(gateway: &Gateway) -> Vec<(&'static str, Vec<u8>)> {
    let get = head("GET", "/healthz", gateway.port);
    let post = head("POST", "/mcp", gateway.port);
    let open = frame(HEADERS, END_HEADERS, 1, &post);
    let after = |more: Vec<u8>| [open.clone(), more].concat();
    vec![
        ("HEADERS on stream 0", frame(HEADERS, END_HEADERS | END_STREAM, 0, &get)),
        ("HEADERS on an even stream", frame(HEADERS, END_HEADERS | END_STREAM, 2, &get)),
        ("DATA on an idle stream", frame(DATA, 0, 5, b"x")),
        ("DATA on stream 0", frame(DATA, 0, 0, b"x")),
        ("SETTINGS on a stream", frame(SETTINGS, 0, 1, b"")),
        ("SETTINGS of 5 bytes", frame(SETTINGS, 0, 0, b"12345")),
        ("SETTINGS with a window too large", frame(SETTINGS, 0, 0, &[0, 4, 255, 255, 255, 255])),
        ("SETTINGS with a frame size too small", frame(SETTINGS, 0, 0, &[0, 5, 0, 0, 0, 1])),
        ("PING of 7 bytes", frame(PING, 0, 0, b"1234567")),
        ("PING on a stream", frame(PING, 0, 1, b"12345678")),
        ("WINDOW_UPDATE by 0", after(frame(WINDOW, 0, 1, &[0, 0, 0, 0]))),
        ("a window beyond its end", frame(WINDOW, 0, 0, &[0x7f, 255, 255, 255]).repeat(3)),
        (
            "a stream's window beyond its end",
            after(frame(WINDOW, 0, 1, &[0x7f, 255, 255, 255]).repeat(3)),
        ),
        ("PUSH_PROMISE of a client", after(frame(PUSH, END_HEADERS, 1, &[0, 0, 0, 2]))),
        ("RST of an idle stream", frame(RST, 0, 9, &[0, 0, 0, 0])),
    ]
}

/// Heads, lengths and ends that break one rule each.
fn wrong_heads(gateway: &Gateway) -> Vec<(&'static str, Vec<u8>)> {
    let get = head("GET", "/healthz", gateway.port);
    let post = head("POST", "/mcp", gateway.port);
    let open = frame(HEADERS, END_HEADERS, 1, &post);
    let after = |more: Vec<u8>| [open.clone(), more].concat();
    vec![
        ("CONTINUATION of nothing", frame(CONTINUATION, END_HEADERS, 1, &get)),
        (
            "another frame inside HEADERS",
            [frame(HEADERS, 0, 1, &get), frame(PING, 0, 0, b"12345678")].concat(),
        ),
        ("a frame of 1 MiB", frame(DATA, 0, 1, &vec![0; 1 << 20])),
        ("a length of 16 MiB and nothing", vec![0xff, 0xff, 0xff, DATA, 0, 0, 0, 0, 1]),
        ("padding longer than the frame", after(frame(DATA, 8, 1, &[255, 1, 2]))),
        ("HPACK that is none", frame(HEADERS, END_HEADERS | END_STREAM, 1, &[0xff; 64])),
        (
            "an index that is not there",
            frame(HEADERS, END_HEADERS | END_STREAM, 1, &[0xff, 0xff, 0xff, 0x7f]),
        ),
        ("no :path", frame(HEADERS, END_HEADERS | END_STREAM, 1, &literal(":method", "GET"))),
        (
            "upper-case names",
            frame(
                HEADERS,
                END_HEADERS | END_STREAM,
                1,
                &[get.clone(), literal("X-A", "b")].concat(),
            ),
        ),
        (
            "a Connection header",
            frame(
                HEADERS,
                END_HEADERS | END_STREAM,
                1,
                &[get.clone(), literal("connection", "close")].concat(),
            ),
        ),
        (
            "a length that lies",
            [
                frame(
                    HEADERS,
                    END_HEADERS,
                    1,
                    &[post.clone(), literal("content-length", "5")].concat(),
                ),
                frame(DATA, END_STREAM, 1, b"123456789"),
            ]
            .concat(),
        ),
        (
            "two authorities",
            frame(
                HEADERS,
                END_HEADERS | END_STREAM,
                1,
                &[get.clone(), literal(":authority", "evil.example")].concat(),
            ),
        ),
        ("GOAWAY and more", [frame(GOAWAY, 0, 0, &[0; 8]), open.clone()].concat()),
        ("HEADERS twice", after(frame(HEADERS, END_HEADERS, 1, &post))),
        ("more data than the window", after(frame(DATA, 0, 1, &[b'x'; 16_384]).repeat(200))),
    ]
}

pub(super) async fn rules(cx: &Campaign, gateway: &Gateway) -> Verdict {
    let broken = [wrong_frames(gateway), wrong_heads(gateway)].concat();
    let mut times = all(gateway, &broken).await?;
    // Windows of nothing: answers wait for a client that never wants them.
    let starve = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    let mut starved = starve.clone();
    for number in 0..50 {
        starved.extend(frame(
            HEADERS,
            END_HEADERS | END_STREAM,
            number * 2 + 1,
            &head("GET", "/metrics", gateway.port),
        ));
    }
    times += all(gateway, &[("windows of nothing", starved)]).await?;
    let connections = cx.size(20, 200);
    let mut half = Vec::new();
    for number in 0..connections {
        let mut stream = TcpStream::connect(("127.0.0.1", gateway.port))
            .await
            .map_err(|error| error.to_string())?;
        let sent = stream.write_all(&PREFACE[..number % PREFACE.len()]).await;
        sent.map_err(|error| error.to_string())?;
        half.push(stream);
    }
    gateway.is_well(Duration::from_secs(10)).await?;
    if !cx.is_quick {
        for mut stream in half {
            let mut rest = Vec::new();
            let gone = timeout(SOON, stream.read_to_end(&mut rest)).await;
            ensure(gone.is_ok(), || "half a preface holds a connection for ever".to_owned())?;
        }
    }
    Ok(times + connections as u64)
}
