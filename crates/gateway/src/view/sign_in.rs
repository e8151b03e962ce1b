//! Users are asked to sign in where a server wants an account of theirs (OU-5, OU-6).
//!
//! ```text
//!   NotSignedIn ──▶ 2026-07-28 with elicitation.url: input_required; the retry waits for the
//!                                                    sign-in, and the call is made again
//!               ──▶ 2025-11-25 with elicitation.url: -32042, and a notification when it is done
//!               ──▶ any other: the link in the text of a tool result, or of an error
//! ```
//!
//! What the server or its authorization server said never becomes a 401 of ours: the client
//! would sign in at the wrong place (OU-7).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use switchboard_net::backend::PendingWork;
use switchboard_net::call::{Asker, Call, CallRecovery};
use switchboard_net::connection::ClientConnection;
use switchboard_net::roster::{Definition, Hints, ListKind};
use switchboard_proto::auth::AuthError;
use switchboard_proto::exchange::{Ask, HeaderParams};
use switchboard_proto::failure::Failure;
use switchboard_proto::jsonrpc::{Id, Member, Message, Part};
use switchboard_proto::method;
use switchboard_proto::refusal::code;
use switchboard_proto::revision::{Era, Revision};

use super::list::{dressed, whoami};
use super::reply::AnswerChange;
use super::{Front, FrontRequest};
use crate::connect::{SignInLink, UserConnector};
use crate::fleet::RunningServer;
use crate::lock;
use crate::merge;
use crate::plan::ServerPlan;

/// The tool of a server that its user has not signed in to.
pub(super) const SIGN_IN: &str = "sign_in";

/// How long a call waits for its user: less than clients wait for it.
const PATIENCE: Duration = Duration::from_secs(25);

/// What a client is told whose server was taken away while its user signed in.
const GONE: &str = "The server is not there any more.";

/// Questions of ours, by numbers that no server gets to.
static NEXT_ASK: AtomicU64 = AtomicU64::new(u64::MAX);

/// Sees to a call of a user who has to sign in first.
pub(super) struct SignInRecovery {
    front: Arc<Front>,
    connector: Arc<UserConnector>,
    client: Arc<ClientConnection>,
    server: Arc<str>,
    /// In the server's words, with the state as its client shows it.
    message: Message,
    /// How its answer is changed.
    change: AnswerChange,
    header_params: HeaderParams,
    /// The call, while its client is asked.
    asked: Mutex<Option<Call>>,
    this: Weak<Self>,
}

impl Front {
    /// Has a call of a user to a server with accounts seen to, if the user has to sign in.
    pub(super) fn recover(
        self: &Arc<Self>,
        request: &FrontRequest,
        running: &RunningServer,
        change: AnswerChange,
    ) {
        if let Some(recovery) = self.recovery(request, running, change) {
            request.call.set_recovery(recovery);
        }
    }

    fn recovery(
        self: &Arc<Self>,
        request: &FrontRequest,
        running: &RunningServer,
        change: AnswerChange,
    ) -> Option<Arc<SignInRecovery>> {
        let connector = self.fleet.connector().filter(|_| running.plan.wants_sign_in())?;
        Some(Arc::new_cyclic(|this| SignInRecovery {
            front: Arc::clone(self),
            connector: Arc::clone(connector),
            client: Arc::clone(&request.client),
            server: running.plan.name.as_str().into(),
            message: request.message.clone(),
            change,
            header_params: request.header_params.clone(),
            asked: Mutex::default(),
            this: Weak::clone(this),
        }))
    }

    /// Whether this is a call of our own tool at a server.
    pub(super) fn is_sign_in(&self, plan: &ServerPlan, request: &Message) -> bool {
        let is_named = || request.string(Member::Name).is_some_and(|name| name == SIGN_IN);
        if !plan.wants_sign_in() || request.method() != method::CALL_TOOL || !is_named() {
            return false;
        }
        let has_own = |it: &Definition| *it.server == *plan.name && it.name() == SIGN_IN;
        let rosters = || self.person.iter().map(|person| &person.roster);
        !rosters().any(|roster| roster.definitions(ListKind::Tools).iter().any(has_own))
    }

    /// The tool `sign_in`: the same as any call that needs an account. At the path of one
    /// server a user who is connected calls the server's own tool of that name, if it has one.
    pub(super) fn sign_in(
        self: &Arc<Self>,
        request: FrontRequest,
        running: &Arc<RunningServer>,
    ) -> PendingWork {
        let Some(recovery) = self.recovery(&request, running, AnswerChange::Plain) else {
            return request.finish(Failure::CLOSED);
        };
        let (front, plan) = (Arc::clone(self), Arc::clone(&running.plan));
        PendingWork::one(async move {
            let user = request.client.who().name().to_owned();
            let accounts = recovery.connector.accounts();
            if !accounts.is_connected(&plan, &user).await {
                recovery.ask(&request.call);
            } else if front.only.is_some() {
                let server = Arc::clone(&recovery.server);
                front.to_only_server(&server, request).await;
            } else {
                request.call.finish_unchanged(recovery.done());
            }
        })
    }

