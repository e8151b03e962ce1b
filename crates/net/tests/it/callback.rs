//! The way back from a browser: who is let in, what they see, and the browser itself.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use switchboard_net::auth::browser::open_browser;
use switchboard_net::auth::callback::CallbackListener;
use switchboard_net::race;
use switchboard_proto::auth::AuthError;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use switchboard_testkit::within;

/// Says whether a query has the word, and no if it has the other word.
fn judge(query: &str) -> Option<Result<String, AuthError>> {
    match query {
        "yes" => Some(Ok(query.to_owned())),
        "no" => Some(Err(AuthError::NoCode)),
        _ => None,
    }
}

fn authority(callback: &CallbackListener) -> String {
    callback.redirect_uri().split('/').nth(2).expect("a URL has an authority").to_owned()
}

async fn connect(callback: &CallbackListener) -> TcpStream {
    let port = authority(callback).rsplit(':').next().expect("it has a port").to_owned();
    TcpStream::connect(format!("127.0.0.1:{port}")).await.expect("it listens")
}

async fn visit(callback: &CallbackListener, method: &str, target: &str, host: &str) -> String {
    let mut peer = connect(callback).await;
    let head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    peer.write_all(head.as_bytes()).await.expect("it reads");
    let mut answer = String::new();
    peer.read_to_string(&mut answer).await.expect("it answers");
    answer
}

#[tokio::test]
async fn only_the_answer_to_the_sign_in_ends_the_wait() {
    // wire: OC-33, OC-34
    let callback = CallbackListener::bind("127.0.0.1", 0, "/oauth/callback").await.unwrap();
    let own = authority(&callback);
    let port = own.rsplit(':').next().unwrap();
    assert_eq!(callback.redirect_uri(), format!("http://{own}/oauth/callback"));
    let visits = async {
        for (method, target, host, status) in [
            ("GET", "/", &*own, 404),
            ("GET", "/oauth/callback/?yes", &own, 404),
            ("GET", "/oauth//callback?yes", &own, 404),
            ("POST", "/oauth/callback?yes", &own, 404),
            ("HEAD", "/oauth/callback?yes", &own, 404),
            ("GET", "/oauth/callback?yes", "evil.example", 404),
            ("GET", "/oauth/callback?yes", "127.0.0.1", 404),
            ("GET", "/oauth/callback?yes", "127.0.0.1:1", 404),
            ("GET", "/oauth/callback", &own, 400),
            ("GET", "/oauth/callback?script=yes", &own, 400),
            ("GET", "/oauth/callback?yes", &format!("LocalHost:{port}"), 200),
        ] {
            let answer = visit(&callback, method, target, host).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{target}: {answer}");
            let head = answer.to_ascii_lowercase();
            for header in
                ["cache-control: no-store", "referrer-policy: no-referrer", "default-src 'none'"]
            {
                assert!(head.contains(header), "{header}: {answer}");
            }
            assert!(!head.contains("script") && !head.contains("yes"), "{answer}");
        }
    };
    let (result, ()) = within(async { tokio::join!(callback.wait(judge), visits) }).await;
    assert_eq!(result.unwrap(), "yes");
}

