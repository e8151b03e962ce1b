//! supergateway: a command on HTTP+SSE, Streamable HTTP or a `WebSocket`, or a
//! URL on stdio.
//!
//! As there, one process serves all clients, except with --outputTransport
//! streamableHttp: then each session has its own, or each request without --stateful.

use switchboard_proto::revision::Revision;

use super::table::{
    Complaint, Lookup, Means, Needs, Row, Takes, Tool, origins, seconds, shell, wants_shell,
};
use super::translate::{BridgeLine, BridgeServer, ParsedLine};

pub(super) const TOOL: Tool = Tool {
    name: "supergateway",
    origin: "npm",
    usage: "supergateway --stdio CMD | --sse URL | --streamableHttp URL [FLAGS]",
    rows: ROWS,
    yargs: true,
    variables: None,
    arrange,
};

const ROWS: &[Row] = &[
    Row::new("--stdio", Takes::One, "command to run; by a shell, if it needs one")
        .means(Means::Combined("bridge --stdio, or bridge -- sh -c, with --pass-environment")),
    Row::new("--sse", Takes::One, "URL of a server that speaks HTTP+SSE")
        .means(Means::Combined("bridge URL --transport sse-only")),
    Row::new("--streamableHttp", Takes::One, "URL of a server that speaks Streamable HTTP")
        .means(Means::Combined("bridge URL --transport http-only")),
    Row::new(
        "--outputTransport",
        Takes::One,
        "stdio, sse, ws or streamableHttp; sse for a command, else stdio",
    )
    .means(Means::Combined("bridge --serve, --children and --stateless")),
    Row::new("--port", Takes::One, "port to listen on; 8000 by default")
        .means(Means::Combined("bridge --port")),
    Row::new(
        "--host",
        Takes::One,
        "address to listen on, a flag of ours; all addresses by default, as there",
    )
    .needs(Needs::Port)
    .means(Means::Combined("bridge --host")),
    Row::new("--baseUrl", Takes::One, "what clients of HTTP+SSE see before the path to send to")
        .needs(Needs::Port)
        .means(Means::Ours("--base-url")),
    Row::new("--ssePath", Takes::One, "where clients of HTTP+SSE listen; /sse by default")
        .needs(Needs::Port)
        .means(Means::Ours("--sse-path")),
    Row::new(
        "--messagePath",
        Takes::One,
        "where they send, or open a WebSocket; /message by default",
    )
    .needs(Needs::Port)
    .means(Means::Combined("bridge --message-path, or --ws-path")),
    Row::new("--streamableHttpPath", Takes::One, "where Streamable HTTP is; /mcp by default")
        .needs(Needs::Port)
        .means(Means::Ours("--path")),
    Row::new("--stateful", Takes::Nothing, "sessions on Streamable HTTP")
        .needs(Needs::Port)
        .means(Means::Combined("bridge without --stateless")),
    Row::new(
        "--sessionTimeout",
        Takes::One,
        "milliseconds until an unused session ends; 30 minutes by default",
    )
    .needs(Needs::Port)
    .means(Means::Converted("--session-timeout", idle)),
    Row::new(
        "--protocolVersion",
        Takes::One,
        "revision in which a server without sessions is greeted",
    )
    .needs(Needs::Port)
    .means(Means::Combined("bridge --stateless=DATE")),
    Row::new("--header", Takes::Any, "header for requests to a URL, or for our answers")
        .means(Means::Combined("bridge --header, or --response-header")),
    Row::new("--oauth2Bearer", Takes::One, "token for requests to a URL")
        .needs(Needs::Url)
        .means(Means::Combined("bridge --header 'Authorization: Bearer …'")),
    Row::new(
        "--cors",
        Takes::Any,
        "origins of web pages to let in: all, or those listed, or /REGEX/",
    )
    .needs(Needs::Port)
    .means(Means::Converted("--allow-origin", origins)),
    Row::new("--healthEndpoint", Takes::Any, "paths that answer ok")
        .needs(Needs::Port)
        .means(Means::Ours("--health")),
    Row::new("--logLevel", Takes::One, "debug, info or none; info by default")
        .means(Means::Converted("--log-level", level)),
];

