//! `login`, `whoami`, `auth` and `logout`, at an authorization server of the test.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::process::{Run, Switchboard};

/// A server and its authorization server, which ends with the process.
struct Provider {
    address: SocketAddr,
    /// The first line of each request, and its body.
    seen: Arc<Mutex<Vec<String>>>,
}

impl Provider {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming() {
                // A client that hangs up is a result, not a fault of this server.
                _ = answer(&stream.unwrap(), address, &log);
            }
        });
        Self { address, seen }
    }

    fn count(&self, part: &str) -> usize {
        self.seen.lock().unwrap().iter().filter(|request| request.contains(part)).count()
    }
}

fn answer(stream: &TcpStream, own: SocketAddr, log: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head)? > 0 {}
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
    });
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    let line = head.lines().next().unwrap_or_default();
    let is_shown = head.to_ascii_lowercase().contains("authorization: bearer marked-access");
    let shown = if is_shown { "[with token] " } else { "" };
    log.lock().unwrap().push(format!("{line} {shown}{}", String::from_utf8_lossy(&body)));
    let path = line.split(' ').nth(1).unwrap_or_default();
    let root = format!("http://{own}");
    let claims = URL_SAFE_NO_PAD.encode(r#"{"sub":"7","email":"ada@example.com"}"#);
    let (status, body) = match path {
        "/prm" => {
            (200, json!({"resource": format!("{root}/mcp"), "authorization_servers": [root]}))
        }
        "/.well-known/oauth-authorization-server" => (
            200,
            json!({
                "issuer": root,
                "authorization_endpoint": format!("{root}/authorize"),
                "token_endpoint": format!("{root}/token"),
                "registration_endpoint": format!("{root}/register"),
                "revocation_endpoint": format!("{root}/revoke"),
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
            }),
        ),
        "/register" => (201, json!({"client_id": "made-for-us"})),
        "/token" => (
            200,
            json!({
                "access_token": "marked-access", "refresh_token": "marked-refresh",
                "token_type": "Bearer", "expires_in": 3600, "scope": "tools",
                "id_token": format!("x.{claims}.marked-signature"),
            }),
        ),
        "/revoke" => (200, json!({})),
        "/mcp" => (401, json!({})),
        _ => (404, json!({})),
    };
    let challenge = format!("Bearer resource_metadata=\"{root}/prm\", scope=\"tools\"");
    let body = body.to_string();
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nWWW-Authenticate: {challenge}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// What a person does in a browser: the page sends them back with a code.
fn come_back(page: &str) -> String {
    let parameter = |name: &str| {
        let mut pairs = page.split(['?', '&']).filter_map(|pair| pair.split_once('='));
        let value = pairs.find(|(found, _)| *found == name).map(|(_, value)| value);
        value.unwrap_or_default().replace("%3A", ":").replace("%2F", "/")
    };
    let redirect = parameter("redirect_uri");
    let (host, path) = redirect.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let query = format!("code=marked-code&state={}", parameter("state"));
    write!(stream, "GET /{path}?{query} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn one_login_is_known_to_all_commands_until_logout() {
    // wire: OC-32, OC-37, OC-49, OT-1
    let provider = Provider::start();
    let url = format!("http://{}/mcp", provider.address);
    let store = std::env::temp_dir().join(format!("switchboard-login-{}", std::process::id()));
    let folder = store.display().to_string();
    let key = "5".repeat(64);
    let vars = [("SWITCHBOARD_STORE_KEY", key.as_str()), ("HOME", "/nowhere")];
    let run = |words: &[&str]| {
        let words = [words, &["--store", &folder]].concat();
        let run = Switchboard::start_with(&words, &vars).finish();
        assert!(!format!("{}{}", run.stdout, run.stderr).contains("marked"), "{}", run.stdout);
        run
    };
    assert_eq!(run(&["whoami", &url]).code, Some(3));
    assert!(!store.exists(), "nothing is made for those who never sign in");

    let words = ["login", &url, "--no-browser", "--store", &folder];
    let mut login = Switchboard::start_with(&words, &vars);
    let page = login.until_logged("/authorize?").trim().to_owned();
    // Who forgets does not wait for who signs in.
    assert_eq!(run(&["auth", "forget", &url]).code, Some(0));
    assert!(page.contains("&scope=tools") && page.contains("%2Foauth%2Fcallback"), "{page}");
    assert!(come_back(&page).contains("You are signed in"));
    let Run { code, stdout, stderr } = login.finish();
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("ada@example.com") && !stdout.contains("marked"), "{stdout}");
    assert!(!stderr.contains("marked"), "{stderr}");

    let who = run(&["whoami", &url, "--output", "json"]);
    let who: Value = serde_json::from_str(&who.stdout).unwrap();
    assert_eq!((&who["user"], &who["subject"]), (&json!("ada@example.com"), &json!("7")));
    assert_eq!((&who["scopes"], &who["isRenewable"]), (&json!(["tools"]), &json!(true)));
    assert_eq!(run(&["whoami", &url, "--account", "other"]).code, Some(3));
    // The doctor shows the token of the account that is named, of the store that is named.
    let shown = || provider.count("POST /mcp HTTP/1.1 [with token]");
    run(&["doctor", &url, "--timeout", "2", "--account", "other"]);
    assert_eq!(shown(), 0);
    run(&["doctor", &url, "--timeout", "2"]);
    assert!(shown() > 0, "{:?}", provider.seen);
    let listed = run(&["auth", "list"]).stdout;
    assert!(listed.contains(&url) && listed.contains("made-for-us"), "{listed}");
    let shown = run(&["auth", "show", &url]).stdout;
    assert!(shown.contains("made-for-us") && shown.contains("/token"), "{shown}");
    for file in files(&store) {
        let content = fs::read(&file).unwrap();
        assert!(!String::from_utf8_lossy(&content).contains("marked"), "{}", file.display());
    }

    assert_eq!(run(&["logout", &url]).code, Some(0));
    assert_eq!(provider.count("POST /revoke"), 2, "both tokens are taken back");
    assert_eq!(run(&["logout", &url]).code, Some(3));
    assert_eq!(run(&["auth", "forget", &url]).code, Some(0), "there is the registration");
    assert_eq!(run(&["auth", "forget", &url]).code, Some(3));
    fs::remove_dir_all(store).unwrap();
}

#[test]
fn a_client_that_flags_named_is_found_without_them() {
    // wire: OX-1, OC-49
    let provider = Provider::start();
    let url = format!("http://{}/mcp", provider.address);
    let store = std::env::temp_dir().join(format!("switchboard-client-{}", std::process::id()));
    let folder = store.display().to_string();
    let key = "5".repeat(64);
    let vars = [("SWITCHBOARD_STORE_KEY", key.as_str()), ("HOME", "/nowhere")];
    let run = |words: &[&str]| {
        let words = [words, &["--store", &folder]].concat();
        Switchboard::start_with(&words, &vars).finish()
    };
    let flags = ["--client-credentials", "--client-id", "ci", "--client-secret", "marked-secret"];
    let login = run(&[&["login", &url][..], &flags].concat());
    assert_eq!(login.code, Some(0), "{}", login.stderr);
    assert_eq!(run(&["whoami", &url]).code, Some(0));
    assert!(run(&["auth", "show", &url]).stdout.contains("ci"));
    // A file that names another client means another account.
    let file = store.join("mcp.json");
    let oauth =
        json!({"grant": "client-credentials", "clientId": "cj", "clientSecret": "marked-other"});
    let servers = json!({"servers": {"it": {"url": url, "oauth": oauth}}});
    fs::write(&file, servers.to_string()).unwrap();
    let other = run(&["logout", "it", "--config", file.to_str().unwrap()]);
    assert_eq!((other.code, provider.count("POST /revoke")), (Some(3), 0), "{}", other.stderr);
    // Of two clients one has to be named.
    let flags = ["--client-credentials", "--client-id", "cj", "--client-secret", "marked-other"];
    let login = run(&[&["login", &url][..], &flags].concat());
    assert_eq!(login.code, Some(0), "{}", login.stderr);
    for command in ["whoami", "logout"] {
        let several = run(&[command, &url]);
        assert_eq!(several.code, Some(2), "{}", several.stderr);
        for text in ["client-credentials ci, client-credentials cj", "--client-id ci"] {
            assert!(several.stderr.contains(text), "{}", several.stderr);
        }
    }
    assert_eq!(run(&["logout", &url, "--client-id", "other"]).code, Some(3));
    assert_eq!(provider.count("POST /revoke"), 0);
    assert_eq!(run(&["logout", &url, "--client-id", "ci"]).code, Some(0));
    assert_eq!(provider.count("POST /revoke"), 2);
    assert_eq!(run(&["whoami", &url, "--client-id", "ci"]).code, Some(3));
    assert_eq!(run(&["logout", &url]).code, Some(0), "the other one is the only one");
    assert_eq!(provider.count("POST /revoke"), 4);
    assert_eq!(run(&["logout", &url]).code, Some(3));
    fs::remove_dir_all(store).unwrap();
}

#[test]
fn a_bridge_that_may_ask_nobody_ends_with_status_3() {
    let provider = Provider::start();
    let url = format!("http://{}/mcp", provider.address);
    let store = std::env::temp_dir().join(format!("switchboard-never-{}", std::process::id()));
    let folder = store.display().to_string();
    let key = "5".repeat(64);
    let vars = [("SWITCHBOARD_STORE_KEY", key.as_str()), ("HOME", "/nowhere")];
    let words = ["bridge", &url, "--login", "never", "--store", &folder];
    let mut bridge = Switchboard::start_with(&words, &vars);
    let answer = bridge.ask(1, "initialize", &crate::process::greeting());
    let text = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(text.contains("switchboard login"), "{answer}");
    let run = bridge.finish();
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stderr.contains("\"kind\":\"auth\""), "{}", run.stderr);
    // Commands that are not at a terminal ask nobody either.
    let run = Switchboard::start_with(&["tools", &url, "--store", &folder], &vars).finish();
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    // If they may, they wait for a person.
    let words = ["tools", &url, "--login", "wait", "--store", &folder];
    let mut tools = Switchboard::start_with(&words, &vars);
    let page = tools.until_logged("/authorize?").trim().to_owned();
    assert!(come_back(&page).contains("You are signed in"));
    // The server of this test refuses every token.
    assert_eq!(tools.finish().code, Some(3));
    assert_eq!(provider.count("grant_type=authorization_code"), 1);
    fs::remove_dir_all(store).unwrap();
}

