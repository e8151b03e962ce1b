//! The checks of the doctor: one function for each question that it asks of the evidence.
//! Those here look at the handshake, the messages, the lists and the time that steps take.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::Value;
use switchboard_net::roster::ListKind;
use switchboard_proto::header::param::annotations;
use switchboard_proto::method::{self, meta};
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::{Era, Revision, era_of};

use super::Severity::{Error, Note, Warning};
use super::evidence::{Evidence, ListEnd, ListReading, RequestResult, VisitedTransport};
use super::visit::NO_METHOD;
use super::{Findings, in_words};

pub(super) mod sign_in;
mod transport;

/// Looks at the evidence for one thing.
pub(super) type Check = fn(&Evidence, &mut Findings);

/// All of them, in the order in which a person would ask: a cause before what follows from it.
pub(super) const ALL: &[Check] = &[
    transport::connects,
    transport::is_verified,
    transport::is_elsewhere,
    transport::ends_early,
    transport::takes_the_greeting,
    transport::writes_only_messages,
    transport::behaves_on_stdio,
    transport::opens_the_stream_that_was_wanted,
    transport::answers_with_json_or_a_stream,
    transport::accepts_the_end_of_the_handshake,
    transport::listens_or_says_that_it_does_not,
    transport::keeps_its_sessions_apart,
    transport::ends_sessions,
    answers_the_greeting,
    agrees_on_a_version,
    says_what_it_is,
    answers_with_the_id_it_was_asked_with,
    answers_in_jsonrpc,
    says_only_what_it_may,
    refuses_what_it_does_not_know,
    answers_pings,
    has_what_it_announces,
    announces_what_it_has,
    lists_come_to_an_end,
    lists_say_how_long_they_last,
    tools_have_usable_names,
    tools_have_valid_schemas,
    tools_have_valid_header_annotations,
    names_are_unique,
    tools_are_described,
    is_quick,
];

/// Those for a server that wants a token and was shown none that it takes.
pub(super) const SHUT: &[Check] = &[
    transport::connects,
    transport::is_verified,
    transport::is_elsewhere,
    sign_in::says_how_to_sign_in,
];

fn answers_the_greeting(evidence: &Evidence, found: &mut Findings) {
    if evidence.was_greeted() {
        return;
    }
    match evidence.outcome(method::INITIALIZE) {
        None => is_modern_as_wanted(evidence, found),
        Some(RequestResult::Silence) => {
            let remedy = if evidence.transport == Some(VisitedTransport::Stdio) {
                "is it an MCP server on stdio? Does it flush stdout after each line? A slow start \
                 needs more patience: --timeout SECONDS"
            } else {
                "is something in front of it that holds responses back? More patience: --timeout \
                 SECONDS"
            };
            let what = "the server does not answer initialize";
            found.add(Error, "greeting.silence", "LIF-1", what, remedy);
        }
        // Statuses that say more than the error have findings of their own.
        Some(RequestResult::Answer { http: Some(facts), .. }) if facts.status > 400 => {}
        Some(outcome @ RequestResult::Answer { .. }) if outcome.error().is_some() => {
            let what = format!("initialize {}", in_words(outcome));
            let remedy = "the message of the server is the reason; if it is about the version, it \
                          has to answer with one that it speaks instead";
            found.add(Error, "greeting.refused", "LIF-1", what, remedy);
        }
        Some(RequestResult::Answer { .. }) => {
            let what = "initialize is answered without a protocolVersion";
            let remedy = "say protocolVersion, capabilities and serverInfo in the result";
            found.add(Error, "greeting.no-version", "LIF-1", what, remedy);
        }
        Some(_) => {}
    }
}

