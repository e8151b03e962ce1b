//! Resources by their URI, and templates that stand for many.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::catalog::{Flaw, Listed};
use super::content::Contents;
use super::context::Context;
use super::entry::{self, describe};
use super::error::Error;
use super::handler::Job;
use super::project::CacheHints;
use pattern::Pattern;

mod pattern;

/// What a template's variables stand for in one URI.
pub type Variables = BTreeMap<String, String>;

type Read = dyn Fn(String, Variables, Context) -> Job<Result<Vec<Contents>, Error>> + Send + Sync;

/// A resource that is complete.
pub struct Resource {
    uri: String,
    flaw: Option<Flaw>,
    listing: String,
    cache: Option<CacheHints>,
    read: Box<Read>,
}

/// A pattern of URIs that is complete.
pub struct Template {
    text: String,
    pattern: Result<Pattern, &'static str>,
    flaw: Option<Flaw>,
    listing: String,
    cache: Option<CacheHints>,
    read: Box<Read>,
}

/// A resource or a template that lacks its function.
#[derive(Debug)]
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

    pub(super) async fn get(&self, cx: Context) -> Result<Bytes, Error> {
        (self.read)(self.uri.clone(), Variables::new(), cx)
            .await
            .map(|contents| to_bytes(&contents, self.cache))
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
        self.pattern.as_ref().ok()?.matches(uri)
    }

    pub(super) async fn get(
        &self,
        uri: String,
        variables: Variables,
        cx: Context,
    ) -> Result<Bytes, Error> {
        (self.read)(uri, variables, cx).await.map(|contents| to_bytes(&contents, self.cache))
    }
}

describe!(ResourceDraft);

impl ResourceDraft {
    /// Its media type.
    #[must_use]
    pub fn mime(self, mime: &str) -> Self {
        self.member("mimeType", mime)
    }

    /// How long what was read may be kept, if not as long as the server says (CACHE-1).
    #[must_use]
    pub fn cache(self, cache: CacheHints) -> Self {
        Self { cache: Some(cache), ..self }
    }

    /// How it is read.
    pub fn read<F, W>(self, function: F) -> Resource
    where
        F: Fn(String, Context) -> W + Send + Sync + 'static,
        W: Future<Output = Result<Vec<Contents>, Error>> + Send + 'static,
    {
        let listing = self.listing("uri");
        let read = Box::new(move |uri, _, cx| -> Job<_> { Box::pin(function(uri, cx)) });
        let (flaw, cache) = (entry::flaw(&self.members), self.cache);
        Resource { uri: self.uri, flaw, listing, cache, read }
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
        let listing = self.listing("uriTemplate");
        let read = Box::new(move |uri, variables, cx| -> Job<_> {
            Box::pin(function(uri, variables, cx))
        });
        let pattern = Pattern::parse(&self.uri);
        let (flaw, cache) = (entry::flaw(&self.members), self.cache);
        Template { text: self.uri, pattern, flaw, listing, cache, read }
    }

    fn listing(&self, member: &str) -> String {
        let mut members = self.members.clone();
        members.insert(member.to_owned(), self.uri.as_str().into());
        Value::Object(members).to_string()
    }
}

fn to_bytes(contents: &[Contents], cache: Option<CacheHints>) -> Bytes {
    let mut result = json!({"contents": contents});
    if let Some(cache) = cache {
        result["ttlMs"] = cache.ttl_ms.into();
        result["cacheScope"] = cache.scope().into();
    }
    result.to_string().into()
}

impl Listed for Resource {
    fn key(&self) -> &str {
        &self.uri
    }

    fn flaw(&self) -> Option<Flaw> {
        self.flaw.clone()
    }

    fn list(&self, _: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(self.listing.as_bytes());
    }
}

impl Listed for Template {
    fn key(&self) -> &str {
        &self.text
    }

    fn flaw(&self) -> Option<Flaw> {
        match self.pattern {
            Ok(_) => self.flaw.clone(),
            Err(why) => Some(Flaw::Template { template: self.text.clone(), why }),
        }
    }

    fn list(&self, _: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(self.listing.as_bytes());
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resource").field("uri", &self.uri).finish_non_exhaustive()
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Template").field("template", &self.text).finish_non_exhaustive()
    }
}
