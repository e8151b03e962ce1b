//! Accounts at servers that want an access token: whose they are, and where they are kept.
//!
//! ```text
//!   no users, or "account": "shared" ──▶ the account of `switchboard login`
//!   users, and "oauth": true         ──▶ UserCredential: the account of the user of a connection
//!   "grant": "token-exchange"        ──▶ ExchangeCredential: what the user's own token is exchanged for
//!   users, and nothing said          ──▶ none; a server that wants one is refused in plain words
//! ```

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, Request, StatusCode};
use switchboard_net::auth::person::{Nobody, SignInPerson};
use switchboard_net::auth::store::{RecordId, RecordKind, RecordStore};
use switchboard_net::auth::{Account, Authorizer, OauthCredential, SignInOptions};
use switchboard_net::http::fetch::Fetch;
use switchboard_net::upstream::{
    Credential, CredentialRefusal, CredentialUser, FetchedHeaders, Fetching, IdentityDigest,
    NoCredential, Target,
};
use switchboard_proto::auth::{AuthError, Challenge, Secret};
use tokio::time::Instant;

use crate::config::{AccountOwner, OauthPlan};
use crate::credential::FixedHeaders;
use crate::lock;
use crate::plan::ServerPlan;
use exchange::ExchangeCredential;

pub(crate) use exchange::SubjectTokens;

mod exchange;

/// Where the accounts of servers are kept, and how people are asked for them.
#[derive(Clone, Debug)]
pub struct Accounts {
    /// Where tokens are.
    pub store: Arc<dyn RecordStore>,
    /// Who is asked to sign in.
    pub person: Arc<dyn SignInPerson>,
    /// How they are asked.
    pub options: SignInOptions,
    /// The tokens of users that servers refused, by account.
    pub(crate) refused: Arc<Mutex<HashMap<RecordId, RefusedToken>>>,
    /// Which account is used at servers whose file names none.
    pub account: Option<String>,
    /// The access tokens of the gateway's users.
    pub(crate) subjects: SubjectTokens,
}

/// A token that a server refused: its user has to sign in, until there is another one.
#[derive(Debug)]
pub(crate) struct RefusedToken {
    token: Secret,
    /// What the server asked for.
    challenge: Option<Challenge>,
    at: Instant,
}

/// Refusals that are remembered; with more, the oldest are forgotten.
const MOST_REFUSED: usize = 1000;

/// Users of one server whose credentials are at hand.
const MOST_USERS: usize = 1024;

impl Accounts {
    /// Accounts in this store; `account` is used at servers whose file names none.
    pub fn new(
        store: Arc<dyn RecordStore>,
        person: Arc<dyn SignInPerson>,
        options: SignInOptions,
        account: Option<String>,
    ) -> Self {
        Self {
            store,
            person,
            options,
            account,
            refused: Arc::default(),
            subjects: SubjectTokens::default(),
        }
    }

    /// What a server is shown: what it is shown anyway, and the token of its account. Nothing
    /// else if its file says that it wants no token, or has an `Authorization` of its own.
    pub fn credential(
        &self,
        server: &ServerPlan,
        others: Option<Arc<dyn Credential>>,
        fetch: Fetch,
    ) -> Option<Arc<dyn Credential>> {
        let none = HeaderMap::new();
        let headers = match &server.target {
            Target::Url { headers, .. } => headers,
            Target::Command(_) if server.oauth.inject.is_some() => &none,
            Target::Command(_) => return others,
        };
        let wanted = server.oauth.is_wanted;
        if wanted == Some(false) || wanted.is_none() && headers.contains_key(AUTHORIZATION) {
            return others;
        }
        let others = others.unwrap_or_else(|| Arc::new(FixedHeaders(headers.clone())));
        Some(match server.oauth.owner {
            AccountOwner::Operator => {
                let person = Arc::clone(&self.person);
                let authorizer = self.authorizer(server, None, fetch, person)?;
                let credential = OauthCredential::beside(authorizer, others);
                Arc::new(if wanted.is_none() { credential.yielding() } else { credential })
            }
            AccountOwner::EachUser => {
                let (accounts, server) = (self.clone(), server.clone());
                let users = UserTable::default();
                Arc::new(UserCredential { accounts, server, others, fetch, users })
            }
            AccountOwner::Exchanged => {
                let authorizer = self.authorizer(server, None, fetch, Arc::new(Nobody))?;
                let (name, subjects) = (server.name.clone(), self.subjects.clone());
                Arc::new(ExchangeCredential::new(name, authorizer, others, subjects))
            }
            AccountOwner::Unsaid => Arc::new(UnsaidAccount(others)),
        })
    }

