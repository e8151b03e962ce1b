//! A raw handler that forwards: every call and notification goes on to another
//! server, whatever era each side speaks, and progress comes back.
//!
//! It needs a server to forward to: `switchboard demo --http --port 3000`.
//! Whoever wants questions, subscriptions and sessions forwarded too takes
//! `switchboard_net::bridge` instead.

use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value;
use switchboard_net::client::{CallError, CallOptions, Client, ClientOptions};
use switchboard_net::http::fetch::{Fetch, FetchOptions};
use switchboard_net::server::{self, Call, Context, Handler, Notice, Server};
use switchboard_net::stdio;
use switchboard_net::upstream::{self, Strategy};
use switchboard_proto::limits::Limits;

struct Forward {
    to: Client,
}

impl Handler for Forward {
    async fn call(&self, call: Call, cx: Context) -> Result<Bytes, server::Error> {
        let options = CallOptions::default().on_progress(move |at| {
            cx.progress(at.progress, at.total, at.message.as_deref());
        });
        let params = without_envelope(call.params());
        match self.to.request_with(call.method(), params, options).await {
            Ok(result) => Ok(result.to_string().into()),
            Err(CallError::Server { code, message, data }) => {
                Err(server::Error { code, message, data })
            }
            Err(other) => Err(server::Error::internal(other.to_string())),
        }
    }

    async fn notified(&self, notice: Notice) {
        // Nobody waits for an answer, so nobody is told if it did not arrive.
        _ = self.to.notify(notice.method(), without_envelope(notice.params())).await;
    }
}

/// `_meta` speaks for one connection: the client puts its own there.
fn without_envelope(params: &[u8]) -> Value {
    let mut params: Value = serde_json::from_slice(params).unwrap_or_default();
    if let Some(members) = params.as_object_mut() {
        members.remove("_meta");
    }
    params
}

/// The server, which can do what the other can.
pub(crate) fn server(to: Client) -> Result<Arc<Server>, Box<dyn Error>> {
    let mut builder = Server::builder("forward", env!("CARGO_PKG_VERSION")).without_logging();
    for (name, value) in to.capabilities().as_object().into_iter().flatten() {
        // What needs the server to speak first is the bridge's.
        if ["tools", "prompts", "resources", "completions"].contains(&name.as_str()) {
            builder = builder.capability(name, plain(value));
        }
    }
    Ok(builder.handler(Forward { to }).build()?)
}

/// A capability without its promises to tell of changes.
fn plain(capability: &Value) -> Value {
    let mut plain = capability.clone();
    for promise in ["listChanged", "subscribe"] {
        if let Some(members) = plain.as_object_mut() {
            members.remove(promise);
        }
    }
    plain
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let fetch = Fetch::new(FetchOptions::default())?;
    let url = "http://127.0.0.1:3000/mcp".parse()?;
    let other = upstream::Server::url(url, Strategy::default(), HeaderMap::new(), fetch);
    let client = Client::connect(other, ClientOptions::default()).await?;
    let shutdown = async { _ = tokio::signal::ctrl_c().await };
    stdio::serve(server(client)?, false, Arc::new(Limits::default()), shutdown).await?;
    Ok(())
}
