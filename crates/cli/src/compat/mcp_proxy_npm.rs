//! mcp-proxy of npm: a command on Streamable HTTP and HTTP+SSE.

use super::table::{self, Complaint, Lookup, Means, Row, Takes, Tool, bytes, seconds, shell};
use super::translate::{BridgeLine, BridgeServer, ParsedLine};

pub(super) const TOOL: Tool = Tool {
    name: "mcp-proxy-npm",
    origin: "npm: mcp-proxy",
    usage: "mcp-proxy [FLAGS] [--] CMD [ARG]...",
    rows: ROWS,
    yargs: true,
    variables: Some("MCP_PROXY"),
    arrange,
};

const TLS: Means = Means::Refused("switchboard does not serve TLS; put a reverse proxy in front");

const ROWS: &[Row] = &[
    Row::new("--server", Takes::One, "sse or stream; both by default")
        .means(Means::Combined("bridge --serve")),
    Row::new("--port", Takes::One, "port to listen on; 8080 by default")
        .means(Means::Combined("bridge --port")),
    Row::new("--host", Takes::One, "address to listen on; all addresses by default")
        .means(Means::Combined("bridge --host")),
    Row::new("--endpoint", Takes::One, "path of the transport that --server chooses")
        .means(Means::Combined("bridge --path, or --sse-path with --server sse")),
    Row::new("--sseEndpoint", Takes::One, "path of HTTP+SSE; /sse by default")
        .means(Means::Combined("bridge --sse-path")),
    Row::new("--streamEndpoint", Takes::One, "path of Streamable HTTP; /mcp by default")
        .means(Means::Combined("bridge --path")),
    Row::new("--stateless", Takes::Nothing, "no sessions on Streamable HTTP")
        .means(Means::Words(&["--stateless"])),
    Row::new("--modern", Takes::Nothing, "serve 2026-07-28 too; on by default")
        .means(Means::Combined("bridge, or bridge --legacy-only with --no-modern")),
    Row::new("--apiKey", Takes::One, "key that clients must send as X-API-Key")
        .means(Means::Ours("--api-key")),
    Row::new("--corsAddAllowedHeader", Takes::Any, "header that web pages may send")
        .means(Means::Ours("--allow-header")),
    Row::new(
        "--requestTimeout",
        Takes::One,
        "milliseconds that a request may take; 5 minutes by default",
    )
    .means(Means::Combined("bridge --timeout")),
    Row::new(
        "--connectionTimeout",
        Takes::One,
        "milliseconds that the command may take to start; 1 minute by default",
    )
    .means(Means::Combined("bridge --start-timeout")),
    Row::new(
        "--sessionIdleTimeout",
        Takes::One,
        "milliseconds until an unused session ends; 0 for never",
    )
    .means(Means::Converted("--session-timeout", idle)),
    Row::new(
        "--keepAliveTimeout",
        Takes::One,
        "milliseconds that a connection may be idle; 5 minutes by default",
    )
    .means(Means::Combined("bridge --idle-connection")),
    Row::new(
        "--gracefulShutdownTimeout",
        Takes::One,
        "milliseconds for requests in flight at the end; 5 seconds by default",
    )
    .means(Means::Combined("bridge --grace")),
    Row::new("--maxBodySize", Takes::One, "bytes of a request; 10 MiB by default, 0 for no limit")
        .means(Means::Combined("bridge --max-message")),
    Row::new(
        "--eventStore",
        Takes::Nothing,
        "keep events for clients that come back; on by default",
    )
    .means(Means::Combined("bridge, or bridge --history 0 with --no-eventStore")),
    Row::new("--eventStoreMaxEvents", Takes::One, "how many events are kept, in 4 MiB at most")
        .means(Means::Converted("--history-events", events)),
    Row::new("--upstreamProtocol", Takes::One, "legacy, auto or modern").means(Means::NoEffect(
        "the bridge speaks the era of each side, and translates between them",
    )),
    Row::new("--shell", Takes::Nothing, "run the command by a shell")
        .means(Means::Combined("bridge -- sh -c CMD")),
    Row::new("--debug", Takes::Nothing, "log more").means(Means::Words(&["--log-level=debug"])),
    Row::new("--sslCert", Takes::One, "certificate to serve with").means(TLS),
    Row::new("--sslKey", Takes::One, "its key").means(TLS),
    Row::new("--sslCa", Takes::One, "authorities to trust").means(TLS),
    Row::new("--tunnel", Takes::Nothing, "be reached through a public tunnel")
        .means(Means::Refused("switchboard has no tunnel; run a tunnel of your own")),
    Row::new("--tunnelSubdomain", Takes::One, "its name")
        .means(Means::Refused("switchboard has no tunnel; run a tunnel of your own")),
];

