//! What a server offers: lists of tools, prompts, resources and templates, and completions.
//!
//! A prompt is messages that a person picks by name. A resource is read by its URI; a
//! template stands for many of them.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use bytes::Bytes;
use percent_encoding::percent_decode_str;
use regex::Regex;
use serde::Serialize;
use serde_json::{Map, Value, json};
use switchboard_proto::jsonrpc::Member;
use switchboard_proto::method::meta;

use super::CacheHints;
use super::context::Context;
use super::handler::{BoxedFuture, Error, RawResult, Request};
use super::server_tasks::TaskSupport;
use super::tool::{Content, Contents, Tool};

/// Entries of one list. A list longer than this helps no model.
const MOST_ENTRIES: usize = 10_000;

/// How something stands in a list.
#[derive(Debug)]
pub(super) struct ListedEntry {
    /// What it is called for by.
    pub(super) key: String,
    /// Its entry, up to the closing brace.
    pub(super) text: String,
    /// More members, for the one revision that lists which tools may be tasks.
    pub(super) core_tasks: String,
    /// What keeps it from being offered, if anything.
    pub(super) flaw: Option<BuildError>,
}

impl ListedEntry {
    fn new(key: String, members: Map<String, Value>, flaw: Option<BuildError>) -> Arc<Self> {
        let flaw = flaw.or_else(|| check_meta(&members).err());
        let mut text = Value::Object(members).to_string();
        text.pop();
        Arc::new(Self { key, text, core_tasks: String::new(), flaw })
    }

    pub(super) fn to_json(&self, core_tasks: bool) -> String {
        let more = if core_tasks { &self.core_tasks } else { "" };
        format!("{}{more}}}", self.text)
    }
}

/// A function of the author of a server.
pub(super) struct Code<F: ?Sized>(pub(super) Box<F>);

impl<F: ?Sized> fmt::Debug for Code<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Code")
    }
}

