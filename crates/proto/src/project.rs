//! What one era says in the words of the other: results, content and questions for the
//! revision that is to read them, and who a client is.
//!
//! ```text
//!   for a legacy client   resultType, ttlMs, cacheScope go; structure becomes an object, or goes;
//!                         content of a kind that its revision does not know becomes text   (GW-70)
//!   for a modern client   resultType, cache hints and the server's identity come;
//!                         what the era has dropped goes                                    (GW-44, GW-71)
//! ```
//!
//! What was said and is understood stays as it was written, `_meta` included (GW-73).

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::client::sole;
use crate::failure::Failure;
use crate::header::param::{INSTANCES, MAPS};
use crate::json::Walker;
use crate::jsonrpc::{Kind, Member, Message, Part, quoted};
use crate::limits::MAX_WELCOME;
use crate::method::{self, meta};
use crate::patch;
use crate::refusal::{code_for_legacy, code_for_modern};
use crate::revision::{Revision, RevisionRules};

/// How long results may be kept, and by whom.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CacheHints {
    /// Milliseconds; 0 means not at all.
    pub ttl_ms: u64,
    /// Whether anybody may share it, whoever asked.
    pub public: bool,
}

impl CacheHints {
    /// As it stands on the wire.
    pub fn scope(self) -> &'static str {
        if self.public { "public" } else { "private" }
    }

    /// What both allow (GW-83).
    #[must_use]
    pub fn least(self, other: Self) -> Self {
        let ttl_ms = self.ttl_ms.min(other.ttl_ms);
        Self { ttl_ms, public: self.public && other.public }
    }
}

/// Members that only modern clients know.
const MODERN: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];

/// A result for a legacy client of `revision`; `method` is what it answers.
///
/// A tool's structure that is no object is wrapped in one, and with `wrapped`
/// any: the client knows the tool by a schema that [was wrapped](wraps) too.
pub fn legacy(
    result: Bytes,
    method: &str,
    revision: Revision,
    wrapped: impl FnOnce() -> bool,
) -> Result<Bytes, Failure> {
    let rules = revision.rules();
    let whole = result.clone();
    let [kind, ttl, scope, content, structure] =
        find_members(&whole, [MODERN[0], MODERN[1], MODERN[2], "content", "structuredContent"])?;
    let is_modern = kind.or(ttl).or(scope).is_some();
    let older = is_modern.then(|| patch::without(&result, &[], &MODERN)).flatten();
    let result = older.unwrap_or(result);
    let changed = match method {
        method::CALL_TOOL | method::TASK_RESULT => {
            Some(tool_result(result.clone(), content, structure, rules, wrapped))
        }
        method::GET_PROMPT => patch::each(&result, &["messages"], |message| {
            let block = block(patch::get(message, &["content"])?, rules)?;
            patch::replace(message, &["content"], &block)
        }),
        method::LIST_TOOLS => patch::each(&result, &["tools"], |tool| older_tool(tool, rules)),
        _ => None,
    };
    Ok(changed.unwrap_or(result))
}

/// The values of the members `names` of a result, which must be an object. The last of
/// several equal members counts.
fn find_members<'a, const N: usize>(
    result: &'a [u8],
    names: [&str; N],
) -> Result<[Option<&'a [u8]>; N], Failure> {
    let mut found = [None; N];
    let walked = Walker::new(result).members(|member| {
        if let Some(at) = names.iter().position(|name| member.key.is(name)) {
            found[at] = Some(&result[member.value]);
        }
    });
    walked.map_err(|_| no_object())?;
    Ok(found)
}

/// What a result that is not even a JSON object comes to.
fn no_object() -> Failure {
    Failure::translation("the result is no JSON object")
}

/// A tool as it is listed for an older client.
fn older_tool(tool: &[u8], rules: RevisionRules) -> Option<Bytes> {
    let output = patch::get(tool, &["outputSchema"])?;
    if !rules.structured_content {
        return patch::without(tool, &[], &["outputSchema"]);
    }
    let wrapped = wrap(output)?;
    patch::replace(tool, &["outputSchema"], wrapped.as_bytes())
}