#[tokio::test]
async fn slow_visitors_hold_up_nobody_and_the_page_says_how_it_went() {
    // wire: OC-33
    let callback = CallbackListener::bind("localhost", 0, "cb").await.unwrap();
    let own = authority(&callback);
    assert_eq!(callback.redirect_uri(), format!("http://{own}/cb"));
    let mut slow = Vec::new();
    for _ in 0..8 {
        let mut peer = connect(&callback).await;
        peer.write_all(b"GET /cb?yes HTTP/1.1\r\n").await.unwrap();
        slow.push(peer);
    }
    let visits = async {
        let answer = visit(&callback, "GET", "/cb?no", &own).await;
        assert!(answer.contains("You are not signed in"), "{answer}");
    };
    let (result, ()) = within(async { tokio::join!(callback.wait(judge), visits) }).await;
    assert_eq!(result, Err(AuthError::NoCode));

    // It can be waited on again, and may lead to a page of the user's.
    let page = "https://example.com/welcome";
    let callback = callback.with_success_url(Some(page)).unwrap();
    let visits = async {
        let answer = visit(&callback, "GET", "/cb?yes", &own).await;
        assert!(answer.starts_with("HTTP/1.1 303 "), "{answer}");
        assert!(answer.contains(&format!("location: {page}\r\n")), "{answer}");
    };
    let (result, ()) = within(async { tokio::join!(callback.wait(judge), visits) }).await;
    assert_eq!(result.unwrap(), "yes");
    for bad in ["javascript:alert(1)", "https://a/\nb", "x"] {
        let callback = CallbackListener::bind("localhost", 0, "cb").await.unwrap();
        assert!(callback.with_success_url(Some(bad)).is_err(), "{bad}");
    }
}

#[tokio::test]
async fn a_port_is_ours_alone_until_we_are_gone() {
    // wire: OC-33, OT-7
    let callback = CallbackListener::bind("127.0.0.1", 0, "/cb").await.unwrap();
    let port: u16 = authority(&callback).rsplit(':').next().unwrap().parse().unwrap();
    let second = CallbackListener::bind("localhost", port, "/cb").await;
    assert_eq!(second.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    // Giving up the wait frees the port, in the middle of a visit as well.
    let mut peer = connect(&callback).await;
    peer.write_all(b"GET /cb HTTP/1.1\r\n").await.unwrap();
    _ = within(race(callback.wait(judge), visit(&callback, "GET", "/", "x"))).await;
    drop((callback, peer));
    CallbackListener::bind("localhost", port, "/cb").await.unwrap();
    for (host, path) in
        [("a b", "/cb"), ("127.0.0.1", "/c?b"), ("a@b", "/cb"), ("127.0.0.1", "/c#b")]
    {
        let bad = CallbackListener::bind(host, 0, path).await;
        assert_eq!(bad.unwrap_err().kind(), std::io::ErrorKind::InvalidInput, "{host} {path}");
    }
}

#[tokio::test]
async fn a_browser_has_nothing_of_ours_and_is_not_left_behind() {
    // wire: OA-24, OC-38
    let folder = std::env::temp_dir().join(format!("switchboard-browser-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (script, pipe) = (folder.join("browser"), folder.join("said"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let text = "#!/bin/sh\nread -r _ _ _ _ group _ < /proc/$$/stat\n\
        echo \"$$ $group $(readlink /proc/$$/fd/0 /proc/$$/fd/1 /proc/$$/fd/2 | tr '\\n' ' ')$* $SHOWN$STORE_KEY$XAUTHORITY\" > \"$0.out\"\n\
        cat \"$0.out\" > \"${0%browser}said\"\n";
    fs::write(&script, text).unwrap();
    let browser = format!("/no/such/one:sh {} -x %s -y", script.display());
    let names = [("BROWSER", &*browser), ("PATH", "/usr/bin:/bin"), ("SHOWN", "display")];
    let names = [&names[..], &[("STORE_KEY", "5a5a"), ("XAUTHORITY", "+cookie")]].concat();
    let environment: Vec<_> = names.iter().map(|(name, it)| (name.into(), it.into())).collect();
    let url = "https://as.example/authorize?a=b&c=$(id);d";
    assert!(open_browser(url, &environment).unwrap());
    let said = within(tokio::task::spawn_blocking(move || fs::read_to_string(pipe))).await;
    let said = said.unwrap().unwrap();
    let words: Vec<_> = said.split_whitespace().collect();
    let null = "/dev/null";
    assert_eq!(words[2..], [null, null, null, "-x", url, "-y", "display+cookie"]);
    assert_eq!(words[0], words[1], "it leads a process group of its own");
    let process = PathBuf::from(format!("/proc/{}", words[0]));
    within(async {
        while process.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    fs::remove_dir_all(folder).unwrap();
}