#[test]
fn sign_ins_of_mcp_remote_are_taken_over_once_and_never_printed() {
    // wire: OT-10
    let provider = Provider::start();
    let url = format!("http://{}/mcp", provider.address);
    let home = std::env::temp_dir().join(format!("switchboard-over-{}", std::process::id()));
    let theirs = home.join("mcp-remote-v1");
    fs::create_dir_all(&theirs).unwrap();
    let hash = switchboard_net::auth::mcp_remote::server_url_hash(&[&url]);
    let write = |kind: &str, content: Value| {
        fs::write(theirs.join(format!("{hash}_{kind}.json")), content.to_string()).unwrap();
    };
    write(
        "tokens",
        json!({"access_token": "marked-a", "refresh_token": "marked-r",
                           "token_type": "Bearer", "expires_in": 3600, "scope": "tools"}),
    );
    write("client_info", json!({"client_id": "theirs"}));
    let config = home.join("mcp.json");
    let entry = json!({"command": "npx", "args": ["-y", "mcp-remote@latest", url, "--debug"]});
    fs::write(&config, json!({"mcpServers": {"a": entry}}).to_string()).unwrap();
    let (folder, config) = (home.join("store").display().to_string(), config.display().to_string());
    let (key, home_text) = ("5".repeat(64), home.display().to_string());
    let vars = [
        ("SWITCHBOARD_STORE_KEY", key.as_str()),
        ("HOME", "/nowhere"),
        ("MCP_REMOTE_CONFIG_DIR", home_text.as_str()),
    ];
    let run = |words: &[&str]| {
        let words = [words, &["--store", &folder]].concat();
        let run = Switchboard::start_with(&words, &vars).finish();
        assert!(!format!("{}{}", run.stdout, run.stderr).contains("marked"), "{}", run.stdout);
        run
    };
    let import = ["login", "--import", "mcp-remote", "--config", &config];
    let first = run(&import);
    assert_eq!(first.stdout, format!("{url}: taken over"), "{}", first.stderr);
    assert_eq!(run(&import).stdout, format!("{url}: already taken over"));
    let who = run(&["whoami", &url, "--output", "json"]);
    let who: Value = serde_json::from_str(&who.stdout).unwrap();
    assert_eq!((&who["scopes"], &who["isRenewable"]), (&json!(["tools"]), &json!(true)));
    // The server refuses the token. Where it is renewed is found out now.
    assert_eq!(run(&["tools", &url]).code, Some(3));
    assert_eq!(provider.count("refresh_token=marked-r"), 1);
    assert_eq!(provider.count("client_id=theirs"), 1);
    let shown = run(&["auth", "show", &url]).stdout;
    assert!(shown.contains("/token") && shown.contains("theirs"), "{shown}");
    assert_eq!(run(&import).stdout, format!("{url}: ours is newer"));
    assert_eq!(run(&["login", "http://127.0.0.1:1/mcp", "--import", "mcp-remote"]).code, Some(1));
    fs::remove_dir_all(home).unwrap();
}

fn files(folder: &PathBuf) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().flatten().map(|file| file.path()).collect()
}

#[test]
fn a_command_cannot_be_signed_in_to_and_usage_is_told() {
    let file = std::env::temp_dir().join(format!("switchboard-who-{}.json", std::process::id()));
    fs::write(&file, r#"{"mcpServers": {"a": {"command": "true"}}}"#).unwrap();
    let config = file.display().to_string();
    let run = Switchboard::start(&["whoami", "a", "--config", &config]).finish();
    fs::remove_file(file).unwrap();
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("only servers at a URL"), "{}", run.stderr);
    let run = Switchboard::start(&["login"]).finish();
    assert!(run.stderr.contains("\"kind\":\"usage\""), "{}", run.stderr);
}
