//! mcp-proxy of Python: a URL on stdio, or commands on HTTP, each at its path.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::table::{self, Complaint, Lookup, Means, Needs, Row, Takes, Tool, origins};
use super::translate::{BridgeLine, BridgeServer, ParsedLine};

pub(super) const TOOL: Tool = Tool {
    name: "mcp-proxy-python",
    origin: "PyPI: mcp-proxy",
    usage: "mcp-proxy URL [FLAGS] | mcp-proxy [FLAGS] [--] CMD [ARG]...",
    rows: ROWS,
    yargs: false,
    variables: None,
    arrange,
};

const OAUTH: Means = Means::Ignored(
    "switchboard does not sign in with OAuth yet; pass a token with -H or API_ACCESS_TOKEN",
);
const TLS: Means = Means::Combined("bridge --ca-file; certificates are always verified");

const ROWS: &[Row] = &[
    Row::new("--headers", Takes::Two, "header to send")
        .alias(&["-H"])
        .needs(Needs::Url)
        .means(Means::Combined("bridge --header")),
    Row::new("--transport", Takes::One, "sse or streamablehttp; sse by default")
        .needs(Needs::Url)
        .means(Means::Combined("bridge --transport")),
    Row::new("--client-id", Takes::One, "OAuth client").needs(Needs::Url).means(OAUTH),
    Row::new("--client-secret", Takes::One, "its secret").needs(Needs::Url).means(OAUTH),
    Row::new("--token-url", Takes::One, "URL that issues tokens").needs(Needs::Url).means(OAUTH),
    Row::new("--username", Takes::One, "name to log in with")
        .needs(Needs::Url)
        .means(Means::Combined("bridge --header 'Authorization: Basic …'")),
    Row::new("--password", Takes::One, "password to log in with")
        .needs(Needs::Url)
        .means(Means::Combined("bridge --header 'Authorization: Basic …'")),
    Row::new("--digest", Takes::Nothing, "log in with a digest").needs(Needs::Url).means(
        Means::Refused(
            "switchboard has no digest authentication, and Basic would show the password",
        ),
    ),
    Row::new("--verify-ssl", Takes::Maybe, "true, false, or a PEM file of authorities")
        .needs(Needs::Url)
        .means(TLS),
    Row::new("--no-verify-ssl", Takes::Nothing, "trust any certificate")
        .needs(Needs::Url)
        .means(TLS),
    Row::new("--env", Takes::Two, "variable for the command")
        .alias(&["-e"])
        .needs(Needs::Unnamed)
        .means(Means::Converted("--env", variables)),
    Row::new("--cwd", Takes::One, "directory that the command runs in")
        .needs(Needs::Unnamed)
        .means(Means::Ours("--cwd")),
    Row::new("--pass-environment", Takes::Nothing, "give commands the whole environment")
        .needs(Needs::Command)
        .means(Means::Words(&["--pass-environment"])),
    Row::new("--log-level", Takes::One, "DEBUG, INFO, WARNING, ERROR or CRITICAL")
        .means(Means::Combined("bridge --log-level")),
    Row::new("--debug", Takes::Nothing, "the same as --log-level DEBUG, and stronger")
        .means(Means::Combined("bridge --log-level debug")),
    Row::new("--named-server", Takes::Two, "command at /servers/NAME")
        .needs(Needs::Command)
        .means(Means::Combined("bridge --named-server")),
    Row::new(
        "--named-server-config",
        Takes::One,
        "file with mcpServers, instead of --named-server",
    )
    .needs(Needs::Command)
    .means(Means::Ours("--named-server-config")),
    Row::new("--port", Takes::One, "port to listen on; a free one by default")
        .alias(&["--sse-port"])
        .needs(Needs::Command)
        .means(Means::Combined("bridge --port")),
    Row::new("--host", Takes::One, "address to listen on; 127.0.0.1 by default")
        .alias(&["--sse-host"])
        .needs(Needs::Port)
        .means(Means::Ours("--host")),
    Row::new("--stateless", Takes::Nothing, "no sessions on Streamable HTTP")
        .needs(Needs::Port)
        .means(Means::Words(&["--stateless"])),
    Row::new("--allow-origin", Takes::Any, "origins of web pages that may connect")
        .needs(Needs::Port)
        .means(Means::Converted("--allow-origin", origins)),
    Row::new("--expose-header", Takes::One, "header that web pages may read")
        .needs(Needs::Port)
        .means(Means::Ours("--expose-header")),
];