/// Only a modern server was wanted, or it speaks nothing that we do.
fn is_modern_as_wanted(evidence: &Evidence, found: &mut Findings) {
    let Some(outcome) = evidence.outcome(method::DISCOVER) else { return };
    let theirs = outcome.result().and_then(|result| result.get("supportedVersions"));
    let theirs = theirs.or_else(|| outcome.error()?.get("data")?.get("supported"));
    if let Some(theirs) = theirs {
        let what = format!("the server speaks {theirs}, and none of these is known here");
        found.add(Error, "greeting.versions", "NEG-1", what, "update switchboard");
    } else if matches!(outcome, RequestResult::Answer { .. } | RequestResult::Silence)
        && outcome.facts().is_none_or(|facts| facts.status <= 400)
    {
        let what = format!("server/discover {}", in_words(outcome));
        let remedy = "the server is not modern; leave --era modern out";
        found.add(Error, "greeting.not-modern", "DISC-1", what, remedy);
    }
}

fn agrees_on_a_version(evidence: &Evidence, found: &mut Findings) {
    let Some(revision) = evidence.revision.as_deref() else { return };
    let is_legacy = |revision: Revision| revision.era() == Era::Legacy;
    if evidence.era != Some(Era::Legacy) || Revision::parse(revision).is_some_and(is_legacy) {
        return;
    }
    if era_of(revision) == Era::Modern {
        let what = format!("initialize agrees on {revision}, which has no initialize");
        let remedy = format!("answer {} or older", Revision::NEWEST_LEGACY);
        found.add(Error, "greeting.version", "NEG-11", what, remedy);
    } else {
        let what = format!("initialize is answered with version {revision:?}, which nobody knows");
        let remedy = format!("answer one of {}", Revision::names(Era::Legacy).join(", "));
        found.add(Error, "greeting.version", "LIF-1", what, remedy);
    }
}

fn says_what_it_is(evidence: &Evidence, found: &mut Findings) {
    let welcome = &evidence.welcome;
    if !evidence.was_greeted() || welcome.is_null() {
        return;
    }
    if !welcome["capabilities"].is_object() {
        let what = "the server names no capabilities";
        found.add(Error, "greeting.capabilities", "LIF-1", what, "say capabilities, if only {}");
    }
    let (server, rule, place) = match evidence.era {
        Some(Era::Modern) => (&welcome["_meta"][meta::SERVER], "MOD-7", "in _meta"),
        _ => (&welcome["serverInfo"], "LIF-1", "as serverInfo"),
    };
    if !server["name"].is_string() || !server["version"].is_string() {
        let what = "the server does not say its name and version";
        let remedy = format!("say {{\"name\", \"version\"}} {place}");
        found.add(Warning, "greeting.server", rule, what, remedy);
    }
    if evidence.era != Some(Era::Modern) {
        return;
    }
    let versions = welcome["supportedVersions"].as_array();
    if !versions.is_some_and(|list| list.iter().all(Value::is_string)) {
        let what = "server/discover does not list the versions";
        found.add(Error, "discover.versions", "DISC-2", what, "say supportedVersions: [\"…\"]");
    }
    if welcome.get("resultType").is_none() {
        let remedy = "say \"resultType\": \"complete\"";
        found.add(Warning, "discover.result-type", "MOD-6", "results have no resultType", remedy);
    }
}

fn answers_with_the_id_it_was_asked_with(evidence: &Evidence, found: &mut Findings) {
    let wrong = evidence.requests.iter().find_map(|asked| {
        let message = asked.outcome.message()?;
        let got = message.get("id").unwrap_or(&Value::Null);
        let unread = got.is_null() && message.get("error").is_some();
        (*got != asked.id && !unread).then_some((asked, got))
    });
    if let Some((asked, got)) = wrong {
        let what = format!("{} had the id {}, and its answer has {got}", asked.method, asked.id);
        let remedy = "repeat the id as it came: a number stays a number, a text a text";
        found.add(Error, "message.id", "MSG-3", what, remedy);
    }
}

