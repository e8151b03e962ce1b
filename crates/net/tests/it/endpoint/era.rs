//! Both eras on one endpoint, and the answers observed at other servers.

use http::Method;
use serde_json::{Value, json};
use switchboard_net::http::site::SiteOptions;

use super::start;
use crate::client::{Client, LEGACY, MODERN, call, enveloped, initialize, request};

/// wire: NEG-10, MOD-2, VAL-1, MH-10
#[tokio::test]
async fn clients_of_both_eras_are_served_side_by_side() {
    let mut set = start(SiteOptions::default()).await;
    let legacy = Client::ready(set.way.clone(), LEGACY).await;
    assert_eq!(set.stage.noted().await.1, "notifications/initialized");
    let mut modern = Client::modern(set.way.clone());
    // Means nothing here, and must not make it a legacy client.
    modern.session = legacy.session.clone();
    let message = enveloped(call(1, "m"));
    let plain = call(1, "l");
    let (old, new, ()) = tokio::join!(legacy.post(&plain), modern.post(&message), async {
        for _ in 0..2 {
            let call = set.stage.call().await;
            call.finish(&json!({"from": call.tool()}));
        }
    });
    assert_eq!(old.json().await["result"]["from"], "l");
    assert_eq!(new.header("mcp-session-id"), None);
    assert_eq!(new.json().await["result"]["from"], "m");
    set.stopped().await;
}

/// What to call it, the message, headers to change, and the status and code of the answer.
type Case<'a> = (&'a str, &'a Value, Vec<(&'static str, Option<&'static str>)>, u16, i64);

/// The vectors of section 12 that do not depend on the server inside.
///
/// wire: HDR-1, HDR-2, HDR-3, HDR-11, META-1, NEG-1, MH-13, MH-14, MH-16, GW-57
#[tokio::test]
async fn broken_envelopes_are_refused_as_others_refuse_them() {
    let set = start(SiteOptions::default()).await;
    let modern = Client::modern(set.way.clone());
    let list = enveloped(request(7, "tools/list"));
    let mut future = list.clone();
    future["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    let mut older = list.clone();
    older["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(LEGACY);
    let mut bare = list.clone();
    bare["params"]["_meta"]
        .as_object_mut()
        .unwrap()
        .remove("io.modelcontextprotocol/clientCapabilities");

    let version = |text: &'static str| vec![("mcp-protocol-version", Some(text))];
    let cases: [Case<'_>; 13] = [
        ("no version header", &list, vec![("mcp-protocol-version", None)], 400, -32020),
        ("no Mcp-Method", &list, vec![("mcp-method", None)], 400, -32020),
        ("wrong Mcp-Method", &list, vec![("mcp-method", Some("tools/call"))], 400, -32020),
        ("no Mcp-Name", &enveloped(call(7, "x")), vec![("mcp-name", None)], 400, -32020),
        ("wrong Mcp-Name", &enveloped(call(7, "x")), vec![("mcp-name", Some("y"))], 400, -32020),
        ("no envelope", &request(7, "tools/list"), vec![], 400, -32602),
        ("no capabilities", &bare, vec![], 400, -32602),
        ("unknown version", &future, version("2099-01-01"), 400, -32022),
        ("legacy envelope", &older, version(LEGACY), 400, -32022),
        ("legacy header", &list, version(LEGACY), 400, -32020),
        ("initialize", &initialize(LEGACY), vec![], 400, -32020),
        ("enveloped initialize", &enveloped(initialize(LEGACY)), vec![], 404, -32601),
        ("enveloped ping", &enveloped(request(7, "ping")), vec![], 404, -32601),
    ];
    for (name, message, changes, status, code) in cases {
        let mut post = modern.posting(message);
        let headers = post.headers_mut().unwrap();
        for (header, value) in changes {
            headers.remove(header);
            if let Some(value) = value {
                headers.insert(http::HeaderName::from_static(header), value.parse().unwrap());
            }
        }
        let reply = modern.send(post, message.to_string()).await;
        assert_eq!(reply.status, status, "{name}");
        let body = reply.json().await;
        assert_eq!(body["error"]["code"], code, "{name}: {body}");
        assert_eq!(body["id"], message["id"], "{name}");
        if code == -32022 {
            assert_eq!(body["error"]["data"]["supported"], json!([MODERN]), "{name}");
        }
    }
    assert_eq!(modern.post(&list).await.json().await["id"], 7);
    set.stopped().await;
}

/// wire: MH-13, MH-14
#[tokio::test]
async fn errors_of_the_inside_get_the_status_of_their_code() {
    let mut set = start(SiteOptions::default()).await;
    let modern = Client::modern(set.way.clone());
    for (code, status) in [(-32601, 404), (-32021, 400), (-32602, 200), (-32603, 200)] {
        let message = enveloped(call("x", "t"));
        let (reply, ()) =
            tokio::join!(modern.post(&message), async { set.stage.call().await.fail(code) });
        assert_eq!(reply.status, status, "{code}");
        let body = reply.json().await;
        assert_eq!((&body["id"], &body["error"]["code"]), (&json!("x"), &json!(code)));
    }
    set.stopped().await;
}

/// The TypeScript client ends a listen with a notification that has the version
/// header and no other; it is accepted and means nothing here.
///
/// wire: CAN-1, HDR-4, MH-4
#[tokio::test]
async fn modern_notifications_are_accepted_without_a_session() {
    let mut set = start(SiteOptions::default()).await;
    let modern = Client::modern(set.way.clone());
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "l1"}});
    let mut post = modern.posting(&cancelled);
    post.headers_mut().unwrap().remove("mcp-method");
    let reply = modern.send(post, cancelled.to_string()).await;
    assert_eq!((reply.status.as_u16(), reply.text().await.as_str()), (202, ""));
    assert!(set.stage.is_silent());
    set.stopped().await;
}

/// wire: HTTP-13
#[tokio::test]
async fn a_get_that_names_no_stream_is_told_what_this_is() {
    let set = start(SiteOptions::default()).await;
    let client = Client::new(set.way.clone());
    for accept in [None, Some("*/*"), Some("text/html,application/xhtml+xml,*/*;q=0.8")] {
        let mut get = client.request(Method::GET, "/mcp");
        if let Some(accept) = accept {
            get = get.header("accept", accept);
        }
        let reply = client.send(get, "").await;
        assert_eq!(reply.status, 200);
        let told = reply.json().await;
        assert_eq!(told["endpoint"], "/mcp");
        assert_eq!(told["protocolVersions"][0], MODERN);
    }
    set.stopped().await;
}
