//! What browsers want to hear before they let a page of another origin read our
//! answers. Only origins that the user listed get to hear it, and those of this
//! machine where it serves itself.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method};

use super::{Guard, Origin, single};

/// The right of one origin to read an answer; goes into its headers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Grant {
    origin: HeaderValue,
    readable: HeaderValue,
}

impl Guard {
    /// The CORS grant for the answer to this request, if its origin is listed or local.
    pub fn grant(&self, headers: &HeaderMap) -> Option<Grant> {
        let text = single(headers, ORIGIN).ok().flatten()?;
        let origin = match headers.get(ORIGIN) {
            _ if self.origins.all => HeaderValue::from_static("*"),
            origin => origin.filter(|_| self.may_read(text))?.clone(),
        };
        let mut readable = HeaderValue::from_static(EXPOSED);
        if !self.readable.is_empty() {
            readable = listing(EXPOSED, self.readable.iter().map(String::as_str));
        }
        Some(Grant { origin, readable })
    }

    fn may_read(&self, origin: &str) -> bool {
        self.origins.contains(origin)
            || Origin::parse(origin).is_some_and(|origin| self.is_local(&origin))
    }

    /// The headers of a 204 answer, if the request is a preflight of such an origin.
    pub fn preflight(&self, parts: &Parts) -> Option<HeaderMap> {
        let asks = parts.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        let grant =
            self.grant(&parts.headers).filter(|_| asks && parts.method == Method::OPTIONS)?;
        let mut headers = HeaderMap::with_capacity(6);
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, self.allowed_headers(&parts.headers));
        headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        grant.apply(&mut headers);
        Some(headers)
    }

    /// Ours, those that the user lists, and those `Mcp-Param-*` that the page asks
    /// for: their names are not known beforehand.
    fn allowed_headers(&self, request: &HeaderMap) -> HeaderValue {
        let asked = single(request, ACCESS_CONTROL_REQUEST_HEADERS).ok().flatten();
        let asked = asked.unwrap_or_default().split(',').map(str::trim);
        let parameters = asked.filter(|name| is_parameter(name));
        listing(HEADERS, self.sendable.iter().map(String::as_str).chain(parameters))
    }
}

impl Grant {
    /// Adds the grant to the headers of an answer.
    pub fn apply(&self, headers: &mut HeaderMap) {
        if self.origin != "*" {
            // Without it a cache could hand one origin the grant of another.
            headers.append(VARY, HeaderValue::from_static("origin"));
        }
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, self.origin.clone());
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, self.readable.clone());
    }
}

/// `usual`, and `more`.
fn listing<'a>(usual: &'static str, more: impl Iterator<Item = &'a str>) -> HeaderValue {
    let mut list = usual.to_owned();
    for name in more {
        list.push_str(", ");
        list.push_str(name);
    }
    HeaderValue::try_from(list).unwrap_or(HeaderValue::from_static(usual))
}

fn is_parameter(name: &str) -> bool {
    name.get(..PARAMETER.len()).is_some_and(|start| start.eq_ignore_ascii_case(PARAMETER))
}

const PARAMETER: &str = "mcp-param-";
const HEADERS: &str = "authorization, content-type, last-event-id, mcp-method, mcp-name, mcp-protocol-version, mcp-session-id, x-api-key";
const EXPOSED: &str = "mcp-session-id, retry-after, www-authenticate";
const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE, OPTIONS");
/// Two hours, in seconds: the longest that browsers honour.
const MAX_AGE: HeaderValue = HeaderValue::from_static("7200");
