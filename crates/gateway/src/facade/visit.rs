//! A person at the facade: asked on our page, sent to the identity provider, and back to the
//! client with a code.

use std::net::IpAddr;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, COOKIE, LOCATION, REFERRER_POLICY, SET_COOKIE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use ring::hmac;
use serde_json::{Map, Value};
use switchboard_net::http::page::{PageVisit, escape, html, leave_page};
use switchboard_proto::auth::{AuthError, is_same, query_pairs};

use super::authorize::{self, AuthorizationRequest, BadRequest};
use super::client::FacadeClient;
use super::grant::{StoredGrant, hash, kept};
use super::state::MOST_SIGN_INS;
use super::{Current, Facade, base64, random_hex};
use crate::idp::{Identity, IdpError};

/// Bytes of what an issuer says of a person, of which all is kept.
const MAX_CLAIMS: usize = 16 << 10;

impl Current {
    /// What is kept of what an issuer says of a person: what may grant something, if all of it
    /// is too long.
    pub(super) fn trim(&self, mut claims: Map<String, Value>) -> Map<String, Value> {
        let size: usize = claims.iter().map(|(name, it)| name.len() + it.to_string().len()).sum();
        if size > MAX_CLAIMS {
            let rule = self.tokens.issuer(&self.rule.issuer);
            let first = |name: &String| name.split('.').next().unwrap_or_default().to_owned();
            let names: Vec<_> =
                rule.iter().flat_map(|rule| rule.claims.keys().map(first)).collect();
            claims.retain(|name, _| names.contains(name));
        }
        claims
    }

    /// The cookie that ties a sign-in to a browser. Browsers let only this very host set one
    /// with such a prefix, by TLS. On loopback, where tests and single users are, there is no
    /// TLS, and browsers would not keep it.
    fn cookie(&self) -> (&'static str, &'static str) {
        if self.base.starts_with("https://") {
            ("__Host-switchboard", "; Path=/; HttpOnly; SameSite=Lax; Secure")
        } else {
            ("switchboard", "; Path=/; HttpOnly; SameSite=Lax")
        }
    }

    fn browser(&self, headers: &HeaderMap) -> Option<String> {
        let (name, _) = self.cookie();
        let texts = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = texts.flat_map(|text| text.split(';')).filter_map(|it| it.split_once('='));
        let is_right = |it: &str| it.len() == 64 && it.bytes().all(|it| it.is_ascii_hexdigit());
        let found = pairs.find(|(found, _)| found.trim() == name)?.1.trim();
        is_right(found).then(|| found.to_owned())
    }
}

fn page(status: StatusCode, title: &str, text: &str) -> Response<Bytes> {
    html(status, title, &format!("<p>{}</p>", escape(text)))
}

fn bad_page(text: &str) -> Response<Bytes> {
    page(StatusCode::BAD_REQUEST, "This sign-in cannot go on", text)
}

/// Anybody can register a client and send people here: nobody is sent on to its address before
/// they have said so (RFC 9700, 4.11.2).
fn told_page(url: &str) -> Response<Bytes> {
    let host = url.split('?').next().unwrap_or_default();
    let (host, url) = (escape(host), escape(url));
    let main = format!(
        "<p>The app asks for something that it cannot get here. If you trust it, \
         <a href=\"{url}\">tell it</a>: that opens <code>{host}</code>.</p>"
    );
    html(StatusCode::BAD_REQUEST, "This sign-in cannot go on", &main)
}

fn broken_page() -> Response<Bytes> {
    let text = "The gateway cannot sign you in at this time. Its administrator finds the reason in the log.";
    page(StatusCode::SERVICE_UNAVAILABLE, "Try again later", text)
}

const AGAIN: &str = "Go back to the app and start the sign-in again.";

