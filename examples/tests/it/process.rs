//! Examples as processes, and clients of them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use switchboard_net::client::{Client, ClientOptions};
use switchboard_net::http::fetch::{Fetch, FetchOptions};
use switchboard_net::proto::revision::Era;
use switchboard_net::reexports::http::HeaderMap;
use switchboard_net::stdio::child;
use switchboard_net::upstream::{IntoTarget as _, ServerTarget, Strategy};

pub(crate) const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];
pub(crate) const STDIO: &str = env!("CARGO_BIN_EXE_serve_stdio");

/// Longer than anything here takes, shorter than anybody waits.
const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("it takes too long")
}

/// An example that serves HTTP; ended with the test.
pub(crate) struct Served {
    child: Child,
    log: BufReader<ChildStderr>,
    /// Of the endpoint.
    pub(crate) url: String,
}

impl Served {
    pub(crate) fn start(program: &str) -> Self {
        let mut child = Command::new(program)
            .arg("127.0.0.1:0")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the example was built");
        let mut url = String::new();
        let stdout = child.stdout.take().expect("stdout is piped");
        BufReader::new(stdout).read_line(&mut url).expect("the example says where it is");
        let log = BufReader::new(child.stderr.take().expect("stderr is piped"));
        Self { child, log, url: url.trim().to_owned() }
    }

    /// The next line of its log.
    pub(crate) fn logged(&mut self) -> String {
        let mut line = String::new();
        self.log.read_line(&mut line).expect("the example logs");
        line
    }

    pub(crate) fn server(&self, strategy: Strategy) -> ServerTarget {
        self.server_with(strategy, HeaderMap::new())
    }

    /// The same for a client that sends these headers.
    pub(crate) fn server_with(&self, strategy: Strategy, headers: HeaderMap) -> ServerTarget {
        let path = if strategy == Strategy::SseOnly { "/sse" } else { "/mcp" };
        let url = self.url.replace("/mcp", path).parse().expect("a URL");
        let fetch = Fetch::new(FetchOptions::default()).expect("plain HTTP needs nothing");
        ServerTarget::url(url, strategy, headers, fetch)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

pub(crate) fn command(words: &[&str]) -> ServerTarget {
    let command = child::Command::new(words[0]).args(words[1..].iter().copied());
    command.into_target().expect("a command is a target")
}

pub(crate) async fn connect(server: ServerTarget, era: Era, options: ClientOptions) -> Client {
    let options = options.era(era);
    let client = within(options.connect(server)).await.expect("the example answers");
    assert_eq!(client.era(), era);
    client
}

/// What a program prints that is told `input`; it has to succeed.
pub(crate) fn output(program: &str, args: &[&str], input: &str) -> String {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the example was built");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    stdin.write_all(input.as_bytes()).expect("a pipe takes a line");
    drop(stdin);
    let output = child.wait_with_output().expect("the example ends");
    let stdout = String::from_utf8(output.stdout).expect("the output is text");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}{stderr}");
    stdout
}