/// Our longest life of an unused session, in seconds.
const YEAR: u64 = 31_536_000;

fn idle(values: &[String]) -> Result<Vec<String>, String> {
    table::seconds_or(YEAR, values)
}

fn events(values: &[String]) -> Result<Vec<String>, String> {
    let count = values.last().and_then(|value| value.parse().ok()).filter(|&count: &u32| count > 0);
    Ok(vec![count.ok_or("not a number of events")?.to_string()])
}

fn up_to_a_day(values: &[String]) -> Result<Vec<String>, String> {
    seconds(86_400, values)
}

fn up_to_an_hour(values: &[String]) -> Result<Vec<String>, String> {
    seconds(3600, values)
}

fn arrange(given: &ParsedLine, _: Lookup<'_>) -> Result<BridgeLine, Complaint> {
    let words = if given.command.is_empty() { &given.operands } else { &given.command };
    if words.first().is_none_or(|word| word.contains("://")) {
        let hint = "mcp-proxy --port 8080 -- node server.js";
        return Err(Complaint::new("no command to run", hint));
    }
    let by_shell = given.is_on("--shell");
    let words = if by_shell { shell(&words.join(" ")) } else { words.clone() };
    let port = given.last("--port").unwrap_or("8080").to_owned();
    let mut bridge = BridgeLine {
        server: BridgeServer::Command(words),
        port: Some(port),
        ..BridgeLine::default()
    };
    bridge.say("--host", given.last("--host").unwrap_or("::"));
    bridge.words.push("--pass-environment".to_owned());
    bridge.say("--children", "shared");
    bridge.say("--health", "/ping=pong");
    // Web pages of every origin are let in there.
    bridge.say("--allow-origin", "*");
    paths(&mut bridge, given)?;
    numbers(&mut bridge, given)?;
    if given.says("--modern") && !given.is_on("--modern") {
        bridge.words.push("--legacy-only".to_owned());
    }
    if given.says("--eventStore") && !given.is_on("--eventStore") {
        bridge.say("--history", "0");
    }
    Ok(bridge)
}

fn paths(bridge: &mut BridgeLine, given: &ParsedLine) -> Result<(), Complaint> {
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
            let what = format!("{other:?} is no kind of server");
            return Err(Complaint::new(what, "use sse or stream"));
        }
    }
    if let Some(path) = sse {
        bridge.say("--sse-path", path);
    }
    if let Some(path) = stream {
        bridge.say("--path", path);
    }
    Ok(())
}

type Turn = fn(&[String]) -> Result<Vec<String>, String>;

/// What is always said, because its default is not ours.
fn numbers(bridge: &mut BridgeLine, given: &ParsedLine) -> Result<(), Complaint> {
    let rows: [(&str, &str, &str, Turn); 5] = [
        ("--connectionTimeout", "60000", "--start-timeout", up_to_a_day),
        ("--requestTimeout", "300000", "--timeout", up_to_a_day),
        ("--keepAliveTimeout", "300000", "--idle-connection", up_to_a_day),
        ("--gracefulShutdownTimeout", "5000", "--grace", up_to_an_hour),
        ("--maxBodySize", "10485760", "--max-message", bytes),
    ];
    for (flag, usual, ours, turn) in rows {
        let value = given.last(flag).unwrap_or(usual);
        let turned = turn(&[value.to_owned()])
            .map_err(|why| Complaint::new(format!("{flag} {value}: {why}"), "see --help"))?;
        for value in turned {
            bridge.say(ours, value);
        }
    }
    Ok(())
}
