//! mcp-remote, line by line.

use serde_json::json;

use super::{Case, Stage, check};
use crate::process::until;

const CASES: &[Case] = &[
    Case::new(
        "{url} --transport http-only --header Authorization:Bearer_${TOK} --header-file {file} \
         --protocol auto --allow-http --connect-timeout 5 --headers-timeout 60 --ipv4 \
         --disable-cookies --debug",
        sends_headers,
    )
    .vars(&[("TOK", "t0ken")])
    .file("# a comment\nX-File: yes\n\nAuthorization: Bearer weaker\n"),
    // A flag of ours, for machines on which a server takes long to start.
    Case::new(
        "{sse} --transport sse-only --headers-timeout 1 --start-timeout 60",
        gives_up_on_silence,
    ),
    Case::new("{url} --ignore-tool ec* --ignore-tool other --silent", hides_tools),
    Case::new("{sse} --transport sse-first --ignore-tool ECHO", hides_tools_in_lists),
    Case::new("http://far.invalid/mcp --allow-http --enable-proxy", Stage::echoes).vars(&[
        ("HTTP_PROXY", "{proxy}"),
        ("NO_PROXY", ""),
        ("no_proxy", ""),
    ]),
    Case::new("http://far.invalid/mcp --allow-http", does_without_the_proxy).vars(&[
        ("HTTP_PROXY", "{proxy}"),
        ("NO_PROXY", ""),
        ("no_proxy", ""),
    ]),
    Case::new("http://far.invalid/mcp", refuses_plain_http),
    Case::new(
        "{url} 9696 --host h --callback-path /p --auth-timeout 1 --auth-success-url u --resource r \
         --disable-resource-parameter --authorize-param a=b --static-oauth-client-metadata {} \
         --static-oauth-client-info @{file} --client-metadata-url u \
         --client-credentials --token-endpoint u --use-id-token --body-timeout 0",
        signs_in_only_where_it_must,
    )
    .file("{\"client_id\": \"c\", \"client_secret\": \"s\"}"),
    Case::new("{url} --device-code", Stage::echoes),
    Case::new("{url} --keep-alive --ping-interval 1", sends_pings),
];

#[test]
fn every_flag_does_what_it_does_there() {
    check("mcp-remote", CASES);
}

fn sends_headers(stage: &mut Stage) {
    stage.echoes();
    let head = stage.last_head();
    for line in ["authorization: bearer t0ken", "x-file: yes"] {
        assert!(head.contains(&format!("\r\n{line}\r\n")), "{head}");
    }
    stage.is_told("[DEBUG]");
}

fn sends_pings(stage: &mut Stage) {
    stage.echoes();
    let sent = stage.url.heads().len();
    until("a ping is sent", || stage.url.heads().len() > sent);
    let again = stage.running().call(2, "echo", &json!({"text": "on"}));
    assert_eq!(again, "on");
}

fn gives_up_on_silence(stage: &mut Stage) {
    let running = stage.running();
    running.greet();
    let never = json!({"name": "wait", "arguments": {"file": "/nowhere/at-all"}});
    let answer = running.ask(1, "tools/call", &never);
    let text = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(text.contains("timeout"), "{answer}");
}

fn hides_tools(stage: &mut Stage) {
    let running = stage.running();
    running.greet();
    let refused = running.ask(1, "tools/call", &json!({"name": "echo"}));
    assert_eq!(refused["error"]["message"], "Tool \"echo\" is not available", "{refused}");
    let allowed = json!({"name": "tell", "arguments": {"text": "x"}});
    assert!(running.ask(2, "tools/call", &allowed)["result"].is_object());
    running.close_stdin();
    assert_eq!(running.exit_code(), Some(0));
    assert_eq!(running.whole_log(), "");
}

fn hides_tools_in_lists(stage: &mut Stage) {
    let running = stage.running();
    running.greet();
    assert_eq!(running.ask(1, "tools/list", &json!({}))["result"], json!({"tools": []}));
    assert!(running.call(2, "pid", &json!({})).parse::<u32>().is_ok());
}

fn does_without_the_proxy(stage: &mut Stage) {
    let answer = stage.running().ask(0, "initialize", &crate::process::greeting());
    assert!(answer["error"].is_object(), "{answer}");
    assert!(stage.url.heads().is_empty());
}

fn refuses_plain_http(stage: &mut Stage) {
    let run = stage.finish();
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("--allow-http"), "{}", run.stderr);
}

/// A server that lets everybody in is called without a token. None of the flags is ignored.
fn signs_in_only_where_it_must(stage: &mut Stage) {
    stage.echoes();
    assert!(!stage.last_head().contains("authorization:"), "{}", stage.last_head());
    stage.running().close_stdin();
    let log = stage.running().whole_log();
    assert_eq!(log.matches("is ignored").count(), 1, "{log}");
    assert!(log.contains("--body-timeout is ignored") && log.contains("ID token"), "{log}");
}
