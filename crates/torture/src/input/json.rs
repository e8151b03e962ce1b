//! Bodies that are no JSON, or JSON that is no message.

use serde_json::{Value, json};

use crate::caller::{Caller, ERAS, Era};
use crate::campaign::{Campaign, Verdict, ensure};
use crate::gateway::{Gateway, ROOT};
use crate::http::{self, Reply};

/// A message in which `place` stands for one argument.
fn call_with(argument: &[u8]) -> Vec<u8> {
    let start = br#"{"jsonrpc":"2.0","id":"bad","method":"tools/call","params":{"name":"tools__echo","arguments":{"message":"#;
    [&start[..], argument, b"}}}"].concat()
}

/// Bodies that are no JSON, or hardly; and whether each may be answered with a result.
fn no_json() -> Vec<(&'static str, Vec<u8>, bool)> {
    let deep = |open: &str, close: &str, levels: usize| {
        call_with(format!("{}{}", open.repeat(levels), close.repeat(levels)).as_bytes())
    };
    vec![
        ("nothing", Vec::new(), false),
        ("NUL", vec![0; 64], false),
        ("white space", vec![b' '; 4096], false),
        ("a byte order mark", [b"\xef\xbb\xbf".to_vec(), call_with(b"\"x\"")].concat(), true),
        ("UTF-16", call_with(b"\"x\"").iter().flat_map(|byte| [*byte, 0]).collect(), false),
        ("bad UTF-8", call_with(b"\"\xff\xfe\""), false),
        ("an overlong slash", call_with(b"\"\xc0\xaf\""), false),
        ("a surrogate in UTF-8", call_with(b"\"\xed\xa0\x80\""), false),
        ("a lone surrogate", call_with(b"\"\\ud800\""), true),
        ("NUL in a string", call_with(b"\"\0\""), false),
        ("an escaped NUL", call_with(b"\"\\u0000\""), true),
        ("a bad escape", call_with(b"\"\\x41\""), false),
        ("a string without end", call_with(b"\"x"), false),
        ("arrays, 100,000 deep", deep("[", "]", 100_000), false),
        ("objects, 100,000 deep", deep("{\"a\":", "}", 100_000), false),
        ("open brackets alone", vec![b'['; 1 << 20], false),
        ("a number of 100,000 digits", call_with("9".repeat(100_000).as_bytes()), true),
        ("a number of 10^1000000", call_with(b"1e1000000"), true),
        ("NaN", call_with(b"NaN"), false),
        ("a number with a leading zero", call_with(b"01"), false),
        ("a comment", call_with(b"\"x\" /* hello */"), false),
        ("a trailing comma", call_with(b"\"x\","), false),
    ]
}

