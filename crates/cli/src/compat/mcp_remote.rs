//! mcp-remote: a URL on stdio, for clients that only start commands.

use switchboard_net::upstream::Strategy;

use super::table::{Complaint, Lookup, Means, Row, Takes, Tool, whole_seconds};
use super::translate::{BridgeLine, BridgeServer, ParsedLine};

pub(super) const TOOL: Tool = Tool {
    name: "mcp-remote",
    origin: "npm",
    usage: "mcp-remote URL [CALLBACK_PORT] [FLAGS]",
    rows: ROWS,
    yargs: true,
    variables: None,
    arrange,
};

const OAUTH: Means =
    Means::Ignored("switchboard does not sign in with OAuth yet; pass a token with --header");

const ROWS: &[Row] = &[
    Row::new("--header", Takes::One, "header to send, \"Name: value\", with ${VAR}")
        .means(Means::Ours("--header")),
    Row::new("--header-file", Takes::One, "file with one header on each line")
        .means(Means::Ours("--header-file")),
    Row::new("--transport", Takes::One, "http-first, sse-first, http-only or sse-only")
        .means(Means::Ours("--transport")),
    Row::new("--protocol", Takes::One, "legacy or auto").means(Means::NoEffect(
        "the bridge speaks the era of each side, and translates between them",
    )),
    Row::new("--allow-http", Takes::Nothing, "allow http:// URLs of other machines")
        .means(Means::Combined("no flag; without it the bridge refuses such URLs")),
    Row::new("--ignore-tool", Takes::One, "hide tools from the client; * matches any characters")
        .means(Means::Ours("--ignore-tool")),
    Row::new("--enable-proxy", Takes::Nothing, "go through HTTP_PROXY, HTTPS_PROXY and NO_PROXY")
        .means(Means::Combined("bridge without --direct")),
    Row::new("--connect-timeout", Takes::One, "seconds that connecting may take")
        .means(Means::Converted("--connect-timeout", connecting)),
    Row::new("--headers-timeout", Takes::One, "seconds to wait for an answer; 0 for ever")
        .means(Means::Converted("--timeout", patience)),
    Row::new("--body-timeout", Takes::One, "seconds that a stream may be silent")
        .means(Means::Ignored("the bridge never cuts a silent stream, as mcp-remote with 0")),
    Row::new(
        "--keep-alive",
        Takes::Nothing,
        "send a ping each 30 seconds, if nothing else is sent",
    )
    .means(Means::Combined("bridge --ping 30")),
    Row::new("--ping-interval", Takes::One, "seconds between pings, which are then sent")
        .means(Means::Combined("bridge --ping")),
    Row::new("--ipv4", Takes::Nothing, "use only IPv4").means(Means::Words(&["--ipv4"])),
    Row::new("--disable-cookies", Takes::Nothing, "send back no cookies")
        .means(Means::NoEffect("switchboard keeps no cookies")),
    Row::new("--debug", Takes::Nothing, "log more; here on stderr")
        .means(Means::Combined("bridge --log-level debug")),
    Row::new("--silent", Takes::Nothing, "log nothing, unless --debug")
        .means(Means::Combined("bridge --log-level off")),
    Row::new("--host", Takes::One, "host of the OAuth callback").means(OAUTH),
    Row::new("--callback-path", Takes::One, "path of the OAuth callback").means(OAUTH),
    Row::new("--auth-timeout", Takes::One, "seconds to wait for the OAuth callback").means(OAUTH),
    Row::new("--auth-success-url", Takes::One, "page to show after signing in").means(OAUTH),
    Row::new("--resource", Takes::One, "resource that a token is for").means(OAUTH),
    Row::new("--disable-resource-parameter", Takes::Nothing, "name no resource").means(OAUTH),
    Row::new("--authorize-param", Takes::One, "parameter for the authorization request")
        .means(OAUTH),
    Row::new("--static-oauth-client-metadata", Takes::One, "JSON or @FILE").means(OAUTH),
    Row::new("--static-oauth-client-info", Takes::One, "JSON or @FILE").means(OAUTH),
    Row::new("--client-metadata-url", Takes::One, "document that describes the client")
        .means(OAUTH),
    Row::new("--client-credentials", Takes::Nothing, "sign in without a user").means(OAUTH),
    Row::new("--token-endpoint", Takes::One, "URL that issues tokens").means(OAUTH),
    Row::new("--device-code", Takes::Nothing, "sign in on another device").means(OAUTH),
    Row::new("--use-id-token", Takes::Nothing, "send the ID token").means(OAUTH),
];

