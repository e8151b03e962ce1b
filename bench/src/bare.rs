//! The least that the work can cost with the same runtime and HTTP library.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::sync::{Mutex, oneshot};

use crate::Failure;
use crate::wire::Envelope;

/// Serves `answer` on a free port of 127.0.0.1, and says where on stderr.
pub async fn listen<F, A, B>(answer: F) -> Result<(), Failure>
where
    F: Fn(Request<Incoming>) -> A + Clone + Send + 'static,
    A: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Failure>,
{
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    eprintln!("listening http://{}/mcp", listener.local_addr()?);
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let answer = answer.clone();
        tokio::spawn(async move {
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(socket), service_fn(answer));
            // The load closes its connections; nobody is there to hear of it.
            _ = served.await;
        });
    }
}

/// Passes each request to the server at `url`, over kept connections.
pub async fn proxy(url: &str) -> Result<(), Failure> {
    let uri: Uri = url.parse()?;
    let host = HeaderValue::from_str(uri.authority().ok_or("no host")?.as_str())?;
    let mut http = hyper_util::client::legacy::connect::HttpConnector::new();
    http.set_nodelay(true);
    let client = Client::builder(TokioExecutor::new()).build(http);
    listen(move |mut request: Request<Incoming>| {
        *request.uri_mut() = uri.clone();
        request.headers_mut().insert(HOST, host.clone());
        let answered = client.request(request);
        async move {
            Ok(match answered.await {
                Ok(answer) => answer.map(BodyExt::boxed_unsync),
                Err(error) => {
                    failed(&error).map(|body| body.map_err(|never| match never {}).boxed_unsync())
                }
            })
        }
    })
    .await
}

fn failed(error: &dyn std::error::Error) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from(error.to_string())));
    *answer.status_mut() = hyper::StatusCode::BAD_GATEWAY;
    answer
}

/// What a pipe holds: one read empties it.
const PIPE_BYTES: usize = 64 * 1024;

/// The calls that wait for a line of the child.
type Waiting = std::sync::Mutex<HashMap<u64, (Box<str>, oneshot::Sender<String>)>>;

struct Pipe {
    stdin: Mutex<ChildStdin>,
    next: AtomicU64,
    waiting: Waiting,
}

/// Passes each request to a child as a line under an id of its own.
pub async fn bridge(command: Vec<String>) -> Result<(), Failure> {
    let (program, arguments) = command.split_first().ok_or("no command")?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let stdin = child.stdin.take().ok_or("no stdin")?;
    let stdout = child.stdout.take().ok_or("no stdout")?;
    let pipe = Arc::new(Pipe {
        stdin: Mutex::new(stdin),
        next: AtomicU64::new(1),
        waiting: Waiting::default(),
    });
    tokio::spawn(read(stdout, Arc::clone(&pipe)));
    listen(move |request: Request<Incoming>| {
        let pipe = Arc::clone(&pipe);
        async move { Ok(pipe.answer(request).await.unwrap_or_else(|error| failed(&*error))) }
    })
    .await
}

async fn read(stdout: ChildStdout, pipe: Arc<Pipe>) {
    let mut lines = BufReader::with_capacity(PIPE_BYTES, stdout);
    let mut line = String::new();
    while lines.read_line(&mut line).await.is_ok_and(|length| length > 0) {
        pipe.hand_out(&line);
        line.clear();
    }
}

impl Pipe {
    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Failure> {
        let body = request.into_body().collect().await?.to_bytes();
        let text = std::str::from_utf8(&body)?;
        let asked: Envelope<'_> = serde_json::from_str(text)?;
        let Some(id) = asked.id else {
            self.write(format!("{text}\n")).await?;
            return Ok(Response::builder().status(202).body(Full::default())?);
        };
        let ours = self.next.fetch_add(1, Ordering::Relaxed);
        let (told, answer) = oneshot::channel();
        let key = (Box::from(id.get()), told);
        self.waiting.lock().expect("nothing panics while it holds it").insert(ours, key);
        let method = asked.method.unwrap_or_default();
        let params = asked.params.map_or("{}", serde_json::value::RawValue::get);
        self.write(format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{ours},\"method\":\"{method}\",\"params\":{params}}}\n"
        ))
        .await?;
        let said = answer.await?;
        let mut answer = Response::new(Full::new(Bytes::from(said)));
        let json = HeaderValue::from_static("application/json");
        answer.headers_mut().insert(CONTENT_TYPE, json);
        Ok(answer)
    }

    async fn write(&self, line: String) -> Result<(), Failure> {
        self.stdin.lock().await.write_all(line.as_bytes()).await?;
        Ok(())
    }

    /// Gives an answer back under the id that it was asked for with.
    fn hand_out(&self, line: &str) {
        let Ok(answer) = serde_json::from_str::<Answer<'_>>(line) else { return };
        let waiting =
            self.waiting.lock().expect("nothing panics while it holds it").remove(&answer.id);
        if let (Some((id, told)), Some(result)) = (waiting, answer.result) {
            _ = told
                .send(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{}}}", result.get()));
        }
    }
}

#[derive(serde::Deserialize)]
struct Answer<'a> {
    id: u64,
    #[serde(borrow)]
    result: Option<&'a serde_json::value::RawValue>,
}
