//! The clients of the facade: what they register, what their metadata documents say, and
//! where people may be sent back to. Pure.

use http::Uri;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use switchboard_proto::auth::is_loopback;
use switchboard_proto::pattern::fits;

use super::state::RecordEntry;
use crate::token::FacadeRule;

/// Redirect URIs of one client.
const MAX_REDIRECTS: usize = 16;
/// Bytes of a redirect URI, and of the URL of a metadata document.
const MAX_URL: usize = 2048;
/// Letters of a client's name that are shown.
const MAX_NAME: usize = 100;

/// A program that people use the gateway with.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct FacadeClient {
    pub(super) id: String,
    /// What it calls itself.
    pub(super) name: String,
    pub(super) redirect_uris: Vec<String>,
    /// Whether it runs on the machines of its users: it may have loopback redirects.
    pub(super) is_native: bool,
    /// The keys that show who it is; none if its id is all that it shows.
    pub(super) jwks: Option<Value>,
    /// When it registered, in Unix seconds; none for those with a metadata document.
    pub(super) registered_at: Option<u64>,
    /// When it last got tokens, to the day; when it registered if it never did.
    pub(super) used_at: u64,
}

/// Why a client is not registered, or not known: an error code of RFC 7591, and the reason.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{1}")]
pub(super) struct BadClient(pub(super) &'static str, pub(super) String);

fn bad_metadata(why: impl Into<String>) -> BadClient {
    BadClient("invalid_client_metadata", why.into())
}

/// Reads what a client says of itself, in a registration or in a document.
pub(super) fn read_client(
    about: &Map<String, Value>,
    id: String,
    now: u64,
    rule: &FacadeRule,
) -> Result<FacadeClient, BadClient> {
    let text = |name: &str| about.get(name).and_then(Value::as_str);
    let redirects = about.get("redirect_uris").and_then(Value::as_array);
    let redirects: Option<Vec<_>> = redirects
        .map(|all| all.iter().map(|uri| uri.as_str().map(str::to_owned)).collect())
        .unwrap_or_default();
    let no_redirect = |why: &str| BadClient("invalid_redirect_uri", why.to_owned());
    let redirect_uris = redirects.filter(|all| !all.is_empty() && all.len() <= MAX_REDIRECTS);
    let redirect_uris =
        redirect_uris.ok_or_else(|| no_redirect("redirect_uris must have 1 to 16 URIs"))?;
    let is_local = |uri: &String| !uri.starts_with("https://");
    let is_native = match text("application_type") {
        Some("native") => true,
        Some("web") => false,
        Some(_) => return Err(bad_metadata("application_type is neither native nor web")),
        // Clients of before it was asked for.
        None => redirect_uris.iter().any(is_local),
    };
    for uri in &redirect_uris {
        check_redirect(uri, is_native, &rule.allowed_redirects).map_err(no_redirect)?;
    }
    let jwks = match text("token_endpoint_auth_method") {
        None | Some("none") => None,
        Some("private_key_jwt") => {
            let jwks = about.get("jwks").cloned();
            Some(jwks.ok_or_else(|| bad_metadata("private_key_jwt needs jwks"))?)
        }
        Some(_) => {
            return Err(bad_metadata("token_endpoint_auth_method must be none or private_key_jwt"));
        }
    };
    let name = text("client_name").unwrap_or_default().trim();
    let name = if name.is_empty() { "A client without a name" } else { name };
    let name = name.chars().take(MAX_NAME).collect();
    Ok(FacadeClient {
        id,
        name,
        redirect_uris,
        is_native,
        jwks,
        registered_at: Some(now),
        used_at: now,
    })
}

impl FacadeClient {
    /// What a client is told that has registered.
    pub(super) fn describe(&self) -> Value {
        let method = if self.jwks.is_some() { "private_key_jwt" } else { "none" };
        json!({
            "client_id": self.id,
            "client_id_issued_at": self.registered_at,
            "client_name": self.name,
            "redirect_uris": self.redirect_uris,
            "application_type": if self.is_native { "native" } else { "web" },
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": method,
        })
    }

    /// Whether nobody has got tokens with it since it registered.
    pub(super) fn is_unused(&self) -> bool {
        self.registered_at == Some(self.used_at)
    }

    /// What is remembered of its registration.
    pub(super) fn entry(&self) -> RecordEntry {
        let at = self.registered_at.unwrap_or(self.used_at);
        RecordEntry { at, is_unused: self.is_unused(), ..RecordEntry::default() }
    }

    /// Whether its host is proven: its id is the URL of its metadata document.
    pub(super) fn is_proven(&self) -> bool {
        self.registered_at.is_none()
    }

    /// Whether people may be sent back here: exactly a registered URI; on loopback the port
    /// may be another (OS-3).
    pub(super) fn may_redirect(&self, uri: &str, rule: &FacadeRule) -> bool {
        let is_same = |own: &String| own == uri || is_same_but_port(own, uri);
        check_redirect(uri, self.is_native, &rule.allowed_redirects).is_ok()
            && self.redirect_uris.iter().any(is_same)
    }

    /// Whether nobody but programs on the user's machine gets what it is granted. Any such
    /// program can claim to be it.
    pub(super) fn is_local(&self) -> bool {
        self.redirect_uris.iter().all(|uri| loopback_parts(uri).is_some())
    }
}

/// Refuses URIs that nobody is to be sent to.
fn check_redirect(uri: &str, is_native: bool, allowed: &[String]) -> Result<(), &'static str> {
    const NEVER: [&str; 8] =
        ["about", "blob", "data", "file", "filesystem", "javascript", "vbscript", "view-source"];
    let (scheme, rest) = uri.split_once(':').ok_or("a redirect URI has no scheme")?;
    let is_scheme = scheme.starts_with(|it: char| it.is_ascii_lowercase())
        && scheme
            .bytes()
            .all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || b"+.-".contains(&it));
    if !is_scheme || NEVER.contains(&scheme) {
        return Err("a redirect URI has a scheme that is not allowed");
    }
    let is_plain = uri.bytes().all(|it| it.is_ascii_graphic())
        && !uri.contains(['#', '"', '\'', '<', '>', '\\', '^', '`', '{', '|', '}']);
    if !is_plain || uri.len() > MAX_URL {
        return Err("a redirect URI has a fragment, or signs that are not allowed");
    }
    match scheme {
        "https" | "http" => {
            let url: Uri = uri.parse().map_err(|_| "a redirect URI cannot be read")?;
            let authority = url.authority().filter(|it| !it.as_str().contains('@'));
            let host = authority.map(http::uri::Authority::host).unwrap_or_default();
            if host.is_empty() || !rest.starts_with("//") {
                return Err("a redirect URI has no plain host");
            }
            if scheme == "http" && !(is_native && is_loopback(host)) {
                return Err("http is for native clients on loopback; use https");
            }
        }
        _ if !is_native => return Err("schemes of one's own are for native clients"),
        _ if rest.is_empty() => return Err("a redirect URI has nothing after its scheme"),
        _ => {}
    }
    if !allowed.is_empty() && !allowed.iter().any(|pattern| allows(pattern, uri)) {
        return Err("the administrator of this gateway does not allow a redirect URI");
    }
    Ok(())
}

