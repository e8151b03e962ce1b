//! The machine: a conversation that is written down as one function, and runs a step at a time.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use serde_json::Value;

use super::AuthError;
use super::record::{PendingSignIn, Registration, Secret, TokenRecord};

/// What is to be done next. Each but the last two is answered by [`SignIn::step`].
#[derive(Clone, Debug)]
pub enum Step {
    /// Send a request: [`Answer::Response`].
    Fetch(AuthRequest),
    /// Find what we are registered as with this issuer: [`Answer::Registration`].
    FindRegistration {
        /// The issuer.
        issuer: String,
    },
    /// Keep this, or forget what is kept for its issuer if it has no client id: [`Answer::Done`].
    KeepRegistration(Box<Registration>),
    /// Have a person open the page, and wait until they come back: [`Answer::Code`].
    Authorize(Box<PendingSignIn>),
    /// Show a person where to go on another machine, and which code to type there: [`Answer::Done`].
    ShowDevice {
        /// Where to go.
        url: String,
        /// The same with the code in it, if there is one.
        complete_url: Option<String>,
        /// What to type.
        code: String,
    },
    /// Wait: [`Answer::Done`].
    Wait(Duration),
    /// Tokens.
    Done(Box<TokenRecord>),
    /// None.
    Failed(AuthError),
}

/// What came of a step.
#[derive(Debug)]
pub enum Answer {
    /// What a request got, or why it got nothing.
    Response(Result<AuthResponse, String>),
    /// What we are registered as, if we are.
    Registration(Option<Box<Registration>>),
    /// The code that a person came back with.
    Code(Result<Secret, AuthError>),
    /// It is done.
    Done,
}

/// A request of a sign-in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AuthRequest {
    /// Where to.
    pub url: String,
    /// What to send; a request without it is a GET.
    pub body: Option<AuthBody>,
    /// The `Authorization` of the client itself.
    pub authorization: Option<Secret>,
    /// The proof that we have the key of the token.
    pub dpop: Option<String>,
}

/// What a POST has.
#[derive(Clone, Eq, PartialEq)]
pub enum AuthBody {
    /// A form.
    Form(String),
    /// JSON.
    Json(String),
}

impl std::fmt::Debug for AuthBody {
    /// It has secrets.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kind, text) = match self {
            Self::Form(text) => ("form", text),
            Self::Json(text) => ("JSON", text),
        };
        write!(out, "({kind}, {} bytes)", text.len())
    }
}

/// What came back.
#[derive(Clone, Default)]
pub struct AuthResponse {
    /// The HTTP status.
    pub status: u16,
    /// The body; bounded by whoever read it.
    pub body: Vec<u8>,
    /// The `DPoP-Nonce` header.
    pub dpop_nonce: Option<String>,
}

impl std::fmt::Debug for AuthResponse {
    /// It may have tokens.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "(HTTP {}, {} bytes)", self.status, self.body.len())
    }
}

/// What a pure machine cannot have of itself: chance, the time, and keys.
pub trait Tools: std::fmt::Debug + Send + Sync {
    /// Bytes that nobody can guess.
    fn random(&self) -> [u8; 32];
    /// Seconds since 1970.
    fn now(&self) -> u64;
    /// A hash.
    fn sha256(&self, bytes: &[u8]) -> [u8; 32];
    /// A new key of the elliptic curve P-256.
    fn new_key(&self) -> Result<Secret, AuthError>;
    /// The public half of a key, as a JWK, and the algorithms it signs by.
    fn public_key(&self, key: &Secret) -> Result<(Value, KeyAlgorithm), AuthError>;
    /// A signed JWT.
    fn sign(&self, key: &Secret, header: &Value, claims: &Value) -> Result<String, AuthError>;
}

/// The name of a signature algorithm, such as `ES256`.
pub type KeyAlgorithm = &'static str;

/// A sign-in, a renewal or a sign-out, on its way.
pub struct SignIn {
    run: Pin<Box<dyn Future<Output = Result<TokenRecord, AuthError>> + Send>>,
    desk: Desk,
}

impl std::fmt::Debug for SignIn {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("SignIn").finish_non_exhaustive()
    }
}

impl SignIn {
    pub(super) fn run<F>(conversation: impl FnOnce(Desk) -> F) -> Self
    where
        F: Future<Output = Result<TokenRecord, AuthError>> + Send + 'static,
    {
        let desk = Desk::default();
        Self { run: Box::pin(conversation(desk.clone())), desk }
    }

    /// Hands in what came of the last step, and says what is next. The first call has no answer.
    pub fn step(&mut self, answer: Option<Answer>) -> Step {
        self.desk.with(|slot| slot.answer = answer);
        let polled = self.run.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        match polled {
            Poll::Ready(Ok(record)) => Step::Done(Box::new(record)),
            Poll::Ready(Err(error)) => Step::Failed(error),
            Poll::Pending => {
                let stuck = || Step::Failed(AuthError::Local("a step has no answer".to_owned()));
                self.desk.with(|slot| slot.step.take()).unwrap_or_else(stuck)
            }
        }
    }
}

/// Where the conversation leaves what is to be done, and finds what came of it.
#[derive(Clone, Default)]
pub(super) struct Desk(Arc<Mutex<DeskSlot>>);

#[derive(Default)]
struct DeskSlot {
    step: Option<Step>,
    answer: Option<Answer>,
}

impl Desk {
    fn with<T>(&self, act: impl FnOnce(&mut DeskSlot) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn ask(&self, step: Step) -> Answer {
        self.with(|slot| slot.step = Some(step));
        let mut is_asked = false;
        poll_fn(|_| {
            // What is there at first belongs to the step before.
            let answer = self.with(|slot| slot.answer.take()).filter(|_| is_asked);
            is_asked = true;
            answer.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    pub(super) async fn fetch(&self, request: AuthRequest) -> Result<AuthResponse, AuthError> {
        let url = request.url.clone();
        match self.ask(Step::Fetch(request)).await {
            Answer::Response(Ok(response)) => Ok(response),
            Answer::Response(Err(why)) => Err(AuthError::Unreachable { url, why }),
            _ => Err(wrong()),
        }
    }

    pub(super) async fn find_registration(
        &self,
        issuer: &str,
    ) -> Result<Option<Registration>, AuthError> {
        match self.ask(Step::FindRegistration { issuer: issuer.to_owned() }).await {
            Answer::Registration(found) => Ok(found.map(|found| *found)),
            _ => Err(wrong()),
        }
    }

    pub(super) async fn authorize(&self, pending: &PendingSignIn) -> Result<Secret, AuthError> {
        match self.ask(Step::Authorize(Box::new(pending.clone()))).await {
            Answer::Code(code) => code,
            _ => Err(wrong()),
        }
    }

    /// For steps that are done, and nothing more.
    pub(super) async fn act(&self, step: Step) -> Result<(), AuthError> {
        match self.ask(step).await {
            Answer::Done => Ok(()),
            _ => Err(wrong()),
        }
    }
}

fn wrong() -> AuthError {
    AuthError::Local("a step was answered by something else".to_owned())
}
