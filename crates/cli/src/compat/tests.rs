//! Lines of theirs, and what becomes of them.

use super::*;

fn nothing(_: &str) -> Option<String> {
    None
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(|word| word.replace('_', " ")).collect()
}

/// The line in our words, without `switchboard bridge`.
#[track_caller]
fn ours(line: &str) -> String {
    match understand(words(line), &nothing) {
        Ok(CommandLine::Theirs { words, .. }) => words[2..].join(" "),
        other => panic!("{line}: {other:?}"),
    }
}

#[track_caller]
fn notes(line: &str) -> Vec<String> {
    match understand(words(line), &nothing) {
        Ok(CommandLine::Theirs { notes, .. }) => notes,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn a_line_is_theirs_by_name_by_word_or_by_flag() {
    let remote = "--direct --callback-host=localhost https://a.example/mcp";
    assert_eq!(ours("/usr/bin/mcp-remote https://a.example/mcp"), remote);
    assert_eq!(ours("mcp-remote.exe https://a.example/mcp"), remote);
    assert_eq!(ours("sb mcp-remote https://a.example/mcp"), remote);
    assert_eq!(ours("sb -y mcp-remote@latest https://a.example/mcp"), remote);
    assert_eq!(ours("sb https://a.example/mcp --allow-http"), remote);
    assert_eq!(ours("sb bridge https://a.example/mcp --allow-http"), remote);
    let gateway = "--pass-environment --host=:: --end-with-stdin --children=shared --message-path=/message \
                   --health=/h --port=8000 --stdio=node server.js";
    assert_eq!(ours("sb --stdio node_server.js --healthEndpoint /h"), gateway);
    assert_eq!(ours("sb bridge --stdio node_server.js --health-endpoint /h"), gateway);
    assert!(
        ours("sb --stdio node_server.js --port 9").ends_with("--port=9 --stdio=node server.js")
    );
    assert_eq!(ours("sb https://a.example/mcp"), remote);
    assert_eq!(
        ours("sb https://a.example/mcp --transport streamablehttp"),
        "--transport=http-only https://a.example/mcp"
    );
    assert!(ours("sb --named-server a b --port 1").contains("--named-server a b --port=1"));
    assert!(ours("sb --server sse node a.js").contains("--serve=sse"));
}

#[test]
fn a_line_of_ours_stays_as_it_is() {
    for line in [
        "sb",
        "sb --help",
        "sb --log-level debug bridge -- true",
        "sb --log-format=json tools https://a.example/mcp",
        "sb --unheard",
        "sb bridge https://a.example/mcp --header A:_b --port 1",
        "sb bridge --stdio node_server.js --port 8000",
        "sb bridge --no-such-flag -- true",
        "sb bridge -- node server.js --healthEndpoint /h",
        "sb tools https://a.example/mcp",
    ] {
        assert_eq!(understand(words(line), &nothing), Ok(CommandLine::Ours(words(line))), "{line}");
    }
}

#[test]
fn the_two_proxies_are_told_apart_by_their_flags() {
    let which = |line: &str| {
        let words = words(line);
        whose(&words, &nothing).unwrap().0.name
    };
    assert_eq!(which("mcp-proxy --apiKey k -- node a.js"), "mcp-proxy-npm");
    assert_eq!(which("mcp-proxy --no-eventStore node a.js"), "mcp-proxy-npm");
    assert_eq!(which("mcp-proxy --port 1 -e A b node"), "mcp-proxy-python");
    assert_eq!(which("mcp-proxy --port 1 -- node a.js --apiKey k"), "mcp-proxy-python");
    assert_eq!(which("mcp-proxy https://a.example/sse"), "mcp-proxy-python");
    assert_eq!(which("sb -y mcp-proxy --port 1 -- node a.js"), "mcp-proxy-npm");
    assert_eq!(which("sb mcp-proxy-npm node a.js"), "mcp-proxy-npm");
}

#[test]
fn defaults_are_theirs() {
    let npm = "--host=:: --pass-environment --children=shared --health=/ping=pong \
               --allow-origin=* --start-timeout=60 --timeout=300 --idle-connection=300 --grace=5 \
               --max-message=10485760 --port=8080 -- node a.js -v";
    assert_eq!(ours("mcp-proxy-npm node a.js -v"), npm);
    let python = "--children=shared --message-path=/messages/ --status=/status --port=0 -- node";
    assert_eq!(ours("mcp-proxy node"), python);
    assert_eq!(ours("mcp-proxy http://a.example/sse"), "--transport=sse-only http://a.example/sse");
    assert_eq!(
        ours("supergateway --stdio cd_/tmp_&&_node --outputTransport streamableHttp"),
        "--pass-environment --host=:: --end-with-stdin --stateless=2024-11-05 --message-path=/message \
         --port=8000 -- sh -c cd /tmp && node"
    );
    assert_eq!(
        ours("supergateway --sse http://a.example/"),
        "--transport=sse-only http://a.example/"
    );
}

#[test]
fn what_is_not_honoured_is_told_and_what_has_no_effect_too() {
    let told = notes("mcp-remote https://a.example/mcp --body-timeout 3 --no-such");
    assert_eq!(told.len(), 2, "{told:?}");
    let told = notes("supergateway --sse https://a.example/ --healthEndpoint /h");
    assert!(told[0].contains("--healthEndpoint has no effect here"), "{told:?}");
    assert_eq!(notes("mcp-remote https://a.example/mcp --no-debug"), [""; 0]);
}

#[test]
fn flags_and_variables_for_tls_are_ours_in_other_words() {
    for flag in ["--no-verify-ssl", "--verify-ssl=false"] {
        let said = ours(&format!("mcp-proxy {flag} https://a.example/sse"));
        assert!(said.contains("--insecure"), "{said}");
    }
    let said = ours("mcp-proxy-npm --sslCert c.pem --sslKey k.pem node");
    assert!(said.contains("--tls-cert=c.pem") && said.contains("--tls-key=k.pem"), "{said}");
    let env = |name: &str| match name {
        "NODE_EXTRA_CA_CERTS" => Some("Cargo.toml".to_owned()),
        "NODE_TLS_REJECT_UNAUTHORIZED" => Some("0".to_owned()),
        _ => None,
    };
    let line = words("mcp-remote https://a.example/mcp");
    let Ok(CommandLine::Theirs { words, .. }) = understand(line, &env) else {
        panic!("not theirs")
    };
    let has = |word: &str| words.iter().any(|it| it == word);
    assert!(has("--ca-file=Cargo.toml") && has("--insecure"), "{words:?}");
    let env = |name: &str| (name == "NODE_EXTRA_CA_CERTS").then(|| "nosuch.pem".to_owned());
    let line = self::words("mcp-remote https://a.example/mcp");
    let Ok(CommandLine::Theirs { words, notes }) = understand(line, &env) else {
        panic!("not theirs")
    };
    // Node.js goes on without it, too.
    assert!(!words.iter().any(|word| word.starts_with("--ca-file")), "{words:?}");
    assert!(notes[0].starts_with("nosuch.pem of NODE_EXTRA_CA_CERTS"), "{notes:?}");
}

#[test]
fn flags_for_signing_in_are_ours_in_other_words() {
    let line = "mcp-remote https://a.example/mcp";
    let plain = "--direct --callback-host=localhost";
    for (theirs, expected) in [
        ("9696", "--callback-port=9696"),
        ("--callback-path /cb", "--callback-path=/cb"),
        ("--auth-timeout 45", "--auth-timeout=45"),
        ("--auth-success-url https://me/ok", "--auth-success-url=https://me/ok"),
        ("--resource https://r/", "--oauth-resource=https://r/"),
        ("--disable-resource-parameter", "--oauth-resource=false"),
        ("--authorize-param k=v", "--authorize-param=k=v"),
        (
            "--static-oauth-client-metadata {\"scope\":\"a\"}",
            "--oauth-client-metadata={\"scope\":\"a\"}",
        ),
        ("--static-oauth-client-info @f.json", "--oauth-client-info=@f.json"),
        ("--client-metadata-url https://me/c", "--client-metadata-url=https://me/c"),
        ("--client-credentials", "--client-credentials"),
        ("--token-endpoint https://as/token", "--token-endpoint=https://as/token"),
        ("--device-code", "--device-code"),
        ("--use-id-token", "--use-id-token"),
    ] {
        let theirs = format!("{line} {theirs}");
        assert_eq!(ours(&theirs), format!("{plain} {expected} https://a.example/mcp"));
        assert_eq!(notes(&theirs), [""; 0]);
        // What comes of it is a line that is taken.
        match understand(words(&theirs), &nothing) {
            Ok(CommandLine::Theirs { words, .. }) => {
                let cli = <args::Cli as clap::Parser>::try_parse_from(&words);
                cli.unwrap_or_else(|error| panic!("{words:?}: {error}"));
            }
            other => panic!("{other:?}"),
        }
    }
    let host = ours(&format!("{line} --host 127.0.0.1"));
    assert_eq!(host, "--direct --callback-host=127.0.0.1 https://a.example/mcp");

    let python =
        "mcp-proxy http://a.example/sse --client-id c --client-secret s --token-url http://as/t";
    assert_eq!(
        ours(python),
        "--transport=sse-only --client-credentials --oauth-client-id=c --oauth-client-secret=s \
         --token-endpoint=http://as/t http://a.example/sse"
    );
    let half = "mcp-proxy http://a.example/sse --client-id c";
    assert!(understand(words(half), &nothing).is_err());
    let command = notes("mcp-proxy --client-id c --client-secret s node");
    assert!(command[0].contains("--client-id has no effect here"), "{command:?}");
}

#[test]
fn no_flag_is_left_out_in_silence() {
    for (line, flag) in [
        ("mcp-proxy --username a --password b node", "--username"),
        ("mcp-proxy --username a --password b node", "--password"),
        ("mcp-proxy --transport sse node", "--transport"),
        ("mcp-proxy --verify-ssl false -- node", "--verify-ssl"),
        ("mcp-proxy --no-verify-ssl node", "--no-verify-ssl"),
        ("mcp-proxy --digest node", "--digest"),
        ("mcp-proxy --named-server a b -e A b", "--env"),
        ("mcp-proxy --named-server a b --cwd /", "--cwd"),
        ("supergateway --stdio a --stateful", "--stateful"),
        ("supergateway --stdio a --protocolVersion 2025-06-18", "--protocolVersion"),
        ("supergateway --stdio npx server", "server"),
    ] {
        let told = notes(line);
        assert!(told.iter().any(|note| note.contains(flag)), "{line}: {told:?}");
    }
    let told = notes("supergateway --stdio a --outputTransport streamableHttp --stateful");
    assert_eq!(told, [""; 0]);
}

#[test]
fn a_short_flag_ends_a_list_too() {
    let said = ours("mcp-proxy --allow-origin https://a.example -e A b --port 1 -- node");
    assert!(said.contains("--env=A=b") && !said.contains("--allow-origin=-e"), "{said}");
    let said = ours("mcp-proxy --verify-ssl -H X-A 1 https://a.example/sse");
    assert!(said.contains("--header=X-A: 1") && !said.contains("--ca-file"), "{said}");
}

#[test]
fn times_are_as_long_as_they_say_or_as_long_as_we_wait() {
    for (line, said) in [
        ("mcp-remote https://a.example/ --headers-timeout 1.5", "--timeout=2 "),
        ("mcp-remote https://a.example/ --headers-timeout 0", "--timeout=86400 "),
        ("mcp-remote https://a.example/ --headers-timeout 1e9", "--timeout=86400 "),
        ("mcp-remote https://a.example/ --connect-timeout 2.5", "--connect-timeout=3 "),
        ("mcp-remote https://a.example/ --keep-alive", "--ping=30 "),
        ("mcp-remote https://a.example/ --ping-interval 9.5", "--ping=10 "),
        ("mcp-proxy-npm --connectionTimeout 1500 node", "--start-timeout=2 "),
        ("mcp-proxy-npm --requestTimeout 1e12 node", "--timeout=86400 "),
        ("mcp-proxy-npm --keepAliveTimeout 1e12 node", "--idle-connection=86400 "),
        ("mcp-proxy-npm --gracefulShutdownTimeout 1e9 node", "--grace=3600 "),
    ] {
        let ours = ours(line);
        assert!(ours.contains(said), "{line}: {ours}");
    }
}

#[test]
fn a_switch_in_a_variable_is_on_only_if_it_says_so() {
    let with = |value: &'static str| {
        let env = move |name: &str| (name == "MCP_PROXY_STATELESS").then(|| value.to_owned());
        let Ok(CommandLine::Theirs { words, .. }) = understand(words("mcp-proxy-npm node"), &env)
        else {
            panic!("not theirs");
        };
        words.contains(&"--stateless".to_owned())
    };
    assert!(with("true") && !with("false") && !with("0") && !with(""));
}

#[test]
fn nonsense_is_refused_with_a_hint() {
    for (line, what) in [
        ("mcp-remote", "URL"),
        ("mcp-remote http://a.example/mcp", "http://"),
        ("supergateway --port 1", "--stdio"),
        ("supergateway --stdio a --sse b", "only one"),
        ("supergateway --stdio a --outputTransport carrier", "carrier"),
        ("supergateway --stdio", "needs a value"),
        ("supergateway --stdio a --sessionTimeout soon", "milliseconds"),
        ("supergateway --stdio a --sessionTimeout 0", "--sessionTimeout 0"),
        ("mcp-proxy", "no server"),
        ("mcp-proxy --username a https://a.example/sse", "--password"),
        ("mcp-proxy --digest https://a.example/sse", "digest"),
        ("mcp-proxy --unheard https://a.example/sse", "--unheard"),
        ("mcp-proxy-npm --sslCa a node", "certificates"),
        ("mcp-proxy-npm --server both node", "both"),
        ("mcp-proxy-npm --eventStoreMaxEvents 0 node", "--eventStoreMaxEvents 0"),
        ("mcp-remote https://a.example/ --ping-interval 0", "--ping-interval 0"),
    ] {
        match understand(words(line), &nothing) {
            Err(failure) => {
                let text = failure.to_string();
                let (error, hint) = text.split_once("\nhint: ").unwrap();
                assert!(error.contains(what), "{line}: {error}");
                assert!(!hint.trim().is_empty(), "{line}");
            }
            other => panic!("{line}: {other:?}"),
        }
    }
}

#[test]
fn values_and_switches_are_read_as_they_read_them() {
    let line = "supergateway --stdio=a --cors --healthEndpoint /a /b --stateful=false";
    let ours_ = ours(line);
    assert!(ours_.contains("--allow-origin=*") && ours_.contains("--health=/b"), "{ours_}");
    let env = |name: &str| (name == "MCP_PROXY_API_KEY").then(|| "k".to_owned());
    let Ok(CommandLine::Theirs { words, .. }) = understand(words("mcp-proxy-npm node"), &env)
    else {
        panic!("not theirs");
    };
    assert!(words.contains(&"--api-key=k".to_owned()), "{words:?}");
    let token = |name: &str| (name == "API_ACCESS_TOKEN").then(|| "t".to_owned());
    let line = "mcp-proxy -H Authorization mine --username a --password b https://a.example/sse";
    let line = line.split(' ').map(str::to_owned).collect();
    let Ok(CommandLine::Theirs { words, .. }) = understand(line, &token) else {
        panic!("not theirs")
    };
    let headers: Vec<_> = words.into_iter().filter(|word| word.starts_with("--header=")).collect();
    let expected = ["mine", "Bearer ${API_ACCESS_TOKEN}", "Basic YTpi"];
    assert_eq!(headers, expected.map(|value| format!("--header=Authorization: {value}")));
}

#[test]
fn every_row_says_what_it_means_and_ours_are_real() {
    for (tool, row) in rows() {
        let real = |flag: &str| assert!(args::value_count(flag).is_some(), "{}: {flag}", row.flag);
        match row.means {
            Means::Ours(flag) | Means::Converted(flag, _) => real(flag),
            Means::Word(word) => real(word.split('=').next().unwrap()),
            Means::Combined(words)
            | Means::NoEffect(words)
            | Means::Ignored(words)
            | Means::Refused(words) => assert!(!words.is_empty(), "{}", row.flag),
        }
        assert!(!row.help.is_empty());
        let help = table::help_text(tool);
        assert!(help.contains(row.flag), "{}", row.flag);
    }
}
