//! Authorization requests: what a client asks for, whether it may, what the person is asked
//! on our page, and what the client is told. Pure.

use bytes::Bytes;
use http::{Response, StatusCode};
use switchboard_net::http::page::{escape, html};
use switchboard_proto::auth::{form, query_pairs};

use super::client::FacadeClient;
use super::grant::NewGrant;
use crate::token::{FacadeRule, TokenAccess};

/// The single parameters of a query or a form; none if one of these names is there twice.
pub(super) fn single<'q, const N: usize>(
    pairs: &'q [(String, String)],
    names: [&str; N],
) -> Option<[Option<&'q str>; N]> {
    let mut found = [None; N];
    for (name, value) in pairs {
        if let Some(at) = names.iter().position(|known| known == name)
            && found[at].replace(value.as_str()).is_some()
        {
            return None;
        }
    }
    Some(found)
}

/// What a client asks for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct AuthorizationRequest {
    pub(super) client_id: String,
    pub(super) redirect_uri: String,
    pub(super) state: Option<String>,
    pub(super) challenge: String,
    pub(super) resource: String,
    pub(super) scopes: Vec<String>,
}

/// What is wrong with a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum BadRequest {
    /// Nobody can be told but the person.
    Page(&'static str),
    /// The client is told, at this address.
    Told(String),
}

/// The client that a request names, before anything else of it is looked at.
pub(super) fn client_id(query: &str) -> Option<String> {
    let pairs = query_pairs(query);
    let [id] = single(&pairs, ["client_id"])?;
    id.map(str::to_owned)
}

/// Whether the client may ask for this. `base` is our public URL.
pub(super) fn read_request(
    query: &str,
    client: &FacadeClient,
    rule: &FacadeRule,
    tokens: &TokenAccess,
    base: &str,
) -> Result<AuthorizationRequest, BadRequest> {
    let pairs = query_pairs(query);
    let [id, redirect] = single(&pairs, ["client_id", "redirect_uri"])
        .ok_or(BadRequest::Page("The app asks for two things at once."))?;
    let redirect = redirect.filter(|uri| client.may_redirect(uri, rule));
    let (Some(redirect), Some(_)) = (redirect, id.filter(|id| *id == client.id)) else {
        let text = "The app wants you to be sent to an address that it has not registered.";
        return Err(BadRequest::Page(text));
    };
    let names = [
        "response_type",
        "state",
        "code_challenge",
        "code_challenge_method",
        "resource",
        "scope",
        "response_mode",
        "request",
    ];
    let found = single(&pairs, names);
    let state = pairs.iter().find(|(name, _)| name == "state").map(|(_, value)| value.as_str());
    let told =
        |error: &str, why: &str| BadRequest::Told(refusal(redirect, error, Some(why), state, base));
    let twice = || told("invalid_request", "a parameter is there twice");
    let [kind, state, challenge, method, resource, scope, mode, object] =
        found.ok_or_else(twice)?;
    if kind != Some("code") {
        return Err(told("unsupported_response_type", "response_type must be code"));
    }
    if object.is_some() {
        return Err(told("request_not_supported", "request objects are not supported"));
    }
    if mode.is_some_and(|mode| mode != "query") {
        return Err(told("invalid_request", "response_mode must be query"));
    }
    let is_challenge = |it: &&str| {
        it.len() == 43 && it.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_".contains(&it))
    };
    let Some(challenge) = challenge.filter(is_challenge).filter(|_| method == Some("S256")) else {
        return Err(told("invalid_request", "PKCE with S256 is required"));
    };
    let Some(resource) = own_resource(resource, base) else {
        return Err(told("invalid_target", "resource is not one of this gateway"));
    };
    Ok(AuthorizationRequest {
        client_id: client.id.clone(),
        redirect_uri: redirect.to_owned(),
        state: state.map(str::to_owned),
        challenge: challenge.to_owned(),
        resource,
        scopes: granted_scopes(scope, tokens),
    })
}

/// What tokens are for: a URL of ours, or all of them if the client does not say (OS-7).
pub(super) fn own_resource(resource: Option<&str>, base: &str) -> Option<String> {
    let Some(resource) = resource else { return Some(base.to_owned()) };
    let rest = resource.strip_prefix(base)?;
    let is_path = rest.is_empty() || rest.starts_with('/');
    let is_dot = |segment: &str| matches!(segment, "." | "..");
    let is_plain = rest.bytes().all(|it| it.is_ascii_graphic())
        && !rest.contains(['?', '#', '\\'])
        && !rest.split('/').any(is_dot);
    (is_path && is_plain).then(|| resource.to_owned())
}

