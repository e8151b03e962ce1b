//! The clients of the facade: what they register, what their metadata documents say, and
//! where people may be sent back to. Pure.

use http::Uri;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use switchboard_proto::auth::is_loopback;
use switchboard_proto::pattern::fits;

use super::record::RecordEntry;
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
mod tests;
