//! mcp-proxy of npm: a command on Streamable HTTP and HTTP+SSE.

use super::table::Means::{self, Combined, Converted, NoEffect, Ours, Refused, Word};
use super::table::{
    Conversion, DAY, FlagRow, ForeignTool, HOUR, Lookup, MILLIS, YEAR, any, bytes, one, seconds,
    shell, switch,
};
use super::{BridgeLine, ParsedLine};
use crate::exit::{CommandResult, wrong};

pub(super) const TOOL: ForeignTool = ForeignTool {
    name: "mcp-proxy-npm",
    origin: "npm: mcp-proxy",
    usage: "mcp-proxy [FLAGS] [--] CMD [ARG]...",
    rows: ROWS,
    yargs: true,
    variables: Some("MCP_PROXY"),
    arrange,
};

const CLIENTS: Means =
    Refused("switchboard asks clients for no certificates; use --apiKey, or a proxy in front");

const TUNNEL: Means = Refused("switchboard has no tunnel; run a tunnel of your own");

const ROWS: &[FlagRow] = &[
    one("--server", "sse or stream; both by default").means(Combined("bridge --serve")),
    one("--port", "port to listen on; 8080 by default").means(Combined("bridge --port")),
    one("--host", "address to listen on; all addresses by default")
        .means(Combined("bridge --host")),
    one("--endpoint", "path of the transport that --server chooses")
        .means(Combined("bridge --path, or --sse-path with --server sse")),
    one("--sseEndpoint", "path of HTTP+SSE; /sse by default").means(Combined("bridge --sse-path")),
    one("--streamEndpoint", "path of Streamable HTTP; /mcp by default")
        .means(Combined("bridge --path")),
    switch("--stateless", "no sessions on Streamable HTTP").means(Word("--stateless")),
    switch("--modern", "serve 2026-07-28 too; on by default")
        .means(Combined("bridge, or bridge --legacy-only with --no-modern")),
    one("--apiKey", "key that clients must send as X-API-Key").means(Ours("--api-key")),
    any("--corsAddAllowedHeader", "header that web pages may send").means(Ours("--allow-header")),
    one("--requestTimeout", "milliseconds that a request may take; 5 minutes by default")
        .means(Combined("bridge --timeout")),
    one(
        "--connectionTimeout",
        "milliseconds that the command may take to start; 1 minute by default",
    )
    .means(Combined("bridge --start-timeout")),
    one("--sessionIdleTimeout", "milliseconds until an unused session ends; 0 for never")
        .means(Converted("--session-timeout", |values| seconds(MILLIS, Some(YEAR), YEAR, values))),
    one("--keepAliveTimeout", "milliseconds that a connection may be idle; 5 minutes by default")
        .means(Combined("bridge --idle-connection")),
    one(
        "--gracefulShutdownTimeout",
        "milliseconds for requests in flight at the end; 5 seconds by default",
    )
    .means(Combined("bridge --grace")),
    one("--maxBodySize", "bytes of a request; 10 MiB by default, 0 for no limit")
        .means(Combined("bridge --max-message")),
    switch("--eventStore", "keep events for clients that come back; on by default")
        .means(Combined("bridge, or bridge --history 0 with --no-eventStore")),
    one("--eventStoreMaxEvents", "how many events are kept, in 4 MiB at most")
        .means(Converted("--history-events", events)),
    one("--upstreamProtocol", "legacy, auto or modern")
        .means(NoEffect("the bridge speaks the era of each side, and translates between them")),
    switch("--shell", "run the command by a shell").means(Combined("bridge -- sh -c CMD")),
    switch("--debug", "log more").means(Word("--log-level=debug")),
    one("--sslCert", "certificate to serve with").means(Ours("--tls-cert")),
    one("--sslKey", "its key").means(Ours("--tls-key")),
    one("--sslCa", "authorities of clients to trust").means(CLIENTS),
    switch("--tunnel", "be reached through a public tunnel").means(TUNNEL),
    one("--tunnelSubdomain", "its name").means(TUNNEL),
];

fn events(values: &[String]) -> Result<Vec<String>, String> {
    let count = values.last().and_then(|value| value.parse().ok()).filter(|&count: &u32| count > 0);
    Ok(vec![count.ok_or("not a number of events")?.to_string()])
}

fn arrange(given: &ParsedLine, _: Lookup<'_>) -> CommandResult<BridgeLine> {
    let words = if given.command.is_empty() { &given.operands } else { &given.command };
    if words.first().is_none_or(|word| word.contains("://")) {
        let hint = "mcp-proxy --port 8080 -- node server.js";
        return wrong("no command to run", hint);
    }
    let mut bridge = BridgeLine::default();
    bridge.run(&if given.is_on("--shell") { shell(&words.join(" ")) } else { words.clone() });
    bridge.port = Some(given.last("--port").unwrap_or("8080").to_owned());
    bridge.say("--host", given.last("--host").unwrap_or("::"));
    bridge.add(&["--pass-environment", "--children=shared", "--health=/ping=pong"]);
    // Web pages of every origin are let in there.
    bridge.say("--allow-origin", "*");
    paths(&mut bridge, given)?;
    numbers(&mut bridge, given)?;
    if given.is_off("--modern") {
        bridge.add(&["--legacy-only"]);
    }
    if given.is_off("--eventStore") {
        bridge.say("--history", "0");
    }
    Ok(bridge)
}

fn paths(bridge: &mut BridgeLine, given: &ParsedLine) -> CommandResult {
    let endpoint = given.last("--endpoint");
    let (mut sse, mut stream) = (given.last("--sseEndpoint"), given.last("--streamEndpoint"));
    match given.last("--server") {
        None => stream = stream.or(endpoint),
        Some("sse") => {
            sse = sse.or(endpoint);
            bridge.say("--serve", "sse");
        }
        Some("stream") => {
            stream = stream.or(endpoint);
            bridge.say("--serve", "http");
        }
        Some(other) => {
            return wrong(format!("{other:?} is no kind of server"), "use sse or stream");
        }
    }
    bridge.words.extend(sse.map(|path| format!("--sse-path={path}")));
    bridge.words.extend(stream.map(|path| format!("--path={path}")));
    Ok(())
}

/// What is always said, because its default is not ours.
fn numbers(bridge: &mut BridgeLine, given: &ParsedLine) -> CommandResult {
    let up_to_a_day: Conversion = |values| seconds(MILLIS, Some(1), DAY, values);
    let rows: [(&str, &str, &str, Conversion); 5] = [
        ("--connectionTimeout", "60000", "--start-timeout", up_to_a_day),
        ("--requestTimeout", "300000", "--timeout", up_to_a_day),
        ("--keepAliveTimeout", "300000", "--idle-connection", up_to_a_day),
        ("--gracefulShutdownTimeout", "5000", "--grace", |it| seconds(MILLIS, Some(1), HOUR, it)),
        ("--maxBodySize", "10485760", "--max-message", bytes),
    ];
    for (flag, usual, ours, turn) in rows {
        let value = given.last(flag).unwrap_or(usual);
        match turn(&[value.to_owned()]) {
            Ok(turned) => turned.iter().for_each(|value| bridge.say(ours, value)),
            Err(why) => return wrong(format!("{flag} {value}: {why}"), "see --help"),
        }
    }
    Ok(())
}
