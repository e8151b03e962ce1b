//! What a server offers: lists of tools, prompts, resources and templates.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use bytes::Bytes;
use serde_json::{Map, Value, json};
use switchboard_proto::method::meta;

use super::context::Context;
use super::handler::{BoxedFuture, Error, Request};
use super::prompt::Prompt;
use super::resource::{Resource, Template};
use super::server_tasks::TaskSupport;
use super::tool::Tool;

/// Entries of one list. A list longer than this helps no model.
const MOST_ENTRIES: usize = 10_000;

/// Something that stands in a list.
pub(super) trait CatalogEntry {
    fn listing(&self) -> &Listing;
}

/// How something stands in a list.
#[derive(Debug)]
pub(super) struct Listing {
    /// What it is called for by.
    pub(super) key: String,
    /// Its entry, up to the closing brace.
    pub(super) text: String,
    /// More members, for the one revision that lists which tools may be tasks.
    pub(super) core_tasks: String,
    /// What keeps it from being offered, if anything.
    pub(super) flaw: Option<BuildError>,
}

impl Listing {
    pub(super) fn new(key: String, members: Map<String, Value>) -> Self {
        let flaw = meta_flaw(&members);
        let mut text = Value::Object(members).to_string();
        text.pop();
        Self { key, text, core_tasks: String::new(), flaw }
    }

    pub(super) fn write(&self, core_tasks: bool, out: &mut String) {
        out.push_str(&self.text);
        if core_tasks {
            out.push_str(&self.core_tasks);
        }
        out.push('}');
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
    pub(super) tools: CatalogList<Tool>,
    pub(super) prompts: CatalogList<Prompt>,
    pub(super) resources: CatalogList<Resource>,
    pub(super) templates: CatalogList<Template>,
}

impl ServerCatalog {
    pub(super) fn has_resources(&self) -> bool {
        self.resources.offered || self.templates.offered
    }

    /// Whether a call of some tool may go on as a task.
    pub(super) fn has_tasks(&self) -> bool {
        self.tools.iter().any(|tool| tool.support != TaskSupport::Forbidden)
    }
}

/// Things in the order they were put there (MOD-4).
pub(super) struct CatalogList<T> {
    items: Vec<Arc<T>>,
    by_key: HashMap<String, usize>,
    /// Whether clients are told that there is such a list, even if it is empty.
    pub(super) offered: bool,
}

impl<T> Default for CatalogList<T> {
    fn default() -> Self {
        Self { items: Vec::new(), by_key: HashMap::new(), offered: false }
    }
}

impl<T> Clone for CatalogList<T> {
    fn clone(&self) -> Self {
        Self { items: self.items.clone(), by_key: self.by_key.clone(), offered: self.offered }
    }
}

impl<T: CatalogEntry> CatalogList<T> {
    pub(super) fn add(&mut self, item: T) -> Result<(), BuildError> {
        if let Some(flaw) = &item.listing().flaw {
            return Err(flaw.clone());
        }
        if self.items.len() >= MOST_ENTRIES {
            return Err(BuildError::Full { limit: MOST_ENTRIES });
        }
        let key = item.listing().key.clone();
        if self.by_key.contains_key(&key) {
            return Err(BuildError::Duplicate { key });
        }
        self.by_key.insert(key, self.items.len());
        self.items.push(Arc::new(item));
        self.offered = true;
        Ok(())
    }

    /// Takes a thing away; an error if it was not there.
    pub(super) fn remove(&mut self, key: &str) -> Result<(), ()> {
        let index = self.by_key.remove(key).ok_or(())?;
        self.items.remove(index);
        let moved = self.items.iter().enumerate().skip(index);
        self.by_key.extend(moved.map(|(index, item)| (item.listing().key.clone(), index)));
        Ok(())
    }

    pub(super) fn get(&self, key: &str) -> Option<&Arc<T>> {
        self.by_key.get(key).map(|&index| &self.items[index])
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.items.iter()
    }

    /// One page of the list, as a result with `member` (PAG-1). A cursor names the last thing
    /// that was listed, so that additions and removals elsewhere do not shift the pages.
    pub(super) fn page(&self, member: &str, page: &ListPage<'_>) -> Result<Bytes, Error> {
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
        let mut out = format!("{{\"{member}\":[");
        for (index, item) in self.items[start..end].iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            item.listing().write(page.core_tasks, &mut out);
        }
        out.push(']');
        if end < self.items.len() {
            let cursor = BASE64.encode(&self.items[end - 1].listing().key);
            out.extend([",\"nextCursor\":\"", &cursor, "\""]);
        }
        out.push('}');
        Ok(out.into())
    }
}

/// Which page of a list is wanted, and in which form.
pub(super) struct ListPage<'a> {
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
                let fits = || templates.iter().any(|template| template.matches(uri).is_some());
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
            #[must_use]
            pub fn description(self, text: impl Into<String>) -> Self {
                self.member("description", text.into())
            }

            /// A name for people.
            #[must_use]
            pub fn title(self, text: impl Into<String>) -> Self {
                self.member("title", text.into())
            }

            /// Pictures for people: a list of `{src, mimeType?, sizes?}`.
            #[must_use]
            pub fn icons(self, icons: ::serde_json::Value) -> Self {
                self.member("icons", icons)
            }

            /// Any other member of its entry in the list.
            #[must_use]
            pub fn member(mut self, name: &str, value: impl Into<::serde_json::Value>) -> Self {
                self.members.insert(name.to_owned(), value.into());
                self
            }

            /// A member of `_meta`. Keys have a fixed shape, `prefix/name` or `name` (MSG-6).
            #[must_use]
            pub fn meta(mut self, key: &str, value: impl Into<::serde_json::Value>) -> Self {
                let meta = self.members.entry("_meta").or_insert_with(|| ::serde_json::json!({}));
                meta[key] = value.into();
                self
            }
        }
    };
}

pub(super) use describe;

/// A key of `_meta` that nobody may use.
pub(super) fn meta_flaw(members: &Map<String, Value>) -> Option<BuildError> {
    let keys = members.get("_meta")?.as_object()?.keys();
    let wrong = keys.into_iter().find(|key| !meta::is_key(key))?;
    Some(BuildError::Meta { key: wrong.clone() })
}