fn answers_in_jsonrpc(evidence: &Evidence, found: &mut Findings) {
    for asked in &evidence.requests {
        let Some(message) = asked.outcome.message() else { continue };
        let (method, error) = (&asked.method, message.get("error"));
        if message["jsonrpc"] != "2.0" {
            let what = format!("the answer to {method} lacks \"jsonrpc\": \"2.0\"");
            found.add(Error, "message.version", "MSG-1", what, "say it in every message");
        } else if message.get("result").is_some() && error.is_some() {
            let what = format!("the answer to {method} has a result and an error");
            let remedy = "leave out the one that is not meant, also if it is null";
            found.add(Error, "message.both", "MSG-3", what, remedy);
        } else if error.is_some_and(|it| !it["code"].is_i64() || !it["message"].is_string()) {
            let what = format!("the error of {method} has no code and message");
            let remedy = "an error has an integer code and a text as its message";
            found.add(Error, "message.error", "MSG-5", what, remedy);
        } else {
            continue;
        }
        // One of a kind is enough.
        return;
    }
}

fn says_only_what_it_may(evidence: &Evidence, found: &mut Findings) {
    if let Some(id) = &evidence.heard.unasked {
        let what = format!("the server answers a request with the id {id}, which nobody made");
        let remedy = "answer each request once, and nothing else";
        found.add(Error, "message.unasked", "MSG-3", what, remedy);
    }
    let Some(method) = &evidence.heard.asked else { return };
    let (rule, what) = match evidence.era {
        Some(Era::Modern) => ("MOD-1", format!("the server sends a request ({method})")),
        _ => ("LIF-3", format!("the server asks for {method}, which this client does not offer")),
    };
    let remedy = "look at the capabilities of the client before asking";
    found.add(Warning, "message.asks", rule, what, remedy);
}

fn refuses_what_it_does_not_know(evidence: &Evidence, found: &mut Findings) {
    let Some(outcome) = evidence.outcome(NO_METHOD) else { return };
    let (id, rule, right) = ("message.unknown-method", "MH-13", unknown_method());
    let remedy = format!("answer it with error {right}, Method not found");
    match (outcome, outcome.error()) {
        (RequestResult::Answer { .. }, None) => {
            found.add(Error, id, rule, "a method that does not exist has a result", remedy);
        }
        (RequestResult::Answer { .. }, Some(error)) if error["code"] == right => {}
        (RequestResult::Answer { .. }, Some(error)) => {
            let what = format!("an unknown method is answered with error {}", error["code"]);
            found.add(Note, id, rule, what, remedy);
        }
        _ => {
            let what = format!("a method that does not exist {}", in_words(outcome));
            found.add(Warning, id, rule, what, remedy);
        }
    }
}

/// The code with which a server refuses a method that it does not have.
fn unknown_method() -> i32 {
    Refusal::UnknownMethod { method: String::new() }.rpc_code()
}

fn answers_pings(evidence: &Evidence, found: &mut Findings) {
    let outcome = evidence.outcome(method::PING);
    if let Some(outcome) = outcome.filter(|outcome| outcome.result().is_none()) {
        let what = format!("ping {}", in_words(outcome));
        let remedy = "answer it with an empty result; clients take this for a dead server";
        found.add(Error, "message.ping", "UTL-3", what, remedy);
    }
}

fn has_what_it_announces(evidence: &Evidence, found: &mut Findings) {
    for list in &evidence.lists {
        let (method, member) = (list.kind.method(), list.kind.member().key());
        let capability = list.kind.capability();
        let Some(page) = list.pages.last() else { continue };
        // A server that is gone has a finding of its own.
        let is_gone = matches!(page, RequestResult::Gone { .. } | RequestResult::Lost(_));
        if !list.announced || list.end != ListEnd::Broken || is_gone {
            continue;
        }
        if page.result().is_some() {
            let what = format!("{method} has no list {member:?} in its result");
            let remedy = format!("answer {{\"{member}\": […]}}, if only []");
            found.add(Error, "list.shape", "LIF-3", what, remedy);
            continue;
        }
        let is_unknown = page.error().is_some_and(|error| error["code"] == unknown_method());
        let what = format!("the server announces {capability}, but {method} {}", in_words(page));
        // Servers without templates often forget the method.
        if is_unknown && list.kind == ListKind::Templates {
            found.add(Note, "list.templates", "LIF-3", what, "answer {\"resourceTemplates\": []}");
        } else {
            let remedy = format!("serve {method}, or do not announce {capability}");
            found.add(Error, "list.error", "LIF-3", what, remedy);
        }
    }
}

