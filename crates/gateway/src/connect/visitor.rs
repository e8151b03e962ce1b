//! Whether the visitor of a link is the user that it is for: by their key, or by what their
//! issuer says (OU-3).

#[cfg(feature = "console")]
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "console")]
use http::{HeaderMap, HeaderValue};
use ring::hmac;
use switchboard_proto::auth::{OauthSettings, Secret};
use tokio::time::Instant;

#[cfg(feature = "console")]
use super::{CALLBACK_PATH, IssuerVisitor, VisitPurpose};
use super::{ConnectLink, UserConnector, hex};
#[cfg(feature = "console")]
use crate::idp::Identity;
use crate::idp::IdpClient;
use crate::lock;
#[cfg(feature = "console")]
use crate::read;
use crate::token::{IssuerRule, TokenAccess};

/// Wrong keys that one link takes.
pub(super) const MOST_WRONG_KEYS: usize = 5;
/// Wrong keys of all links in a minute.
const MOST_WRONG_A_MINUTE: usize = 60;

/// People on their way to the console who have not shown who they are.
#[cfg(feature = "console")]
const MOST_CONSOLE_VISITORS: usize = 100;

/// Why a visitor may not begin.
pub(super) enum Refused {
    /// There is no such link any more.
    Gone,
    /// It is for another user.
    Other,
}

impl UserConnector {
    /// The issuer that a user with an access token shows who they are at; none for users
    /// with a key.
    pub(super) fn issuer_of(&self, principal: &str) -> Option<IssuerRule> {
        let (name, _) = principal.split_once('/')?;
        // The names of keys do not begin like that.
        self.authenticator.get()?.issuers().rule(name)
    }

    /// A client of the issuer of a user, which learns who a visitor is (OU-3).
    pub(super) fn idp_client(
        &self,
        rule: &IssuerRule,
        scopes: Vec<String>,
    ) -> Result<IdpClient, String> {
        let missing = || {
            format!(
                "The gateway has no client id at {}. Its owner sets \"clientId\" of the issuer {:?}.",
                rule.issuer, rule.name
            )
        };
        let authenticator = self.authenticator.get().ok_or_else(missing)?;
        let settings = idp_settings(rule, authenticator.tokens().as_deref()).ok_or_else(missing)?;
        let (fetch, settings) =
            (self.fetch.clone(), OauthSettings { scopes: Some(scopes), ..settings });
        IdpClient::new(authenticator, &rule.name, settings, fetch).ok_or_else(missing)
    }

    /// The issuers where people can show who they are.
    #[cfg(feature = "console")]
    pub(crate) fn issuers_of_people(&self) -> Vec<IssuerRule> {
        let tokens = self.authenticator.get().and_then(|it| it.tokens());
        let Some(tokens) = tokens.filter(|_| read(&self.base).is_some()) else {
            return Vec::new();
        };
        let known = |rule: &&IssuerRule| idp_settings(rule, Some(&tokens)).is_some();
        tokens.issuers.iter().filter(known).cloned().collect()
    }

    /// People who want to look at the console are let in by this.
    #[cfg(feature = "console")]
    pub(crate) fn open_console(
        &self,
        door: impl Fn(&Identity) -> Result<String, String> + Send + Sync + 'static,
    ) {
        _ = self.console.set(Box::new(door));
    }

    /// Has somebody who wants to look at the console show who they are: the page of the issuer,
    /// and a cookie for their browser.
    #[cfg(feature = "console")]
    pub(crate) async fn send_to_console(
        &self,
        rule: &IssuerRule,
        headers: &HeaderMap,
    ) -> Result<(String, Option<HeaderValue>), String> {
        let tokens = self.authenticator.get().and_then(|it| it.tokens());
        let facade = tokens.as_ref().and_then(|it| it.facade.as_ref());
        let scopes = match facade.filter(|it| it.issuer == rule.name) {
            Some(facade) => facade.scopes.clone(),
            // What a token grants depends on its scopes.
            None => tokens.iter().flat_map(|it| it.scopes.keys().cloned()).collect(),
        };
        let client = Arc::new(self.idp_client(rule, scopes)?);
        let base = read(&self.base).clone().unwrap_or_default();
        let began = client.begin(&format!("{base}{CALLBACK_PATH}")).await;
        let visit = began.map_err(|why| why.to_string())?;
        let random = "the system has no random numbers";
        let (browser, cookie) = self.known_browser(headers).ok_or(random)?;
        let (url, began) = (visit.url().to_owned(), Instant::now());
        let mut state = lock(&self.state);
        state.forget_old(began);
        // Nobody has shown anything yet: they take no place from users with links.
        let is_console = |it: &IssuerVisitor| it.purpose == VisitPurpose::Console;
        if state.visitors.iter().filter(|it| is_console(it)).count() >= MOST_CONSOLE_VISITORS
            && let Some(oldest) = state.visitors.iter().position(is_console)
        {
            state.visitors.remove(oldest);
        }
        let purpose = VisitPurpose::Console;
        state.visitors.push(IssuerVisitor { purpose, browser, client, visit, began });
        Ok((url, cookie))
    }

    /// What the form of a link has, for this browser.
    pub(super) fn form_token(&self, browser: &str, id: &str) -> String {
        hex(hmac::sign(&self.secret, format!("{browser} {id}").as_bytes()).as_ref())
    }

    /// Whether one more wrong key may be shown.
    pub(super) fn may_guess(&self) -> bool {
        let mut state = lock(&self.state);
        let now = Instant::now();
        while state.wrong.front().is_some_and(|at| *at + Duration::from_mins(1) <= now) {
            state.wrong.pop_front();
        }
        state.wrong.len() < MOST_WRONG_A_MINUTE
    }

    /// Takes the link if the visitor is the user that it is for.
    pub(super) fn take(&self, id: &str, shown: Option<&str>) -> Result<ConnectLink, Refused> {
        let now = Instant::now();
        let mut state = lock(&self.state);
        state.forget_old(now);
        let Some(link) = state.links.get_mut(id) else { return Err(Refused::Gone) };
        if shown == Some(&*link.principal) {
            return state.links.remove(id).ok_or(Refused::Gone);
        }
        link.wrong_keys += 1;
        tracing::warn!(
            server = link.server.name,
            "a link to sign in was opened by somebody else than its user"
        );
        if link.wrong_keys >= MOST_WRONG_KEYS {
            state.links.remove(id);
        }
        state.wrong.push_back(now);
        Err(Refused::Other)
    }
}

/// Who we are at an issuer: what its block says, else what the facade before it has.
pub(super) fn idp_settings(
    rule: &IssuerRule,
    tokens: Option<&TokenAccess>,
) -> Option<OauthSettings> {
    let facade = tokens.and_then(|it| it.facade.as_ref()).filter(|it| it.issuer == rule.name);
    let (client_id, client_secret) = match (&rule.client_id, facade) {
        (Some(id), _) => (id.clone(), rule.client_secret.clone()),
        (None, Some(it)) => (it.client_id.clone(), it.client_secret.clone().map(Secret::new)),
        (None, None) => return None,
    };
    let (client_id, is_brief) = (Some(client_id), true);
    Some(OauthSettings { client_id, client_secret, is_brief, ..OauthSettings::default() })
}
