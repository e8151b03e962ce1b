//! mcp-proxy of Python: a URL on stdio, or commands on HTTP, each at its path.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::table::Means::{self, Combined, Converted, Ours, Refused, Word};
use super::table::Needs::{Command, Port, Unnamed, Url};
use super::table::{FlagRow, ForeignTool, Lookup, ORIGINS, Takes, any, one, switch, two};
use super::{BridgeLine, ParsedLine};
use crate::exit::{CommandResult, wrong};

pub(super) const TOOL: ForeignTool = ForeignTool {
    name: "mcp-proxy-python",
    origin: "PyPI: mcp-proxy",
    usage: "mcp-proxy URL [FLAGS] | mcp-proxy [FLAGS] [--] CMD [ARG]...",
    rows: ROWS,
    yargs: false,
    variables: None,
    arrange,
};

const OAUTH: Means = Combined(
    "bridge --client-credentials --oauth-client-id --oauth-client-secret --token-endpoint",
);
const TLS: Means = Combined("bridge --ca-file, or --insecure");

const ROWS: &[FlagRow] = &[
    two("--headers", "header to send").alias("-H").means_for(Url, Combined("bridge --header")),
    one("--transport", "sse or streamablehttp; sse by default")
        .means_for(Url, Combined("bridge --transport")),
    one("--client-id", "OAuth client").means_for(Url, OAUTH),
    one("--client-secret", "its secret").means_for(Url, OAUTH),
    one("--token-url", "URL that issues tokens").means_for(Url, OAUTH),
    one("--username", "name to log in with")
        .means_for(Url, Combined("bridge --header 'Authorization: Basic …'")),
    one("--password", "password to log in with")
        .means_for(Url, Combined("bridge --header 'Authorization: Basic …'")),
    switch("--digest", "log in with a digest").means_for(
        Url,
        Refused("switchboard has no digest authentication, and Basic would show the password"),
    ),
    FlagRow::new("--verify-ssl", Takes::Maybe, "true, false, or a PEM file of authorities")
        .means_for(Url, TLS),
    switch("--no-verify-ssl", "trust any certificate").means_for(Url, TLS),
    two("--env", "variable for the command")
        .alias("-e")
        .means_for(Unnamed, Converted("--env", |pair| Ok(vec![pair.join("=")]))),
    one("--cwd", "directory that the command runs in").means_for(Unnamed, Ours("--cwd")),
    switch("--pass-environment", "give commands the whole environment")
        .means_for(Command, Word("--pass-environment")),
    one("--log-level", "DEBUG, INFO, WARNING, ERROR or CRITICAL")
        .means(Combined("bridge --log-level")),
    switch("--debug", "the same as --log-level DEBUG, and stronger")
        .means(Combined("bridge --log-level debug")),
    two("--named-server", "command at /servers/NAME")
        .means_for(Command, Combined("bridge --named-server")),
    one("--named-server-config", "file with mcpServers, instead of --named-server")
        .means_for(Command, Ours("--named-server-config")),
    one("--port", "port to listen on; a free one by default")
        .alias("--sse-port")
        .means_for(Command, Combined("bridge --port")),
    one("--host", "address to listen on; 127.0.0.1 by default")
        .alias("--sse-host")
        .means_for(Port, Ours("--host")),
    switch("--stateless", "no sessions on Streamable HTTP").means_for(Port, Word("--stateless")),
    any("--allow-origin", "origins of web pages that may connect").means_for(Port, ORIGINS),
    one("--expose-header", "header that web pages may read")
        .means_for(Port, Ours("--expose-header")),
];

fn arrange(given: &ParsedLine, lookup: Lookup<'_>) -> CommandResult<BridgeLine> {
    let mut words = [&given.operands[..], &given.command].concat();
    if words.is_empty() {
        words.extend(lookup("SSE_URL"));
    }
    let mut bridge = BridgeLine::default();
    log_level(&mut bridge, given)?;
    let is_url = |word: &String| word.starts_with("http://") || word.starts_with("https://");
    if words.first().is_some_and(is_url) {
        bridge.server = vec![words.swap_remove(0)];
        towards_url(&mut bridge, given, lookup)?;
        return Ok(bridge);
    }
    let is_named = given.says("--named-server") || given.says("--named-server-config");
    if words.is_empty() && !is_named {
        let hint = "mcp-proxy --port 8080 -- some-server --flag";
        return wrong("no server: give a command, a URL or --named-server", hint);
    }
    if !words.is_empty() {
        bridge.run(&words);
    }
    bridge.port = Some(given.last("--port").unwrap_or("0").to_owned());
    bridge.add(&["--children=shared", "--message-path=/messages/", "--status=/status"]);
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

fn towards_url(bridge: &mut BridgeLine, given: &ParsedLine, lookup: Lookup<'_>) -> CommandResult {
    match given.last("--transport") {
        None | Some("sse") => bridge.say("--transport", "sse-only"),
        Some("streamablehttp") => bridge.say("--transport", "http-only"),
        Some(other) => {
            return wrong(format!("{other:?} is no transport"), "use sse or streamablehttp");
        }
    }
    match given.last("--verify-ssl").map(str::to_ascii_lowercase).as_deref() {
        _ if given.is_on("--no-verify-ssl") => bridge.add(&["--insecure"]),
        None | Some("1" | "true" | "yes" | "on") => {}
        Some("0" | "false" | "no" | "off") => bridge.add(&["--insecure"]),
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
            return wrong("both --username and --password are needed", "give the other one too");
        }
    }
    match (given.last("--client-id"), given.last("--client-secret")) {
        (None, None) => {}
        (Some(id), Some(secret)) => {
            bridge.add(&["--client-credentials"]);
            bridge.say("--oauth-client-id", id);
            bridge.say("--oauth-client-secret", secret);
            if let Some(url) = given.last("--token-url") {
                bridge.say("--token-endpoint", url);
            }
        }
        _ => {
            let hint = "give the other one too";
            return wrong("both --client-id and --client-secret are needed", hint);
        }
    }
    Ok(())
}

fn log_level(bridge: &mut BridgeLine, given: &ParsedLine) -> CommandResult {
    let level = if given.is_on("--debug") { Some("DEBUG") } else { given.last("--log-level") };
    let Some(level) = level else { return Ok(()) };
    match level.to_ascii_uppercase().as_str() {
        level @ ("DEBUG" | "INFO" | "ERROR") => bridge.say("--log-level", level.to_lowercase()),
        "WARNING" => bridge.say("--log-level", "warn"),
        "CRITICAL" => bridge.say("--log-level", "error"),
        _ => {
            let hint = "use DEBUG, INFO, WARNING, ERROR or CRITICAL";
            return wrong(format!("{level:?} is no level"), hint);
        }
    }
    Ok(())
}
