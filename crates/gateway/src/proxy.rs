//! What proxies in front of the gateway say: whose word counts, and the URL that clients used.
//!
//! A client can send the headers of a proxy, too. They count only from the addresses that the
//! administrator lists, and only for hosts that are served anyway: a proxy may pass on a header
//! that it does not know, and the URL decides which access tokens are for us.

use http::header::FORWARDED;
use http::{HeaderMap, HeaderName};
use switchboard_net::access::EntryRequest;
use switchboard_net::http::fetch::AddressRange;

const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");

/// Characters of a prefix that are looked at.
const LONGEST_PREFIX: usize = 200;

/// The URL that a request came to, without its path.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct RequestUrl {
    /// Scheme and host. The host is known to be ours.
    pub(crate) origin: String,
    /// What a proxy has cut off the path. A client may have sent it through a proxy that does not
    /// know the header: it may be shown to this client, and decides nothing.
    pub(crate) prefix: String,
}

/// The URL that a request came to: as a trusted proxy says it, else by its `Host`. None if that
/// host is not known to be ours.
pub(crate) fn base_url(request: EntryRequest<'_>, trusted: &[AddressRange]) -> Option<RequestUrl> {
    let peer = request.peer().map(|peer| peer.to_canonical());
    let is_proxy = peer.is_some_and(|peer| trusted.iter().any(|range| range.has(peer)));
    let scheme = if request.is_secure() { "https" } else { "http" };
    if !is_proxy {
        let origin = format!("{scheme}://{}", request.known_host()?);
        return Some(RequestUrl { origin, prefix: String::new() });
    }
    let told = ProxyWord::read(request.headers())?;
    let host = match told.host {
        Some(host) => Some(host).filter(|host| request.knows_host(host))?,
        None => request.known_host()?,
    };
    let scheme = told.scheme.unwrap_or(scheme);
    let is_web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    let origin = format!("{}://{host}", scheme.to_ascii_lowercase());
    is_web.then(|| RequestUrl { origin, prefix: told.prefix.to_owned() })
}

/// What the nearest proxy says. Of a list that is its last member: those before it may be what
/// a client sent.
#[derive(Debug, Eq, PartialEq)]
struct ProxyWord<'h> {
    scheme: Option<&'h str>,
    host: Option<&'h str>,
    prefix: &'h str,
}

impl<'h> ProxyWord<'h> {
    /// None if it cannot be read, or the two kinds of headers contradict each other: then one of
    /// them is not from the proxy.
    fn read(headers: &'h HeaderMap) -> Option<Self> {
        let last = |name: HeaderName| match headers.get_all(name).iter().next_back() {
            None => Some(None),
            Some(value) => Some(Some(split(value.to_str().ok()?, ',').next_back()?.trim())),
        };
        let (mut scheme, mut host) = (last(PROTO)?, last(HOST)?);
        let prefix = last(PREFIX)?.unwrap_or_default().trim_end_matches('/');
        let element = last(FORWARDED)?.unwrap_or_default();
        for pair in split(element, ';').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=')?;
            let member = match name.trim().to_ascii_lowercase().as_str() {
                "host" => &mut host,
                "proto" => &mut scheme,
                _ => continue,
            };
            let value = value.trim().trim_matches('"');
            if member.is_some_and(|other| !other.eq_ignore_ascii_case(value)) {
                return None;
            }
            *member = Some(value);
        }
        is_prefix(prefix).then_some(Self { scheme, host, prefix })
    }
}

/// The parts of a list; what is in quotes stays together.
fn split(text: &str, at: char) -> impl DoubleEndedIterator<Item = &str> {
    let mut is_quoted = false;
    let ends = text.char_indices().filter(|(_, sign)| {
        is_quoted ^= *sign == '"';
        !is_quoted && *sign == at
    });
    let ends: Vec<_> = ends.map(|(end, _)| end).chain([text.len()]).collect();
    let starts = std::iter::once(0).chain(ends.clone().into_iter().map(|end| end + 1));
    starts.zip(ends).map(|(start, end)| &text[start..end]).collect::<Vec<_>>().into_iter()
}

/// Whether it is a plain path, or nothing.
fn is_prefix(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/%".contains(&byte);
    let is_path = text.starts_with('/') && text.len() <= LONGEST_PREFIX;
    let has_dots = text.split('/').skip(1).any(|part| matches!(part, "" | "." | ".."));
    text.is_empty() || (is_path && !has_dots && text.bytes().all(is_plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(headers: &[(&'static str, &str)]) -> Option<(String, String, String)> {
        let headers = headers.iter().map(|(name, value)| {
            (HeaderName::from_static(name), value.parse().expect("a header value"))
        });
        let headers: HeaderMap = headers.fold(HeaderMap::new(), |mut all, (name, value)| {
            all.append(name, value);
            all
        });
        let told = ProxyWord::read(&headers)?;
        let text = |part: Option<&str>| part.unwrap_or("-").to_owned();
        Some((text(told.scheme), text(told.host), told.prefix.to_owned()))
    }

    // wire: OR-4
    #[test]
    fn the_last_word_is_that_of_the_nearest_proxy() {
        let told = |scheme: &str, host: &str, prefix: &str| {
            Some((scheme.to_owned(), host.to_owned(), prefix.to_owned()))
        };
        let (host, proto) = ("x-forwarded-host", "x-forwarded-proto");
        for (headers, expected) in [
            (&[][..], told("-", "-", "")),
            (&[(host, "gw.example"), (proto, "https")], told("https", "gw.example", "")),
            (&[(host, "evil.example, gw.example")], told("-", "gw.example", "")),
            (&[(host, "evil.example"), (host, "gw.example")], told("-", "gw.example", "")),
            (&[("x-forwarded-prefix", "/tools/")], told("-", "-", "/tools")),
            (
                &[(
                    "forwarded",
                    "for=1.2.3.4;host=evil, For=\"[::1]:5\";Host=\"gw:8443\";proto=https",
                )],
                told("https", "gw:8443", ""),
            ),
            (&[("forwarded", "for=\"a,b;host=evil\";host=gw")], told("-", "gw", "")),
            (&[("forwarded", "host=gw"), (host, "GW")], told("-", "gw", "")),
            // Whoever of the two it was: the proxy sets one kind, the client sent the other.
            (&[("forwarded", "host=evil"), (host, "gw")], None),
            (&[("forwarded", "proto=https"), (proto, "http")], None),
            (&[("forwarded", "host=a;host=b")], None),
            (&[("forwarded", "nonsense")], None),
            (&[("x-forwarded-prefix", "//evil.example")], None),
            (&[("x-forwarded-prefix", "/a/../b")], None),
            (&[("x-forwarded-prefix", "/a\"b")], None),
            (&[("x-forwarded-prefix", "a")], None),
        ] {
            assert_eq!(read(headers), expected, "{headers:?}");
        }
    }
}
