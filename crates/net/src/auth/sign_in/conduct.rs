//! One sign-in: from the lock that makes this process its owner to the tokens in the store.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::Uri;
use switchboard_proto::auth::{
    AuthError, Challenge, GrantType, PendingSignIn, Secret, SignIn, TokenRecord,
};

use super::drive::{local, read, write};
use super::{Inner, LoginMode, SignInOptions};
use crate::auth::callback::{CallbackListener, CallbackPlace, port_for};
use crate::auth::store::{RecordKind, RecordLock};
use crate::connection::lock;
use crate::drive::{Either, race};

/// A sign-in of which this process is the owner: others wait for its lock.
pub(super) struct OwnedSignIn {
    lock: Box<dyn RecordLock>,
    callback: Option<CallbackPlace>,
    /// The page is open already.
    is_shown: bool,
    /// What a person was asked.
    asked: Option<PendingSignIn>,
}

/// What there is to do once the lock is ours.
enum Claimed {
    /// Nothing: somebody has signed in meanwhile.
    Tokens(TokenRecord),
    /// The sign-in is ours. `before` are the tokens that were there.
    Ours { lock: Box<dyn RecordLock>, before: Option<TokenRecord> },
}

impl Inner {
    /// Signs in, unless there are other tokens than `refused` by now.
    pub(super) async fn sign_in(
        &self,
        challenge: Option<Challenge>,
        refused: Option<Secret>,
    ) -> Result<TokenRecord, AuthError> {
        if self.needs_person() && self.options.mode == LoginMode::Never {
            self.lacks_person.store(true, Ordering::Relaxed);
            return Err(AuthError::NoPerson(format!("run `switchboard login {}`", self.name())));
        }
        let (lock, before) = match self.claim(refused.as_ref()).await? {
            Claimed::Tokens(record) => return Ok(record),
            Claimed::Ours { lock, before } => (lock, before),
        };
        let asks_anew = self.asks_anew.swap(false, Ordering::Relaxed);
        let pending: Option<PendingSignIn> = read(lock.read().await)?;
        // Who asks for it by hand begins anew.
        let pending = pending.filter(|_| refused.is_some());
        if let Some(error) = pending.as_ref().and_then(|it| it.failure(self.tools.now()))
            && !asks_anew
        {
            return Err(error);
        }
        let mut owned = OwnedSignIn { lock, callback: None, is_shown: false, asked: None };
        let resumed = match pending {
            Some(pending) => self.resume(&mut owned, pending, challenge.as_ref()).await,
            None => None,
        };
        let run = match resumed {
            Some(run) => run,
            None => self.begin(&mut owned, challenge.clone(), before.clone()).await?,
        };
        let mut ended = self.drive(run, Some(&mut owned)).await;
        if let (Some(provider), Err(AuthError::Refused { .. })) = (&self.provider, &ended)
            && provider.is_token_old().await?
        {
            // What the provider gave us is not taken any more (OX-2).
            provider.sign_in_as_provider().await?;
            let run = self.begin(&mut owned, challenge, before).await?;
            ended = self.drive(run, Some(&mut owned)).await;
        }
        if let Ok(record) = &ended
            && let Err(error) = self.keep_tokens(record).await
        {
            ended = Err(error);
        }
        self.settle(owned, ended.as_ref().err()).await;
        ended
    }

    /// Waits until the sign-in is ours: no other process asks the same person.
    async fn claim(&self, refused: Option<&Secret>) -> Result<Claimed, AuthError> {
        let began_at = self.tools.now();
        let id = self.account.record(RecordKind::Pending);
        let free = self.store.try_lock(&id).await.map_err(local)?;
        let waited = free.is_none();
        let lock = if let Some(lock) = free {
            lock
        } else {
            self.show_waiting();
            self.store.lock(&id).await.map_err(local)?
        };
        let tokens = self.account.record(RecordKind::Tokens);
        let before: Option<TokenRecord> = read(self.store.read(&tokens).await)?;
        let is_new = |before: &&TokenRecord| match refused {
            Some(refused) => before.access_token != *refused,
            None => waited && before.issued_at >= began_at,
        };
        let is_good = |before: &&TokenRecord| !before.is_over(self.tools.now());
        Ok(match before.as_ref().filter(is_new).filter(is_good) {
            Some(before) => Claimed::Tokens(before.clone()),
            None => Claimed::Ours { lock, before },
        })
    }

    /// Goes on with a sign-in that another process left: its page is open, and leads to a
    /// port that this process can open (OT-7).
    async fn resume(
        &self,
        owned: &mut OwnedSignIn,
        pending: PendingSignIn,
        challenge: Option<&Challenge>,
    ) -> Option<SignIn> {
        let asked = challenge.map(Challenge::scopes).unwrap_or_default();
        let has_scopes = asked.iter().all(|scope| pending.source.scopes.contains(scope));
        let age = Duration::from_secs(self.tools.now().saturating_sub(pending.began_at));
        let is_of_use = has_scopes && pending.failure.is_none() && age < self.options.wait;
        if !is_of_use || self.settings.grant != GrantType::Code {
            return None;
        }
        owned.callback = Some(CallbackPlace::Port(self.bind_again(&pending).await?));
        owned.is_shown = true;
        Some(SignIn::resume(pending, self.settings.clone(), Arc::clone(&self.tools)))
    }

