//! The server behind every proxy: as little work as an honest answer takes.

use std::convert::Infallible;
use std::io::Write as _;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::{Request, Response};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use crate::Failure;
use crate::bare::listen;
use crate::wire::{Call, Envelope, LEGACY, MODERN};

/// Answers lines from stdin until its end.
pub async fn stdio() -> Result<(), Failure> {
    let mut input = BufReader::new(tokio::io::stdin());
    let mut output = tokio::io::stdout();
    let mut line = String::new();
    while input.read_line(&mut line).await? > 0 {
        if let Some(mut said) = answer(&line)? {
            said.push(b'\n');
            output.write_all(&said).await?;
            output.flush().await?;
        }
        line.clear();
    }
    Ok(())
}

/// Answers POSTs on a free port of 127.0.0.1 until it is killed.
pub async fn http() -> Result<(), Failure> {
    listen(|request: Request<Incoming>| async move {
        let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes);
        let said = body.ok().and_then(|body| {
            let text = std::str::from_utf8(&body).ok()?;
            answer(text).ok()
        });
        Ok::<_, Infallible>(
            match said {
                Some(Some(said)) => Response::builder()
                    .header("content-type", "application/json")
                    .header("mcp-session-id", "bench")
                    .body(Full::new(Bytes::from(said))),
                Some(None) => Response::builder().status(202).body(Full::default()),
                None => Response::builder().status(400).body(Full::default()),
            }
            .expect("constant headers"),
        )
    })
    .await
}

/// What to say to `text`, if anything.
fn answer(text: &str) -> Result<Option<Vec<u8>>, serde_json::Error> {
    let asked: Envelope<'_> = serde_json::from_str(text)?;
    let (Some(id), Some(method)) = (asked.id, asked.method) else { return Ok(None) };
    let mut said = Vec::with_capacity(256);
    let tail = match method {
        "tools/call" => {
            let params = asked.params.map_or("{}", serde_json::value::RawValue::get);
            let call: Call<'_> = serde_json::from_str(params)?;
            let echo = call.arguments.text.get();
            format!(
                r#""result":{{"resultType":"complete","content":[{{"type":"text","text":{echo}}}]}}"#
            )
        }
        "initialize" => greeting(),
        "server/discover" => discovery(),
        "tools/list" => TOOLS.to_owned(),
        "ping" => r#""result":{}"#.to_owned(),
        _ => r#""error":{"code":-32601,"message":"no such method"}"#.to_owned(),
    };
    // Into memory: cannot fail.
    _ = write!(said, r#"{{"jsonrpc":"2.0","id":{},{tail}}}"#, id.get());
    Ok(Some(said))
}

fn greeting() -> String {
    format!(
        r#""result":{{"protocolVersion":"{LEGACY}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"echo","version":"1"}}}}"#
    )
}

fn discovery() -> String {
    format!(
        r#""result":{{"resultType":"complete","supportedVersions":["{MODERN}","{LEGACY}"],"capabilities":{{"tools":{{}}}},"ttlMs":0,"cacheScope":"public","_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"echo","version":"1"}}}}}}"#
    )
}

const TOOLS: &str = r#""result":{"resultType":"complete","ttlMs":0,"cacheScope":"public","tools":[{"name":"echo","description":"gives back its text","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}]}"#;
