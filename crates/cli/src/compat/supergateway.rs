//! supergateway: a command on HTTP+SSE, Streamable HTTP or a `WebSocket`, or a
//! URL on stdio.
//!
//! As there, one process serves all clients, except with --outputTransport
//! streamableHttp: then each session has its own, or each request without --stateful.

use switchboard_proto::revision::Revision;

use super::table::Means::{Combined, Converted, Ours};
use super::table::Needs::{Port, Url};
use super::table::{
    FlagRow, ForeignTool, Lookup, MILLIS, ORIGINS, YEAR, any, one, seconds, shell, switch,
    wants_shell,
};
use super::{BridgeLine, ParsedLine};
use crate::exit::{CommandResult, wrong};

pub(super) const TOOL: ForeignTool = ForeignTool {
    name: "supergateway",
    origin: "npm",
    usage: "supergateway --stdio CMD | --sse URL | --streamableHttp URL [FLAGS]",
    rows: ROWS,
    yargs: true,
    variables: None,
    arrange,
};

const ROWS: &[FlagRow] = &[
    one("--stdio", "command to run; by a shell, if it needs one")
        .means(Combined("bridge --stdio, or bridge -- sh -c, with --pass-environment")),
    one("--sse", "URL of a server that speaks HTTP+SSE")
        .means(Combined("bridge URL --transport sse-only")),
    one("--streamableHttp", "URL of a server that speaks Streamable HTTP")
        .means(Combined("bridge URL --transport http-only")),
    one("--outputTransport", "stdio, sse, ws or streamableHttp; sse for a command, else stdio")
        .means(Combined("bridge --serve, --children and --stateless")),
    one("--port", "port to listen on; 8000 by default").means(Combined("bridge --port")),
    one("--host", "address to listen on, a flag of ours; all addresses by default, as there")
        .means_for(Port, Combined("bridge --host")),
    one("--baseUrl", "what clients of HTTP+SSE see before the path to send to")
        .means_for(Port, Ours("--base-url")),
    one("--ssePath", "where clients of HTTP+SSE listen; /sse by default")
        .means_for(Port, Ours("--sse-path")),
    one("--messagePath", "where they send, or open a WebSocket; /message by default")
        .means_for(Port, Combined("bridge --message-path, or --ws-path")),
    one("--streamableHttpPath", "where Streamable HTTP is; /mcp by default")
        .means_for(Port, Ours("--path")),
    switch("--stateful", "sessions on Streamable HTTP")
        .means_for(Port, Combined("bridge without --stateless")),
    one("--sessionTimeout", "milliseconds until an unused session ends; 30 minutes by default")
        .means_for(Port, Converted("--session-timeout", idle)),
    one("--protocolVersion", "revision in which a server without sessions is greeted")
        .means_for(Port, Combined("bridge --stateless=DATE")),
    any("--header", "header for requests to a URL, or for our answers")
        .means(Combined("bridge --header, or --response-header")),
    one("--oauth2Bearer", "token for requests to a URL")
        .means_for(Url, Combined("bridge --header 'Authorization: Bearer …'")),
    any("--cors", "origins of web pages to let in: all, or those listed, or /REGEX/")
        .means_for(Port, ORIGINS),
    any("--healthEndpoint", "paths that answer ok").means_for(Port, Ours("--health")),
    one("--logLevel", "debug, info or none; info by default")
        .means(Converted("--log-level", level)),
];

fn level(values: &[String]) -> Result<Vec<String>, String> {
    match values.last().map(String::as_str) {
        Some(level @ ("debug" | "info")) => Ok(vec![level.to_owned()]),
        Some("none") => Ok(vec!["off".to_owned()]),
        _ => Err("use debug, info or none".to_owned()),
    }
}