/// Our longest life of an unused session, in seconds.
const YEAR: u64 = 31_536_000;

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
    seconds(YEAR, values)
}

fn arrange(given: &ParsedLine, _: Lookup<'_>) -> Result<BridgeLine, Complaint> {
    let inputs = ["--stdio", "--sse", "--streamableHttp"];
    let said: Vec<_> = inputs.into_iter().filter(|flag| given.says(flag)).collect();
    let [input] = said[..] else {
        let what = "one of --stdio, --sse and --streamableHttp is needed, and only one";
        return Err(Complaint::new(what, "supergateway --stdio \"npx -y some-server\""));
    };
    let source = given.last(input).unwrap_or_default();
    let mut bridge = BridgeLine::default();
    if input == "--stdio" {
        bridge.words.push("--pass-environment".to_owned());
        bridge.server = if wants_shell(source) {
            BridgeServer::Command(shell(source))
        } else {
            BridgeServer::Line(source.to_owned())
        };
    } else {
        bridge.say("--transport", if input == "--sse" { "sse-only" } else { "http-only" });
        bridge.server = BridgeServer::Url(source.to_owned());
    }
    let usual = if input == "--stdio" { "sse" } else { "stdio" };
    output(&mut bridge, given, given.last("--outputTransport").unwrap_or(usual))?;
    headers(&mut bridge, given);
    for word in given.operands.iter().chain(&given.command) {
        bridge.notes.push(format!("{word:?} belongs to no flag; it is left out"));
    }
    Ok(bridge)
}

fn output(bridge: &mut BridgeLine, given: &ParsedLine, transport: &str) -> Result<(), Complaint> {
    if transport == "stdio" {
        return Ok(());
    }
    bridge.port = Some(given.last("--port").unwrap_or("8000").to_owned());
    bridge.say("--host", given.last("--host").unwrap_or("::"));
    bridge.words.push("--end-with-stdin".to_owned());
    let is_streamable = transport == "streamableHttp";
    if given.is_on("--stateful") && !is_streamable {
        bridge.notes.push(format!("--stateful has no effect here: {STREAMABLE}"));
    }
    let has_sessions = !is_streamable || given.is_on("--stateful");
    if given.says("--protocolVersion") && has_sessions {
        let why = "without --stateful";
        bridge.notes.push(format!("--protocolVersion has no effect here: {STREAMABLE} {why}"));
    }
    let message_path = given.last("--messagePath").unwrap_or("/message");
    match transport {
        "ws" => {
            bridge.say("--serve", "ws");
            bridge.say("--ws-path", message_path);
            bridge.say("--children", "shared");
        }
        "sse" => {
            bridge.say("--message-path", message_path);
            bridge.say("--children", "shared");
        }
        "streamableHttp" if given.is_on("--stateful") => bridge.say("--message-path", message_path),
        "streamableHttp" => {
            bridge.say("--message-path", message_path);
            let version = given.last("--protocolVersion");
            bridge.say("--stateless", version.unwrap_or(Revision::ALL[0].as_str()));
        }
        other => {
            let what = format!("{other:?} is no output transport");
            return Err(Complaint::new(what, "use stdio, sse, ws or streamableHttp"));
        }
    }
    Ok(())
}

const STREAMABLE: &str = "it is for --outputTransport streamableHttp";

/// Towards a URL they are for its requests, else for our answers.
fn headers(bridge: &mut BridgeLine, given: &ParsedLine) {
    let flag = match (&bridge.server, &bridge.port) {
        (BridgeServer::Url(_), _) => "--header",
        (_, Some(_)) => "--response-header",
        (_, None) => {
            if given.says("--header") {
                bridge
                    .notes
                    .push("--header has no effect here: nothing is sent by HTTP".to_owned());
            }
            return;
        }
    };
    for header in given.all("--header").flatten() {
        bridge.say(flag, header);
    }
    if let (Some(token), BridgeServer::Url(_)) = (given.last("--oauth2Bearer"), &bridge.server) {
        bridge.say("--header", format!("Authorization: Bearer {token}"));
    }
}
