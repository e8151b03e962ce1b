//! A raw handler: methods and bytes in, bytes out. This one passes every call
//! on to another server, which may be of another era than the client.
//!
//! Try it: `switchboard tools -- cargo run -q --bin forward -- npx -y @modelcontextprotocol/server-everything`

use std::error::Error;

use bytes::Bytes;
use serde_json::{Value, json};
use switchboard_net::client::{CallError, CallOptions, Client};
use switchboard_net::server::{self, Context, Handler, Notice, Request, Server};
use switchboard_net::stdio::child::Command;

struct Forward {
    to: Client,
}

impl Handler for Forward {
    async fn call(&self, call: Request, cx: Context) -> Result<Bytes, server::Error> {
        let params = without_meta(call.params());
        let options = CallOptions::default().on_progress(move |so_far| {
            cx.progress(so_far.progress, so_far.total, so_far.message.as_deref());
        });
        match self.to.request_with(call.method(), params, options).await {
            Ok(result) => Ok(result.to_string().into()),
            Err(CallError::Server { code, message, data }) => {
                let error = server::Error::new(code, message);
                Err(data.into_iter().fold(error, server::Error::with_data))
            }
            Err(error) => Err(server::Error::internal(error.to_string())),
        }
    }

    async fn notified(&self, notice: Notice) {
        // Nobody waits for an answer, so nobody is told if it did not arrive.
        _ = self.to.notify(notice.method(), without_meta(notice.params())).await;
    }
}

/// What the client says about itself is for us; the next hop has its own.
fn without_meta(params: &[u8]) -> Value {
    let mut params: Value = serde_json::from_slice(params).unwrap_or_default();
    params.as_object_mut().and_then(|members| members.remove("_meta"));
    params
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let command = Command::new(words.next().ok_or("usage: forward COMMAND...")?).args(words);
    let to = Client::spawn(command).await?;

    // We can do what it can, as far as calls go.
    let mut builder = Server::builder("forward", env!("CARGO_PKG_VERSION"));
    for name in ["tools", "prompts", "resources", "completions"] {
        if to.capabilities().get(name).is_some() {
            builder = builder.capability(name, json!({}));
        }
    }
    let server = builder.handler(Forward { to: to.clone() }).build()?;
    server.serve_stdio().await?;
    to.close().await;
    Ok(())
}