    /// A sign-in from the beginning.
    async fn begin(
        &self,
        owned: &mut OwnedSignIn,
        challenge: Option<Challenge>,
        before: Option<TokenRecord>,
    ) -> Result<SignIn, AuthError> {
        if self.settings.grant == GrantType::Code {
            let page = lock(&self.page).take();
            owned.callback = Some(match page {
                Some(page) => CallbackPlace::Page(page),
                None => CallbackPlace::Port(self.bind().await?),
            });
        }
        let uri = owned.callback.as_ref().map(|callback| callback.redirect_uri().to_owned());
        let mut goal = self.goal(challenge, before, uri.unwrap_or_default());
        if let Some(provider) = &self.provider {
            goal.settings.grant = match provider.provider_token().await? {
                Some(token) => token,
                None => provider.sign_in_as_provider().await?,
            };
        }
        Ok(SignIn::new(goal, Arc::clone(&self.tools)))
    }

    async fn keep_tokens(&self, record: &TokenRecord) -> Result<(), AuthError> {
        let id = self.account.record(RecordKind::Tokens);
        let mut lock = self.store.lock(&id).await.map_err(local)?;
        write(&mut *lock, record).await?;
        let (server, issuer) = (self.name(), &record.source.issuer);
        tracing::info!(server, issuer, "signed in");
        Ok(())
    }

    /// Nobody comes back to a sign-in that has ended. One that a person refused is remembered,
    /// so that no other process asks them again at once. What may pass is not.
    async fn settle(&self, mut owned: OwnedSignIn, error: Option<&AuthError>) {
        let left = match (owned.asked, error) {
            (Some(pending), Some(error)) if !error.is_temporary() => {
                write(&mut *owned.lock, &pending.failed(error, self.tools.now())).await
            }
            _ => owned.lock.remove().await.map_err(local),
        };
        if let Err(error) = left {
            tracing::warn!(server = self.name(), "a sign-in that ended is still there: {error}");
        }
    }

    async fn bind(&self) -> Result<CallbackListener, AuthError> {
        let SignInOptions { callback_host: host, callback_path: path, .. } = &self.options;
        let failed = |error: std::io::Error| {
            AuthError::Local(format!("no port to come back to can be opened: {error}"))
        };
        let port = self.options.callback_port;
        let first = port.unwrap_or_else(|| port_for(&self.account.server));
        let bound = match CallbackListener::bind(host, first, path).await {
            // Somebody else has it; another one takes another registration, perhaps.
            Err(_) if port.is_none() => CallbackListener::bind(host, 0, path).await,
            bound => bound,
        };
        let success_url = self.options.success_url.as_deref();
        bound.and_then(|callback| callback.with_success_url(success_url)).map_err(failed)
    }

    /// The port of a sign-in that another process began.
    async fn bind_again(&self, pending: &PendingSignIn) -> Option<CallbackListener> {
        let uri: Uri = pending.redirect_uri.parse().ok()?;
        CallbackListener::bind(uri.host()?, uri.port_u16()?, uri.path()).await.ok()
    }

    /// Has a person open the page, and waits until they come back by our port, or paste
    /// the address that they were sent to.
    pub(super) async fn ask(
        &self,
        owned: &mut OwnedSignIn,
        pending: &PendingSignIn,
    ) -> Result<Secret, AuthError> {
        // Whoever takes over finds it.
        write(&mut *owned.lock, pending).await?;
        owned.asked = Some(pending.clone());
        let Some(callback) = &mut owned.callback else {
            return Err(AuthError::Local("there is no port to come back to".to_owned()));
        };
        if owned.is_shown {
            self.person.show_waiting(self.name(), Some(&pending.url));
        } else {
            self.person.show_page(self.name(), &pending.url);
        }
        self.note_asked(format!("Open this page in a browser and sign in: {}", pending.url));
        let judge = |query: &str| pending.read_callback(query);
        let coming_back = callback.wait(judge);
        let pasting = async {
            loop {
                let pasted = self.person.pasted().await;
                let query = pasted.trim().split_once('?').map(|(_, query)| query);
                let query = query.and_then(|query| query.split('#').next());
                if let Some(code) = query.and_then(judge) {
                    return code;
                }
                tracing::warn!("this is not the address that the page led to");
            }
        };
        let age = self.tools.now().saturating_sub(pending.began_at);
        let wait = self.options.wait.saturating_sub(Duration::from_secs(age));
        let coming = race(coming_back, pasting);
        let Ok(Either::Left(code) | Either::Right(code)) = tokio::time::timeout(wait, coming).await
        else {
            return Err(AuthError::TimedOut);
        };
        if code.is_ok() {
            // It is good for one use: whoever takes over from here begins anew.
            owned.lock.remove().await.map_err(local)?;
        }
        code
    }
}