/// Why something cannot be offered.
#[expect(missing_docs, reason = "the field names say it")]
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BuildError {
    /// There is one of that name.
    #[error("{key:?} is there already")]
    Duplicate { key: String },
    /// Too many of a kind.
    #[error("there are more than {limit} of a kind")]
    Full { limit: usize },
    /// The tool's input schema cannot be used.
    #[error("input schema of tool {tool:?}: {why}")]
    Schema { tool: String, why: String },
    /// The tool's output schema cannot be used.
    #[error("output schema of tool {tool:?}: {why}")]
    OutputSchema { tool: String, why: String },
    /// A key of `_meta` has not the shape of one.
    #[error("{key:?} cannot be a key of _meta")]
    Meta { key: String },
    /// An extension whose name has no prefix, or whose settings are no object.
    #[error("extension {id:?} needs a name of the form prefix/name, and an object of settings")]
    Extension { id: String },
    /// The URI template cannot be matched.
    #[error("template {template:?}: {why}")]
    Template { template: String, why: &'static str },
}

/// All lists of a server. A change makes a new catalog; calls go on with the one they began with.
#[derive(Clone, Default)]
pub(super) struct ServerCatalog {
    pub(super) tools: CatalogList<Arc<Tool>>,
    pub(super) prompts: CatalogList<Arc<Prompt>>,
    pub(super) resources: CatalogList<Arc<Resource>>,
    pub(super) templates: CatalogList<Arc<Template>>,
}

impl ServerCatalog {
    pub(super) fn has_resources(&self) -> bool {
        self.resources.offered || self.templates.offered
    }

    /// Whether a call of some tool may go on as a task.
    pub(super) fn has_tasks(&self) -> bool {
        self.tools.items.iter().any(|tool| tool.draft.support != TaskSupport::Forbidden)
    }
}

/// Things in the order they were put there (MOD-4).
#[derive(Clone)]
pub(super) struct CatalogList<T> {
    pub(super) items: Vec<T>,
    /// How each of them stands in the list.
    pub(super) listings: Vec<Arc<ListedEntry>>,
    by_key: HashMap<String, usize>,
    /// Whether clients are told that there is such a list, even if it is empty.
    pub(super) offered: bool,
}

impl<T> Default for CatalogList<T> {
    fn default() -> Self {
        Self { items: vec![], listings: vec![], by_key: HashMap::new(), offered: false }
    }
}

impl<T> CatalogList<Arc<T>> {
    pub(super) fn add(&mut self, listing: Arc<ListedEntry>, item: T) -> Result<(), BuildError> {
        if let Some(flaw) = &listing.flaw {
            return Err(flaw.clone());
        }
        if self.items.len() >= MOST_ENTRIES {
            return Err(BuildError::Full { limit: MOST_ENTRIES });
        }
        let key = listing.key.clone();
        if self.by_key.contains_key(&key) {
            return Err(BuildError::Duplicate { key });
        }
        self.by_key.insert(key, self.items.len());
        self.items.push(Arc::new(item));
        self.listings.push(listing);
        self.offered = true;
        Ok(())
    }

    /// Takes a thing away; an error if it was not there.
    pub(super) fn remove(&mut self, key: &str) -> Result<(), ()> {
        let index = self.by_key.remove(key).ok_or(())?;
        self.items.remove(index);
        self.listings.remove(index);
        let moved = self.listings.iter().enumerate().skip(index);
        self.by_key.extend(moved.map(|(index, listing)| (listing.key.clone(), index)));
        Ok(())
    }

    pub(super) fn get(&self, key: &str) -> Option<&Arc<T>> {
        self.by_key.get(key).map(|&index| &self.items[index])
    }

    /// One page of the list, as a result with `member` (PAG-1). A cursor names the last thing
    /// that was listed, so that additions and removals elsewhere do not shift the pages.
    pub(super) fn page(&self, member: &str, page: &PageRequest<'_>) -> Result<Bytes, Error> {
        let start = match page.cursor {
            None => 0,
            Some(cursor) => {
                let key = BASE64.decode(cursor).ok().and_then(|key| String::from_utf8(key).ok());
                let last = key.and_then(|key| self.by_key.get(&key));
                let why = "the cursor is not, or no longer, valid; list from the start";
                last.ok_or_else(|| Error::invalid_params(why))? + 1
            }
        };
        let end = self.items.len().min(start.saturating_add(page.size));
        let entries = self.listings[start..end].iter().map(|it| it.to_json(page.core_tasks));
        let mut out = format!("{{\"{member}\":[{}]", entries.collect::<Vec<_>>().join(","));
        if end < self.items.len() {
            let cursor = BASE64.encode(&self.listings[end - 1].key);
            out.extend([",\"nextCursor\":\"", &cursor, "\""]);
        }
        Ok((out + "}").into())
    }
}

/// Which page of a list is wanted, and in which form.
pub(super) struct PageRequest<'a> {
    pub(super) cursor: Option<&'a str>,
    /// Entries on it, at least one.
    pub(super) size: usize,
    pub(super) core_tasks: bool,
}

/// Values in one answer; the specification allows no more.
const MOST_VALUES: usize = 100;

/// What is to be completed.
#[derive(Clone, Debug, PartialEq)]
pub struct CompletionRequest {
    /// Whose argument it is.
    pub of: CompletionSubject,
    /// The argument.
    pub argument: String,
    /// What was typed so far.
    pub value: String,
    /// Arguments that are settled.
    pub settled: BTreeMap<String, String>,
}

/// Whose argument is to be completed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CompletionSubject {
    /// A prompt, by its name.
    Prompt(String),
    /// A resource template, by its text.
    Template(String),
}

pub(super) type Completion =
    dyn Fn(CompletionRequest, Context) -> BoxedFuture<Result<Vec<String>, Error>> + Send + Sync;

