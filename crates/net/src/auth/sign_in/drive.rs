//! Does what the machine of a sign-in says: requests, records and people.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use switchboard_proto::auth::{Answer, AuthError, Registration, SignIn, Step, TokenRecord};

use super::Inner;
use super::conduct::OwnedSignIn;
use crate::auth::store::{Plaintext, RecordId, RecordKind, RecordLock, StoreError};
use crate::drive::now;

/// How long all that is read may take until somebody is asked.
pub(super) const DISCOVERY: Duration = Duration::from_secs(30);

impl Inner {
    /// Does what the machine says, until it ends.
    pub(super) async fn drive(
        &self,
        mut run: SignIn,
        mut owned: Option<&mut OwnedSignIn>,
    ) -> Result<TokenRecord, AuthError> {
        let (mut answer, mut is_reading) = (None, true);
        let began = now();
        loop {
            answer = Some(match run.step(answer.take()) {
                Step::Done(record) => return Ok(*record),
                Step::Failed(error) => return Err(error),
                Step::Fetch(_) if is_reading && now() > began + DISCOVERY => {
                    let url = self.account.server.clone();
                    let why = format!("reading took more than {} s", DISCOVERY.as_secs());
                    return Err(AuthError::Unreachable { url, why });
                }
                Step::Fetch(request) => Answer::Response(self.fetch.send(request).await),
                Step::FindRegistration { issuer } => {
                    let found = self.store.read(&self.registration(&issuer)).await;
                    Answer::Registration(read::<Registration>(found)?.map(Box::new))
                }
                Step::KeepRegistration(registration) => {
                    self.keep(&registration).await?;
                    Answer::Done
                }
                Step::Wait(time) => {
                    tokio::time::sleep(time).await;
                    Answer::Done
                }
                Step::ShowDevice { url, complete_url, code } => {
                    is_reading = false;
                    self.person.show_device(self.name(), &url, complete_url.as_deref(), &code);
                    self.note_asked(format!("Open {url} in a browser and type the code {code}."));
                    Answer::Done
                }
                Step::Authorize(pending) => {
                    is_reading = false;
                    Answer::Code(match &mut owned {
                        Some(owned) => self.ask(owned, &pending).await,
                        None => Err(AuthError::Local("nobody can be asked here".to_owned())),
                    })
                }
            });
        }
    }

    pub(super) fn registration(&self, issuer: &str) -> RecordId {
        // A client with a page to come back to is another than one with a port.
        let kind = if self.account.principal.is_some() { "\nweb" } else { "" };
        let name = format!("{issuer}\n{}{kind}", self.account.server);
        RecordId { kind: RecordKind::Registration, name }
    }

    pub(super) async fn keep(&self, registration: &Registration) -> Result<(), AuthError> {
        let id = self.registration(&registration.issuer);
        let mut lock = self.store.lock(&id).await.map_err(local)?;
        if registration.client_id.is_empty() {
            return lock.remove().await.map_err(local);
        }
        write(&mut *lock, registration).await
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(super) fn local(error: StoreError) -> AuthError {
    AuthError::Local(error.to_string())
}

pub(super) fn read<T: DeserializeOwned>(
    found: Result<Option<Plaintext>, StoreError>,
) -> Result<Option<T>, AuthError> {
    let Some(content) = found.map_err(local)? else { return Ok(None) };
    // A record of another version is as good as none.
    Ok(serde_json::from_slice(&content).ok())
}

pub(super) async fn write(
    lock: &mut dyn RecordLock,
    record: &impl Serialize,
) -> Result<(), AuthError> {
    let content =
        serde_json::to_vec(record).map_err(|error| AuthError::Local(error.to_string()))?;
    lock.write(&Plaintext::new(content)).await.map_err(local)
}
