//! Finds out how somebody would sign in to a server, for people who ask what is wrong with it.
//!
//! It runs the machine of a sign-in, sends the requests that only read, and writes down what came.
//! A registration is not sent: the machine is told that it succeeded. Nobody is asked to sign in.

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Map, Value};
use switchboard_proto::auth::{
    Answer, AuthBody, AuthError, AuthRequest, AuthResponse, Challenge, Goal, GrantType,
    OauthSettings, Registration, SignIn, Step, TokenSource,
};

use super::drive::{DISCOVERY, read};
use super::{Authorizer, Inner};
use crate::auth::callback::port_for;
use crate::drive::now;

/// What was read to find out how to sign in, and what is wrong with it.
#[derive(Clone, Debug, Default)]
pub struct Discovery {
    /// The documents that were asked for, in order.
    pub documents: Vec<MetadataRead>,
    /// Why a sign-in would fail. After a fault that a user can waive, the look goes on as if they had.
    pub faults: Vec<AuthError>,
    /// What a person would be asked for; none if it does not come to that.
    pub source: Option<Box<TokenSource>>,
}

/// A document that was asked for, and what came.
#[derive(Clone, Debug)]
pub struct MetadataRead {
    /// Where.
    pub url: String,
    /// The answer, or why there is none.
    pub outcome: Result<AuthResponse, String>,
}

impl MetadataRead {
    /// The members, if it is a document.
    pub fn object(&self) -> Option<Map<String, Value>> {
        let response = self.outcome.as_ref().ok().filter(|response| response.status == 200)?;
        serde_json::from_slice(&response.body).ok()
    }
}

/// Looks at one server: more than faults that can be waived.
const MOST_LOOKS: usize = 4;

impl Authorizer {
    /// Finds out how somebody would sign in. Registers nothing, asks nobody and keeps nothing.
    pub async fn explore(&self, challenge: Option<Challenge>) -> Discovery {
        let mut found = Discovery::default();
        let mut settings = self.inner.settings.clone();
        let began = now();
        for _ in 0..MOST_LOOKS {
            let looking = self.inner.look(&mut found, challenge.clone(), &settings, began);
            let Err(fault) = looking.await else { break };
            let is_waived = waive(&mut settings, &fault);
            found.faults.push(fault);
            if !is_waived {
                break;
            }
        }
        found
    }
}

/// One fault must not hide the next: goes on as if the user had said that this one is meant.
fn waive(settings: &mut OauthSettings, fault: &AuthError) -> bool {
    match fault {
        AuthError::OtherIssuer { found, .. } => settings.trusted_issuer = Some(found.clone()),
        AuthError::NoPkce { .. } => settings.assume_pkce = true,
        AuthError::NotRegistered { .. } => settings.client_id = Some("unregistered".to_owned()),
        _ => return false,
    }
    true
}

impl Inner {
    async fn look(
        &self,
        found: &mut Discovery,
        challenge: Option<Challenge>,
        settings: &OauthSettings,
        began: Instant,
    ) -> Result<(), AuthError> {
        let goal = self.goal(challenge, None, self.likely_redirect());
        let mut run =
            SignIn::new(Goal { settings: settings.clone(), ..goal }, Arc::clone(&self.tools));
        let mut answer = None;
        loop {
            answer = Some(match run.step(answer.take()) {
                // It came to the person, who would sign in at the identity provider.
                Step::Failed(AuthError::NoPerson(_)) => return Ok(()),
                Step::Failed(error) => return Err(error),
                Step::Fetch(request) if request.body.is_none() => {
                    Answer::Response(self.read_document(found, request, began).await)
                }
                Step::Fetch(AuthRequest { body: Some(AuthBody::Json(_)), .. }) => {
                    let body = br#"{"client_id": "unregistered"}"#.to_vec();
                    Answer::Response(Ok(AuthResponse { status: 201, body, dpop_nonce: None }))
                }
                Step::FindRegistration { issuer } => {
                    let known = self.store.read(&self.registration(&issuer)).await;
                    // Who cannot read the store has no registration.
                    Answer::Registration(read::<Registration>(known).ok().flatten().map(Box::new))
                }
                Step::KeepRegistration(_) => Answer::Done,
                Step::Authorize(pending) => {
                    found.source = Some(Box::new(pending.source));
                    return Ok(());
                }
                // Whatever comes now would change something.
                _ => return Ok(()),
            });
        }
    }

    /// The answer to a request; each is sent once.
    async fn read_document(
        &self,
        found: &mut Discovery,
        request: AuthRequest,
        began: Instant,
    ) -> Result<AuthResponse, String> {
        let url = request.url.clone();
        if let Some(known) = found.documents.iter().find(|known| known.url == url) {
            return known.outcome.clone();
        }
        let outcome = if now() > began + DISCOVERY {
            Err(format!("reading took more than {} s", DISCOVERY.as_secs()))
        } else {
            self.fetch.send(request).await
        };
        found.documents.push(MetadataRead { url, outcome: outcome.clone() });
        outcome
    }

    /// Where people would come back to.
    fn likely_redirect(&self) -> String {
        if self.settings.grant != GrantType::Code {
            return String::new();
        }
        let port = self.options.callback_port.unwrap_or_else(|| port_for(&self.account.server));
        let path = self.options.callback_path.trim_start_matches('/');
        format!("http://{}:{port}/{path}", self.options.callback_host)
    }
}