fn idle(values: &[String]) -> Result<Vec<String>, String> {
    let is_none = |value: &String| value.parse().is_ok_and(|millis: f64| millis <= 0.0);
    if values.last().is_some_and(is_none) {
        return Err("not a time that a session could live".to_owned());
    }
    seconds(MILLIS, Some(1), YEAR, values)
}

fn arrange(given: &ParsedLine, _: Lookup<'_>) -> CommandResult<BridgeLine> {
    let inputs = ["--stdio", "--sse", "--streamableHttp"];
    let said: Vec<_> = inputs.into_iter().filter(|flag| given.says(flag)).collect();
    let [input] = said[..] else {
        let hint = "supergateway --stdio \"npx -y some-server\"";
        return wrong("one of --stdio, --sse and --streamableHttp is needed, and only one", hint);
    };
    let source = given.last(input).unwrap_or_default();
    let mut bridge = BridgeLine::default();
    match input {
        "--sse" => bridge.say("--transport", "sse-only"),
        "--streamableHttp" => bridge.say("--transport", "http-only"),
        _ => bridge.add(&["--pass-environment"]),
    }
    let (server, usual) = match input {
        "--stdio" => (format!("--stdio={source}"), "sse"),
        _ => (source.to_owned(), "stdio"),
    };
    bridge.server = vec![server];
    if input == "--stdio" && wants_shell(source) {
        bridge.run(&shell(source));
    }
    output(&mut bridge, given, given.last("--outputTransport").unwrap_or(usual))?;
    headers(&mut bridge, given);
    for word in given.operands.iter().chain(&given.command) {
        bridge.notes.push(format!("{word:?} belongs to no flag; it is left out"));
    }
    Ok(bridge)
}

fn output(bridge: &mut BridgeLine, given: &ParsedLine, transport: &str) -> CommandResult {
    if transport == "stdio" {
        return Ok(());
    }
    bridge.port = Some(given.last("--port").unwrap_or("8000").to_owned());
    bridge.say("--host", given.last("--host").unwrap_or("::"));
    bridge.add(&["--end-with-stdin"]);
    let is_streamable = transport == "streamableHttp";
    if given.is_on("--stateful") && !is_streamable {
        bridge.notes.push(format!("--stateful has no effect here: {STREAMABLE}"));
    }
    let has_sessions = !is_streamable || given.is_on("--stateful");
    if given.says("--protocolVersion") && has_sessions {
        let why = "without --stateful";
        bridge.notes.push(format!("--protocolVersion has no effect here: {STREAMABLE} {why}"));
    }
    let path = if transport == "ws" { "--ws-path" } else { "--message-path" };
    match transport {
        "ws" => bridge.add(&["--serve=ws", "--children=shared"]),
        "sse" => bridge.add(&["--children=shared"]),
        "streamableHttp" if given.is_on("--stateful") => {}
        "streamableHttp" => {
            let version = given.last("--protocolVersion");
            bridge.say("--stateless", version.unwrap_or(Revision::ALL[0].as_str()));
        }
        other => {
            let hint = "use stdio, sse, ws or streamableHttp";
            return wrong(format!("{other:?} is no output transport"), hint);
        }
    }
    bridge.say(path, given.last("--messagePath").unwrap_or("/message"));
    Ok(())
}

const STREAMABLE: &str = "it is for --outputTransport streamableHttp";

/// Towards a URL they are for its requests, else for our answers.
fn headers(bridge: &mut BridgeLine, given: &ParsedLine) {
    let flag = if bridge.is_for_url() { "--header" } else { "--response-header" };
    if !bridge.is_for_url() && bridge.port.is_none() {
        if given.says("--header") {
            let note = "--header has no effect here: nothing is sent by HTTP";
            bridge.notes.push(note.to_owned());
        }
        return;
    }
    given.all("--header").flatten().for_each(|header| bridge.say(flag, header));
    if let Some(token) = given.last("--oauth2Bearer").filter(|_| bridge.is_for_url()) {
        bridge.say("--header", format!("Authorization: Bearer {token}"));
    }
}