/// More than the members that [`modern`] adds take, but for who answers.
const ROOM_FOR_MODERN: usize = 160;

/// A result for a modern client; `server` is who answers, as JSON, if that is known.
pub fn modern(
    result: &[u8],
    method: &str,
    server: Option<&[u8]>,
    cache: CacheHints,
) -> Result<Bytes, Failure> {
    let [kind, ttl, scope, about] =
        find_members(result, [MODERN[0], MODERN[1], MODERN[2], "_meta"])?;
    let server_length = server.map_or(0, <[u8]>::len);
    let mut whole = Vec::with_capacity(result.len() + server_length + ROOM_FOR_MODERN);
    whole.push(b'{');
    if kind.is_none() {
        whole.extend_from_slice(br#""resultType":"complete","#);
    }
    if method::is_cacheable(method) && kind.is_none_or(|kind| kind == b"\"complete\"") {
        if ttl.is_none() {
            whole.extend_from_slice(format!("\"ttlMs\":{},", cache.ttl_ms).as_bytes());
        }
        if scope.is_none() {
            let scope = cache.scope();
            whole.extend_from_slice(format!("\"cacheScope\":\"{scope}\",").as_bytes());
        }
    }
    if let (None, Some(server)) = (about, server) {
        for piece in [b"\"_meta\":{\"", meta::SERVER.as_bytes(), b"\":", server, b"},"] {
            whole.extend_from_slice(piece);
        }
    }
    let rest = result.trim_ascii_start().get(1..).unwrap_or_default();
    if rest.trim_ascii() == b"}" && whole.len() > 1 {
        whole.pop();
    }
    whole.extend_from_slice(rest);
    let whole = Bytes::from(whole);
    let is_named = |about| patch::get(about, &[meta::SERVER]).is_some();
    let named = server.filter(|_| about.is_some_and(|about| !is_named(about)));
    let named = named.and_then(|server| patch::put(&whole, &["_meta"], meta::SERVER, server));
    Ok(named.unwrap_or(whole))
}

/// What a legacy server's result has that the modern era has dropped, taken away (GW-44).
pub fn without_dropped(result: Bytes, method: &str) -> Bytes {
    let tool = |tool: &[u8]| patch::without(tool, &[], &["execution"]);
    let lists = method == method::LIST_TOOLS;
    let changed = lists.then(|| patch::each(&result, &["tools"], tool)).flatten();
    changed.unwrap_or(result)
}

/// An error of a legacy server for a modern client.
pub fn error_for_modern(error: &Message) -> Message {
    with_code(error, code_for_modern)
}

/// An error of a modern server for a legacy client.
pub fn error_for_legacy(error: &Message, method: &str) -> Message {
    // Only what names the resource is certain to be about it (GW-72).
    let names_it = error.part(Member::Data).is_some_and(|data| data.string("uri").is_some());
    let is_missing_resource = method == method::READ_RESOURCE && names_it;
    with_code(error, |code| code_for_legacy(code, is_missing_resource))
}

fn with_code(error: &Message, other: impl Fn(i64) -> i64) -> Message {
    match error.error_code().map(|code| (code, other(code))) {
        Some((code, other)) if other != code => error.with(Member::Code, other.to_string()),
        _ => error.clone(),
    }
}

// Output schemas that are not of an object, wrapped in one for older clients.

/// Where the schema is in the one that wraps it.
const PLACE: &str = "#/properties/result";

/// Whether the output schema of a tool is shown to legacy clients inside
/// another: it does not say that every result is an object (GW-70).
pub fn wraps(schema: &[u8]) -> bool {
    patch::get(schema, &["type"]) != Some(b"\"object\"")
}

/// A schema of `{"result": …}` for one that is not of an object; none if it is (GW-70).
fn wrap(schema: &[u8]) -> Option<String> {
    if !wraps(schema) {
        return None;
    }
    let mut inner: Value = serde_json::from_slice(schema).ok()?;
    let dialect = inner.as_object_mut().and_then(|members| members.remove("$schema"));
    rebase(&mut inner);
    let properties = json!({ "result": inner });
    let mut outer = json!({"type": "object", "properties": properties, "required": ["result"]});
    if let Some(dialect) = dialect {
        outer["$schema"] = dialect;
    }
    Some(outer.to_string())
}

/// Points local references to where their targets have moved. A schema with an
/// id of its own is a document of its own.
fn rebase(schema: &mut Value) {
    match schema {
        Value::Object(members) if members.contains_key("$id") => {}
        Value::Object(members) => {
            for (name, value) in members {
                match (name.as_str(), value) {
                    ("$ref" | "$dynamicRef", Value::String(to)) => rebase_pointer(to),
                    (name, _) if INSTANCES.contains(&name) => {}
                    (name, Value::Object(named)) if MAPS.contains(&name) => {
                        named.values_mut().for_each(rebase);
                    }
                    (_, value) => rebase(value),
                }
            }
        }
        Value::Array(schemas) => schemas.iter_mut().for_each(rebase),
        _ => {}
    }
}

fn rebase_pointer(to: &mut String) {
    // An anchor is found wherever it is.
    if to == "#" || to.starts_with("#/") {
        to.replace_range(..1, PLACE);
    }
}

// Content of tools and prompts, for clients that know fewer kinds of it.

/// The result of a tool for an older client.
fn tool_result(
    result: Bytes,
    content: Option<&[u8]>,
    structure: Option<&[u8]>,
    rules: RevisionRules,
    wrapped: impl FnOnce() -> bool,
) -> Bytes {
    let blocks = content.and_then(|all| patch::each(all, &[], |item| block(item, rules)));
    let known = blocks.and_then(|blocks| patch::replace(&result, &["content"], &blocks));
    let known = known.unwrap_or(result);
    let Some(structure) = structure else { return known };
    let spoken = if has_text(&known) { None } else { add_text(&known, structure) };
    let spoken = spoken.unwrap_or_else(|| known.clone());
    let fitting = if !rules.structured_content {
        patch::without(&spoken, &[], &["structuredContent"])
    } else if structure.starts_with(b"{") && !wrapped() {
        None
    } else {
        let object = [b"{\"result\":", structure, b"}"].concat();
        patch::replace(&spoken, &["structuredContent"], &object)
    };
    fitting.unwrap_or(spoken)
}

fn has_text(result: &[u8]) -> bool {
    let content = Part::new(result).get(&["content"]);
    content.is_some_and(|all| all.items().any(|it| it.string("type").as_deref() == Some("text")))
}

/// Adds a block with the structure as JSON, for models that read nothing else.
fn add_text(result: &[u8], structure: &[u8]) -> Option<Bytes> {
    let text = text_block(&String::from_utf8_lossy(structure));
    let content = match patch::get(result, &["content"]) {
        None => format!("[{text}]").into_bytes(),
        Some(content) => {
            let inner = content.strip_prefix(b"[")?.strip_suffix(b"]")?.trim_ascii();
            let comma: &[u8] = if inner.is_empty() { b"" } else { b"," };
            [b"[", inner, comma, text.as_bytes(), b"]"].concat()
        }
    };
    patch::put(result, &[], "content", &content)
}

/// A block of content for an older client; none if it stays as it is.
fn block(block: &[u8], rules: RevisionRules) -> Option<Bytes> {
    let kind = patch::string(block, &["type"])?;
    let text = match &*kind {
        "text" | "image" | "resource" => return None,
        "resource_link" if rules.resource_links => return None,
        "audio" if rules.audio => return None,
        "resource_link" => link_text(block),
        "audio" => {
            let mime = patch::string(block, &["mimeType"]).unwrap_or_default();
            format!("[audio, {mime}: left out, for this client cannot take it]")
        }
        _ => String::from_utf8_lossy(block).into_owned(),
    };
    // Who it is for matters in any form.
    let mut other = Bytes::from(text_block(&text));
    for kept in ["annotations", "_meta"] {
        if let Some(value) = patch::get(block, &[kept]) {
            other = patch::put(&other, &[], kept, value).unwrap_or(other);
        }
    }
    Some(other)
}

fn link_text(link: &[u8]) -> String {
    let member = |name: &str| patch::string(link, &[name]).unwrap_or_default();
    let title = patch::string(link, &["title"]).unwrap_or_else(|| member("name"));
    let mut text = format!("{title}: {}", member("uri"));
    for more in ["description", "mimeType"].map(member) {
        if !more.is_empty() {
            text = format!("{text}\n{more}");
        }
    }
    text
}

fn text_block(text: &str) -> String {
    json!({"type": "text", "text": text}).to_string()
}

// Questions of a server, for clients of another revision.

/// Whether who declared `capabilities` can be asked this (MRTR-4, META-5).
pub fn permits(capabilities: &[u8], method: &str, params: &[u8]) -> bool {
    let declared =
        |path: &[&str]| patch::get(capabilities, path).is_some_and(|value| value.starts_with(b"{"));
    match method {
        method::ELICIT => {
            let url = declared(&["elicitation", "url"]);
            let form = declared(&["elicitation", "form"]) || (declared(&["elicitation"]) && !url);
            if is_url(params) { url } else { form }
        }
        method::SAMPLE => {
            declared(&["sampling"]) && (!has_tools(params) || declared(&["sampling", "tools"]))
        }
        method::ROOTS => declared(&["roots"]),
        _ => false,
    }
}

fn is_url(params: &[u8]) -> bool {
    patch::string(params, &["mode"]).is_some_and(|mode| mode == "url")
}

fn has_tools(params: &[u8]) -> bool {
    ["tools", "toolChoice"].iter().any(|member| patch::get(params, &[member]).is_some())
}

/// A modern server's question for a legacy client; none if that has no words
/// for it (GW-15). `id` is what a page to visit is known by.
pub fn legacy_question(method: &str, params: &[u8], revision: Revision, id: &str) -> Option<Bytes> {
    let rules = revision.rules();
    let same = || Some(Bytes::copy_from_slice(params));
    match method {
        method::ELICIT if !rules.elicitation => None,
        method::ELICIT if is_url(params) && !rules.rich_questions => None,
        method::ELICIT if is_url(params) => {
            patch::put(params, &[], "elicitationId", quoted(id).as_bytes())
        }
        method::ELICIT => older_form(params, rules),
        method::SAMPLE if rules.rich_questions => same(),
        method::SAMPLE if has_tools(params) => None,
        method::SAMPLE => older_messages(params),
        method::ROOTS => same(),
        _ => None,
    }
}

/// A form in which choices have no titles of their own, and only one is made.
fn older_form(params: &[u8], rules: RevisionRules) -> Option<Bytes> {
    let same = || Some(Bytes::copy_from_slice(params));
    let path = ["requestedSchema", "properties"];
    let Some(fields) = patch::get(params, &path).filter(|_| !rules.rich_questions) else {
        return same();
    };
    let mut fields: Map<String, Value> = serde_json::from_slice(fields).ok()?;
    let mut changed = false;
    for field in fields.values_mut() {
        if field["type"] == "array" {
            return None;
        }
        let Some(choices) = field.get("oneOf").and_then(Value::as_array) else { continue };
        let names = |member: &str| -> Value {
            choices.iter().map(|choice| choice[member].clone()).collect()
        };
        let (values, titles) = (names("const"), names("title"));
        let field = field.as_object_mut()?;
        field.remove("oneOf");
        field.insert("enum".to_owned(), values);
        field.insert("enumNames".to_owned(), titles);
        changed = true;
    }
    if !changed {
        return same();
    }
    patch::replace(params, &path, json!(fields).to_string().as_bytes())
}

/// Messages whose content is one block each.
fn older_messages(params: &[u8]) -> Option<Bytes> {
    let mut fits = true;
    let changed = patch::each(params, &["messages"], |message| {
        let content = patch::get(message, &["content"]).filter(|it| it.starts_with(b"["))?;
        let only = sole(Part::new(content).items());
        fits &= only.is_some();
        patch::replace(message, &["content"], only?.text())
    });
    fits.then(|| changed.unwrap_or_else(|| Bytes::copy_from_slice(params)))
}

/// A legacy server's question for a modern client: what only its own hop knows goes (GW-49).
pub fn modern_question(params: &[u8]) -> Bytes {
    let hop = [meta::PROGRESS_TOKEN, meta::RELATED_TASK];
    let own = patch::without(params, &[], &["elicitationId", "task"]);
    let own = own.unwrap_or_else(|| Bytes::copy_from_slice(params));
    let bare = patch::without(&own, &["_meta"], &hop).unwrap_or(own);
    match patch::get(&bare, &["_meta"]) {
        Some(b"{}") => patch::without(&bare, &[], &["_meta"]).unwrap_or(bare),
        _ => bare,
    }
}

// Who a client or a server is, for peers of the other era.

/// The extension that modern peers declare which know tasks.
pub(crate) const TASKS: &str = "io.modelcontextprotocol/tasks";

/// What a modern request says about its client.
#[derive(Clone, Debug)]
pub(crate) struct Envelope {
    pub(crate) capabilities: Bytes,
    pub(crate) client: Option<Bytes>,
    pub(crate) level: Option<Box<str>>,
}

impl Envelope {
    /// One that declares nothing, for what we ask on our own account.
    pub(crate) fn ours() -> Self {
        let client = identity().to_string().into();
        Self { capabilities: Bytes::from_static(b"{}"), client: Some(client), level: None }
    }

    /// The same for a request that may become a task, if it may.
    pub(crate) fn taking_tasks(mut self, takes: bool) -> Self {
        if takes && let Some(Value::Object(mut all)) = Part::new(&self.capabilities).value() {
            let known = all.remove("extensions").filter(Value::is_object);
            let mut extensions = known.unwrap_or_else(|| json!({}));
            extensions[TASKS] = json!({});
            all.insert("extensions".to_owned(), extensions);
            self.capabilities = json!(all).to_string().into();
        }
        self
    }

    /// The request of a legacy client as a modern one (GW-12). What it says of
    /// a task is for us (GW-27).
    pub(crate) fn put_on(&self, request: &Message) -> Message {
        let mut request = request.without(Member::Task);
        if let Some(level) = &self.level {
            request = request.with_string(Member::MetaLogLevel, level);
        }
        if let Some(client) = &self.client {
            request = request.with(Member::MetaClient, client.clone());
        }
        request
            .with(Member::MetaCapabilities, self.capabilities.clone())
            .with_string(Member::MetaVersion, Revision::NEWEST_MODERN.as_str())
    }
}

/// Members of a modern request that mean nothing to a legacy server (GW-43).
const ENVELOPE: [Member; 5] = [
    Member::MetaVersion,
    Member::MetaCapabilities,
    Member::MetaClient,
    Member::MetaLogLevel,
    Member::MetaSubscription,
];

/// The request of a modern client as a legacy one.
pub(crate) fn strip_envelope(request: &Message) -> Message {
    if request.payload().is_none() {
        return request.with_payload(b"{}");
    }
    let request = request.without_meta(&ENVELOPE);
    let bare = request.without(Member::InputResponses).without(Member::RequestState);
    // Only a legacy client asks for a task in this way (TASK-9).
    bare.without(Member::Task)
}

/// A notification without the mark of the listen that it came by.
pub(crate) fn unmarked(message: &Message) -> Message {
    let bare = message.without_meta(&[Member::MetaSubscription]);
    match bare.payload() {
        Some(b"{}") => Message::notification(message.method(), None),
        _ => bare,
    }
}

/// What a legacy client of `revision` declared, in modern words and no more
/// than its revision has (GW-12).
pub(crate) fn modern_capabilities(hello: &Message, revision: Revision) -> Bytes {
    let Some(Value::Object(mut all)) = hello.value(Member::Capabilities) else {
        return Bytes::from_static(b"{}");
    };
    all.remove("tasks");
    let rules = revision.rules();
    if !rules.elicitation {
        all.remove("elicitation");
    }
    let mut take = |capability: &str, member: &str| {
        if let Some(members) = all.get_mut(capability).and_then(Value::as_object_mut) {
            members.remove(member);
        }
    };
    take("roots", "listChanged");
    if !rules.rich_questions {
        take("elicitation", "url");
        take("sampling", "tools");
    }
    json!(all).to_string().into()
}

/// How a legacy server is greeted in the name of a modern client (GW-41).
pub(crate) fn hello(request: &Message) -> Message {
    let mut capabilities = request.value(Member::MetaCapabilities).unwrap_or_else(|| json!({}));
    if let Some(members) = capabilities.as_object_mut() {
        members.remove("extensions");
    }
    let client = request.value(Member::MetaClient).filter(Value::is_object);
    let params = json!({
        "protocolVersion": Revision::NEWEST_LEGACY.as_str(),
        "capabilities": capabilities,
        "clientInfo": client.unwrap_or_else(identity),
    });
    Message::request(&0.into(), method::INITIALIZE, Some(params.to_string().as_bytes()))
}

/// A request with an extension among the capabilities of its client, which are kept (OX-7).
/// None if it says nothing of capabilities, or declares the extension, or its revision has none.
pub fn declaring(request: &Message, extension: &str) -> Option<Message> {
    let member = match request.method() {
        method::INITIALIZE => {
            let version = request.string(Member::ProtocolVersion).unwrap_or_default();
            let rules = Revision::legacy_at_most(&version).rules();
            rules.extensions.then_some(Member::Capabilities)?
        }
        _ => Member::MetaCapabilities,
    };
    let declared = request.part(member)?;
    if declared.get(&["extensions", extension]).is_some() {
        return None;
    }
    let alone = || format!("{{{}:{{}}}}", quoted(extension));
    let more = patch::put(declared.text(), &["extensions"], extension, b"{}")
        .or_else(|| declared.with("extensions", alone().as_bytes()))?;
    Some(request.with(member, more))
}

/// What a server says of itself, or that it says too much of it to be kept.
pub(crate) fn welcome_within_bounds(answer: &Message) -> Result<&Message, Failure> {
    if answer.kind() == Kind::Error || answer.size() <= MAX_WELCOME {
        return Ok(answer);
    }
    Err(Failure::TooLarge { what: "the server's greeting", limit: MAX_WELCOME })
}

/// Who we are, where a peer does not say who it is.
pub(crate) fn identity() -> Value {
    json!({"name": "switchboard", "version": env!("CARGO_PKG_VERSION")})
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod question_tests {
    use super::*;

    /// wire: OX-7
    #[test]
    fn an_extension_of_ours_joins_what_a_client_declares() {
        let check = |method: &str, params: &str, expected: Option<&str>| {
            let request = Message::request(&1.into(), method, Some(params.as_bytes()));
            let declaring = declaring(&request, "o/x");
            let found = declaring.as_ref().and_then(Message::payload).map(String::from_utf8_lossy);
            assert_eq!(found.as_deref(), expected, "{params}");
        };
        let greeting = |version: &str, capabilities: &str| {
            format!(r#"{{"protocolVersion":"{version}","capabilities":{capabilities}}}"#)
        };
        let newest = Revision::NEWEST_LEGACY.as_str();
        let ours = greeting(newest, r#"{"extensions":{"o/x":{}}}"#);
        check(method::INITIALIZE, &greeting(newest, "{}"), Some(&ours));
        check(method::INITIALIZE, &ours, None);
        check(method::INITIALIZE, &greeting(Revision::ASSUMED.as_str(), "{}"), None);
        check(method::INITIALIZE, "{}", None);
        let call = |capabilities: &str| {
            format!(r#"{{"name":"t","_meta":{{"{}":{capabilities}}}}}"#, meta::CAPABILITIES)
        };
        let own = call(r#"{"extensions":{"a/b":{"c":1}},"roots":{}}"#);
        let both = call(r#"{"extensions":{"o/x":{},"a/b":{"c":1}},"roots":{}}"#);
        check(method::CALL_TOOL, &own, Some(&both));
        check(method::CALL_TOOL, &call(r#"{"extensions":{"o/x":{"mine":1}}}"#), None);
        check(method::CALL_TOOL, &call("7"), None);
        check(method::CALL_TOOL, r#"{"name":"t"}"#, None);
    }

    /// wire: GW-15
    #[test]
    fn older_clients_are_asked_in_words_they_know() {
        let ask = |method, params: &str| {
            Revision::ALL.map(|revision| {
                let asked = legacy_question(method, params.as_bytes(), revision, "e1");
                asked.map_or_else(|| "-".to_owned(), |it| String::from_utf8_lossy(&it).into_owned())
            })
        };
        let url = r#"{"mode":"url","url":"u"}"#;
        let minted = r#"{"elicitationId":"e1","mode":"url","url":"u"}"#;
        assert_eq!(ask(method::ELICIT, url)[..4], ["-", "-", "-", minted]);
        let form =
            |field: &str| format!(r#"{{"requestedSchema":{{"properties":{{"a":{field}}}}}}}"#);
        let plain = form(r#"{"type":"string"}"#);
        assert_eq!(ask(method::ELICIT, &plain)[..4], ["-", "-", &*plain, &*plain]);
        let titled = form(r#"{"oneOf":[{"const":"x","title":"X"}],"type":"string"}"#);
        let names = form(r#"{"enum":["x"],"enumNames":["X"],"type":"string"}"#);
        assert_eq!(ask(method::ELICIT, &titled)[2..4], [&*names, &*titled]);
        let many = form(r#"{"type":"array","items":{"enum":["x"]}}"#);
        assert_eq!(ask(method::ELICIT, &many)[2..4], ["-", &*many]);
        let tools = r#"{"messages":[],"tools":[]}"#;
        assert_eq!(ask(method::SAMPLE, tools)[2..4], ["-", tools]);
        let array = |content: &str| format!(r#"{{"messages":[{{"content":{content}}}]}}"#);
        let (one, two) = (array(r#"[{"type":"text"}]"#), array("[{},{}]"));
        assert_eq!(ask(method::SAMPLE, &one)[2..4], [&*array(r#"{"type":"text"}"#), &*one]);
        assert_eq!(ask(method::SAMPLE, &two)[2..4], ["-", &*two]);
        assert_eq!(ask(method::ROOTS, "{}")[..4], ["{}"; 4]);
        assert_eq!(ask("x/y", "{}")[..4], ["-"; 4]);
    }

    /// wire: GW-49, MRTR-3, MRTR-13
    #[test]
    fn a_modern_client_is_asked_without_what_only_the_server_knows() {
        let asked = |params: &str| modern_question(params.as_bytes());
        let url = r#"{"elicitationId":"e","url":"u","_meta":{"progressToken":1}}"#;
        assert_eq!(asked(url), r#"{"url":"u"}"#);
        assert_eq!(asked(r#"{"a": 1,"_meta":{"k":1}}"#), r#"{"a": 1,"_meta":{"k":1}}"#);
    }
}

#[cfg(test)]
mod greeting_tests {
    use super::*;

    #[test]
    fn a_greeting_that_is_too_long_to_be_kept_fails() {
        let welcome = |length: usize| {
            let result = format!(r#"{{"serverInfo":{{"name":"{}"}}}}"#, "x".repeat(length));
            let answer = Message::result(&7.into(), result.as_bytes());
            welcome_within_bounds(&answer).is_ok()
        };
        assert!(welcome(1000) && !welcome(MAX_WELCOME));
    }
}
