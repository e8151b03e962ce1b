//! The documents of resources and authorization servers, and where they are (RFC 9728, RFC 8414).

use http::Uri;
use serde::Deserialize;

use super::AuthError;
use super::challenge::Challenge;
use super::record::AuthMethod;

/// What a resource says of itself (RFC 9728).
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ResourceMetadata {
    /// Its identifier, byte for byte.
    pub resource: String,
    /// Who issues tokens for it.
    #[serde(default)]
    pub authorization_servers: Vec<String>,
    /// The scopes that are of use.
    pub scopes_supported: Option<Vec<String>>,
    /// Whether it wants tokens that are bound to a key.
    #[serde(default)]
    pub dpop_bound_access_tokens_required: bool,
}

/// What an authorization server says of itself (RFC 8414, and the discovery of `OpenID`).
#[derive(Clone, Debug, Default, Deserialize)]
#[expect(missing_docs, reason = "the names are those of RFC 8414")]
pub struct ServerMetadata {
    pub issuer: String,
    pub authorization_endpoint: Option<String>,
    pub token_endpoint: Option<String>,
    pub registration_endpoint: Option<String>,
    pub revocation_endpoint: Option<String>,
    pub device_authorization_endpoint: Option<String>,
    pub pushed_authorization_request_endpoint: Option<String>,
    #[serde(default)]
    pub require_pushed_authorization_requests: bool,
    #[serde(default)]
    pub scopes_supported: Vec<String>,
    #[serde(default)]
    pub code_challenge_methods_supported: Vec<String>,
    pub token_endpoint_auth_methods_supported: Option<Vec<String>>,
    pub token_endpoint_auth_signing_alg_values_supported: Option<Vec<String>>,
    #[serde(default)]
    pub client_id_metadata_document_supported: bool,
    #[serde(default)]
    pub authorization_response_iss_parameter_supported: bool,
    #[serde(default)]
    pub dpop_signing_alg_values_supported: Vec<String>,
}

const RESOURCE: &str = "/.well-known/oauth-protected-resource";
const SERVER: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";

/// Where the metadata of a resource may be, in order (OC-3).
pub(super) fn resource_places(server: &Uri, challenge: Option<&Challenge>) -> Vec<String> {
    if let Some(url) = challenge.and_then(|challenge| challenge.resource_metadata.clone()) {
        return vec![url];
    }
    let origin = origin_of(server);
    let path = server.path().trim_end_matches('/');
    let root = format!("{origin}{RESOURCE}");
    if path.is_empty() { vec![root] } else { vec![format!("{origin}{RESOURCE}{path}"), root] }
}

/// Where the metadata of an authorization server may be, in order (OC-6).
pub(super) fn server_places(issuer: &str) -> Result<Vec<String>, AuthError> {
    let bad = || AuthError::BadIssuer { issuer: issuer.to_owned() };
    if issuer.contains(['?', '#']) {
        return Err(bad());
    }
    let url: Uri = issuer.parse().map_err(|_| bad())?;
    check_endpoint(issuer)?;
    let (origin, path) = (origin_of(&url), url.path().trim_end_matches('/'));
    let mut places = vec![format!("{origin}{SERVER}{path}"), format!("{origin}{OPENID}{path}")];
    if !path.is_empty() {
        places.push(format!("{origin}{path}{OPENID}"));
    }
    Ok(places)
}

impl ResourceMetadata {
    /// Refuses metadata of another resource: it must be that of the server, or of a path
    /// above its own (OC-4).
    pub(super) fn check_covers(&self, server: &Uri) -> Result<(), AuthError> {
        let covers = self.resource.parse().is_ok_and(|resource: Uri| covers(&resource, server))
            && !self.resource.contains(['?', '#']);
        let origin = origin_of(server);
        let server = || format!("{origin}{}", server.path());
        let (resource, server) = (self.resource.clone(), server());
        if covers { Ok(()) } else { Err(AuthError::OtherResource { resource, server }) }
    }
}