    /// The members that their user has not signed in to.
    pub(super) fn unsigned(&self) -> Vec<Arc<str>> {
        let Some(person) = self.person.as_ref().filter(|_| self.fleet.connector().is_some()) else {
            return Vec::new();
        };
        let is_unsigned = |name: &str| {
            let reason = person.roster.state(name).and_then(|it| it.borrow().reason.clone());
            reason.is_some_and(|reason| reason.is_sign_in())
        };
        let members = self.members();
        let has_accounts = |name: &Arc<str>| {
            self.fleet.running(name).is_some_and(|running| running.plan.wants_sign_in())
        };
        members.iter().filter(|name| has_accounts(name) && is_unsigned(name)).cloned().collect()
    }

    /// Where a command is given the token, the call is not made before there is one.
    pub(super) fn once_connected(
        self: &Arc<Self>,
        request: FrontRequest,
        running: &Arc<RunningServer>,
        open: impl FnOnce(Arc<Self>, FrontRequest) -> PendingWork + Send + 'static,
    ) -> PendingWork {
        let connector = self
            .fleet
            .connector()
            .filter(|_| running.plan.wants_sign_in() && running.plan.oauth.inject.is_some());
        let Some(connector) = connector.map(Arc::clone) else {
            return open(Arc::clone(self), request);
        };
        let (front, running) = (Arc::clone(self), Arc::clone(running));
        PendingWork::one(async move {
            let user = request.client.who().name().to_owned();
            if connector.accounts().is_connected(&running.plan, &user).await {
                drop(running);
                if !request.call.is_over() {
                    open(front, request).await;
                }
                return;
            }
            // A process with a token that is not theirs to use any more.
            running.bridge.evict_user(&user);
            let why = AuthError::UserSignIn { principal: user };
            request.call.finish(Failure::NotSignedIn { why: Arc::new(why) });
        })
    }
}

/// The definition of the tool.
pub(super) fn sign_in_tool(server: &Arc<str>) -> Definition {
    let text = tool(server).to_string();
    let (server, kind) = (Arc::clone(server), ListKind::Tools);
    Definition { server, kind, text: Bytes::from(text), is_cached: false }
}

fn tool(server: &str) -> Value {
    json!({
        "name": SIGN_IN,
        "description": format!("Signs the user in to {server}, with an account of their own. \
            The other tools of {server} are listed afterwards."),
        "inputSchema": {"type": "object"},
    })
}

impl CallRecovery for SignInRecovery {
    fn recover(self: Arc<Self>, call: &Call, why: &Failure) -> bool {
        if !why.is_sign_in() {
            return false;
        }
        call.release_permit();
        self.front.fleet.handle_unsigned(&self.server, self.client.who().name());
        match self.instead() {
            Some(result) => call.finish_unchanged(self.result(&result)),
            None => self.ask(call),
        }
        true
    }
}

impl SignInRecovery {
    fn id(&self) -> &Id {
        self.message.id().unwrap_or(&Id::Integer(0))
    }

    fn result(&self, result: &Value) -> Message {
        Message::result(self.id(), result.to_string().as_bytes())
    }

    /// At the path of one server: what it says of itself while its user has not signed in.
    fn instead(&self) -> Option<Value> {
        let era = self.client.era();
        let capabilities = || merge::capabilities(std::iter::once((&*self.server, None)), era);
        let result = match self.message.method() {
            method::INITIALIZE => {
                let session = self.front.session(&self.client);
                let revision = session.as_ref().map_or(Revision::NEWEST_LEGACY, |it| it.revision);
                // The server is greeted by the first call after the sign-in.
                session.and_then(|it| it.find(&self.server)).inspect(|link| link.close());
                let mut capabilities = capabilities();
                if let Some(object) = capabilities.as_object_mut() {
                    object.remove("tasks");
                }
                return Some(json!({
                    "protocolVersion": revision.as_str(),
                    "capabilities": capabilities,
                    "serverInfo": whoami(),
                }));
            }
            method::DISCOVER => json!({
                "supportedVersions": Revision::names(Era::Modern),
                "capabilities": capabilities(),
            }),
            method::PING => return Some(json!({})),
            other => {
                let kind = ListKind::ALL.into_iter().find(|kind| kind.method() == other)?;
                let tools = if kind == ListKind::Tools { vec![tool(&self.server)] } else { vec![] };
                json!({kind.member().key(): tools})
            }
        };
        Some(if era == Era::Modern { dressed(result, Hints::default()) } else { result })
    }

