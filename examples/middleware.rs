//! Middleware around the calls of tools: one logs each call, one lets only some callers change
//! something.
//!
//! Callers are told apart by a key: `reader-key` or `writer-key`. A program of yours keeps
//! keys elsewhere.
//!
//! Try it: `cargo run --bin middleware`, then
//! `switchboard call http://127.0.0.1:8080/mcp write text=hello --header 'X-API-Key: reader-key'`

#![expect(clippy::print_stdout, reason = "a program says where it is")]
#![expect(clippy::print_stderr, reason = "this is the log")]

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use switchboard_net::access::{AuthDenial, Authenticate, Who, shown_keys};
use switchboard_net::http::listen::ListenOptions;
use switchboard_net::http::site::{Site, SiteOptions};
use switchboard_net::reexports::http::{HeaderMap, HeaderValue};
use switchboard_net::server::{
    self, BuildError, Context, Middleware, Next, Server, Tool, ToolCall, ToolResult,
};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// A line for each call: who called what, how it went, and how long it took.
struct Log;

impl Middleware for Log {
    async fn call(&self, call: ToolCall, next: Next) -> Result<ToolResult, server::Error> {
        let what = format!("{} called {}", call.context.who().name(), call.name());
        let mut line = LogLine { what, end: "cancelled".to_owned(), started: Instant::now() };
        let result = next.run(call).await;
        line.end = match &result {
            Ok(result) if result.is_task() => "goes on as a task".to_owned(),
            Ok(result) if result.is_error() => "failed".to_owned(),
            Ok(_) => "done".to_owned(),
            // The client does not learn the source; the log does.
            Err(error) => format!("error: {error}, because of {:?}", error.source()),
        };
        result
    }
}

/// Written when it is dropped. A call that its client cancels is dropped where it waits, so it
/// has a line too.
struct LogLine {
    what: String,
    end: String,
    started: Instant,
}

impl Drop for LogLine {
    fn drop(&mut self) {
        let Self { what, end, started } = self;
        eprintln!("{what}: {end} after {} ms", started.elapsed().as_millis());
    }
}

/// Some tools are for some callers only. It comes before the arguments are looked at.
struct Permit {
    tools: &'static [&'static str],
    caller: &'static str,
}

impl Middleware for Permit {
    async fn call(&self, call: ToolCall, next: Next) -> Result<ToolResult, server::Error> {
        if self.tools.contains(&call.name()) && call.context.who().name() != self.caller {
            // A result with `isError`, so that the model learns why.
            let why = format!("{} is for the {} only", call.name(), self.caller);
            return Ok(ToolResult::error(why));
        }
        next.run(call).await
    }
}

/// Who has which key.
#[derive(Debug)]
struct Keys;

impl Authenticate for Keys {
    fn authenticate(&self, headers: &HeaderMap) -> Result<Who, AuthDenial> {
        match shown_keys(headers).next() {
            Some(b"reader-key") => Ok(Who::new("reader")),
            Some(b"writer-key") => Ok(Who::new("writer")),
            _ => {
                let challenge = HeaderValue::from_static("Bearer");
                Err(AuthDenial::unknown(challenge, "send a key as 'X-API-Key: KEY'"))
            }
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct Write {
    text: String,
}

fn server() -> Result<Arc<Server>, BuildError> {
    let (note, seen) = watch::channel(String::new());
    let next = seen.clone();
    let read = Tool::new("read").description("Reads the note").run(move |_: Value, _| {
        let text = seen.borrow().clone();
        async move { text }
    });
    let wait = Tool::new("wait").description("Waits for the next note").run(
        move |_: Value, cx: Context| {
            let mut next = next.clone();
            next.mark_unchanged();
            cx.progress(1.0, None, Some("waiting"));
            async move {
                _ = next.changed().await;
                next.borrow().clone()
            }
        },
    );
    let write = Tool::new("write").description("Writes the note").input::<Write>().run(
        move |args: Write, _| {
            note.send_replace(args.text);
            async { "written" }
        },
    );
    Server::builder("notes", env!("CARGO_PKG_VERSION"))
        .tool(read)
        .tool(wait)
        .tool(write)
        // The first is the outermost: it logs what the second refuses, too.
        .middleware(Log)
        .middleware(Permit { tools: &["write"], caller: "writer" })
        .build()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let options = SiteOptions::default().authenticator(Some(Arc::new(Keys)));
    let site = Site::new(server()?, options);
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("http://{}/mcp", listener.local_addr()?);
    let shutdown = async { _ = tokio::signal::ctrl_c().await };
    site.serve(listener, ListenOptions::default(), shutdown).await;
    Ok(())
}