const CALLBACK_PORT: &str = "the port of the OAuth callback is ignored: switchboard does not sign in with OAuth yet; pass a token with --header";

/// Our longest waits for an answer and for a connection, in seconds.
const DAY: u64 = 86_400;
const HOUR: u64 = 3600;

fn patience(values: &[String]) -> Result<Vec<String>, String> {
    let seconds = whole_seconds(values).ok_or("not a number of seconds")?;
    Ok(vec![if seconds == 0 { DAY } else { seconds.min(DAY) }.to_string()])
}

fn connecting(values: &[String]) -> Result<Vec<String>, String> {
    Ok(vec![interval_of(values)?.min(HOUR).to_string()])
}

/// Seconds, some at least.
fn interval_of(values: &[String]) -> Result<u64, &'static str> {
    let seconds = whole_seconds(values).filter(|&seconds| seconds > 0);
    Ok(seconds.ok_or("not a number of seconds")?.min(DAY))
}

fn arrange(given: &ParsedLine, _: Lookup<'_>) -> Result<BridgeLine, Complaint> {
    let Some(url) = given.operands.first() else {
        let what = "the URL of the server is missing";
        return Err(Complaint::new(what, "mcp-remote https://example.com/mcp"));
    };
    if is_exposed(url) && !given.is_on("--allow-http") {
        let what = "http:// is only for this machine, as others could listen in";
        return Err(Complaint::new(what, "use https://, or add --allow-http on a trusted network"));
    }
    if let Some(strategy) = given.last("--transport")
        && let Err(error) = strategy.parse::<Strategy>()
    {
        return Err(Complaint::new(error.to_string(), "see mcp-remote --help"));
    }
    let mut bridge = BridgeLine { server: BridgeServer::Url(url.clone()), ..BridgeLine::default() };
    if !given.is_on("--enable-proxy") {
        bridge.words.push("--direct".to_owned());
    }
    if let Some(interval) = given.last("--ping-interval") {
        let seconds = interval_of(&[interval.to_owned()]).map_err(|why| {
            Complaint::new(format!("--ping-interval {interval}: {why}"), "see mcp-remote --help")
        })?;
        bridge.say("--ping", seconds.to_string());
    } else if given.is_on("--keep-alive") {
        bridge.say("--ping", "30");
    }
    match (given.is_on("--debug"), given.is_on("--silent")) {
        (true, _) => bridge.say("--log-level", "debug"),
        (false, true) => bridge.say("--log-level", "off"),
        (false, false) => {}
    }
    match &given.operands[1..] {
        [] => {}
        [port] if port.parse::<u16>().is_ok() => bridge.notes.push(CALLBACK_PORT.to_owned()),
        [other, ..] => {
            let what = format!("{other:?} is neither a flag nor the port of the OAuth callback");
            return Err(Complaint::new(what, "see mcp-remote --help"));
        }
    }
    Ok(bridge)
}

/// Whether others could read what is sent there.
fn is_exposed(url: &str) -> bool {
    let url: Option<http::Uri> = url.parse().ok();
    let plain = url.filter(|url| url.scheme_str() == Some("http"));
    plain.is_some_and(|url| {
        let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
        let is_local = host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
        !is_local && !host.eq_ignore_ascii_case("localhost")
    })
}
