//! What is changed in a server's words before the client gets them: lists without what is
//! hidden, tasks under our ids, sealed states (GW-83), and progress tokens of questions.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use serde_json::Value;
use switchboard_net::call::{Asker, Call, ReplyRewrite};
use switchboard_net::connection::ClientConnection;
use switchboard_net::parked_calls::Sealer;
use switchboard_net::roster::ListKind;
use switchboard_proto::exchange::Ask;
use switchboard_proto::failure::{Failure, Outcome};
use switchboard_proto::jsonrpc::{self, Member, Message};
use switchboard_proto::limits::MAX_ID;
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::Era;

use super::session::Session;
use super::task::TaskReply;
use super::{Front, lock};
use crate::fleet::Fleet;
use crate::plan::ServerPlan;
use crate::policy::Grant;
use crate::visibility::Visibility;

/// What is owed to whoever waits for an answer.
#[derive(Debug)]
pub(super) enum AnswerChange {
    /// It is passed on.
    Plain,
    /// It is a list, of which a part is shown.
    Show(Shown),
    /// It is about tasks.
    Task(TaskReply),
}

impl From<Option<TaskReply>> for AnswerChange {
    fn from(task_reply: Option<TaskReply>) -> Self {
        task_reply.map_or(Self::Plain, Self::Task)
    }
}

/// What is shown of a list of one server, by the rules at the time of the call.
#[derive(Debug)]
pub(super) struct Shown {
    kind: ListKind,
    plan: Arc<ServerPlan>,
    grant: Grant,
}

impl Shown {
    pub(super) fn new(kind: ListKind, plan: &Arc<ServerPlan>, grant: &Grant) -> Self {
        Self { kind, plan: Arc::clone(plan), grant: grant.clone() }
    }

    /// The list without what is hidden.
    pub(super) fn of(&self, answer: &Message) -> Message {
        Visibility::new(&self.plan, &self.grant).without_hidden(self.kind, answer)
    }
}

/// The way back of one call: from its server to its client.
pub(super) struct Reply {
    client: Arc<ClientConnection>,
    server: Arc<str>,
    at: PathContext,
    change: AnswerChange,
    /// Keeps the questions that are put to a legacy client.
    session: Weak<Session>,
}

impl Reply {
    pub(super) fn new(
        client: &Arc<ClientConnection>,
        server: &Arc<str>,
        at: PathContext,
        change: AnswerChange,
    ) -> Self {
        let (client, server) = (Arc::clone(client), Arc::clone(server));
        Self { client, server, at, change, session: Weak::new() }
    }

    /// The same for a client with a session.
    pub(super) fn within(self, session: &Weak<Session>) -> Self {
        Self { session: Weak::clone(session), ..self }
    }

    /// Has `call` answered this way.
    pub(super) fn set_on(self, call: &Call) {
        call.set_rewrite(Arc::new(self));
    }
}

impl ReplyRewrite for Reply {
    fn answer(&self, answer: &Message) -> Outcome {
        self.at.answer(&self.client, &self.server, &self.change, answer)
    }

    fn note<'m>(&self, message: &'m Message) -> Option<Cow<'m, Message>> {
        self.at.told(&self.client, &self.server, message)
    }

    fn question<'m>(
        &self,
        asker: &Weak<dyn Asker>,
        ask: Ask,
        request: &'m Message,
    ) -> Option<Cow<'m, Message>> {
        let request = self.at.told(&self.client, &self.server, request)?;
        Some(match self.session.upgrade() {
            Some(session) => session.questions.put(asker, ask, request),
            None => request,
        })
    }

    fn recalled(&self, ask: Ask) {
        if let Some(session) = self.session.upgrade() {
            session.questions.remove(ask);
        }
    }
}

/// A server's own path, or one of many together.
#[derive(Clone)]
pub(super) struct PathContext {
    /// Gone only when the gateway is.
    fleet: Weak<Fleet>,
    many: Option<Many>,
    /// What must be known as long as somebody is here.
    _kept: Option<Arc<Front>>,
}

#[derive(Clone)]
struct Many {
    sealer: Option<Arc<Sealer>>,
}

impl PathContext {
    /// Where one server is as it is. `kept` knows what it lists to whom a client
    /// speaks for, if that decides on what they see.
    pub(super) fn one(fleet: &Arc<Fleet>, kept: Option<Arc<Front>>) -> Self {
        Self { fleet: Arc::downgrade(fleet), many: None, _kept: kept }
    }

    /// Whether servers are together here.
    pub(super) fn is_many(&self) -> bool {
        self.many.is_some()
    }

    /// Where many are together, and what they let clients carry is sealed.
    pub(super) fn many(fleet: &Arc<Fleet>, sealer: Option<Arc<Sealer>>) -> Self {
        Self { fleet: Arc::downgrade(fleet), many: Some(Many { sealer }), _kept: None }
    }