    /// Gets the tokens of one user, or of whoever runs us.
    pub(crate) fn authorizer(
        &self,
        server: &ServerPlan,
        principal: Option<&str>,
        fetch: Fetch,
        person: Arc<dyn SignInPerson>,
    ) -> Option<Authorizer> {
        let mut account = account_of(&server.target, &server.oauth, principal)?;
        if principal.is_none() && account.account.is_none() {
            account.account.clone_from(&self.account);
        }
        let mut options = self.options.clone().name(server.name.clone());
        options.reach.allowed.extend_from_slice(&server.oauth.allow_private);
        let (settings, store) = (server.oauth.settings.clone(), Arc::clone(&self.store));
        Some(Authorizer::new(account, settings, store, fetch, person, options))
    }

    /// Whether a user has signed in to a server, and need not do so again.
    pub(crate) async fn is_connected(&self, server: &ServerPlan, principal: &str) -> bool {
        let Some(account) = account_of(&server.target, &server.oauth, Some(principal)) else {
            return false;
        };
        let Ok(Some(record)) = account.tokens(&*self.store).await else { return false };
        let mut refused = lock(&self.refused);
        let id = account.record(RecordKind::Tokens);
        if let Some(found) = refused.get(&id) {
            let is_it = |token: &Secret| *token == found.token;
            if is_it(&record.access_token) || record.id_token.as_ref().is_some_and(is_it) {
                return false;
            }
            refused.remove(&id);
        }
        record.refresh_token.is_some() || !record.is_over(unix_time())
    }

    /// What a server said when it refused a user (OU-7).
    pub(crate) fn challenge(&self, server: &ServerPlan, principal: &str) -> Option<Challenge> {
        lock(&self.refused).get(&key(server, principal)?)?.challenge.clone()
    }

    /// A user has signed in: what was asked for before is over.
    pub(crate) fn forget_challenge(&self, server: &ServerPlan, principal: &str) {
        if let Some(id) = key(server, principal) {
            lock(&self.refused).remove(&id);
        }
    }

    fn keep_refused(&self, server: &ServerPlan, principal: &str, refused: RefusedToken) {
        let Some(id) = key(server, principal) else { return };
        let mut all = lock(&self.refused);
        if all.len() >= MOST_REFUSED && !all.contains_key(&id) {
            let oldest = all.iter().min_by_key(|(_, it)| it.at).map(|(id, _)| id.clone());
            oldest.map(|oldest| all.remove(&oldest));
        }
        all.insert(id, refused);
    }
}

/// What the account of a user at a server is found by.
fn key(server: &ServerPlan, principal: &str) -> Option<RecordId> {
    let account = account_of(&server.target, &server.oauth, Some(principal))?;
    Some(account.record(RecordKind::Tokens))
}

fn unix_time() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Whose tokens they are. Those of a command are for whoever its issuer issues them for.
pub fn account_of(target: &Target, oauth: &OauthPlan, principal: Option<&str>) -> Option<Account> {
    let account = match target {
        Target::Url { url, .. } => {
            Account { account: oauth.account_name.clone(), ..Account::of(url) }
        }
        Target::Command(command) => {
            let settings = oauth.inject.as_ref().map(|_| &oauth.settings)?;
            let issuer = settings.issuer.clone().or_else(|| settings.endpoints.token.clone())?;
            let account = Some(format!("command {}", command.name));
            Account { server: issuer, account, ..Account::default() }
        }
    };
    let principal = principal.map(ToOwned::to_owned);
    Some(Account { principal, ..account }.signing_in_by(&oauth.settings))
}

/// What is at hand of the users of one server: by name, with when it was last used.
struct UserTable<T>(Mutex<HashMap<String, (Arc<T>, Instant)>>);

impl<T> Default for UserTable<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> UserTable<T> {
    /// What is at hand of a user, made if there is nothing. With too many users, the one that
    /// was not used for longest is forgotten.
    fn find(&self, principal: &str, make: impl FnOnce() -> Option<T>) -> Option<Arc<T>> {
        let now = Instant::now();
        let mut users = lock(&self.0);
        if let Some((found, used)) = users.get_mut(principal) {
            *used = now;
            return Some(Arc::clone(found));
        }
        let new = Arc::new(make()?);
        if users.len() >= MOST_USERS {
            let oldest = users.iter().min_by_key(|(_, (_, used))| *used);
            let oldest = oldest.map(|(name, _)| name.clone()).unwrap_or_default();
            users.remove(&oldest);
        }
        users.insert(principal.to_owned(), (Arc::clone(&new), now));
        Some(new)
    }
}

/// Shows a server the token of the user that a connection is for (OU-1).
struct UserCredential {
    accounts: Accounts,
    server: ServerPlan,
    others: Arc<dyn Credential>,
    fetch: Fetch,
    users: UserTable<UserTokens>,
}

struct UserTokens {
    authorizer: Authorizer,
    credential: OauthCredential,
}

impl fmt::Debug for UserCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserCredential").field("server", &self.server.name).finish_non_exhaustive()
    }
}

