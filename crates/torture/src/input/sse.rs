//! Event streams that are resumed where nothing was.

use serde_json::json;

use crate::caller::Era;
use crate::campaign::{Campaign, Verdict, ensure};
use crate::gateway::{Gateway, ROOT};
use crate::http::{self, Connection, PATIENCE, request};

fn event_ids() -> Vec<String> {
    let mut ids: Vec<String> = [
        "",
        "0",
        "-1",
        "1",
        "1-1",
        "0-0",
        "99999999999999999999",
        "1-99999999999999999999",
        "x",
        "null",
        "NaN",
        "1_2",
        "1-",
        "-",
        "--",
        "1-1-1",
        "%00",
        "../../etc",
        "\u{fc}",
        "1 1",
        "\t",
        "a".repeat(8000).as_str(),
        "1e9",
        "0x10",
        "18446744073709551615-18446744073709551615",
        "4294967296-1",
        "{}",
        "[1]",
        "'",
        "\"",
    ]
    .map(ToOwned::to_owned)
    .to_vec();
    ids.extend((0..100).flat_map(|stream| (0..3).map(move |event| format!("{stream}-{event}"))));
    ids
}

pub(super) async fn run(_: &Campaign, gateway: &Gateway) -> Verdict {
    let mut times = 0;
    // Somebody else's stream with something on it.
    let mut other = gateway.caller("/mcp", Era::Legacy);
    other.greet().await.map_err(|said| format!("{said}"))?;
    let mut caller = gateway.caller("/mcp", Era::Legacy);
    for id in event_ids() {
        caller.greet().await.map_err(|said| format!("{said}"))?;
        let session = caller.session.clone().unwrap_or_default();
        for (session, method) in
            [(session.as_str(), "GET"), ("unknown", "GET"), (&id, "GET"), (&id, "DELETE")]
        {
            times += 1;
            let headers = [
                ("X-API-Key", ROOT),
                ("Mcp-Session-Id", session),
                ("Last-Event-ID", id.as_str()),
                ("Accept", "text/event-stream"),
            ];
            let mut connection = Connection::open(gateway.port)
                .await
                .map_err(|lost| lost.to_string())?
                .patient(PATIENCE);
            let bytes = request(&format!("{method} /mcp"), gateway.port, &headers, b"");
            connection.send(&bytes).await.map_err(|lost| lost.to_string())?;
            let (status, _) = connection.head().await.map_err(|lost| format!("{id:?}: {lost}"))?;
            ensure((400..500).contains(&status) || status == 200 && session != "unknown", || {
                format!("{method} after {id:?} of session {session:?}: {status}")
            })?;
        }
        // It is as it was.
        if times % 80 == 0 {
            ensure(caller.echo("tools__echo", json!({})).await?, || {
                "the session is of no use".to_owned()
            })?;
        }
    }
    for session in ["", "x", "0", "../x", "%00", "a&sessionId=b", "\u{fc}", &"a".repeat(8000)] {
        let path = format!("/message?sessionId={session}");
        let body = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let reply = http::post(gateway.port, &path, &[("X-API-Key", ROOT)], body).await;
        let is_refused = reply.as_ref().map_or(true, |reply| reply.status >= 400);
        ensure(is_refused, || format!("{path}: {reply:?}"))?;
        times += 1;
    }
    other.leave().await;
    caller.leave().await;
    Ok(times)
}