impl CompletionRequest {
    pub(super) fn read(call: &Request) -> Result<Self, Error> {
        let params = call.value()?;
        let text = |path: &str| {
            let text = params.pointer(path).and_then(Value::as_str).map(str::to_owned);
            text.ok_or_else(|| Error::invalid_params(format!("params{path} must be a string")))
        };
        let of = match params["ref"]["type"].as_str() {
            Some("ref/prompt") => CompletionSubject::Prompt(text("/ref/name")?),
            Some("ref/resource") => CompletionSubject::Template(text("/ref/uri")?),
            _ => return Err(Error::invalid_params("params/ref/type is none we know")),
        };
        let settled = params["context"]["arguments"].clone();
        let settled = serde_json::from_value(settled).unwrap_or_default();
        Ok(Self { of, argument: text("/argument/name")?, value: text("/argument/value")?, settled })
    }
}

impl CompletionSubject {
    /// What is on no list of ours has no arguments either; where there is no
    /// list, a raw handler may have such things.
    pub(super) fn check(&self, catalog: &ServerCatalog) -> Result<(), Error> {
        let (is_known, what) = match self {
            Self::Prompt(name) => {
                let prompts = &catalog.prompts;
                (!prompts.offered || prompts.get(name).is_some(), format!("prompt: {name}"))
            }
            Self::Template(uri) => {
                let (templates, resources) = (&catalog.templates, &catalog.resources);
                let is_listed = templates.get(uri).is_some() || resources.get(uri).is_some();
                let fits =
                    || templates.items.iter().any(|template| template.matches(uri).is_some());
                (!templates.offered || is_listed || fits(), format!("template: {uri}"))
            }
        };
        if is_known { Ok(()) } else { Err(Error::invalid_params(format!("Unknown {what}"))) }
    }
}

pub(super) fn completion_result(mut values: Vec<String>) -> Bytes {
    let total = values.len();
    values.truncate(MOST_VALUES);
    let more = total > values.len();
    json!({"completion": {"values": values, "total": total, "hasMore": more}}).to_string().into()
}

/// The methods that describe a draft, which keeps them in `members`.
macro_rules! describe {
    ($draft:ident $(<$arguments:ident>)?) => {
        impl $(<$arguments>)? $draft $(<$arguments>)? {
            /// What it is for: models read this.
            pub fn description(self, text: impl Into<String>) -> Self {
                self.member("description", text.into())
            }

            /// A name for people.
            pub fn title(self, text: impl Into<String>) -> Self {
                self.member("title", text.into())
            }

            /// Any other member of its entry in the list, `icons` for example.
            pub fn member(mut self, name: &str, value: impl Into<::serde_json::Value>) -> Self {
                self.members.insert(name.to_owned(), value.into());
                self
            }

            /// A member of `_meta`. Keys have a fixed shape, `prefix/name` or `name` (MSG-6).
            pub fn meta(mut self, key: &str, value: impl Into<::serde_json::Value>) -> Self {
                let meta = self.members.entry("_meta").or_insert_with(|| ::serde_json::json!({}));
                meta[key] = value.into();
                self
            }
        }
    };
}

pub(super) use describe;

/// Whether `_meta` has no key that nobody may use.
pub(super) fn check_meta(members: &Map<String, Value>) -> Result<(), BuildError> {
    let mut keys = members.get("_meta").and_then(Value::as_object).into_iter().flatten();
    let wrong = keys.find(|(key, _)| !meta::is_key(key));
    wrong.map_or(Ok(()), |(key, _)| Err(BuildError::Meta { key: key.clone() }))
}

/// Arguments of a prompt, by name. They are always strings.
pub type PromptArguments = BTreeMap<String, String>;

type Fill =
    dyn Fn(PromptArguments, Context) -> BoxedFuture<Result<PromptResult, Error>> + Send + Sync;

/// A prompt that is complete.
#[derive(Debug)]
pub struct Prompt {
    pub(super) listing: Arc<ListedEntry>,
    required: Vec<String>,
    fill: Code<Fill>,
}

/// A prompt that lacks its function.
#[derive(Debug)]
#[must_use]
pub struct PromptDraft {
    members: Map<String, Value>,
}