fn announces_what_it_has(evidence: &Evidence, found: &mut Findings) {
    let is_hidden = |list: &&ListReading| !list.announced && list.items().count() > 0;
    for list in evidence.lists.iter().filter(is_hidden) {
        let (method, capability) = (list.kind.method(), list.kind.capability());
        let what = format!("{method} works, but the server does not announce {capability}");
        let remedy =
            format!("say \"{capability}\": {{}} in capabilities; clients do not look otherwise");
        found.add(Error, "list.unannounced", "LIF-3", what, remedy);
    }
}

fn lists_come_to_an_end(evidence: &Evidence, found: &mut Findings) {
    for ListReading { kind, pages, end, .. } in &evidence.lists {
        let method = kind.method();
        let what = match end {
            ListEnd::Loop => format!("{method} gives the same cursor again and again"),
            ListEnd::Endless => format!("{method} has more than {} pages", pages.len()),
            ListEnd::Whole | ListEnd::Broken => continue,
        };
        let remedy = "leave nextCursor out on the last page; look at the cursor that comes in";
        found.add(Error, "list.cursor", "PAG-1", what, remedy);
    }
}

fn lists_say_how_long_they_last(evidence: &Evidence, found: &mut Findings) {
    if evidence.era != Some(Era::Modern) {
        return;
    }
    let lists = evidence.lists.iter().filter(|list| list.announced);
    let mut pages =
        lists.flat_map(|list| list.pages.iter().map(move |page| (list.kind.method(), page)));
    let bare = pages.find_map(|(method, page)| {
        let result = page.result()?;
        let missing = ["ttlMs", "cacheScope"].into_iter().find(|it| result.get(it).is_none())?;
        Some((method, missing))
    });
    if let Some((method, missing)) = bare {
        let what = format!("{method} does not say {missing}");
        let remedy =
            "say ttlMs, 0 if it may not be kept, and cacheScope, \"public\" or \"private\"";
        found.add(Error, "list.cache", "CACHE-1", what, remedy);
    }
}

/// What the models behind most clients take as the name of a tool.
const NAME: usize = 64;
/// Findings of one kind; a server with a thousand tools makes one mistake.
const FEW: usize = 3;

fn tools(evidence: &Evidence) -> impl Iterator<Item = &Value> {
    let lists = evidence.lists.iter().filter(|list| list.kind == ListKind::Tools);
    lists.flat_map(ListReading::items)
}

fn name(item: &Value) -> &str {
    item["name"].as_str().unwrap_or("a tool without a name")
}

fn tools_have_usable_names(evidence: &Evidence, found: &mut Findings) {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let names = tools(evidence).map(|tool| tool["name"].as_str().unwrap_or_default());
    let is_odd = |name: &&str| name.is_empty() || name.len() > NAME || !name.chars().all(is_plain);
    for name in names.filter(is_odd).take(FEW) {
        if name.is_empty() {
            found.add(Error, "tool.name", "", "a tool has no name", "give it one");
        } else if name.len() > NAME {
            let what = format!("the name of tool {name:.80} has {} characters", name.len());
            let remedy =
                format!("most models take up to {NAME}, and clients put a prefix before it");
            found.add(Warning, "tool.name-long", "", what, remedy);
        } else {
            let what = format!("the name of tool {name:?} has characters that clients refuse");
            let remedy = "use letters, digits, _ and - only";
            found.add(Warning, "tool.name-characters", "", what, remedy);
        }
    }
}