/// Whether a pattern of the administrator describes a redirect URI. A `*` in its host does not
/// reach into the path, where anybody can write anything.
fn allows(pattern: &str, uri: &str) -> bool {
    let parts = |text| {
        let (scheme, rest) = str::split_once(text, "://")?;
        let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        Some((scheme, host, path))
    };
    match (parts(pattern), parts(uri)) {
        (Some(pattern), Some(own)) => {
            let is_any_path = pattern.2.is_empty() && pattern.1.ends_with('*');
            let is_path = is_any_path || fits(pattern.2, own.2);
            fits(pattern.0, own.0) && fits(pattern.1, own.1) && is_path
        }
        (None, None) => fits(pattern, uri),
        _ => pattern == "*",
    }
}

/// Whether both are on loopback, and the same but for the port (RFC 8252, 7.3).
fn is_same_but_port(one: &str, other: &str) -> bool {
    loopback_parts(one).is_some() && loopback_parts(one) == loopback_parts(other)
}

/// Host, and all after the port, of a redirect to this machine.
fn loopback_parts(uri: &str) -> Option<(&str, &str)> {
    let rest = uri.strip_prefix("http://")?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, after) = rest.split_at(end);
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (authority, ""),
    };
    let is_port = port.bytes().all(|digit| digit.is_ascii_digit());
    (is_port && is_loopback(host)).then_some((host, after))
}

