//! The end of a call: what is counted, logged, remembered and sent of it. Nothing of it
//! shows a secret.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use serde_json::Value;
use switchboard_net::connection::ClientConnection;
use switchboard_net::upstream::{ServerTarget, Target};
use switchboard_proto::jsonrpc::{Id, Message};
use switchboard_proto::method;

use super::own_tools::Trace;
use super::{CallMonitor, CallResult, Seen};
use crate::policy;
use crate::span::{Span, SpanKind};

/// How a call ended.
struct End {
    outcome: CallResult,
    /// The code of an error.
    code: Option<i64>,
    took: Duration,
}

impl CallMonitor {
    /// A call was answered, or given up if there is no answer.
    pub(super) fn close(&self, client: &ClientConnection, call: &Seen, answer: Option<&Message>) {
        let outcome =
            answer.map_or(CallResult::Cancelled, |answer| CallResult::judge(&call.method, answer));
        let code = answer.and_then(Message::error_code);
        let end = End { outcome, code, took: call.since.elapsed() };
        self.count(call, &end);
        log(client, call, &end);
        if &*call.method == method::CALL_TOOL {
            self.recent.add(client, || Trace::new(call, outcome, code, end.took));
        }
        if call.is_sampled {
            self.send_spans(client, call, &end);
        }
    }

    fn count(&self, call: &Seen, end: &End) {
        self.counts.request(&call.method, end.outcome, end.took);
        let tool = call.target.as_deref().filter(|_| &*call.method == method::CALL_TOOL);
        if let (Some(server), Some(tool)) = (&call.server, tool) {
            // That a call went well proves nothing: some servers answer to any name.
            let is_there = || self.is_there.get().is_some_and(|is_there| is_there(server, tool));
            self.counts.tool(server, tool, (end.outcome, end.took), is_there);
        }
    }

    /// Our span for the client, and the one towards the server.
    fn send_spans(&self, client: &ClientConnection, call: &Seen, end: &End) {
        let Some((spans, _)) = self.spans.get() else { return };
        let until = call.at + end.took;
        let mut attributes = said_of(call, call.offered.as_deref(), end);
        attributes.push(("network.transport", call.transport.into()));
        if let Some(id) = &call.id {
            attributes.push(("jsonrpc.request.id", shown(id).into()));
        }
        if let Some(session) = client.session() {
            attributes.push(("mcp.session.id", session.into()));
        }
        let whole = |id, parent, kind, offered: Option<&str>, from, attributes| Span {
            trace: call.trace,
            id,
            parent,
            state: call.state.clone(),
            kind,
            name: name(call, offered),
            from,
            until,
            attributes,
            is_error: end.is_error(),
        };
        let offered = call.offered.as_deref();
        spans.send(whole(call.span, call.parent, SpanKind::Server, offered, call.at, attributes));
        if let (Some((id, from)), Some(server)) = (call.onward, &call.server) {
            let mut attributes = said_of(call, call.target.as_deref(), end);
            attributes.push(("switchboard.server", (&**server).into()));
            attributes.extend(self.place_of(server));
            let (parent, target) = (Some(call.span), call.target.as_deref());
            spans.send(whole(id, parent, SpanKind::Client, target, from, attributes));
        }
    }

    fn place_of(&self, server: &str) -> Vec<(&'static str, Value)> {
        let Some(peer) = self.peers.get(server) else { return Vec::new() };
        let mut attributes = vec![("network.transport", peer.transport.into())];
        if let Some(host) = &peer.host {
            attributes.push(("server.address", (&**host).into()));
            attributes.extend(peer.port.map(|port| ("server.port", port.into())));
        }
        attributes
    }
}

impl End {
    fn is_error(&self) -> bool {
        matches!(self.outcome, CallResult::Error | CallResult::ToolError)
    }
}

/// `tools/call echo`; what has many names goes by its method alone.
fn name(call: &Seen, target: Option<&str>) -> String {
    match (&*call.method, target) {
        (method::CALL_TOOL | method::GET_PROMPT, Some(target)) => {
            format!("{} {target}", call.method)
        }
        _ => call.method.to_string(),
    }
}