fn covers(resource: &Uri, server: &Uri) -> bool {
    let path = resource.path().trim_end_matches('/');
    let rest = server.path().strip_prefix(path);
    // A name that begins like another is another.
    let is_above = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    is_above && !has_dots(server.path()) && origin_of(resource) == origin_of(server)
}

fn has_dots(path: &str) -> bool {
    path.split('/').any(|segment| segment == "." || segment == "..")
}

impl ServerMetadata {
    /// The endpoints that servers of 2025-03-26 have without saying so (OC-9).
    pub(super) fn of_origin(origin: &str) -> Self {
        Self {
            issuer: origin.to_owned(),
            authorization_endpoint: Some(format!("{origin}/authorize")),
            token_endpoint: Some(format!("{origin}/token")),
            registration_endpoint: Some(format!("{origin}/register")),
            code_challenge_methods_supported: vec!["S256".to_owned()],
            ..Self::default()
        }
    }

    /// Whether clients may show who they are by a signature with ES256, as it says itself.
    pub(super) fn takes_signatures(&self) -> bool {
        let methods = self.token_endpoint_auth_methods_supported.iter().flatten();
        let algorithms = self.token_endpoint_auth_signing_alg_values_supported.as_ref();
        methods.into_iter().any(|method| method == AuthMethod::PrivateKeyJwt.name())
            && algorithms.is_none_or(|listed| listed.iter().any(|name| name == "ES256"))
    }

    /// Refuses endpoints to which nothing may be sent (OC-11).
    pub(super) fn check_endpoints(&self) -> Result<(), AuthError> {
        let endpoints = [
            &self.authorization_endpoint,
            &self.token_endpoint,
            &self.registration_endpoint,
            &self.revocation_endpoint,
            &self.device_authorization_endpoint,
            &self.pushed_authorization_request_endpoint,
        ];
        endpoints.into_iter().flatten().try_for_each(|endpoint| check_endpoint(endpoint))
    }
}

/// Refuses what is not https, or http on this machine, or not a plain URL.
pub(super) fn check_endpoint(endpoint: &str) -> Result<(), AuthError> {
    let url: Option<Uri> = endpoint.parse().ok();
    // What a browser or a shell could read in another way is in no URL that is meant well.
    let is_plain = endpoint.bytes().all(|byte| byte.is_ascii_graphic())
        && !endpoint.contains(['"', '\'', '<', '>', '\\', '^', '`', '{', '|', '}']);
    // What stands before an `@` is made to be taken for the host.
    let url = url.filter(|url| url.authority().is_some_and(|it| !it.as_str().contains('@')));
    let may_go = url.filter(|_| is_plain).is_some_and(|url| match url.scheme_str() {
        Some("https") => url.host().is_some(),
        Some("http") => url.host().is_some_and(is_loopback),
        _ => false,
    });
    let endpoint = endpoint.chars().take(200).collect();
    if may_go { Ok(()) } else { Err(AuthError::BadEndpoint { endpoint }) }
}

/// Whether a host is this machine, by its name alone.
pub fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let address = host.parse::<std::net::IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// Scheme, host and port, in lower case and without the usual port.
pub fn origin_of(url: &Uri) -> String {
    let scheme = url.scheme_str().unwrap_or_default().to_ascii_lowercase();
    let host = url.host().unwrap_or_default().to_ascii_lowercase();
    let usual = if scheme == "https" { 443 } else { 80 };
    match url.port_u16().filter(|port| *port != usual) {
        Some(port) => format!("{scheme}://{host}:{port}"),
        None => format!("{scheme}://{host}"),
    }
}

