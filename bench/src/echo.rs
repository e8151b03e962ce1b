//! The server behind every proxy: as little work as an honest answer takes.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use clap::{Args, ValueEnum};
use http_body_util::{BodyExt as _, Either, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::{Method, Request, Response};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;

use crate::Failure;
use crate::bare::listen;
use crate::wire::{CHANGE, Call, Envelope, LEGACY, MODERN, TOOL};

/// How the echo behaves.
#[derive(Args, Clone)]
pub struct Options {
    /// Which clients it answers
    #[arg(long, default_value = "both")]
    era: Eras,
    /// Answer each request with an event instead of JSON
    #[arg(long)]
    sse: bool,
    /// Tools in its list
    #[arg(long, default_value_t = 1)]
    tools: u32,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Eras {
    Legacy,
    Modern,
    Both,
}

struct Echo {
    options: Options,
    /// The list of tools without its end, and how often it has changed.
    tools: String,
    changes: Mutex<u64>,
    streams: Mutex<Vec<mpsc::Sender<Bytes>>>,
}

/// Answers lines from stdin until its end.
pub async fn stdio(options: Options) -> Result<(), Failure> {
    let echo = Echo::new(options);
    let mut input = BufReader::new(tokio::io::stdin());
    let mut output = tokio::io::stdout();
    let mut line = String::new();
    while input.read_line(&mut line).await? > 0 {
        if let Some(mut said) = echo.answer(&line)? {
            said.push('\n');
            output.write_all(said.as_bytes()).await?;
            output.flush().await?;
        }
        line.clear();
    }
    Ok(())
}

/// Answers POSTs on a free port of 127.0.0.1 until it is killed; a GET opens a stream.
pub async fn http(options: Options) -> Result<(), Failure> {
    let echo = Arc::new(Echo::new(options));
    listen(move |request: Request<Incoming>| {
        let echo = Arc::clone(&echo);
        async move { Ok::<_, Infallible>(echo.serve(request).await) }
    })
    .await
}

impl Echo {
    fn new(options: Options) -> Self {
        let mut tools = tool(TOOL);
        for number in 1..options.tools {
            // Writing to memory cannot fail.
            _ = write!(tools, ",{}", tool(&format!("tool-{number}")));
        }
        Self { options, tools, changes: Mutex::default(), streams: Mutex::default() }
    }

    async fn serve(&self, request: Request<Incoming>) -> Response<Either<Full<Bytes>, Events>> {
        let answer = Response::builder().header("mcp-session-id", "bench");
        if request.method() == Method::GET {
            let (stream, events) = mpsc::channel(16);
            self.streams.lock().expect("nothing panics while it holds it").push(stream);
            let answer = answer.header("content-type", "text/event-stream");
            return answer.body(Either::Right(Events(events))).expect("constant headers");
        }
        let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes);
        let said = body.ok().and_then(|body| self.answer(std::str::from_utf8(&body).ok()?).ok());
        let whole = |text: String| Either::Left(Full::new(Bytes::from(text)));
        match said {
            Some(Some(said)) if self.options.sse => answer
                .header("content-type", "text/event-stream")
                .body(whole(format!("event: message\ndata: {said}\n\n"))),
            Some(Some(said)) => answer.header("content-type", "application/json").body(whole(said)),
            Some(None) => answer.status(202).body(whole(String::new())),
            None => answer.status(400).body(whole(String::new())),
        }
        .expect("constant headers")
    }

    /// What to say to `text`, if anything.
    fn answer(&self, text: &str) -> Result<Option<String>, serde_json::Error> {
        let asked: Envelope<'_> = serde_json::from_str(text)?;
        let (Some(id), Some(method)) = (asked.id, asked.method) else { return Ok(None) };
        let id = id.get();
        if method == "tools/call" {
            let params = asked.params.map_or("{}", serde_json::value::RawValue::get);
            let call: Call<'_> = serde_json::from_str(params)?;
            if call.name == CHANGE {
                self.change();
            }
            let echo = call.arguments.text.map_or(r#""""#, serde_json::value::RawValue::get);
            return Ok(Some(format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","content":[{{"type":"text","text":{echo}}}]}}}}"#
            )));
        }
        let tail = match (method, self.options.era) {
            ("initialize", Eras::Legacy | Eras::Both) => format!(
                r#""result":{{"protocolVersion":"{LEGACY}","capabilities":{{"tools":{{"listChanged":true}}}},"serverInfo":{{"name":"echo","version":"1"}}}}"#
            ),
            ("server/discover", Eras::Modern | Eras::Both) => {
                let legacy = if self.options.era == Eras::Both {
                    format!(r#","{LEGACY}""#)
                } else {
                    String::new()
                };
                format!(
                    r#""result":{{"resultType":"complete","supportedVersions":["{MODERN}"{legacy}],"capabilities":{{"tools":{{"listChanged":true}}}},"ttlMs":0,"cacheScope":"public","_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"echo","version":"1"}}}}}}"#
                )
            }
            ("tools/list", _) => self.list(),
            ("ping", _) => r#""result":{}"#.to_owned(),
            _ => r#""error":{"code":-32601,"message":"no such method"}"#.to_owned(),
        };
        Ok(Some(format!(r#"{{"jsonrpc":"2.0","id":{id},{tail}}}"#)))
    }

    fn list(&self) -> String {
        let changes = *self.changes.lock().expect("nothing panics while it holds it");
        let (tools, change) = (&self.tools, tool(&format!("{CHANGE}-{changes}")));
        let more = if changes == 0 { tool(CHANGE) } else { format!("{},{change}", tool(CHANGE)) };
        format!(
            r#""result":{{"resultType":"complete","ttlMs":0,"cacheScope":"public","tools":[{tools},{more}]}}"#
        )
    }

    /// Changes the list of tools, and tells everybody who listens.
    fn change(&self) {
        *self.changes.lock().expect("nothing panics while it holds it") += 1;
        let event = Bytes::from_static(b"event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n");
        let mut streams = self.streams.lock().expect("nothing panics while it holds it");
        streams.retain(|stream| stream.try_send(event.clone()).is_ok());
    }
}

fn tool(name: &str) -> String {
    format!(
        r#"{{"name":"{name}","description":"gives back its text","inputSchema":{{"type":"object","properties":{{"text":{{"type":"string"}}}},"required":["text"]}}}}"#
    )
}

/// The stream on which the echo speaks unasked.
struct Events(mpsc::Receiver<Bytes>);

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}