/// Those scopes that mean something here; the basic ones if none is asked for.
fn granted_scopes(asked: Option<&str>, tokens: &TokenAccess) -> Vec<String> {
    let asked: Vec<_> = asked.unwrap_or_default().split_ascii_whitespace().collect();
    let mut scopes: Vec<String> = Vec::new();
    for scope in asked.iter().filter(|scope| tokens.scopes.contains_key(**scope)) {
        if !scopes.iter().any(|other| other == scope) {
            scopes.push((*scope).to_owned());
        }
    }
    if asked.is_empty() {
        scopes = tokens.basic_scopes().into_iter().map(str::to_owned).collect();
    }
    scopes
}

impl AuthorizationRequest {
    /// The host that the person is sent back to, as they should see it.
    pub(super) fn redirect_host(&self) -> &str {
        let (scheme, rest) = self.redirect_uri.split_once(':').unwrap_or_default();
        let rest = rest.trim_start_matches('/');
        match scheme {
            "http" | "https" => rest.split(['/', '?']).next().unwrap_or_default(),
            _ => self.redirect_uri.split(['?', '#']).next().unwrap_or_default(),
        }
    }

    /// Where the client hears that it is refused.
    pub(super) fn refusal(&self, error: &str, base: &str) -> String {
        refusal(&self.redirect_uri, error, None, self.state.as_deref(), base)
    }

    /// Where the client gets its code.
    pub(super) fn answer(&self, code: &str, base: &str) -> String {
        back(&self.redirect_uri, vec![("code", code)], self.state.as_deref(), base)
    }

    pub(super) fn into_grant(self) -> NewGrant {
        let Self { client_id, redirect_uri, challenge, resource, scopes, .. } = self;
        NewGrant { client_id, redirect_uri, challenge, resource, scopes }
    }
}

fn refusal(
    redirect: &str,
    error: &str,
    why: Option<&str>,
    state: Option<&str>,
    base: &str,
) -> String {
    let mut pairs = vec![("error", error)];
    pairs.extend(why.map(|why| ("error_description", why)));
    back(redirect, pairs, state, base)
}

/// An answer to the client. Every one says from whom it is (OS-11).
fn back<'p>(
    redirect: &str,
    mut pairs: Vec<(&'p str, &'p str)>,
    state: Option<&'p str>,
    base: &'p str,
) -> String {
    pairs.extend(state.map(|state| ("state", state)));
    pairs.push(("iss", base));
    let sign = if redirect.contains('?') { '&' } else { '?' };
    format!("{redirect}{sign}{}", form(pairs))
}

/// The page where a person says whether the client may act for them (OS-4).
pub(super) fn consent_page(
    request: &AuthorizationRequest,
    client: &FacadeClient,
    provider: &str,
    query: &str,
    proof: &str,
    base: &str,
) -> Response<Bytes> {
    let origin = if client.is_proven() {
        let host = client.id.trim_start_matches("https://");
        let host = escape(host.split('/').next().unwrap_or_default());
        format!("<dt>Published by</dt><dd><strong>{host}</strong> (checked)</dd>")
    } else {
        "<dt>Published by</dt><dd>Not known: the app chose its name itself.</dd>".to_owned()
    };
    let host = escape(request.redirect_host());
    let scopes = match request.scopes.join(", ") {
        scopes if scopes.is_empty() => "All that you may use here".to_owned(),
        scopes => escape(&scopes),
    };
    let note = if client.is_local() {
        "<p class=\"note\">This app runs on your own computer. Any program there can claim this \
         name. Go on only if you have just started the sign-in yourself.</p>"
    } else {
        ""
    };
    let (resource, provider) = (escape(&request.resource), escape(provider));
    let (query, proof) = (escape(query), escape(proof));
    let action = escape(&format!("{base}/oauth/consent"));
    let main = format!(
        "<p>It would call tools at <code>{resource}</code> in your name.</p>\
         <dl>{origin}<dt>You are sent back to</dt><dd><strong>{host}</strong></dd>\
         <dt>It may use</dt><dd>{scopes}</dd></dl>{note}\
         <p>If you allow it, you sign in at <strong>{provider}</strong> next.</p>\
         <form method=\"post\" action=\"{action}\">\
         <input type=\"hidden\" name=\"request\" value=\"{query}\">\
         <input type=\"hidden\" name=\"proof\" value=\"{proof}\">\
         <button type=\"submit\" class=\"main\" name=\"decision\" value=\"allow\">Allow</button>\
         <button type=\"submit\" name=\"decision\" value=\"deny\">Deny</button></form>"
    );
    let title = format!("Allow “{}” to act for you?", client.name);
    html(StatusCode::OK, &title, &main)
}