/// Whether an id is the URL of a metadata document that may be asked for.
pub(super) fn is_document_url(id: &str, hosts: &[String]) -> bool {
    let url: Option<Uri> = id.parse().ok().filter(|_| id.len() <= MAX_URL && !id.contains('#'));
    let Some(url) = url.filter(|_| id.starts_with("https://")) else { return false };
    let authority = url.authority().map(http::uri::Authority::as_str).unwrap_or_default();
    let host = url.host().unwrap_or_default();
    let is_dot = |segment: &str| matches!(segment, "." | "..");
    let is_named = hosts.is_empty() || hosts.iter().any(|pattern| fits(pattern, host));
    let is_plain = !authority.contains('@') && !host.is_empty() && url.query().is_none();
    is_plain && is_named && url.path().len() > 1 && !url.path().split('/').any(is_dot)
}

/// The client of a metadata document that was found at its id (OS-10).
pub(super) fn read_document(
    id: &str,
    about: &Map<String, Value>,
    now: u64,
    rule: &FacadeRule,
) -> Result<FacadeClient, BadClient> {
    if about.get("client_id").and_then(Value::as_str) != Some(id) {
        return Err(bad_metadata("the document is that of another client"));
    }
    if about.keys().any(|name| name.starts_with("client_secret")) {
        return Err(bad_metadata("the document has a secret, which everybody can read"));
    }
    let client = read_client(about, id.to_owned(), now, rule)?;
    Ok(FacadeClient { registered_at: None, ..client })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule() -> FacadeRule {
        FacadeRule::default()
    }

    fn read(about: Value) -> Result<FacadeClient, BadClient> {
        let Value::Object(about) = about else { panic!("an object") };
        read_client(&about, "c".to_owned(), 1, &rule())
    }

    // wire: OS-3, OA-19
    #[test]
    fn people_are_sent_back_to_registered_places_alone() {
        let redirects =
            json!(["http://127.0.0.1:1000/cb", "https://app.example/cb?x=1", "app.x:/cb"]);
        let client = read(json!({"redirect_uris": redirects})).unwrap();
        for uri in [
            "http://127.0.0.1:1000/cb",
            "http://127.0.0.1:65000/cb",
            "http://127.0.0.1/cb",
            "https://app.example/cb?x=1",
            "app.x:/cb",
        ] {
            assert!(client.may_redirect(uri, &rule()), "{uri}");
        }
        for uri in [
            "http://127.0.0.1:1000/cb2",
            "http://127.0.0.1:1000/cb/",
            "http://127.0.0.1:1000/cb?x",
            "http://127.0.0.2:1000/cb",
            "http://localhost:1000/cb",
            "http://127.0.0.1:1000@evil.example/cb",
            "http://127.0.0.1:80:80/cb",
            "http://127.0.0.1:evil/cb",
            "https://127.0.0.1:1000/cb",
            "https://app.example:444/cb?x=1",
            "https://app.example/cb",
            "https://app.example/cb?x=1&y=2",
            "https://app.example/cb?x=1#f",
            "https://app.example.evil/cb?x=1",
            "https://app.example@evil.example/cb?x=1",
            "https://user@app.example/cb?x=1",
            "https://app.example\\@evil.example/cb?x=1",
            "https://app.example/%63b?x=1",
            "https://app.example/./cb?x=1",
            "HTTPS://app.example/cb?x=1",
            "//app.example/cb?x=1",
            "app.x:/cb2",
            "javascript:alert(1)",
            "",
        ] {
            assert!(!client.may_redirect(uri, &rule()), "{uri}");
        }
        let only =
            FacadeRule { allowed_redirects: vec!["https://app.example/*".to_owned()], ..rule() };
        assert!(client.may_redirect("https://app.example/cb?x=1", &only));
        assert!(!client.may_redirect("http://127.0.0.1:1000/cb", &only));
    }

    // wire: OS-3, OA-19
    #[test]
    fn a_star_for_hosts_stands_for_hosts_alone() {
        for (pattern, uri, expected) in [
            ("https://*.corp.example/*", "https://a.corp.example/x/y?z=1", true),
            ("https://*.corp.example/*", "https://evil.example/.corp.example/x", false),
            ("https://*.corp.example/*", "https://evil.example?.corp.example/x", false),
            ("https://*.corp.example/*", "http://a.corp.example/x", false),
            ("https://a.example/cb", "https://a.example/cb", true),
            ("https://a.example/cb", "https://a.example/cb2", false),
            ("https://a.example", "https://a.example/cb", false),
            ("http://127.0.0.1:*", "http://127.0.0.1:99/cb", true),
            ("http://127.0.0.1:*", "http://127.0.0.1.evil.example/cb", false),
            ("cursor://*", "cursor://anysphere/cb", true),
            ("app.x:/*", "app.x:/cb", true),
            ("https:*.corp.example/*", "https://evil.example/.corp.example/x", false),
            ("*", "https://a.example/cb", true),
        ] {
            assert_eq!(allows(pattern, uri), expected, "{pattern} {uri}");
        }
    }

    // wire: OS-3, OS-9, OA-19
    #[test]
    fn clients_register_what_is_safe() {
        for (uri, kind, is_right) in [
            ("http://127.0.0.1:1/cb", "native", true),
            ("http://[::1]:1/cb", "native", true),
            ("http://localhost/cb", "native", true),
            ("cursor://anysphere/cb", "native", true),
            ("https://a.example/cb", "native", true),
            ("https://a.example/cb", "web", true),
            ("http://127.0.0.1:1/cb", "web", false),
            ("cursor://anysphere/cb", "web", false),
            ("http://a.example/cb", "native", false),
            ("http://localhost.evil.example/cb", "native", false),
            ("javascript:alert(1)//", "native", false),
            ("data:text/html,x", "native", false),
            ("file:///etc/passwd", "native", false),
            ("vbscript:x", "native", false),
            ("blob:https://a.example/x", "native", false),
            ("about:blank", "native", false),
            ("JavaScript:alert(1)", "native", false),
            ("https://a.example/cb#f", "web", false),
            ("https://a@b.example/cb", "web", false),
            ("https:/a.example", "web", false),
            ("https://a.example/ cb", "web", false),
            ("app:", "native", false),
            ("no scheme", "native", false),
        ] {
            let about = json!({"redirect_uris": [uri], "application_type": kind});
            assert_eq!(read(about).is_ok(), is_right, "{uri} {kind}");
        }
        for about in [
            json!({}),
            json!({"redirect_uris": []}),
            json!({"redirect_uris": [1]}),
            json!({"redirect_uris": vec!["https://a.example/"; 17]}),
            json!({"redirect_uris": ["https://a.example/"], "token_endpoint_auth_method": "client_secret_basic"}),
            json!({"redirect_uris": ["https://a.example/"], "token_endpoint_auth_method": "private_key_jwt"}),
            json!({"redirect_uris": ["https://a.example/"], "application_type": "other"}),
        ] {
            assert!(read(about.clone()).is_err(), "{about}");
        }
    }

    // wire: OS-10, OA-21
    #[test]
    fn a_metadata_document_speaks_for_its_own_url() {
        let id = "https://app.example/client.json";
        let read = |about: Value| {
            let Value::Object(about) = about else { panic!("an object") };
            read_document(id, &about, 1, &rule())
        };
        let right = json!({"client_id": id, "client_name": "App", "redirect_uris": ["https://app.example/cb"]});
        let client = read(right.clone()).unwrap();
        assert!(client.is_proven() && client.name == "App");
        let changed = |name: &str, value: Value| {
            let mut about = right.clone();
            about[name] = value;
            read(about)
        };
        assert!(changed("client_id", json!("https://app.example/client.json/")).is_err());
        assert!(changed("client_id", json!("https://other.example/client.json")).is_err());
        assert!(changed("client_id", Value::Null).is_err());
        assert!(changed("client_secret", json!("s")).is_err());
        assert!(changed("redirect_uris", json!(["javascript:x"])).is_err());
        // A document that has other redirects by now.
        let moved = changed("redirect_uris", json!(["https://app.example/other"])).unwrap();
        assert!(!moved.may_redirect("https://app.example/cb", &rule()));
    }

    // wire: OS-10
    #[test]
    fn only_plain_https_urls_with_a_path_are_metadata_documents() {
        let none: [String; 0] = [];
        assert!(is_document_url("https://app.example/client.json", &none));
        for id in [
            "http://app.example/client.json",
            "https://app.example/",
            "https://app.example",
            "https://app.example/a#b",
            "https://app.example/a?b",
            "https://u@app.example/a",
            "https://app.example/../a",
            "sbc_0123",
        ] {
            assert!(!is_document_url(id, &none), "{id}");
        }
        let hosts = ["*.example.com".to_owned()];
        assert!(is_document_url("https://app.example.com/c", &hosts));
        assert!(!is_document_url("https://app.example/c", &hosts));
    }
}