impl Prompt {
    /// Begins a prompt.
    #[expect(clippy::new_ret_no_self, reason = "a prompt is not one before it can be filled in")]
    pub fn new(name: impl Into<String>) -> PromptDraft {
        PromptDraft { members: Map::new() }.member("name", name.into())
    }

    /// Fills it in for a call.
    pub(super) async fn get(&self, call: &Request, cx: Context) -> Result<Bytes, Error> {
        let arguments = read_arguments(call)?;
        let missing = self.required.iter().find(|name| !arguments.contains_key(*name));
        if let Some(name) = missing {
            return Err(Error::invalid_params(format!("argument {name:?} is missing")));
        }
        (self.fill.0)(arguments, cx).await.map(|result| json!(result).to_string().into())
    }
}

/// The arguments of a call, which are strings all (ERR-3).
fn read_arguments(call: &Request) -> Result<PromptArguments, Error> {
    let Some(arguments) = call.message.part(Member::Arguments) else {
        return Ok(PromptArguments::new());
    };
    let arguments: Map<String, Value> = arguments
        .read()
        .map_err(|_| Error::invalid_params("params.arguments must be an object"))?;
    let strings = arguments.into_iter().map(|(name, value)| match value {
        Value::String(value) => Ok((name, value)),
        _ => Err(Error::invalid_params(format!("argument {name:?} must be a string"))),
    });
    strings.collect()
}

describe!(PromptDraft);

impl PromptDraft {
    /// An argument that it must be given.
    pub fn argument(self, name: &str, description: &str) -> Self {
        self.with_argument(&json!({"name": name, "description": description, "required": true}))
    }

    /// An argument that may be left out.
    pub fn optional_argument(self, name: &str, description: &str) -> Self {
        self.with_argument(&json!({"name": name, "description": description, "required": false}))
    }

    fn with_argument(mut self, entry: &Value) -> Self {
        let arguments = self.members.entry("arguments").or_insert_with(|| json!([]));
        arguments.as_array_mut().into_iter().for_each(|arguments| arguments.push(entry.clone()));
        self
    }

    /// How it is filled in. Required arguments are there.
    pub fn run<F, W>(self, function: F) -> Prompt
    where
        F: Fn(PromptArguments, Context) -> W + Send + Sync + 'static,
        W: Future<Output = Result<PromptResult, Error>> + Send + 'static,
    {
        let arguments = self.members.get("arguments").and_then(Value::as_array);
        let required = arguments.into_iter().flatten().filter(|it| it["required"] == true);
        let required = required.filter_map(|it| it["name"].as_str().map(str::to_owned)).collect();
        let name = self.members["name"].as_str().unwrap_or_default().to_owned();
        let fill: Box<Fill> = Box::new(move |arguments, cx| Box::pin(function(arguments, cx)));
        Prompt { listing: ListedEntry::new(name, self.members, None), required, fill: Code(fill) }
    }
}

/// A filled-in prompt.
#[derive(Clone, Debug, Default, Serialize)]
#[must_use]
pub struct PromptResult {
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    messages: Vec<Value>,
}

impl PromptResult {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with a description.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = Some(text.into());
        self
    }

    /// The same with something the user says.
    pub fn user(self, content: impl Into<Content>) -> Self {
        self.message("user", &content.into())
    }

    /// The same with something the model says.
    pub fn assistant(self, content: impl Into<Content>) -> Self {
        self.message("assistant", &content.into())
    }

    fn message(mut self, role: &str, content: &Content) -> Self {
        self.messages.push(json!({"role": role, "content": content}));
        self
    }
}

/// What a template's variables stand for in one URI.
pub type Variables = BTreeMap<String, String>;

type Read =
    dyn Fn(String, Variables, Context) -> BoxedFuture<Result<Vec<Contents>, Error>> + Send + Sync;

/// A resource that is complete.
#[derive(Debug)]
pub struct Resource {
    pub(super) listing: Arc<ListedEntry>,
    pub(super) reader: ResourceReader,
}

