//! The built-in server: one of everything, for people who try a client, and
//! under the names that the official conformance suites ask for.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use switchboard_net::server::{Builder, Flaw, Nature, Server};
use switchboard_proto::revision::Revision;

mod ask;
mod content;
mod diagnose;
mod everyday;
mod prompt;
mod resource;
mod round;
mod schema;
mod task;

/// What most tools are: they look and tell.
const NATURE: Nature = Nature {
    layer: "demo",
    category: "everyday",
    safety: "read",
    idempotent: true,
    supports_dry_run: false,
};

/// The server, speaking only these revisions.
pub(crate) fn server(revisions: &[Revision]) -> Result<Arc<Server>, Flaw> {
    let builder = Server::builder("switchboard-demo", env!("CARGO_PKG_VERSION"))
        .title("Switchboard demo")
        .instructions(
            "A server to try MCP clients with. Begin with the tools echo, add, time and touch; \
             those that begin with test_ show one feature each.",
        )
        .only(revisions);
    let touched = resource::Touched::default();
    let tools = everyday::tools(&touched)
        .into_iter()
        .chain(content::tools())
        .chain(schema::tools())
        .chain(ask::tools())
        .chain(round::tools())
        .chain(task::tools())
        .chain(diagnose::tools());
    let builder = tools.fold(builder, Builder::tool);
    let builder = prompt::all().into_iter().fold(builder, Builder::prompt);
    resource::all(&touched)
        .into_iter()
        .fold(builder, Builder::resource)
        .template(resource::template())
        .completion(|what, _| ready(Ok(prompt::complete(&what))))
        .manifest()
        .traces()
        .build()
}

/// A picture of one red dot.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde\
    \0\0\0\x0cIDATx\xdac\xf8\xcf\xc0\0\0\x03\x01\x01\0\xf7\x03AC\0\0\0\0IEND\xaeB`\x82";

/// A millisecond of silence.
const WAV: &[u8] = b"RIFF,\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0@\x1f\0\0@\x1f\0\0\x01\0\x08\0\
    data\x08\0\0\0\x80\x80\x80\x80\x80\x80\x80\x80";

/// An argument that the schema says is a string.
fn text(arguments: &Value, name: &str) -> String {
    arguments[name].as_str().unwrap_or_default().to_owned()
}

/// Takes a moment, so that one can watch.
async fn moment() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}
