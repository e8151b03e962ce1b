//! What clients say without wanting an answer.

use bytes::Bytes;
use serde_json::{Value, json};
use switchboard_net::server::{Builder, Context, Error, Handler, Notice, Request, Server, Tool};
use tokio::sync::mpsc;

use super::{LEGACY, MODERN, fixture, serve};
use switchboard_testkit::within;

fn hearing() -> (Builder, mpsc::Receiver<String>) {
    let (told, tell) = mpsc::channel(16);
    let builder = fixture().on_notification(move |notice: Notice| {
        let told = told.clone();
        async move {
            let x = notice.param(&["x"]).map(<[u8]>::to_vec).unwrap_or_default();
            let x = String::from_utf8(x).unwrap();
            told.send(format!("{} {} {x}", notice.revision(), notice.method())).await.unwrap();
        }
    });
    (builder, tell)
}

#[tokio::test]
async fn whatever_a_client_says_is_heard_in_its_order() {
    for revision in LEGACY {
        let (builder, mut tell) = hearing();
        let mut client = serve(builder);
        client.greet(revision, json!({"roots": {"listChanged": true}})).await;
        let said = ["roots/list_changed", "progress", "elicitation/other", "x/custom"];
        for (x, method) in said.iter().enumerate() {
            let method = format!("notifications/{method}");
            client.say(json!({"jsonrpc": "2.0", "method": method, "params": {"x": x}})).await;
        }
        for (x, method) in said.iter().enumerate() {
            let expected = format!("{revision} notifications/{method} {x}");
            assert_eq!(within(tell.recv()).await, Some(expected));
        }
        // The handshake is no news, and a cancelled call is told by itself.
        let cancel = json!({"requestId": "none"});
        client
            .say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel}))
            .await;
        client.call("ping", json!({})).await;
        assert!(tell.try_recv().is_err());
    }
}

#[tokio::test]
async fn a_modern_client_is_heard_too() {
    let (builder, mut tell) = hearing();
    let mut client = serve(builder);
    let params = client.envelope(json!({"x": "y"}));
    client.say(json!({"jsonrpc": "2.0", "method": "notifications/x", "params": params})).await;
    assert_eq!(within(tell.recv()).await, Some(format!("{MODERN} notifications/x \"y\"")));
}

#[tokio::test]
async fn a_notification_over_http_is_taken_and_heard() {
    let (builder, mut tell) = hearing();
    let web = super::web::Web::of(builder).await;
    let session = web.greet("2025-06-18", json!({})).await;
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
    assert_eq!(web.legacy(&session, &changed).await.status, 202);
    let expected = "2025-06-18 notifications/roots/list_changed ".to_owned();
    assert_eq!(within(tell.recv()).await, Some(expected));
    web.stopped().await;
}

struct Forwards(mpsc::Sender<Notice>);

impl Handler for Forwards {
    async fn call(&self, call: Request, _: Context) -> Result<Bytes, Error> {
        Err(Error::unknown_method(call.method()))
    }

    async fn notified(&self, notice: Notice) {
        assert_ne!(notice.method(), "notifications/bad", "on purpose");
        self.0.send(notice).await.unwrap();
    }
}

#[tokio::test]
async fn a_raw_handler_hears_as_well_and_may_break_without_harm() {
    let (told, mut tell) = mpsc::channel(16);
    let tool = Tool::new("t").run(async |_: Value, _| "");
    let mut client = serve(Server::builder("s", "0").tool(tool).handler(Forwards(told)));
    client.greet("2025-11-25", json!({})).await;
    client.say(json!({"jsonrpc": "2.0", "method": "notifications/bad"})).await;
    let params = json!({"progressToken": 7, "progress": 1});
    client
        .say(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))
        .await;
    let notice = within(tell.recv()).await.unwrap();
    assert_eq!(notice.param(&["progressToken"]), Some(&b"7"[..]));
    assert_eq!(notice.client_info().unwrap()["name"], "tester");
    client.call("ping", json!({})).await;
}

/// A client that says more than anybody listens to costs a bounded amount.
#[tokio::test]
async fn more_than_can_be_heard_is_not_kept() {
    let (told, mut tell) = mpsc::unbounded_channel();
    let builder = fixture().on_notification(move |_| {
        told.send(()).unwrap();
        std::future::pending()
    });
    let mut client = serve(builder);
    client.greet("2025-11-25", json!({})).await;
    for _ in 0..1100 {
        client.say(json!({"jsonrpc": "2.0", "method": "notifications/x"})).await;
    }
    client.call("ping", json!({})).await;
    let mut heard = 0;
    while tell.try_recv().is_ok() {
        heard += 1;
    }
    assert_eq!(heard, 1024);
}
