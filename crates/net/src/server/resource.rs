//! Resources by their URI, and templates that stand for many.

use std::collections::BTreeMap;
use std::future::Future;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::CacheHints;
use super::catalog::{BuildError, CatalogEntry, Code, Listing, describe};
use super::context::Context;
use super::handler::{BoxedFuture, Error};
use super::tool_result::Contents;

/// What a template's variables stand for in one URI.
pub type Variables = BTreeMap<String, String>;

type Read =
    dyn Fn(String, Variables, Context) -> BoxedFuture<Result<Vec<Contents>, Error>> + Send + Sync;

/// A resource that is complete.
#[derive(Debug)]
pub struct Resource {
    listing: Listing,
    pub(super) reader: ResourceReader,
}

/// A pattern of URIs that is complete.
#[derive(Debug)]
pub struct Template {
    listing: Listing,
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
    pub(super) async fn read(
        &self,
        uri: String,
        variables: Variables,
        cx: Context,
    ) -> Result<Bytes, Error> {
        let contents = (self.read.0)(uri, variables, cx).await?;
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
        let (listing, reader) =
            self.complete("uri", Box::new(move |uri, _, cx| Box::pin(function(uri, cx))));
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
        let (mut listing, reader) = self.complete("uriTemplate", read);
        let pattern = UriPattern::parse(&listing.key);
        if let Err(why) = pattern {
            listing.flaw = Some(BuildError::Template { template: listing.key.clone(), why });
        }
        Template { listing, pattern: pattern.ok(), reader }
    }

    fn complete(mut self, member: &str, read: Box<Read>) -> (Listing, ResourceReader) {
        self.members.insert(member.to_owned(), self.uri.as_str().into());
        let reader = ResourceReader { read: Code(read), cache: self.cache };
        (Listing::new(self.uri, self.members), reader)
    }
}

impl CatalogEntry for Resource {
    fn listing(&self) -> &Listing {
        &self.listing
    }
}

impl CatalogEntry for Template {
    fn listing(&self) -> &Listing {
        &self.listing
    }
}

/// A URI template, cut at its variables, to find which values make it a given URI.
///
/// Of RFC 6570 there is what can be read backwards without guessing: `{name}`,
/// which ends at the next slash, and `{+name}`, which may hold any.
#[derive(Clone, Debug, Eq, PartialEq)]
struct UriPattern {
    parts: Vec<PatternPart>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum PatternPart {
    Literal(String),
    Variable { name: String, slashes: bool },
}

impl UriPattern {
    fn parse(template: &str) -> Result<Self, &'static str> {
        let mut parts = Vec::new();
        let mut rest = template;
        while let Some((literal, after)) = rest.split_once('{') {
            if !literal.is_empty() {
                parts.push(PatternPart::Literal(literal.to_owned()));
            } else if let Some(PatternPart::Variable { .. }) = parts.last() {
                return Err("two variables with nothing between them cannot be told apart");
            }
            let (expression, tail) = after.split_once('}').ok_or("a brace is not closed")?;
            let (name, slashes) = match expression.strip_prefix('+') {
                Some(name) => (name, true),
                None => (expression, false),
            };
            let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
            if name.is_empty() || !name.chars().all(is_name) {
                return Err("only {name} and {+name} are understood");
            }
            parts.push(PatternPart::Variable { name: name.to_owned(), slashes });
            rest = tail;
        }
        if rest.contains('}') {
            return Err("a brace is not opened");
        }
        if !rest.is_empty() {
            parts.push(PatternPart::Literal(rest.to_owned()));
        }
        Ok(Self { parts })
    }

    /// The values of the variables, if the template stands for `uri`. Each takes
    /// as little as it can; none is empty.
    fn matches(&self, uri: &str) -> Option<Variables> {
        let mut variables = Variables::new();
        let mut rest = uri;
        let mut parts = self.parts.iter().peekable();
        while let Some(part) = parts.next() {
            let (name, slashes) = match part {
                PatternPart::Literal(literal) => {
                    rest = rest.strip_prefix(literal.as_str())?;
                    continue;
                }
                PatternPart::Variable { name, slashes } => (name, *slashes),
            };
            let is_last = parts.len() == 1;
            let end = match parts.peek() {
                Some(PatternPart::Literal(next)) if is_last => {
                    rest.len().checked_sub(next.len()).filter(|&end| rest.is_char_boundary(end))?
                }
                Some(PatternPart::Literal(next)) => rest.find(next.as_str())?,
                _ => rest.len(),
            };
            let value = &rest[..end];
            if value.is_empty() || (!slashes && value.contains('/')) {
                return None;
            }
            variables.insert(name.clone(), decode(value));
            rest = &rest[end..];
        }
        rest.is_empty().then_some(variables)
    }
}

/// Undoes percent-encoding; what is no UTF-8 then stays as it was.
fn decode(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        // A sign would be a number's, too.
        let hex = tail.get(..2).filter(|hex| hex.iter().all(u8::is_ascii_hexdigit));
        let hex = hex.filter(|_| first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| value.to_owned())
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