fn tools_have_valid_schemas(evidence: &Evidence, found: &mut Findings) {
    let odd = tools(evidence).flat_map(|tool| {
        let input = match tool.get("inputSchema") {
            None => Some("has no inputSchema".to_owned()),
            Some(schema) => flaw(schema).map(|flaw| format!("has an inputSchema that {flaw}")),
        };
        let output = tool.get("outputSchema").and_then(flaw);
        let output = output.map(|flaw| format!("has an outputSchema that {flaw}"));
        let both = [input, output].into_iter().flatten();
        both.map(|what| format!("tool {:?} {what}", name(tool)))
    });
    for what in odd.take(FEW) {
        let remedy = "give it a JSON Schema of type object, { \"type\": \"object\" } at least";
        found.add(Error, "tool.schema", "", what, remedy);
    }
}

/// What is wrong with a schema.
fn flaw(schema: &Value) -> Option<String> {
    if !schema.is_object() {
        return Some("is no object".to_owned());
    }
    if schema["type"] != "object" {
        return Some("is not of type object".to_owned());
    }
    let built = jsonschema::options().should_validate_formats(false).build(schema);
    built.err().map(|error| format!("is not valid: {error:.200}"))
}

fn tools_have_valid_header_annotations(evidence: &Evidence, found: &mut Findings) {
    let errors = tools(evidence)
        .filter_map(|tool| Some((name(tool), annotations(&tool["inputSchema"]).err()?)));
    for (name, error) in errors.take(FEW) {
        let what = format!("tool {name:?}: {error}");
        found.add(Error, "tool.header", "HDR-7", what, "clients leave such a tool out of the list");
    }
}

fn names_are_unique(evidence: &Evidence, found: &mut Findings) {
    for list in &evidence.lists {
        let (key, what) = (list.kind.key(), list.words());
        let mut seen = HashSet::new();
        let names = list.items().filter_map(|item| item[key].as_str());
        for name in names.filter(|name| !seen.insert(*name)).take(FEW) {
            let what = format!("two {what} have the {key} {name:?}");
            let remedy = "give each its own; clients call either, or refuse both";
            found.add(Error, "list.duplicate", "", what, remedy);
        }
    }
}

fn tools_are_described(evidence: &Evidence, found: &mut Findings) {
    let is_bare = |tool: &&Value| tool["description"].as_str().unwrap_or_default().is_empty();
    let bare: Vec<_> = tools(evidence).filter(is_bare).map(name).collect();
    let some = bare[..bare.len().min(FEW)].join(", ");
    let what = match bare.len() {
        0 => return,
        1 => format!("a tool is without a description: {some}"),
        count => format!("{count} tools are without a description: {some}"),
    };
    let remedy = "say what it does and when to use it; models choose by it";
    found.add(Note, "tool.description", "", what, remedy);
}

/// What a person waits for without wondering.
const USUAL: Duration = Duration::from_secs(1);
/// A start may install things.
const START: Duration = Duration::from_secs(10);

fn is_quick(evidence: &Evidence, found: &mut Findings) {
    // A child that does not answer has a finding of its own.
    for (name, took) in evidence.steps.iter().filter(|_| evidence.was_greeted()) {
        let name = name.as_str();
        let is_start = [method::INITIALIZE, method::DISCOVER].contains(&name);
        if *took > if is_start { START } else { USUAL } {
            let what = format!("{name} takes {:.1} s", took.as_secs_f64());
            let remedy = match name {
                "resolve" => "look at the DNS servers of this machine",
                "connect" | "TLS" => "the way to the server is long, or the server is busy",
                _ => "clients wait for it at each start; some give up after 10 seconds",
            };
            found.add(Warning, "slow", "", what, remedy);
        }
    }
}

#[cfg(test)]
mod tests;
