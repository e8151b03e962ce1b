//! Examples as processes, and clients of them.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use http::HeaderMap;
use switchboard_net::client::{Client, ClientOptions};
use switchboard_net::http::fetch::{Fetch, FetchOptions};
use switchboard_net::stdio::child;
use switchboard_net::upstream::{ServerTarget, Strategy};
use switchboard_proto::revision::Era;

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
    /// Of the endpoint.
    pub(crate) url: String,
}

impl Served {
    pub(crate) fn start(program: &str) -> Self {
        let mut child = Command::new(program)
            .arg("127.0.0.1:0")
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example was built");
        let mut url = String::new();
        let stdout = child.stdout.take().expect("stdout is piped");
        BufReader::new(stdout).read_line(&mut url).expect("the example says where it is");
        Self { child, url: url.trim().to_owned() }
    }

    pub(crate) fn server(&self, strategy: Strategy) -> ServerTarget {
        let path = if strategy == Strategy::SseOnly { "/sse" } else { "/mcp" };
        let url = self.url.replace("/mcp", path).parse().expect("a URL");
        let fetch = Fetch::new(FetchOptions::default()).expect("plain HTTP needs nothing");
        ServerTarget::url(url, strategy, HeaderMap::new(), fetch)
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
    ServerTarget::command(command, std::env::vars_os().collect())
}

pub(crate) async fn connect(server: ServerTarget, era: Era, options: ClientOptions) -> Client {
    let options = ClientOptions { era: Some(era), ..options };
    let client = within(Client::connect(server, options)).await.expect("the example answers");
    assert_eq!(client.era(), era);
    client
}

/// What a program prints; it has to succeed.
pub(crate) fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().expect("the example was built");
    let stdout = String::from_utf8(output.stdout).expect("the output is text");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}{stderr}");
    stdout
}
