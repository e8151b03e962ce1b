//! Which redirects are followed, and where they lead.

use http::header::LOCATION;
use http::uri::Scheme;
use http::{Response, StatusCode, Uri};

use super::error::FetchError;

/// Refuses targets that we cannot send to.
pub(super) fn check(target: &Uri) -> Result<(), FetchError> {
    let is_web = target.scheme() == Some(&Scheme::HTTP) || target.scheme() == Some(&Scheme::HTTPS);
    match target.host() {
        Some(host) if is_web && !host.is_empty() => Ok(()),
        _ => Err(FetchError::BadUrl),
    }
}

pub(super) fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Where `response` sends us, if anywhere and if we may go there.
pub(super) fn target<B>(from: &Uri, response: &Response<B>) -> Result<Option<Uri>, FetchError> {
    let status = response.status();
    let Some(location) = response.headers().get(LOCATION).filter(|_| is_redirect(status)) else {
        return Ok(None);
    };
    let target = location.to_str().ok().and_then(|location| resolve(from, location));
    let keeps_method = matches!(status.as_u16(), 307 | 308);
    match target {
        Some(target) if keeps_method && is_same_origin(from, &target) => Ok(Some(target)),
        Some(target) => Err(FetchError::RedirectRefused { status, origin: origin(&target) }),
        None => Err(FetchError::RedirectRefused { status, origin: "nowhere".to_owned() }),
    }
}

/// Scheme, host and port; never the credentials that a URL may contain.
pub(super) fn origin(url: &Uri) -> String {
    let scheme = url.scheme_str().unwrap_or_default();
    let host = url.host().unwrap_or_default();
    match url.port_u16().filter(|port| Some(*port) != default_port(url)) {
        Some(port) => format!("{scheme}://{host}:{port}"),
        None => format!("{scheme}://{host}"),
    }
}

/// Whether both are of one scheme, host and port.
pub(crate) fn is_same_origin(one: &Uri, two: &Uri) -> bool {
    let port = |url: &Uri| url.port_u16().or(default_port(url));
    let host = |url: &Uri| url.host().map(str::to_ascii_lowercase);
    one.scheme() == two.scheme() && host(one) == host(two) && port(one) == port(two)
}

fn default_port(url: &Uri) -> Option<u16> {
    match url.scheme_str()? {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}

/// A reference against the URL it was found at, as RFC 3986 5.2 has it.
pub(crate) fn resolve(base: &Uri, reference: &str) -> Option<Uri> {
    let reference = reference.split('#').next()?.trim();
    let scheme = base.scheme_str()?;
    if has_scheme(reference) {
        return reference.parse().ok();
    }
    if reference.starts_with("//") {
        return format!("{scheme}:{reference}").parse().ok();
    }
    let (path, query) = match reference.find('?') {
        Some(at) => reference.split_at(at),
        None => (reference, ""),
    };
    let directory = base.path().rfind('/').map_or("/", |at| &base.path()[..=at]);
    let target = match path {
        "" if query.is_empty() => base.path_and_query()?.to_string(),
        "" => format!("{}{query}", base.path()),
        _ if path.starts_with('/') => format!("{}{query}", without_dots(path)),
        _ => format!("{}{query}", without_dots(&format!("{directory}{path}"))),
    };
    format!("{scheme}://{}{target}", base.authority()?).parse().ok()
}

fn has_scheme(reference: &str) -> bool {
    let end = reference.find([':', '/', '?']);
    end.is_some_and(|end| end > 0 && reference[end..].starts_with(':'))
}

fn without_dots(path: &str) -> String {
    let mut kept = Vec::new();
    for segment in path.split('/').skip(1) {
        match segment {
            "." => {}
            ".." => _ = kept.pop(),
            _ => kept.push(segment),
        }
    }
    if path.ends_with("/.") || path.ends_with("/..") {
        kept.push("");
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_lead_where_the_rfc_says() {
        let base = Uri::from_static("http://host:81/a/b/mcp?x=1");
        for (reference, expected) in [
            ("/mcp/", "http://host:81/mcp/"),
            ("other", "http://host:81/a/b/other"),
            ("./other?y#part", "http://host:81/a/b/other?y"),
            ("../c", "http://host:81/a/c"),
            ("../../../c", "http://host:81/c"),
            ("..", "http://host:81/a/"),
            ("?y=2", "http://host:81/a/b/mcp?y=2"),
            ("#part", "http://host:81/a/b/mcp?x=1"),
            ("//other/c", "http://other/c"),
            ("https://other:8443/c", "https://other:8443/c"),
            ("/c?next=http://x/../y", "http://host:81/c?next=http://x/../y"),
        ] {
            assert_eq!(resolve(&base, reference).unwrap(), *expected, "{reference}");
        }
    }

    #[test]
    fn only_method_preserving_redirects_within_the_origin_are_followed() {
        // wire: MH-18, OLD-3
        let from = Uri::from_static("http://host/mcp");
        for (status, location, expected) in [
            (307, "/mcp/", "goes to http://host/mcp/"),
            (308, "http://HOST:80/mcp/", "goes to http://HOST:80/mcp/"),
            (301, "/mcp/", "http://host"),
            (302, "/mcp/", "http://host"),
            (303, "/mcp/", "http://host"),
            (307, "https://host/mcp", "https://host"),
            (307, "http://host:81/mcp", "http://host:81"),
            (308, "//user:secret@evil.example/mcp", "http://evil.example"),
            (308, "http://host@evil.example/", "http://evil.example"),
            (308, "http://[bad", "nowhere"),
            (304, "/mcp/", "stays"),
            (200, "/mcp/", "stays"),
        ] {
            let response = Response::builder().status(status).header(LOCATION, location).body(());
            let found = match target(&from, &response.unwrap()) {
                Ok(Some(target)) => format!("goes to {target}"),
                Ok(None) => "stays".to_owned(),
                Err(FetchError::RedirectRefused { origin, .. }) => origin,
                Err(other) => panic!("{other}"),
            };
            assert_eq!(found, expected, "{status} {location}");
        }
    }
}