/// A pattern of URIs that is complete.
#[derive(Debug)]
pub struct Template {
    pub(super) listing: Arc<ListedEntry>,
    pattern: Option<UriPattern>,
    pub(super) reader: ResourceReader,
}

/// How something is read, and how long that may be kept.
#[derive(Debug)]
pub(super) struct ResourceReader {
    read: Code<Read>,
    cache: Option<CacheHints>,
}

impl ResourceReader {
    pub(super) async fn read(&self, uri: String, of: Variables, cx: Context) -> RawResult {
        let contents = (self.read.0)(uri, of, cx).await?;
        let mut result = json!({"contents": contents});
        if let Some(cache) = self.cache {
            result["ttlMs"] = cache.ttl_ms.into();
            result["cacheScope"] = cache.scope().into();
        }
        Ok(result.to_string().into())
    }
}

/// A resource or a template that lacks its function.
#[derive(Debug)]
#[must_use]
pub struct ResourceDraft {
    uri: String,
    members: Map<String, Value>,
    cache: Option<CacheHints>,
}

impl Resource {
    /// Begins a resource.
    #[expect(clippy::new_ret_no_self, reason = "a resource is not one before it can be read")]
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> ResourceDraft {
        let draft = ResourceDraft { uri: uri.into(), members: Map::new(), cache: None };
        draft.member("name", name.into())
    }

    /// A resource that is a text and stays so.
    pub fn text(uri: &str, name: &str, mime: &str, text: impl Into<String>) -> Self {
        let contents = Contents::text(uri, mime, text);
        Self::new(uri, name).mime(mime).fixed(contents)
    }

    /// A resource that is bytes and stays so.
    pub fn blob(uri: &str, name: &str, mime: &str, bytes: impl AsRef<[u8]>) -> Self {
        let contents = Contents::blob(uri, mime, bytes);
        Self::new(uri, name).mime(mime).fixed(contents)
    }
}

impl Template {
    /// Begins a template: a URI with variables in braces, as `a://{id}/b` or `a://{+path}`.
    #[expect(clippy::new_ret_no_self, reason = "a template is not one before it can be read")]
    pub fn new(template: impl Into<String>, name: impl Into<String>) -> ResourceDraft {
        Resource::new(template, name)
    }

    /// The variables, if the template stands for this URI.
    pub(super) fn matches(&self, uri: &str) -> Option<Variables> {
        self.pattern.as_ref()?.matches(uri)
    }
}

describe!(ResourceDraft);

impl ResourceDraft {
    /// Its media type.
    pub fn mime(self, mime: &str) -> Self {
        self.member("mimeType", mime)
    }

    /// How long what was read may be kept, if not as long as the server says (CACHE-1).
    pub fn cache(self, cache: CacheHints) -> Self {
        Self { cache: Some(cache), ..self }
    }

    /// How it is read.
    pub fn read<F, W>(self, function: F) -> Resource
    where
        F: Fn(String, Context) -> W + Send + Sync + 'static,
        W: Future<Output = Result<Vec<Contents>, Error>> + Send + 'static,
    {
        let read: Box<Read> = Box::new(move |uri, _, cx| Box::pin(function(uri, cx)));
        let (listing, reader) = self.complete("uri", read, None);
        Resource { listing, reader }
    }

    fn fixed(self, contents: Contents) -> Resource {
        self.read(move |_, _| std::future::ready(Ok(vec![contents.clone()])))
    }

    /// How whatever the template stands for is read.
    pub fn read_each<F, W>(self, function: F) -> Template
    where
        F: Fn(String, Variables, Context) -> W + Send + Sync + 'static,
        W: Future<Output = Result<Vec<Contents>, Error>> + Send + 'static,
    {
        let read = Box::new(move |uri, variables, cx| -> BoxedFuture<_> {
            Box::pin(function(uri, variables, cx))
        });
        let (template, pattern) = (self.uri.clone(), UriPattern::parse(&self.uri));
        let flaw = pattern.as_ref().err().map(|&why| BuildError::Template { template, why });
        let (listing, reader) = self.complete("uriTemplate", read, flaw);
        Template { listing, pattern: pattern.ok(), reader }
    }