/// What stands for a server that says nothing of itself: its URL, without what does not
/// matter, and without a slash that it does not have (OC-31).
pub(super) fn resource_of(server: &Uri, written: &str) -> String {
    let has_path = server.path() != "/" || written.ends_with('/');
    let path = if has_path { server.path() } else { "" };
    let query = server.query().map(|query| format!("?{query}")).unwrap_or_default();
    format!("{}{path}{query}", origin_of(server))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(url: &str) -> Uri {
        url.parse().unwrap()
    }

    #[test]
    fn metadata_is_looked_for_in_order() {
        // wire: OC-3, OC-6, AUTH-3, AUTH-6
        let places = |url| resource_places(&uri(url), None);
        let known = "https://h/.well-known/oauth-protected-resource";
        assert_eq!(places("https://H:443/"), [known]);
        assert_eq!(places("https://h/a/mcp/?x=1"), [format!("{known}/a/mcp"), known.to_owned()]);
        let named =
            Challenge { resource_metadata: Some("https://o/x".into()), ..Challenge::default() };
        assert_eq!(resource_places(&uri("https://h/mcp"), Some(&named)), ["https://o/x"]);

        let (oauth, openid) =
            ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration");
        let root = [format!("https://as{oauth}"), format!("https://as{openid}")];
        assert_eq!(server_places("https://as").unwrap(), root);
        assert_eq!(server_places("https://as/").unwrap(), root);
        let tenant = [
            format!("https://as{oauth}/t"),
            format!("https://as{openid}/t"),
            format!("https://as/t{openid}"),
        ];
        assert_eq!(server_places("https://as/t").unwrap(), tenant);
        for bad in ["https://as/?a", "https://as/#a", "http://as", "file:///etc", "as", ""] {
            assert!(server_places(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn metadata_must_cover_the_server() {
        // wire: OC-4, OA-4, AUTH-4
        for (resource, server, expected) in [
            ("https://h/mcp", "https://h/mcp", true),
            ("https://h/mcp/", "https://h/mcp", true),
            ("https://H:443", "https://h/mcp", true),
            ("https://h/", "https://h/mcp", true),
            ("https://h/a", "https://h/a/mcp", true),
            ("https://h/mc", "https://h/mcp", false),
            ("https://h/other", "https://h/mcp", false),
            ("https://h/mcp/x", "https://h/mcp", false),
            ("https://h/a", "https://h/a/../b", false),
            ("http://h/mcp", "https://h/mcp", false),
            ("https://h:444/mcp", "https://h/mcp", false),
            ("https://evil/mcp", "https://h/mcp", false),
            ("https://h@evil/mcp", "https://h/mcp", false),
            ("https://h/mcp?x", "https://h/mcp", false),
            ("h/mcp", "https://h/mcp", false),
        ] {
            let metadata = ResourceMetadata { resource: resource.into(), ..Default::default() };
            assert_eq!(
                metadata.check_covers(&uri(server)).is_ok(),
                expected,
                "{resource} {server}"
            );
        }
    }

    #[test]
    fn nothing_is_sent_to_odd_endpoints() {
        // wire: OC-11, OA-5, AUTH-19
        for good in [
            "https://as/authorize?x=1",
            "http://127.0.0.1:1/a",
            "http://[::1]/",
            "http://localhost:3/",
        ] {
            check_endpoint(good).unwrap();
        }
        for bad in [
            "http://as/token",
            "javascript:alert(1)",
            "file:///etc/passwd",
            "https://as/a b",
            "https://as/\na",
            "https://as/$(id)`x`",
            "https://as\\@evil/",
            "https://as@evil/",
            "http://as@127.0.0.1/",
            "https:///x",
            "data:text/html,x",
            "https://as/\"&calc",
        ] {
            assert!(check_endpoint(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_server_without_metadata_is_named_by_its_url() {
        // wire: OC-31, AUTH-14
        for (written, expected) in [
            ("https://H:443", "https://h"),
            ("https://h/", "https://h/"),
            ("http://h:81/mcp?x=1", "http://h:81/mcp?x=1"),
        ] {
            assert_eq!(resource_of(&uri(written), written), expected);
        }
    }
}