impl UserCredential {
    fn find(&self, principal: &str) -> Option<Arc<UserTokens>> {
        self.users.find(principal, || {
            let (fetch, person) = (self.fetch.clone(), Arc::new(Nobody));
            let authorizer =
                self.accounts.authorizer(&self.server, Some(principal), fetch, person)?;
            let others = Arc::clone(&self.others);
            let credential = OauthCredential::beside(authorizer.clone(), others);
            Some(UserTokens { authorizer, credential })
        })
    }

    /// The user has to sign in, for what the server said.
    fn refuse(&self, principal: &str, refusal: Option<&CredentialRefusal>) -> NoCredential {
        let values = refusal.iter().flat_map(|it| it.answer.get_all(WWW_AUTHENTICATE));
        let challenge = Challenge::find(values.filter_map(|value| value.to_str().ok()));
        let shown = refusal.and_then(|it| it.shown.get(AUTHORIZATION)?.to_str().ok());
        if let Some((_, token)) = shown.and_then(|shown| shown.split_once(' ')) {
            let (token, at) = (Secret::new(token), Instant::now());
            let refused = RefusedToken { token, challenge, at };
            self.accounts.keep_refused(&self.server, principal, refused);
        }
        let (server, user) = (&*self.server.name, principal);
        tracing::info!(server, user, "the user has to sign in to the server");
        AuthError::UserSignIn { principal: principal.to_owned() }.into()
    }

    async fn fetch_headers(
        &self,
        user: CredentialUser<'_>,
        refusal: Option<&CredentialRefusal>,
    ) -> Result<Option<FetchedHeaders>, NoCredential> {
        let principal = user.principal;
        let Some(theirs) = self.find(principal).filter(|_| !principal.is_empty()) else {
            return Err(AuthError::UserSignIn { principal: principal.to_owned() }.into());
        };
        let found = match (theirs.credential.headers(user, refusal).await, refusal) {
            (Err(NoCredential::NotSignedIn(AuthError::NoPerson(_))), _) => {
                return Err(self.refuse(principal, refusal));
            }
            (Ok(None), Some(refusal))
                if refusal.status == StatusCode::UNAUTHORIZED && !refusal.is_background =>
            {
                return Err(self.refuse(principal, Some(refusal)));
            }
            (found, _) => found?,
        };
        let Some(mut found) = found else { return Ok(None) };
        if !found.headers.contains_key(AUTHORIZATION) {
            // Why there is none, unless there never was one.
            theirs.authorizer.current().await?;
            return Err(self.refuse(principal, None));
        }
        if self.server.oauth.inject.is_none() {
            // A user who disconnects, or connects another account, does so at once (OU-9).
            found.until = Some(Instant::now().into_std());
        }
        Ok(Some(found))
    }
}

impl Credential for UserCredential {
    fn passes(&self) -> &[HeaderName] {
        self.others.passes()
    }

    fn has_accounts(&self) -> bool {
        true
    }

    fn digest(&self, user: CredentialUser<'_>, digest: &mut IdentityDigest) {
        digest.add(user.principal);
        // Secrets are not printed; the id that they belong to is.
        digest.add(format!("{:?}", self.server.oauth));
        self.others.digest(user, digest);
    }

    fn headers<'c>(
        &'c self,
        user: CredentialUser<'c>,
        refusal: Option<&'c CredentialRefusal>,
    ) -> Fetching<'c> {
        Box::pin(self.fetch_headers(user, refusal))
    }

    fn sign(&self, user: CredentialUser<'_>, request: &mut Request<bytes::Bytes>) {
        if let Some(theirs) = self.find(user.principal) {
            theirs.credential.sign(user, request);
        }
    }
}

/// A server whose file does not say whose account it is shown is shown none.
struct UnsaidAccount(Arc<dyn Credential>);

impl Credential for UnsaidAccount {
    fn passes(&self) -> &[HeaderName] {
        self.0.passes()
    }

    fn digest(&self, user: CredentialUser<'_>, digest: &mut IdentityDigest) {
        self.0.digest(user, digest);
    }

    fn headers<'c>(
        &'c self,
        user: CredentialUser<'c>,
        refusal: Option<&'c CredentialRefusal>,
    ) -> Fetching<'c> {
        Box::pin(async move {
            let found = self.0.headers(user, refusal).await?;
            let Some(refusal) = refusal.filter(|_| found.is_none()) else { return Ok(found) };
            let values = refusal.answer.get_all(WWW_AUTHENTICATE).iter();
            let challenge = Challenge::find(values.filter_map(|value| value.to_str().ok()));
            let wants_oauth = challenge.is_some_and(|it| it.resource_metadata.is_some());
            if wants_oauth && refusal.status == StatusCode::UNAUTHORIZED {
                return Err(AuthError::NoAccount.into());
            }
            Ok(None)
        })
    }
}

#[cfg(test)]
mod tests;