    /// What the server says, in words that the client knows; none if it is not
    /// for its ears.
    pub(super) fn told<'m>(
        &self,
        client: &ClientConnection,
        server: &Arc<str>,
        message: &'m Message,
    ) -> Option<Cow<'m, Message>> {
        let fleet = self.fleet.upgrade()?;
        // Which lists have changed the front tells, for all servers.
        let is_told = self.many.is_some() && is_about_lists(message);
        if is_told || !fleet.may_tell(client, server, message) {
            return None;
        }
        match self.many {
            Some(_) => fleet.tasks.told(client, server, message),
            None => Some(Cow::Borrowed(message)),
        }
    }

    /// An answer as the client is to get it.
    pub(super) fn answer(
        &self,
        client: &ClientConnection,
        server: &Arc<str>,
        change: &AnswerChange,
        answer: &Message,
    ) -> Outcome {
        let answer = match change {
            AnswerChange::Plain => Cow::Borrowed(answer),
            AnswerChange::Show(shown) => Cow::Owned(shown.of(answer)),
            AnswerChange::Task(task_reply) => {
                let Some(fleet) = self.fleet.upgrade() else { return Failure::CLOSED.into() };
                match fleet.tasks.renamed(client, server, task_reply, answer) {
                    Ok(answer) => Cow::Owned(answer),
                    Err(why) => return why.into(),
                }
            }
        };
        match &self.many {
            Some(many) if client.era() == Era::Modern => {
                let sealed = sealed(many.sealer.as_deref(), client, server, answer);
                sealed.map_or(Failure::NotSealed.into(), |answer| answer.into_owned().into())
            }
            _ => answer.into_owned().into(),
        }
    }
}

/// A list has changed in the client's own session with the server.
fn is_about_lists(message: &Message) -> bool {
    ["tools", "prompts", "resources"]
        .iter()
        .any(|list| method::list_changed(list) == Some(message.method()))
}

/// The answer, with a state that only this server gets to see again. None if
/// it cannot be sealed.
pub(super) fn sealed<'m>(
    sealer: Option<&Sealer>,
    client: &ClientConnection,
    server: &str,
    answer: Cow<'m, Message>,
) -> Option<Cow<'m, Message>> {
    let is_result = answer.kind() == jsonrpc::Kind::Result;
    let Some(state) = answer.string(Member::RequestState).filter(|_| is_result) else {
        return Some(answer);
    };
    let whole = [server.as_bytes(), b"\0", state.as_bytes()].concat();
    let state = sealer?.seal_bytes(whole, client.principal())?;
    Some(Cow::Owned(answer.with_string(Member::RequestState, &state)))
}

/// The request with the state as its server gave it.
pub(super) fn opened(
    sealer: Option<&Sealer>,
    client: &ClientConnection,
    server: &Arc<str>,
    request: &Message,
) -> Result<Message, Refusal> {
    let Some(state) = request.string(Member::RequestState) else { return Ok(request.clone()) };
    let sealer = sealer.ok_or(Refusal::BadState)?;
    let whole = sealer.open_bytes(&state, client.principal()).map_err(|_| Refusal::BadState)?;
    let whole = String::from_utf8(whole).map_err(|_| Refusal::BadState)?;
    let (maker, state) = whole.split_once('\0').ok_or(Refusal::BadState)?;
    if maker != &**server {
        return Err(Refusal::BadState);
    }
    Ok(request.with_string(Member::RequestState, state))
}

/// Questions with a token; as many as a client may be asked at once.
#[derive(Default)]
pub(super) struct Questions(Mutex<BTreeMap<Ask, Question>>);

struct Question {
    /// The token that the client knows.
    shown: Value,
    /// The server's own, as it wrote it.
    token: Bytes,
    asker: Weak<dyn Asker>,
}

impl Questions {
    /// A server asks: the question as the client is to get it.
    pub(super) fn put<'m>(
        &self,
        asker: &Weak<dyn Asker>,
        ask: Ask,
        request: Cow<'m, Message>,
    ) -> Cow<'m, Message> {
        self.renamed(asker, ask, &request).map_or(request, Cow::Owned)
    }

    /// Remembers a question; with another token, if the client has the same one already.
    fn renamed(&self, asker: &Weak<dyn Asker>, ask: Ask, request: &Message) -> Option<Message> {
        // Progress on a question with a token of any length would have to be remembered.
        let token = request.get(Member::MetaProgressToken).filter(|it| it.len() <= MAX_ID)?;
        let own = request.value(Member::MetaProgressToken)?;
        let mut all = lock(&self.0);
        let is_free = |token: &Value| !all.values().any(|it| it.shown == *token);
        let others = (0..).map(|number| Value::from(format!("{}-{number}", ask.0)));
        let shown = std::iter::once(own.clone()).chain(others).find(is_free)?;
        let renamed = (shown != own).then(|| shown.to_string());
        let token = Bytes::copy_from_slice(token);
        all.insert(ask, Question { shown, token, asker: Weak::clone(asker) });
        Some(request.with(Member::MetaProgressToken, renamed?))
    }

    /// A question is answered, or not asked any more.
    pub(super) fn remove(&self, ask: Ask) {
        lock(&self.0).remove(&ask);
    }

    /// Who asked what this progress is about, and the progress in their words.
    pub(super) fn find(&self, progress: &Message) -> Option<(Arc<dyn Asker>, Message)> {
        let token = progress.value(Member::ProgressToken)?;
        let all = lock(&self.0);
        let question = all.values().find(|it| it.shown == token)?;
        let progress = progress.with(Member::ProgressToken, question.token.clone());
        Some((question.asker.upgrade()?, progress))
    }
}
