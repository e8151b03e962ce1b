//! mcp-proxy of Python, line by line.

use serde_json::{Value, json};

use super::{Case, Stage, Talk, check, page, preflight, told_to_send};
use crate::web::post;

const CASES: &[Case] = &[
    Case::new(
        "--port 0 --host 127.0.0.1 --named-server one {line} --named-server two {line} \
         -e MINE 1 --env YOURS 2 --cwd / --allow-origin https://a.example https://b.example \
         --expose-header X-Mine --log-level ERROR -- {server}",
        serves_several,
    ),
    Case::new(
        "--named-server-config {file} --named-server other {line} --sse-port 0 \
         --sse-host 127.0.0.1 --pass-environment --debug",
        serves_those_of_a_file,
    )
    .vars(&[("AWS_SECRET", "s")])
    .file(concat!(
        r#"{"mcpServers": {"on": {"command": "python3", "args": [""#,
        env!("CARGO_MANIFEST_DIR"),
        r#"/tests/it/server.py"], "env": {"MINE": "1"}},
            "bad": {"command": "no-such-program-here"},
            "off": {"command": "false", "enabled": false}}}"#
    )),
    Case::new("--stateless --port 0 -- {server}", has_no_sessions),
    Case::new("{sse}", Stage::echoes),
    Case::new("--verify-ssl", Stage::echoes).vars(&[("SSE_URL", "{sse}")]),
    Case::new("{url} --transport streamablehttp -H X-A 1 --headers X-B 2", sends_headers)
        .vars(&[("API_ACCESS_TOKEN", "t0ken")]),
    Case::new(
        "--transport streamablehttp --username u --password p --no-verify-ssl --client-id i \
         --client-secret s --token-url t {url}",
        logs_in,
    ),
    Case::new("--digest --username u --password p {url}", refuses_a_digest),
];

#[test]
fn every_flag_does_what_it_does_there() {
    check("mcp-proxy", CASES);
}

fn serves_several(stage: &mut Stage) {
    let port = stage.running().port();
    assert_eq!(stage.running().place().1, "/servers/one/mcp");
    let at_root = Talk::open(port, "/mcp/", None);
    let variables = at_root.call("variables", &json!({}));
    assert!(variables.contains("MINE") && variables.contains("YOURS"), "{variables}");
    assert_eq!(at_root.call("folder", &json!({})), "/");
    let again = Talk::open(port, "/mcp", None);
    assert_eq!(again.call("pid", &json!({})), at_root.call("pid", &json!({})));
    let [one, two] =
        ["one", "two"].map(|name| Talk::open(port, &format!("/servers/{name}/mcp"), None));
    assert_ne!(one.call("pid", &json!({})), two.call("pid", &json!({})));
    assert!(!one.call("variables", &json!({})).contains("MINE"));
    assert!(
        told_to_send(port, "/servers/two/sse").starts_with("/servers/two/messages/?sessionId=")
    );
    assert!(told_to_send(port, "/sse").starts_with("/messages/?sessionId="));
    let status: Value = serde_json::from_str(&page(port, "/status").1).unwrap();
    let servers = json!({"default": "configured", "one": "configured", "two": "configured"});
    assert_eq!(status["server_instances"], servers, "{status}");
    assert!(status["active_sse_connections"].is_u64(), "{status}");
    assert!(status["api_last_activity"].as_str().unwrap().starts_with("20"), "{status}");
    let granted = preflight(port, "/mcp", "https://b.example");
    let readable = granted.header("access-control-expose-headers").unwrap();
    assert!(readable.contains("mcp-session-id") && readable.contains("x-mine"), "{readable}");
    assert_eq!(preflight(port, "/mcp", "https://c.example").status, 403);
}

fn serves_those_of_a_file(stage: &mut Stage) {
    stage.is_told("--named-server has no effect here");
    // A command that is missing keeps none of the others from being served.
    stage.is_told("[bad] cannot be started: no-such-program-here is in no directory of PATH");
    let (port, path) = stage.running().place();
    assert_eq!(path, "/servers/on/mcp");
    assert_eq!(stage.running().place().1, "/servers/bad/mcp");
    let talk = Talk::open(port, "/servers/on/mcp", None);
    let variables = talk.call("variables", &json!({}));
    assert!(variables.contains("MINE") && variables.contains("AWS_SECRET"), "{variables}");
    for path in ["/mcp", "/servers/off/mcp", "/servers/other/mcp"] {
        assert_eq!(page(port, path).0, 404, "{path}");
    }
}

fn has_no_sessions(stage: &mut Stage) {
    let port = stage.running().port();
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let answer = post(port, &[], list.to_string().as_bytes());
    assert_eq!(answer.message()["result"]["tools"][0]["name"], "echo", "{answer:?}");
}

fn sends_headers(stage: &mut Stage) {
    stage.echoes();
    let head = stage.last_head();
    for line in ["authorization: bearer t0ken", "x-a: 1", "x-b: 2"] {
        assert!(head.contains(&format!("\r\n{line}\r\n")), "{head}");
    }
}

fn logs_in(stage: &mut Stage) {
    stage.echoes();
    let head = stage.last_head();
    assert!(head.contains("\r\nauthorization: basic dtpw\r\n"), "{head}");
    stage.running().close_stdin();
    let log = stage.running().whole_log();
    assert!(log.contains("--insecure: the certificate of localhost is not verified"), "{log}");
    assert!(!log.contains("is ignored"), "{log}");
}

fn refuses_a_digest(stage: &mut Stage) {
    let run = stage.finish();
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("digest"), "{}", run.stderr);
}