    fn complete(
        mut self,
        member: &str,
        read: Box<Read>,
        flaw: Option<BuildError>,
    ) -> (Arc<ListedEntry>, ResourceReader) {
        self.members.insert(member.to_owned(), self.uri.as_str().into());
        let reader = ResourceReader { read: Code(read), cache: self.cache };
        (ListedEntry::new(self.uri, self.members, flaw), reader)
    }
}

/// A URI template as an expression that finds which values make it a given URI.
///
/// Of RFC 6570 there is what can be read backwards without guessing: `{name}`,
/// which ends at the next slash, and `{+name}`, which may hold any.
#[derive(Debug)]
struct UriPattern {
    expression: Regex,
    names: Vec<String>,
}

impl UriPattern {
    fn parse(template: &str) -> Result<Self, &'static str> {
        let mut names = Vec::new();
        let mut expression = "(?s)^".to_owned();
        let mut rest = template;
        while let Some((literal, after)) = rest.split_once('{') {
            if literal.is_empty() && !names.is_empty() {
                return Err("two variables with nothing between them cannot be told apart");
            }
            let (variable, tail) = after.split_once('}').ok_or("a brace is not closed")?;
            let name = variable.strip_prefix('+').unwrap_or(variable);
            let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
            if name.is_empty() || !name.chars().all(is_name) {
                return Err("only {name} and {+name} are understood");
            }
            // As little as it can, and never nothing.
            let value = if variable.starts_with('+') { "(.+?)" } else { "([^/]+?)" };
            expression.extend([&regex::escape(literal), value]);
            names.push(name.to_owned());
            rest = tail;
        }
        if rest.contains('}') {
            return Err("a brace is not opened");
        }
        expression.extend([&regex::escape(rest), "$"]);
        let expression = Regex::new(&expression).map_err(|_| "it is too long")?;
        Ok(Self { expression, names })
    }

    /// The values of the variables, if the template stands for `uri`.
    fn matches(&self, uri: &str) -> Option<Variables> {
        let values = self.expression.captures(uri)?;
        let values = values.iter().skip(1).flatten().map(|value| value.as_str());
        let pairs = self.names.iter().zip(values).map(|(name, value)| {
            // What is no UTF-8 when it is decoded stays as it was.
            let decoded = percent_decode_str(value).decode_utf8().unwrap_or(value.into());
            (name.clone(), decoded.into_owned())
        });
        Some(pairs.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_read_back_from_a_uri() {
        check("a://{id}/data", "a://12/data", "id=12");
        check("a://{id}/data", "a://data/data", "id=data");
        check("a://{id}/data", "a://1/2/data", "-");
        check("a://{id}/data", "a:///data", "-");
        check("a://{id}/data", "a://1/dat", "-");
        check("a://{+path}", "a://x/y%20z", "path=x/y z");
        check("a://{x}/{y}", "a://1/2", "x=1 y=2");
        check("a://b", "a://b", "");
        check("a://{x}", "a://é%", "x=é%");
        check("a://{x}", "a://%+1%zz", "x=%+1%zz");
        for broken in ["a://{", "a://{}", "a://}", "a://{x}{y}", "a://{?q}"] {
            assert!(UriPattern::parse(broken).is_err(), "{broken}");
        }
    }

    #[track_caller]
    fn check(template: &str, uri: &str, expected: &str) {
        let seen = UriPattern::parse(template).unwrap().matches(uri).map_or_else(
            || "-".to_owned(),
            |variables| {
                let pairs = variables.iter().map(|(name, value)| format!("{name}={value}"));
                pairs.collect::<Vec<_>>().join(" ")
            },
        );
        assert_eq!(seen, expected, "{template} for {uri}");
    }
}
