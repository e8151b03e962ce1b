//! Answers legacy clients while a person signs in to their server: hosts give up on a greeting
//! after 30 to 60 seconds, and people take longer to find a password.
//!
//! ```text
//!   initialize ──▶ server ──401──▶ a person is asked
//!     after 25 s ◀── our own welcome: all capabilities, and one tool, `sign_in`
//!   tools/call sign_in ◀── which page to open, or that it is done
//!     signed in ──▶ initialize, and what was confirmed meanwhile
//!               ◀── list_changed; from here on all calls go to the server
//! ```

use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_proto::auth::AuthError;
use switchboard_proto::exchange::Exchange;
use switchboard_proto::failure::{Failure, Outcome};
use switchboard_proto::jsonrpc::{Id, Kind, Member, Message};
use switchboard_proto::method;
use switchboard_proto::revision::{Era, Revision};
use tokio::sync::oneshot;

use super::{Bridge, Opening};
use crate::backend::PendingWork;
use crate::call::{Call, ReplySink as _};
use crate::connection::{ClientConnection, lock};
use crate::drive::{Either, race};
use crate::upstream::{AnswerWaiter, PersonAsked};

/// How long a client waits for its server while a person signs in: less than hosts do.
const PATIENCE: Duration = Duration::from_secs(25);

/// The tool that clients see until a person has signed in.
const SIGN_IN: &str = "sign_in";

/// What it says afterwards.
const DONE: &str = "You are signed in. List the tools again: those of the server are there now.";

/// A client that was welcomed before its server was reached.
pub(super) struct DeferredClient {
    /// What the server is greeted with.
    hello: Message,
    state: DeferredState,
    /// What the client has sent since, and the server must hear later.
    confirmed: Option<Message>,
    level: Option<Message>,
}

enum DeferredState {
    /// A person is being asked.
    Asking,
    /// Nobody is, and this is why.
    Failed(Failure),
    /// A person has signed in. The client has not listed the tools since.
    SignedIn,
}

/// What came of a greeting; none if nobody waits for it any more.
type Greeted = oneshot::Receiver<Outcome>;

impl Bridge {
    /// Answers a call whose client waits for a sign-in. Any other goes on.
    pub(super) fn answer_meanwhile(&self, opening: Opening) -> Result<Opening, PendingWork> {
        if opening.client.era() == Era::Modern {
            return Ok(opening);
        }
        let Some(asked) = self.server.deferred_sign_in() else { return Ok(opening) };
        let request = &opening.request;
        if request.method() == method::INITIALIZE {
            let (works, greeted) = self.greet(&opening.client, request.clone());
            return Err(both(works, welcome(Weak::clone(&self.this), opening, greeted, asked)));
        }
        let mut deferred = lock(&self.deferred);
        let number = opening.client.number();
        let Some(client) = deferred.get_mut(&number) else { return Ok(opening) };
        let is_sign_in = request.method() == method::CALL_TOOL
            && request.name().is_some_and(|name| name == SIGN_IN);
        match &client.state {
            DeferredState::SignedIn if is_sign_in => {
                opening.call.finish(said(request, DONE, false));
            }
            DeferredState::SignedIn => {
                if request.method() == method::LIST_TOOLS {
                    deferred.remove(&number);
                }
                return Ok(opening);
            }
            DeferredState::Failed(_) if is_sign_in => {
                client.state = DeferredState::Asking;
                let hello = client.hello.clone();
                drop(deferred);
                self.server.ask_anew();
                let (works, greeted) = self.greet(&opening.client, hello);
                return Err(both(
                    works,
                    ask_again(Weak::clone(&self.this), opening, greeted, asked),
                ));
            }
            DeferredState::Asking | DeferredState::Failed(_) => {
                if request.method() == method::SET_LEVEL {
                    client.level = Some(request.clone());
                }
                let what = client.state.describe(&asked);
                opening.call.finish(answer(request, &what));
            }
        }
        Err(PendingWork::none())
    }

