//! mcp-remote: a URL on stdio, for clients that only start commands.

use std::fs::File;

use switchboard_net::upstream::Strategy;

use super::table::Means::{Combined, Converted, Ignored, NoEffect, Ours, Word};
use super::table::{DAY, FlagRow, ForeignTool, HOUR, Lookup, SECONDS, one, seconds, switch};
use super::{BridgeLine, ParsedLine};
use crate::exit::{CommandResult, wrong};
use crate::serve::is_local;

pub(super) const TOOL: ForeignTool = ForeignTool {
    name: "mcp-remote",
    origin: "npm",
    usage: "mcp-remote URL [CALLBACK_PORT] [FLAGS]",
    rows: ROWS,
    yargs: true,
    variables: None,
    arrange,
};

const ROWS: &[FlagRow] = &[
    one("--header", "header to send, \"Name: value\", with ${VAR}").means(Ours("--header")),
    one("--header-file", "file with one header on each line").means(Ours("--header-file")),
    one("--transport", "http-first, sse-first, http-only or sse-only").means(Ours("--transport")),
    one("--protocol", "legacy or auto")
        .means(NoEffect("the bridge speaks the era of each side, and translates between them")),
    switch("--allow-http", "allow http:// URLs of other machines")
        .means(Combined("no flag; without it the bridge refuses such URLs")),
    one("--ignore-tool", "hide tools from the client; * matches any characters")
        .means(Ours("--ignore-tool")),
    switch("--enable-proxy", "go through HTTP_PROXY, HTTPS_PROXY and NO_PROXY")
        .means(Combined("bridge without --direct")),
    one("--connect-timeout", "seconds that connecting may take")
        .means(Converted("--connect-timeout", |values| seconds(SECONDS, None, HOUR, values))),
    one("--headers-timeout", "seconds to wait for an answer; 0 for ever")
        .means(Converted("--timeout", |values| seconds(SECONDS, Some(DAY), DAY, values))),
    one("--body-timeout", "seconds that a stream may be silent")
        .means(Ignored("the bridge never cuts a silent stream, as mcp-remote with 0")),
    switch("--keep-alive", "send a ping each 30 seconds, if nothing else is sent")
        .means(Combined("bridge --ping 30")),
    one("--ping-interval", "seconds between pings, which are then sent")
        .means(Combined("bridge --ping")),
    switch("--ipv4", "use only IPv4").means(Word("--ipv4")),
    switch("--disable-cookies", "send back no cookies")
        .means(NoEffect("switchboard keeps no cookies")),
    switch("--debug", "log more; here on stderr").means(Combined("bridge --log-level debug")),
    switch("--silent", "log nothing, unless --debug").means(Combined("bridge --log-level off")),
    one("--host", "host of the OAuth callback; localhost by default")
        .means(Ours("--callback-host")),
    one("--callback-path", "path of the OAuth callback").means(Ours("--callback-path")),
    one("--auth-timeout", "seconds to wait for the OAuth callback")
        .means(Converted("--auth-timeout", |values| seconds(SECONDS, None, HOUR, values))),
    one("--auth-success-url", "page to show after signing in").means(Ours("--auth-success-url")),
    one("--resource", "resource that a token is for").means(Ours("--oauth-resource")),
    switch("--disable-resource-parameter", "name no resource")
        .means(Word("--oauth-resource=false")),
    one("--authorize-param", "parameter for the authorization request")
        .means(Ours("--authorize-param")),
    one("--static-oauth-client-metadata", "JSON or @FILE").means(Ours("--oauth-client-metadata")),
    one("--static-oauth-client-info", "JSON or @FILE").means(Ours("--oauth-client-info")),
    one("--client-metadata-url", "document that describes the client")
        .means(Ours("--client-metadata-url")),
    switch("--client-credentials", "sign in without a user").means(Word("--client-credentials")),
    one("--token-endpoint", "URL that issues tokens").means(Ours("--token-endpoint")),
    switch("--device-code", "sign in on another device").means(Word("--device-code")),
    switch("--use-id-token", "send the ID token").means(Word("--use-id-token")),
];

const SEE_HELP: &str = "see mcp-remote --help";
fn arrange(given: &ParsedLine, lookup: Lookup<'_>) -> CommandResult<BridgeLine> {
    let Some(url) = given.operands.first() else {
        return wrong("the URL of the server is missing", "mcp-remote https://example.com/mcp");
    };
    if is_exposed(url) && !given.is_on("--allow-http") {
        let hint = "use https://, or add --allow-http on a trusted network";
        return wrong("http:// is only for this machine, as others could listen in", hint);
    }
    if let Some(strategy) = given.last("--transport")
        && let Err(error) = strategy.parse::<Strategy>()
    {
        return wrong(error.to_string(), SEE_HELP);
    }
    let mut bridge = BridgeLine { server: vec![url.clone()], ..BridgeLine::default() };
    if !given.is_on("--enable-proxy") {
        bridge.add(&["--direct"]);
    }
    // What Node.js reads itself.
    if let Some(file) = lookup("NODE_EXTRA_CA_CERTS").filter(|file| !file.is_empty()) {
        match File::open(&file) {
            Ok(_) => bridge.say("--ca-file", file),
            Err(_) => bridge
                .notes
                .push(format!("{file} of NODE_EXTRA_CA_CERTS cannot be read; it is ignored")),
        }
    }
    if lookup("NODE_TLS_REJECT_UNAUTHORIZED").as_deref() == Some("0") {
        bridge.add(&["--insecure"]);
    }
    if !given.says("--host") {
        bridge.say("--callback-host", "localhost");
    }
    if let Some(value) = given.last("--ping-interval") {
        match seconds(SECONDS, None, DAY, &[value.to_owned()]) {
            Ok(seconds) => bridge.say("--ping", &seconds[0]),
            Err(why) => return wrong(format!("--ping-interval {value}: {why}"), SEE_HELP),
        }
    } else if given.is_on("--keep-alive") {
        bridge.say("--ping", "30");
    }
    if given.is_on("--debug") {
        bridge.say("--log-level", "debug");
    } else if given.is_on("--silent") {
        bridge.say("--log-level", "off");
    }
    match &given.operands[1..] {
        [] => {}
        [port] if port.parse::<u16>().is_ok() => bridge.say("--callback-port", port),
        [other, ..] => {
            let what = format!("{other:?} is neither a flag nor the port of the OAuth callback");
            return wrong(what, SEE_HELP);
        }
    }
    Ok(bridge)
}

/// Whether others could read what is sent there.
fn is_exposed(url: &str) -> bool {
    let url: Option<http::Uri> = url.parse().ok();
    let plain = url.filter(|url| url.scheme_str() == Some("http"));
    plain.is_some_and(|url| !is_local(url.host().unwrap_or_default()))
}