/// What OpenTelemetry's conventions want said of a call. The words of an error
/// are a server's, and may hold anything: they stay out.
fn said_of(call: &Seen, target: Option<&str>, end: &End) -> Vec<(&'static str, Value)> {
    let mut said: Vec<(&'static str, Value)> = vec![("mcp.method.name", (&*call.method).into())];
    let key = match &*call.method {
        method::CALL_TOOL => "gen_ai.tool.name",
        method::GET_PROMPT => "gen_ai.prompt.name",
        _ => "mcp.resource.uri",
    };
    said.extend(target.map(|target| (key, target.into())));
    if &*call.method == method::CALL_TOOL {
        said.push(("gen_ai.operation.name", "execute_tool".into()));
    }
    let code = end.code.map(|code| code.to_string());
    let class = match end.outcome {
        CallResult::Ok => None,
        CallResult::ToolError => Some("tool_error".to_owned()),
        CallResult::Cancelled => Some("cancelled".to_owned()),
        CallResult::Error => Some(code.clone().unwrap_or_else(|| "_OTHER".to_owned())),
    };
    said.extend(class.map(|class| ("error.type", class.into())));
    said.extend(code.map(|code| ("rpc.response.status_code", code.into())));
    said
}

/// Characters of a client's id that are shown.
const SHOWN: usize = 64;

fn shown(id: &Id) -> String {
    match id {
        Id::Text(text) => text.chars().take(SHOWN).collect(),
        other => other.to_string(),
    }
}

/// One line for each call: at `info` if it failed, else at `debug`.
fn log(client: &ClientConnection, call: &Seen, end: &End) {
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                server = call.server.as_deref(),
                method = &*call.method,
                tool = call.offered.as_deref().filter(|_| &*call.method == method::CALL_TOOL),
                request = call.id.as_ref().map(shown),
                session = client.session(),
                client = client.number(),
                principal = policy::who(client).as_deref(),
                ms = (end.took.as_secs_f64() * 1e6).round() / 1e3,
                outcome = end.outcome.name(),
                code = end.code,
                trace = format_args!("{:032x}", call.trace),
                "call"
            )
        };
    }
    if end.is_error() { line!(info) } else { line!(debug) }
}

/// Bytes of a name that are kept of a call: no tool has a longer name.
const MAX_NAME: usize = 256;

/// The tool, prompt or resource that a call is about.
pub(super) fn call_subject(request: &Message) -> Option<Cow<'_, str>> {
    let text = match request.method() {
        method::CALL_TOOL | method::GET_PROMPT => request.name()?,
        method::READ_RESOURCE | method::SUBSCRIBE | method::UNSUBSCRIBE => {
            plain_uri(&request.uri()?).to_owned().into()
        }
        _ => return None,
    };
    let short = short_name(&text).len();
    Some(if short < text.len() { Cow::Owned(text[..short].to_owned()) } else { text })
}

/// As much of a name as is kept.
pub(super) fn short_name(name: &str) -> &str {
    &name[..name.floor_char_boundary(MAX_NAME)]
}

/// A URI without what may be secret in it: who asks, and what for. One with a
/// name and a password is told by its scheme alone.
fn plain_uri(uri: &str) -> &str {
    let uri = uri.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = uri.split_once(':').unwrap_or(("", uri));
    let place = rest.trim_start_matches('/').split('/').next().unwrap_or_default();
    if place.contains('@') { scheme } else { uri }
}

/// Where a server is, as spans tell it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Peer {
    /// `pipe` or `tcp`.
    pub transport: &'static str,
    /// Its host, if it has one.
    pub host: Option<Box<str>>,
    /// The port there.
    pub port: Option<u16>,
}

impl Peer {
    /// Where this server is.
    pub fn new(server: &ServerTarget) -> Self {
        let Target::Url { url, .. } = server.target() else {
            return Self { transport: "pipe", host: None, port: None };
        };
        let usual = if url.scheme_str() == Some("http") { 80 } else { 443 };
        let port = url.port_u16().unwrap_or(usual);
        Self { transport: "tcp", host: url.host().map(Into::into), port: Some(port) }
    }
}

/// Where each server is.
#[derive(Debug, Default)]
pub(super) struct Peers(RwLock<HashMap<Box<str>, Peer>>);

/// Servers whose places are known. Those that are beyond have none.
const MAX_PEERS: usize = 1024;

impl Peers {
    pub(super) fn set(&self, server: &str, peer: Peer) {
        let mut peers = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if peers.len() < MAX_PEERS || peers.contains_key(server) {
            peers.insert(server.into(), peer);
        }
    }

    pub(super) fn get(&self, server: &str) -> Option<Peer> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(server).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_between_two_characters() {
        assert_eq!(short_name("tools/call"), "tools/call");
        assert_eq!(short_name(&format!("a{}", "é".repeat(500))).len(), MAX_NAME - 1);
    }

    #[test]
    fn a_uri_is_told_without_what_may_be_secret() {
        for (uri, told) in [
            ("file:///a/b", "file:///a/b"),
            ("https://example.com/a?token=s3cret#x", "https://example.com/a"),
            ("postgres://me:s3cret@db/x", "postgres"),
            ("demo://a@b", "demo"),
            ("mailto:me@example.com", "mailto"),
            ("https://example.com/@me", "https://example.com/@me"),
            ("", ""),
        ] {
            assert_eq!(plain_uri(uri), told, "{uri}");
        }
    }
}
