//! A site in somebody's own axum router.

use axum::Router;
use axum::routing::get;
use http::Method;
use serde_json::json;
use switchboard_net::http::site::{Site, SiteOptions};
use tokio::net::TcpListener;

use crate::client::{Client, LEGACY, Way, call, request};
use crate::script::Stage;

#[tokio::test]
async fn a_site_nests_in_an_axum_router_beside_other_routes() {
    let mut stage = Stage::new();
    let options = SiteOptions::default().base("/tools");
    let site = Site::new(stage.backend.clone(), options);
    let router = Router::new()
        .route("/hello", get(|| async { "hello" }))
        .route_service("/mcp", site.clone())
        .nest_service("/tools", site.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let way = Way::Socket(listener.local_addr().unwrap());
    let server = tokio::spawn(async move { axum::serve(listener, router).await });

    let client = Client::ready(way.clone(), LEGACY).await;
    stage.noted().await;
    assert_eq!(client.post(&request(1, "tools/list")).await.status, 200);
    let message = call(2, "t");
    let (reply, ()) = tokio::join!(client.post(&message), async {
        let call = stage.call().await;
        call.note("notifications/progress", &json!({"progress": 1}));
        call.finish(&json!({}));
    });
    assert_eq!(reply.messages().await.len(), 2);

    let hello = client.send(client.request(Method::GET, "/hello"), "").await;
    assert_eq!(hello.text().await, "hello");
    let nested = client.request(Method::GET, "/tools/sse").header("accept", "text/event-stream");
    let mut stream = client.send(nested, "").await;
    let endpoint = stream.event().await.unwrap();
    assert!(endpoint.data.starts_with(b"/tools/message?sessionId="), "{endpoint:?}");
    drop(stream);
    site.close();
    server.abort();
}