#[expect(clippy::unnecessary_wraps, reason = "it stands in the table")]
fn variables(values: &[String]) -> Result<Vec<String>, String> {
    Ok(table::joined(values, "="))
}

fn arrange(given: &ParsedLine, lookup: Lookup<'_>) -> Result<BridgeLine, Complaint> {
    let mut words = [&given.operands[..], &given.command].concat();
    if words.is_empty() {
        words.extend(lookup("SSE_URL"));
    }
    let mut bridge = BridgeLine::default();
    log_level(&mut bridge, given)?;
    let is_url = |word: &String| word.starts_with("http://") || word.starts_with("https://");
    if words.first().is_some_and(is_url) {
        bridge.server = BridgeServer::Url(words.swap_remove(0));
        towards_url(&mut bridge, given, lookup)?;
        return Ok(bridge);
    }
    let is_named = given.says("--named-server") || given.says("--named-server-config");
    if words.is_empty() && !is_named {
        let what = "no server: give a command, a URL or --named-server";
        return Err(Complaint::new(what, "mcp-proxy --port 8080 -- some-server --flag"));
    }
    bridge.server =
        if words.is_empty() { BridgeServer::None } else { BridgeServer::Command(words) };
    bridge.port = Some(given.last("--port").unwrap_or("0").to_owned());
    bridge.say("--children", "shared");
    bridge.say("--message-path", "/messages/");
    bridge.say("--status", "/status");
    // A file is the only source of names where there is one.
    if !given.says("--named-server-config") {
        for pair in given.all("--named-server") {
            bridge.words.push("--named-server".to_owned());
            bridge.words.extend_from_slice(pair);
        }
    } else if given.says("--named-server") {
        bridge.notes.push("--named-server has no effect here: a file names the servers".to_owned());
    }
    Ok(bridge)
}

fn towards_url(
    bridge: &mut BridgeLine,
    given: &ParsedLine,
    lookup: Lookup<'_>,
) -> Result<(), Complaint> {
    bridge.say(
        "--transport",
        match given.last("--transport") {
            None | Some("sse") => "sse-only",
            Some("streamablehttp") => "http-only",
            Some(other) => {
                let what = format!("{other:?} is no transport");
                return Err(Complaint::new(what, "use sse or streamablehttp"));
            }
        },
    );
    match given.last("--verify-ssl").map(str::to_ascii_lowercase).as_deref() {
        _ if given.is_on("--no-verify-ssl") => bridge.notes.push(VERIFIED.to_owned()),
        None | Some("1" | "true" | "yes" | "on") => {}
        Some("0" | "false" | "no" | "off") => bridge.notes.push(VERIFIED.to_owned()),
        Some(_) => bridge.say("--ca-file", given.last("--verify-ssl").unwrap_or_default()),
    }
    // As there, a later one is stronger: headers, the variable, a name and password.
    for pair in given.all("--headers") {
        bridge.say("--header", pair.join(": "));
    }
    if lookup("API_ACCESS_TOKEN").is_some_and(|token| !token.is_empty()) {
        bridge.say("--header", "Authorization: Bearer ${API_ACCESS_TOKEN}");
    }
    match (given.last("--username"), given.last("--password")) {
        (None, None) => {}
        (Some(name), Some(password)) => {
            let secret = STANDARD.encode(format!("{name}:{password}"));
            bridge.say("--header", format!("Authorization: Basic {secret}"));
        }
        _ => {
            let what = "both --username and --password are needed";
            return Err(Complaint::new(what, "give the other one too"));
        }
    }
    Ok(())
}

fn log_level(bridge: &mut BridgeLine, given: &ParsedLine) -> Result<(), Complaint> {
    let level = if given.is_on("--debug") { Some("DEBUG") } else { given.last("--log-level") };
    let Some(level) = level else { return Ok(()) };
    bridge.say(
        "--log-level",
        match level.to_ascii_uppercase().as_str() {
            "DEBUG" => "debug",
            "INFO" => "info",
            "WARNING" => "warn",
            "ERROR" | "CRITICAL" => "error",
            _ => {
                let what = format!("{level:?} is no level");
                return Err(Complaint::new(what, "use DEBUG, INFO, WARNING, ERROR or CRITICAL"));
            }
        },
    );
    Ok(())
}

const VERIFIED: &str = "certificates are verified all the same: name the authority with --verify-ssl FILE if it is not the system's";