    /// Whether a notification is for a server that cannot hear it yet.
    pub(super) fn keeps_note(&self, client: &ClientConnection, message: &Message) -> bool {
        let mut deferred = lock(&self.deferred);
        let Some(client) = deferred.get_mut(&client.number()) else { return false };
        let is_kept = !matches!(client.state, DeferredState::SignedIn);
        if is_kept && message.method() == method::INITIALIZED {
            client.confirmed = Some(message.clone());
        }
        is_kept
    }

    /// Greets the server in the place of a client, which hears of it later.
    fn greet(&self, client: &Arc<ClientConnection>, hello: Message) -> (PendingWork, Greeted) {
        let (waiter, greeted) = AnswerWaiter::standing_in_for(client);
        let call = Call::new(waiter, Exchange(0));
        call.set_listener(Arc::<ClientConnection>::clone(client));
        let opening = Opening { client: Arc::clone(client), call, request: hello, said: None };
        (self.pass_on(opening), greeted)
    }

    /// The server of a client that was welcomed before is there, or cannot be had.
    fn settle(&self, client: &Arc<ClientConnection>, outcome: Outcome) {
        let failure = match outcome {
            Outcome::Answered(answer) if answer.kind() == Kind::Result => None,
            Outcome::Answered(answer) => {
                let message = answer.error_message().into_owned().into();
                Some(Failure::Rejected { code: answer.error_code().unwrap_or_default(), message })
            }
            Outcome::Failed(failure) => Some(failure),
        };
        let mut deferred = lock(&self.deferred);
        let Some(waiting) = deferred.get_mut(&client.number()) else { return };
        if let Some(failure) = failure {
            waiting.state = DeferredState::Failed(failure);
            return;
        }
        waiting.state = DeferredState::SignedIn;
        let (confirmed, level) = (waiting.confirmed.take(), waiting.level.take());
        drop(deferred);
        let Some(confirmed) = confirmed else { return };
        for upstream in self.hearing(client, &confirmed) {
            upstream.note(confirmed.clone()).detach();
        }
        if let Some(level) = level {
            let (waiter, _) = AnswerWaiter::standing_in_for(client);
            let call = Call::new(waiter, Exchange(0));
            let client = Arc::clone(client);
            self.pass_on(Opening { client, call, request: level, said: None }).detach();
        }
        for capability in ["tools", "prompts", "resources"] {
            if let Some(changed) = method::list_changed(capability) {
                client.note(None, &Message::notification(changed, None));
            }
        }
    }
}

fn both(mut works: PendingWork, job: impl Future<Output = ()> + Send + 'static) -> PendingWork {
    works.append(PendingWork::one(job));
    works
}

/// Answers `initialize` with what the server says, or with a welcome of ours if a person
/// still has to sign in when the time is over.
async fn welcome(
    bridge: Weak<Bridge>,
    opening: Opening,
    mut greeted: Greeted,
    mut asked: PersonAsked,
) {
    let late = async {
        tokio::time::sleep(PATIENCE).await;
        is_asked(&mut asked).await
    };
    match race(&mut greeted, late).await {
        Either::Left(Ok(outcome)) => return opening.call.finish(outcome),
        Either::Right(true) => {}
        Either::Left(Err(_)) | Either::Right(false) => return opening.call.finish(Failure::CLOSED),
    }
    if let Some(bridge) = bridge.upgrade() {
        let (hello, state) = (opening.request.clone(), DeferredState::Asking);
        let client = DeferredClient { hello, state, confirmed: None, level: None };
        // It knows of a client that is gone only here.
        if !opening.client.is_over() {
            lock(&bridge.deferred).insert(opening.client.number(), client);
        }
        let name = bridge.server.name();
        tracing::info!(server = name, "answered the client: a person still has to sign in");
        opening.call.finish(our_welcome(&opening.request, &name));
    }
    settle_later(&bridge, &opening, greeted).await;
}