    /// Asks the user, in the way that the client knows, for what the server is now.
    fn ask(&self, call: &Call) {
        let Some(running) = self.front.running(&self.server) else {
            return call.finish_unchanged(self.refusal(GONE));
        };
        let is_legacy = self.client.era() == Era::Legacy;
        let user = self.client.who().name();
        let client = Some(&self.client).filter(|_| is_legacy);
        let link = match self.connector.link(&running.plan, user, client) {
            Ok(link) => link,
            Err(why) => return call.finish_unchanged(self.refusal(&why)),
        };
        let text = format!("Sign in to {}, with an account of your own.", self.server);
        let page = json!({
            "mode": "url", "elicitationId": link.id, "url": link.url, "message": text,
        });
        if is_legacy && self.opens_pages() {
            let data = json!({"elicitations": [page]});
            let error = json!({"code": code::VISIT_FIRST, "message": text, "data": data});
            return call.finish_unchanged(Message::error(Some(self.id()), &error));
        }
        let is_asked = !is_legacy && self.put(call, &page);
        if !is_asked {
            call.finish_unchanged(self.link_in_words(&link));
        }
    }

    /// Puts the question to a modern client; false if it cannot be asked.
    fn put(&self, call: &Call, page: &Value) -> bool {
        let (ask, params) = (Ask(NEXT_ASK.fetch_sub(1, Ordering::Relaxed)), page.to_string());
        let question = Message::request(&Id::Integer(0), method::ELICIT, Some(params.as_bytes()));
        let asker: Weak<Self> = Weak::clone(&self.this);
        *lock(&self.asked) = Some(call.clone());
        if let Some(this) = self.this.upgrade() {
            call.set_recovery(this);
        }
        let is_asked = call.ask(asker, ask, &question);
        if !is_asked {
            lock(&self.asked).take();
        }
        is_asked
    }

    /// Whether a legacy client opens pages for its user.
    fn opens_pages(&self) -> bool {
        let Some(session) = self.front.session(&self.client) else { return false };
        let pages = session.hello.value(Member::Capabilities);
        let pages = pages.is_some_and(|it| it["elicitation"]["url"].is_object());
        pages && session.revision >= Revision::NEWEST_LEGACY
    }

    fn link_in_words(&self, link: &SignInLink) -> Message {
        self.refusal(&format!(
            "Sign in to {} first: open {} in a browser, then try again. The link is for you alone.",
            self.server, link.url
        ))
    }

    /// A tool says what is wrong to the model; anything else is an error.
    fn refusal(&self, text: &str) -> Message {
        if self.message.method() != method::CALL_TOOL {
            let error = json!({"code": code::INTERNAL, "message": text});
            return Message::error(Some(self.id()), &error);
        }
        self.in_words(text, true)
    }

    fn in_words(&self, text: &str, is_error: bool) -> Message {
        let content = json!([{"type": "text", "text": text}]);
        let mut result = json!({"content": content, "isError": is_error});
        if self.client.era() == Era::Modern {
            super::list::sign(&mut result);
        }
        self.result(&result)
    }

    /// The answer of the tool `sign_in`.
    fn done(&self) -> Message {
        let text = format!("You are signed in to {}. Its tools are listed now.", self.server);
        self.in_words(&text, false)
    }

    /// The user is on the way to the page: the call goes on once they have signed in.
    async fn go_on(self: Arc<Self>, call: Call) {
        let user = self.client.who().name().to_owned();
        let is_done = match self.front.running(&self.server) {
            Some(it) if it.plan.has_accounts() => {
                self.connector.connected(&it.plan, &user, PATIENCE).await
            }
            _ => true,
        };
        if call.is_over() {
            return;
        }
        if !is_done {
            return self.ask(&call);
        }
        let Some(running) = self.front.running(&self.server) else {
            return call.finish_unchanged(self.refusal(GONE));
        };
        if self.front.is_sign_in(&running.plan, &self.message) {
            return call.finish_unchanged(self.done());
        }
        let (client, message) = (Arc::clone(&self.client), self.message.clone());
        let header_params = self.header_params.clone();
        let request = FrontRequest { client, call, message, header_params };
        self.front.to_server(request, &self.server, &running, self.change.clone()).await;
    }
}

impl Asker for SignInRecovery {
    fn supply(self: Arc<Self>, _: Ask, answer: &Message) -> PendingWork {
        let Some(call) = lock(&self.asked).take() else { return PendingWork::none() };
        let action = answer.payload().and_then(|it| Part::new(it).string("action"));
        if action.as_deref() == Some("accept") {
            return PendingWork::one(self.go_on(call));
        }
        let text = format!("The user did not want to sign in to {}.", self.server);
        call.finish_unchanged(self.refusal(&text));
        PendingWork::none()
    }

    fn progress(self: Arc<Self>, _: Message) -> PendingWork {
        PendingWork::none()
    }
}

#[cfg(test)]
mod tests;