/// JSON that is no message, or an odd one; and whether each may be answered with a result.
fn no_message() -> Vec<(&'static str, Vec<u8>, bool)> {
    let text = |text: &str| text.as_bytes().to_vec();
    vec![
        ("two messages in one body", [call_with(b"\"x\""), call_with(b"\"y\"")].concat(), false),
        ("an empty batch", text("[]"), false),
        (
            "a batch of 10,000",
            text(&format!(
                "[{}]",
                vec![r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#; 10_000].join(",")
            )),
            true,
        ),
        ("batches in batches", text("[[[[]]]]"), false),
        ("a number", text("42"), false),
        ("a string", text("\"hello\""), false),
        ("null", text("null"), false),
        ("no message", text(r#"{"hello":"world"}"#), false),
        ("id null", text(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#), true),
        ("an id that is a list", text(r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#), false),
        (
            "an id of 1 MiB",
            text(&format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#, "x".repeat(1 << 20))),
            true,
        ),
        ("two ids", text(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#), true),
        (
            "two methods",
            text(r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":{}}"#),
            true,
        ),
        (
            "two names",
            text(
                r#"{"jsonrpc":"2.0","id":"bad","method":"tools/call","params":{"name":"tools__echo","name":"tools__die"}}"#,
            ),
            false,
        ),
        (
            "a name in other letters",
            text(
                r#"{"jsonrpc":"2.0","id":"bad","method":"tools/call","params":{"name":"tools__echo","Name":"tools__die"}}"#,
            ),
            false,
        ),
        (
            "an escaped key beside a plain one",
            text(
                r#"{"jsonrpc":"2.0","id":"bad","method":"tools/call","params":{"name":"tools__echo","n\u0061me":"tools__die"}}"#,
            ),
            false,
        ),
        ("JSON-RPC 1.0", text(r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#), false),
        (
            "params that are a list",
            text(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[1,2]}"#),
            false,
        ),
        ("an answer that nobody waits for", text(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), true),
        ("result and error", text(r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#), true),
        (
            "a method of 1 MiB",
            text(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}"}}"#, "m".repeat(1 << 20))),
            false,
        ),
        ("a body of 33 MiB", vec![b'a'; 33 << 20], false),
    ]
}

async fn post(gateway: &Gateway, session: Option<&str>, body: &[u8]) -> Result<Reply, String> {
    let mut headers = vec![("X-API-Key", ROOT)];
    headers.extend(session.map(|session| ("Mcp-Session-Id", session)));
    http::post(gateway.port, "/mcp", &headers, body).await.map_err(|lost| lost.to_string())
}

pub(super) async fn spelled_out(_: &Campaign, gateway: &Gateway) -> Verdict {
    let mut caller = gateway.caller("/mcp", Era::Legacy);
    let mut times = 0;
    for (what, body, may_work) in no_json().into_iter().chain(no_message()) {
        caller.greet().await.map_err(|said| format!("{said}"))?;
        for session in [None, caller.session.clone()] {
            let reply = match post(gateway, session.as_deref(), &body).await {
                Ok(reply) => reply,
                // What is too large may be cut off while it is still being sent.
                Err(_) if body.len() > 32 << 20 => continue,
                Err(why) => return Err(format!("{what}: {why}")),
            };
            let is_result = reply.messages().iter().any(|message| !message["result"].is_null());
            ensure(reply.status != 500 && (may_work || !is_result), || {
                format!("{what} is answered with {}: {:.200}", reply.status, reply.text())
            })?;
            times += 1;
        }
        // The session is the caller's, and none the worse for it.
        ensure(caller.echo("tools__echo", json!({})).await?, || format!("no call after {what}"))?;
    }
    caller.leave().await;
    Ok(times)
}

pub(super) async fn mutated(cx: &Campaign, gateway: &Gateway) -> Verdict {
    let mut random = cx.random.fork(11);
    let count = cx.size(600, 20_000) as u64;
    for era in ERAS {
        let mut caller: Caller = gateway.caller("/mcp", era);
        caller.greet().await.map_err(|said| format!("{said}"))?;
        for number in 0..count / 2 {
            let params = json!({"name": "tools__echo", "arguments": {"message": "x", "more": [1, 2.5, null, {"a": "ö"}]}});
            let (_, bytes) = caller.bytes("tools/call", params);
            let at = bytes.windows(4).position(|four| four == b"\r\n\r\n").map_or(0, |at| at + 4);
            let mut body = bytes[at..].to_vec();
            for _ in 0..=random.below(3) {
                let place = usize::try_from(random.below(body.len() as u64)).unwrap_or(0);
                let byte = random.next().to_le_bytes()[0];
                match random.below(4) {
                    0 => body[place] = byte,
                    1 => body.insert(place, byte),
                    2 => body.truncate(place.max(1)),
                    _ => body.insert(place, *random.pick(b"{}[]\",:\\\x00\n")),
                }
            }
            let head = String::from_utf8_lossy(&bytes[..at]).into_owned();
            let lines =
                head.lines().filter(|line| !line.is_empty() && !line.starts_with("Content-Length"));
            let head = lines.collect::<Vec<_>>().join("\r\n");
            let request =
                [format!("{head}\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), &body]
                    .concat();
            let reply = caller.exchange(&request).await;
            let reply = reply.map_err(|lost| {
                format!("body {number}: {lost}: {}", String::from_utf8_lossy(&body))
            })?;
            ensure(reply.status != 500, || format!("500 for {}", String::from_utf8_lossy(&body)))?;
            is_an_answer(&reply)?;
        }
        caller.session = None;
    }
    Ok(count)
}

/// Whatever was sent: what comes back is one message, or nothing.
fn is_an_answer(reply: &Reply) -> Result<(), String> {
    let odd = |message: &Value| message["jsonrpc"] != "2.0";
    let is_odd = reply
        .messages()
        .iter()
        .flat_map(|message| message.as_array().cloned().unwrap_or_else(|| vec![message.clone()]))
        .any(|message| odd(&message));
    ensure(!is_odd, || format!("answered with no message: {:.200}", reply.text()))
}