/// Answers `sign_in` after a sign-in that failed: another one begins.
async fn ask_again(
    bridge: Weak<Bridge>,
    opening: Opening,
    mut greeted: Greeted,
    mut asked: PersonAsked,
) {
    let request = &opening.request;
    match race(&mut greeted, is_asked(&mut asked)).await {
        Either::Left(outcome) => {
            let Some(bridge) = bridge.upgrade() else { return };
            let outcome = outcome.unwrap_or(Outcome::Failed(Failure::CLOSED));
            bridge.settle(&opening.client, outcome);
            let deferred = lock(&bridge.deferred);
            let state = deferred.get(&opening.client.number()).map(|client| &client.state);
            let is_done = matches!(state, Some(DeferredState::SignedIn));
            let what = state.map(|state| state.describe(&asked)).unwrap_or_default();
            opening.call.finish(said(request, &what, !is_done));
        }
        Either::Right(_) => {
            let what = DeferredState::Asking.describe(&asked);
            opening.call.finish(said(request, &what, false));
            settle_later(&bridge, &opening, greeted).await;
        }
    }
}

/// Waits until the server has answered its greeting, or cannot.
async fn settle_later(bridge: &Weak<Bridge>, opening: &Opening, greeted: Greeted) {
    if let (Ok(outcome), Some(bridge)) = (greeted.await, bridge.upgrade()) {
        bridge.settle(&opening.client, outcome);
    }
}

/// Waits until a person is asked; false if nobody ever will be.
async fn is_asked(asked: &mut PersonAsked) -> bool {
    asked.wait_for(Option::is_some).await.is_ok()
}

impl DeferredState {
    /// What to do, for people and for models that speak with them.
    fn describe(&self, asked: &PersonAsked) -> String {
        match self {
            Self::SignedIn => DONE.to_owned(),
            Self::Failed(failure) => format!("{failure}. Call the tool {SIGN_IN} to try again."),
            Self::Asking => {
                let page = asked.borrow().clone();
                let page = page.as_deref().unwrap_or("The sign-in is being completed.");
                format!("A sign-in is needed. {page} Then call the tool {SIGN_IN}.")
            }
        }
    }
}

/// The answer to any other call than `sign_in` would have in a server without content.
fn answer(request: &Message, what: &str) -> Outcome {
    let result = match request.method() {
        method::PING | method::SET_LEVEL => json!({}),
        method::LIST_TOOLS => json!({"tools": [{
            "name": SIGN_IN,
            "description": "The tools of this server are there once the user has signed in. \
                            Tells the user which page to open, and whether it is done.",
            "inputSchema": {"type": "object"},
        }]}),
        method::LIST_PROMPTS => json!({"prompts": []}),
        method::LIST_RESOURCES => json!({"resources": []}),
        method::LIST_TEMPLATES => json!({"resourceTemplates": []}),
        method::CALL_TOOL => {
            let is_error = request.name().is_none_or(|name| name != SIGN_IN);
            return said(request, what, is_error).into();
        }
        _ => {
            let why = Arc::new(AuthError::NoPerson(what.to_owned()));
            return Outcome::Failed(Failure::NotSignedIn { why });
        }
    };
    result_of(request, &result).into()
}

/// The result of a tool.
fn said(request: &Message, text: &str, is_error: bool) -> Message {
    let content = json!([{"type": "text", "text": text}]);
    result_of(request, &json!({"content": content, "isError": is_error}))
}

fn our_welcome(request: &Message, server: &str) -> Message {
    let version = request.string(Member::ProtocolVersion).unwrap_or_default();
    let changes = json!({"listChanged": true});
    let welcome = json!({
        "protocolVersion": Revision::legacy_at_most(&version).as_str(),
        "capabilities": {
            "completions": {}, "logging": {}, "prompts": changes, "tools": changes,
            "resources": {"listChanged": true, "subscribe": true},
        },
        "serverInfo": {"name": server, "version": env!("CARGO_PKG_VERSION")},
        "instructions": format!("The user has to sign in first: call the tool {SIGN_IN}."),
    });
    result_of(request, &welcome)
}

fn result_of(request: &Message, result: &Value) -> Message {
    let id = request.id().cloned().unwrap_or(Id::from(0));
    Message::result(&id, result.to_string().as_bytes())
}
