//! Commands and files as people have them.

#![cfg(unix)]

use super::*;

fn shell(line: &str) -> Credentials {
    let command = ["sh", "-c", line].map(str::to_owned).to_vec();
    Credentials { command: Some(command), ..Credentials::default() }
}

fn environment() -> Vec<(OsString, OsString)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    vec![("PATH".into(), path), ("TOKEN".into(), "s3cret".into())]
}

async fn failed(credentials: &Credentials) -> String {
    credentials.fetch(&environment()).await.expect_err("nothing to send").to_string()
}

#[tokio::test]
async fn a_command_prints_headers_from_its_environment() {
    let fetched = shell(r#"echo "{\"Authorization\": \"Bearer $TOKEN\", \"X-A\": \"b\"}""#);
    let [headers] = &fetched.fetch(&environment()).await.unwrap()[..] else { panic!() };
    assert_eq!(headers["authorization"], "Bearer s3cret");
    assert_eq!(headers["x-a"], "b");
    assert!(!format!("{headers:?}").contains("s3cret"));
}

#[tokio::test]
async fn a_command_that_fails_is_told_without_what_it_printed() {
    assert_eq!(failed(&shell("echo s3cret; exit 3")).await, "sh ended with exit status: 3");
    let not = "sh printed no JSON object of headers";
    for line in ["echo s3cret", "echo '[]'", "echo '{\"a b\": \"c\"}'", "echo '{\"a\": 1}'"] {
        assert_eq!(failed(&shell(line)).await, not, "{line}");
    }
    assert_eq!(failed(&shell("yes")).await, "cannot run sh");
    let none = Credentials { command: Some(vec!["/no/such".to_owned()]), ..Credentials::default() };
    assert_eq!(failed(&none).await, "cannot run /no/such");
}

#[tokio::test]
async fn files_have_a_header_on_each_line() {
    let file = std::env::temp_dir().join(format!("switchboard-headers-{}", std::process::id()));
    std::fs::write(&file, "# mine\n\nX-Key: a:b\nX-Other:c\n").unwrap();
    let credentials = Credentials { files: vec![file.clone()], ..Credentials::default() };
    let fetched = credentials.fetch(&[]).await.unwrap();
    assert_eq!(
        (&fetched[0]["x-key"], &fetched[0]["x-other"]),
        (&"a:b".parse().unwrap(), &"c".parse().unwrap())
    );
    std::fs::write(&file, "X-Key: a\ns3cret\n").unwrap();
    assert_eq!(failed(&credentials).await, format!("line 2 of {} is no header", file.display()));
    std::fs::remove_file(&file).unwrap();
    assert_eq!(failed(&credentials).await, format!("cannot read {}", file.display()));
}

/// Waits for something outside of this program.
async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..3000 {
        if let Some(seen) = look() {
            return seen;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}")
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn who_stops_waiting_leaves_nothing_running() {
    let file = std::env::temp_dir().join(format!("switchboard-pid-{}", std::process::id()));
    let hangs = shell(&format!("sleep 1000 & echo $! > {}; wait", file.display()));
    let fetching = tokio::spawn(async move { hangs.fetch(&environment()).await });
    let id: u32 = until("a process", || {
        std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok())
    })
    .await;
    fetching.abort();
    assert!(fetching.await.unwrap_err().is_cancelled());
    std::fs::remove_file(&file).unwrap();
    until("its end", || {
        // One that nobody waited for is still there, but dead.
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok();
        stat.is_none_or(|stat| stat.contains(") Z ")).then_some(())
    })
    .await;
}