/// Sends a browser elsewhere, outside of any form of ours.
fn redirect(url: &str) -> Response<Bytes> {
    let Ok(target) = HeaderValue::try_from(url) else { return bad_page(AGAIN) };
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let headers = response.headers_mut();
    headers.insert(LOCATION, target);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

impl Facade {
    /// Judges a request, by its query; a page if nothing comes of it, or where the client is
    /// told, and whether its host is proven.
    async fn judge(
        &self,
        current: &Current,
        query: &str,
        address: Option<IpAddr>,
    ) -> Result<(AuthorizationRequest, FacadeClient), Result<(String, bool), Response<Bytes>>> {
        let id = authorize::client_id(query).unwrap_or_default();
        let client = match self.find_client(current, &id, address).await {
            Ok(Some(client)) => client,
            Ok(None) => {
                let text = "The app is not known here. Remove its registration there, if you can, and start the sign-in again.";
                return Err(Err(bad_page(text)));
            }
            Err(failed) => {
                tracing::error!("the facade cannot answer: {failed}");
                return Err(Err(broken_page()));
            }
        };
        let Current { rule, tokens, base, .. } = current;
        match authorize::read_request(query, &client, rule, tokens, base) {
            Ok(request) => Ok((request, client)),
            Err(BadRequest::Page(text)) => Err(Err(bad_page(text))),
            Err(BadRequest::Told(url)) => Err(Ok((url, client.is_proven()))),
        }
    }

    /// Asks the person. Nothing is kept of a request before they have agreed (OS-4).
    pub(super) async fn authorize(&self, current: &Current, visit: &PageVisit) -> Response<Bytes> {
        let (request, client) = match self.judge(current, &visit.query, visit.address).await {
            Ok(judged) => judged,
            Err(Ok((url, true))) => return redirect(&url),
            Err(Ok((url, false))) => return told_page(&url),
            Err(Err(page)) => return page,
        };
        let browser = current.browser(&visit.headers);
        let is_new = browser.is_none();
        let browser = browser.unwrap_or_else(|| random_hex(32));
        let proof = base64(self.proof(&browser, &visit.query).as_ref());
        let provider = current.tokens.issuer(&current.rule.issuer);
        let provider = provider.map(|rule| rule.issuer.as_str()).unwrap_or_default();
        let provider = provider.split('/').nth(2).unwrap_or(provider);
        let base = &current.base;
        let mut response =
            authorize::consent_page(&request, &client, provider, &visit.query, &proof, base);
        let (name, attributes) = current.cookie();
        let cookie = HeaderValue::try_from(format!("{name}={browser}{attributes}"));
        if let (true, Ok(cookie)) = (is_new, cookie) {
            response.headers_mut().insert(SET_COOKIE, cookie);
        }
        response
    }

    /// Shows that a form was made for this request, in this browser.
    fn proof(&self, browser: &str, query: &str) -> hmac::Tag {
        hmac::sign(&self.form_key, format!("{browser}\n{query}").as_bytes())
    }

    /// What the person says. The answer is a page that leads on: the policy of the page with
    /// the form would stop a redirect.
    pub(super) async fn consent(&self, current: &Current, visit: &PageVisit) -> Response<Bytes> {
        let body = String::from_utf8_lossy(&visit.body);
        let pairs = query_pairs(&body);
        let found = authorize::single(&pairs, ["request", "proof", "decision"]);
        let Some([Some(query), Some(proof), Some(decision)]) = found else {
            return bad_page(AGAIN);
        };
        // Browsers say where a form was sent from. No page of another site may send ours.
        let from = visit.headers.get("sec-fetch-site");
        if from.is_some_and(|from| from != "same-origin") {
            return bad_page("This form was not sent by our page.");
        }
        let browser = current.browser(&visit.headers);
        let is_proven = |browser: &String| {
            let expected = base64(self.proof(browser, query).as_ref());
            is_same(&expected, proof)
        };
        let Some(browser) = browser.filter(is_proven) else {
            return bad_page(
                "Your browser did not keep our cookie, or the page was open for too long. Go back to the app and start the sign-in again.",
            );
        };
        let (request, client) = match self.judge(current, query, visit.address).await {
            Ok(judged) => judged,
            Err(Ok((url, _))) => return leave_page(&url, "Back to the app"),
            Err(Err(page)) => return page,
        };
        if decision != "allow" {
            let url = request.refusal("access_denied", &current.base);
            return leave_page(&url, "You have not allowed it");
        }
        if !self.state.may_act(visit.address, MOST_SIGN_INS, current.now) {
            let text = "Too many sign-ins were begun. Wait a minute.";
            return page(StatusCode::TOO_MANY_REQUESTS, "Try again later", text);
        }
        let Some(idp) = self.idp(current) else { return broken_page() };
        // State, nonce and verifier are made after the consent (OS-5).
        let begun = match idp.begin(&format!("{}/oauth/signed-in", current.base)).await {
            Ok(begun) => begun,
            Err(failed) => {
                tracing::error!("nobody can be sent to the identity provider: {failed}");
                return broken_page();
            }
        };
        tracing::info!(client = client.id, name = client.name, "somebody allows a client");
        let url = begun.url().to_owned();
        let browser = hash(&browser);
        match self.state.wait_for(request, begun, browser, visit.address, current.now) {
            Ok(()) => leave_page(&url, "Sign in"),
            Err(failed) => {
                tracing::error!("nobody can sign in: {failed}");
                broken_page()
            }
        }
    }

    /// Somebody comes back from the identity provider.
    pub(super) async fn signed_in(&self, current: &Current, visit: &PageVisit) -> Response<Bytes> {
        let pairs = query_pairs(&visit.query);
        let state = authorize::single(&pairs, ["state"]).and_then(|[state]| state);
        let browser = current.browser(&visit.headers);
        let (Some(state), Some(browser)) = (state, browser) else { return bad_page(AGAIN) };
        let Some(pending) = self.state.welcome(state, &hash(&browser), current.now) else {
            return bad_page(AGAIN);
        };
        let (request, base) = (pending.request, &current.base);
        let Some(idp) = self.idp(current) else { return broken_page() };
        match idp.finish(pending.visit, &visit.query).await {
            Ok(who) => self.send_back(current, request, who).await,
            Err(IdpError::Auth(AuthError::Refused { error, .. })) if error == "access_denied" => {
                redirect(&request.refusal("access_denied", base))
            }
            // It may be from anybody: the client hears nothing.
            Err(IdpError::OtherVisit | IdpError::Auth(AuthError::WrongIssuer)) => bad_page(AGAIN),
            Err(failed) => {
                tracing::warn!(client = request.client_id, "nobody was signed in: {failed}");
                redirect(&request.refusal("server_error", base))
            }
        }
    }

    /// A person who has too many grants loses the oldest.
    async fn end_one_too_many(&self, grant: &StoredGrant) {
        let Some(oldest) = self.state.one_too_many(grant) else { return };
        match self.state.grant(&oldest).await {
            Ok(Some(found)) => _ = self.end(&oldest, found, "its person has too many").await,
            Ok(None) => {}
            Err(failed) => tracing::warn!("an old grant cannot be ended: {failed}"),
        }
    }

    /// Gives the client a code for what this person has allowed.
    async fn send_back(
        &self,
        current: &Current,
        request: AuthorizationRequest,
        who: Identity,
    ) -> Response<Bytes> {
        let Identity { issuer, subject, claims, tokens } = who;
        let (claims, idp) = (current.trim(claims), kept(tokens));
        let (id, secret) = (random_hex(16), random_hex(32));
        tracing::info!(
            client = request.client_id,
            principal = format!("{issuer}/{subject}"),
            "signed in"
        );
        let url = request.answer(&format!("{id}.{secret}"), &current.base);
        let refused = request.refusal("server_error", &current.base);
        let grant = request.into_grant().of(subject, claims, idp, &secret, current.now);
        match self.state.add_grant(&id, &grant).await {
            Ok(()) => {
                self.end_one_too_many(&grant).await;
                redirect(&url)
            }
            Err(failed) => {
                tracing::error!("nobody was signed in: {failed}");
                redirect(&refused)
            }
        }
    }
}
