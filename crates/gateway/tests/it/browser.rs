//! A browser at the console of a gateway, as far as these tests need one.

use std::net::SocketAddr;

use http::HeaderMap;
use serde_json::{Value, json};
use switchboard_net::client::{Client, ClientOptions};
use switchboard_net::upstream::{ServerTarget, Strategy};
use switchboard_proto::revision::Era;
use switchboard_testkit::within;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::served::{ADA, BOB, Served, fetch, key, rude_with};

/// An answer.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.head.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    }

    pub(crate) fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }
}

/// What a browser sends with a change that our page makes.
pub(crate) const OWN: [(&str, &str); 2] =
    [("sec-fetch-site", "same-origin"), ("x-switchboard", "console")];

pub(crate) async fn send(
    address: SocketAddr,
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    body: &str,
) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let has_host = headers.iter().any(|(name, _)| *name == "host");
    let host = if has_host { String::new() } else { format!("host: {address}\r\n") };
    let more = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
    let more = more.collect::<Vec<_>>().concat();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\n{host}connection: close\r\ncontent-length: {length}\r\n\
         {more}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

pub(crate) async fn ask(
    address: SocketAddr,
    target: (&str, &str),
    headers: &[(&str, &str)],
    body: &str,
) -> Reply {
    let mut stream = send(address, target, headers, body).await;
    let mut bytes = Vec::new();
    within(stream.read_to_end(&mut bytes)).await.unwrap();
    let whole = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = whole.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let head = head.lines().filter_map(|line| line.split_once(": "));
    let head = head.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Reply { status, head, body: body.to_owned() }
}

/// A browser that is signed in.
pub(crate) struct Browser {
    pub(crate) address: SocketAddr,
    pub(crate) cookie: String,
}

impl Browser {
    pub(crate) async fn sign_in(gateway: &Served, shown: Value) -> Self {
        let address = gateway.address;
        let target = ("POST", "/console/api/sign-in");
        let reply = ask(address, target, &OWN, &shown.to_string()).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        let cookie = reply.header("set-cookie").to_owned();
        for part in ["; HttpOnly", "; SameSite=Strict", "; Path=/console;", "Max-Age=28800"] {
            assert!(cookie.contains(part), "{cookie}");
        }
        let cookie = cookie.split(';').next().unwrap().to_owned();
        Self { address, cookie }
    }

    /// Whoever runs the gateway.
    pub(crate) async fn operator(gateway: &Served) -> Self {
        let link = gateway.console.link();
        let token = link.split_once("#link=").unwrap().1;
        Self::sign_in(gateway, json!({"link": token})).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        let target = format!("/console/api/{path}");
        ask(self.address, ("GET", &target), &[("cookie", &self.cookie)], "").await
    }

    /// Has something done, as our page does it.
    pub(crate) async fn change(&self, method: &str, path: &str, body: &str) -> Reply {
        let target = format!("/console/api/{path}");
        let headers = [("cookie", &*self.cookie), OWN[0], OWN[1]];
        ask(self.address, (method, &target), &headers, body).await
    }

    /// Posts a text for the file.
    pub(crate) async fn post_text(&self, path: &str, digest: &str, text: &str) -> Reply {
        let target = format!("/console/api/config/{path}");
        let headers = [("cookie", &*self.cookie), OWN[0], OWN[1], ("if-match", digest)];
        ask(self.address, ("POST", &target), &headers, &json!({"text": text}).to_string()).await
    }

    pub(crate) async fn read(&self, path: &str) -> Value {
        let reply = self.get(path).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        assert_safe(&reply);
        reply.json()
    }

    /// A client at a path below `/console`, as our page is one.
    pub(crate) async fn client(&self, path: &str, era: Era) -> Client {
        let mut headers = HeaderMap::new();
        headers.insert("cookie", self.cookie.parse().unwrap());
        for (name, value) in OWN {
            headers.insert(name, value.parse().unwrap());
        }
        let url = format!("http://{}{path}", self.address).parse().unwrap();
        let server = ServerTarget::url(url, Strategy::HttpOnly, headers, fetch());
        ClientOptions::default().era(era).connect(server).await.unwrap()
    }

    pub(crate) async fn feed(&self, query: &str) -> Feed {
        let target = format!("/console/feed?{query}");
        let cookie = [("cookie", &*self.cookie)];
        Feed {
            stream: send(self.address, ("GET", &target), &cookie, "").await,
            seen: String::new(),
        }
    }
}

/// The feed of a page, as far as it was read.
pub(crate) struct Feed {
    pub(crate) stream: TcpStream,
    pub(crate) seen: String,
}

impl Feed {
    /// Reads until this was told.
    pub(crate) async fn until(&mut self, wanted: &str) -> &str {
        while !self.seen.contains(wanted) {
            let mut bytes = vec![0; 64 << 10];
            let read = within(self.stream.read(&mut bytes)).await.unwrap();
            assert!(read > 0, "the feed ended before {wanted}: {}", self.seen);
            self.seen.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
        &self.seen
    }

    /// Reads to its end.
    pub(crate) async fn rest(mut self) -> String {
        let mut bytes = Vec::new();
        within(self.stream.read_to_end(&mut bytes)).await.unwrap();
        self.seen + &String::from_utf8_lossy(&bytes)
    }
}

/// Each answer keeps the page in its bounds (C-34).
pub(crate) fn assert_safe(reply: &Reply) {
    let policy = reply.header("content-security-policy");
    for part in [
        "default-src 'none'",
        "script-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
    ] {
        assert!(policy.contains(part), "{policy}: {}", reply.body);
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(reply.header("x-content-type-options"), "nosniff");
    assert_eq!(reply.header("referrer-policy"), "no-referrer");
    assert_eq!(reply.header("cross-origin-opener-policy"), "same-origin");
    assert_eq!(reply.header("cross-origin-resource-policy"), "same-origin");
}

pub(crate) fn keys() -> Value {
    json!({"keys": {
        "ada": key(ADA, json!({})),
        "bob": key(BOB, json!({"servers": ["small"], "includeTools": ["small__echo"]})),
    }})
}

/// Two servers, and two users of whom one may use a part of the smaller.
pub(crate) async fn two_servers() -> Served {
    let servers = json!({
        "small": rude_with(&["pid"], &json!({})),
        "withheld": rude_with(&["pid", "wait"], &json!({})),
    });
    Served::start(&servers, &keys()).await
}
