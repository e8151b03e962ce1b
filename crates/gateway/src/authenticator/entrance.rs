//! One entrance of a gateway: who may use it, by key; [`token_gate`](super::token_gate) has those
//! with access tokens.

use std::fmt;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue};
use switchboard_net::access::{AuthAnswer, AuthDenial, Authenticate, EntryRequest, Who};

use super::{Authenticator, token_gate};
use crate::gateway::Place;
use crate::policy::{Denied, Grant};

/// Where everything is that a gateway serves.
const ENDPOINT: &str = "/mcp";

/// Admits clients at one entrance.
#[derive(Clone)]
pub(super) struct EntranceGate {
    pub(super) authenticator: Arc<Authenticator>,
    pub(super) place: Option<Place>,
    /// Where the place is.
    pub(super) paths: Vec<String>,
}

impl EntranceGate {
    /// The pages are for those from whom nothing is kept.
    pub(super) fn lets(&self, grant: &Grant) -> bool {
        match &self.place {
            None => grant.is_open(),
            Some(Place::All) => true,
            Some(Place::Group(name)) => grant.has_group(name),
            Some(Place::Server(name)) => grant.has_server(name),
        }
    }

    /// What somebody is told whom this place is not for.
    pub(super) fn not_for_them(&self) -> AuthDenial {
        match &self.place {
            None => AuthDenial::forbidden("this page is for keys that may use every server"),
            // Whoever may not use a server or a group is not to know that it is there.
            Some(_) => AuthDenial::nothing_here(ENDPOINT),
        }
    }
}

impl Authenticate for EntranceGate {
    fn authenticate(&self, headers: &HeaderMap) -> Result<Who, AuthDenial> {
        let table = self.authenticator.table();
        let (principal, key) = table.access.identify(headers).map_err(refused)?;
        if !self.lets(&principal.grant) {
            return Err(self.not_for_them());
        }
        let user = table.users.get(principal.name.as_str());
        let user = user.ok_or_else(|| refused(Denied::UnknownKey))?;
        Ok(self.authenticator.enter(user, key, None))
    }

    fn admit(&self, request: EntryRequest<'_>) -> AuthAnswer {
        let table = self.authenticator.table();
        match &table.access.tokens {
            None => AuthAnswer::Now(self.authenticate(request.headers())),
            Some(tokens) => self.admit_with_tokens(&table, tokens, request),
        }
    }

    fn keeps(&self, who: &Who) -> bool {
        let principal = self.authenticator.principal_of(who);
        principal.is_some_and(|principal| self.lets(&principal.grant))
    }

    fn step_up(&self, request: EntryRequest<'_>, scope: &str) -> AuthDenial {
        self.insufficient(&self.authenticator.table(), request, scope)
    }

    fn page(&self, request: EntryRequest<'_>) -> Option<String> {
        let table = self.authenticator.table();
        token_gate::metadata(table.access.tokens.as_deref()?, request)
    }
}

fn refused(denied: Denied) -> AuthDenial {
    let challenge = match denied {
        Denied::UnknownKey => HeaderValue::from_static("Bearer error=\"invalid_token\""),
        _ => HeaderValue::from_static("Bearer"),
    };
    AuthDenial::unknown(challenge, format!("{denied}; send it as X-API-Key or as a bearer token"))
}

impl fmt::Debug for EntranceGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntranceGate").field("place", &self.place).finish_non_exhaustive()
    }
}
