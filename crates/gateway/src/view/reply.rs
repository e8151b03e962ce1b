//! What is changed in a server's words before the client gets them: lists without what is
//! hidden, tasks under our ids, sealed states (GW-83), and progress tokens of questions.
//!
//! Tasks of many servers have ids of ours:
//!
//! ```text
//!   a call becomes a task ──▶ an id of ours, bound to the client that made the call
//!   tasks/get, result, cancel, update ──▶ its server, under the server's id
//!   tasks/list ──▶ one server after the other: a cursor says whose turn it is
//!   what is said about a task ──▶ under our id, to its owner alone
//! ```

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use serde_json::{Value, json};
use switchboard_net::backend::PendingWork;
use switchboard_net::call::{Asker, ReplyRewrite};
use switchboard_net::connection::ClientConnection;
use switchboard_net::parked_calls::Sealer;
use switchboard_net::roster::ListKind;
use switchboard_proto::exchange::Ask;
use switchboard_proto::failure::{Failure, Outcome};
use switchboard_proto::jsonrpc::{ItemAction, Kind, Member, Message, Part};
use switchboard_proto::limits::MAX_ID;
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::Era;

use super::session::ClientSession;
use super::visibility::Visibility;
use super::{Front, FrontRequest};
use crate::catalog::Nowhere;
use crate::fleet::Fleet;
use crate::lock;
use crate::merge::TASKS;
use crate::plan::ServerPlan;
use crate::policy::Grant;

/// How an answer is changed for its client.
#[derive(Clone, Debug)]
pub(super) enum AnswerChange {
    /// It is passed on.
    Plain,
    /// It is a list of one server, of which a part is shown, by the rules at the time of the call.
    Show { kind: ListKind, plan: Arc<ServerPlan>, grant: Grant },
    /// It may be a task that was made.
    NewTask,
    /// It is about a task.
    AboutTask,
    /// It is a list of tasks, and goes on with those of these servers.
    TaskList(Vec<Arc<str>>),
}

/// The way back of one call: from its server to its client.
pub(super) struct ServerReply {
    pub(super) client: Arc<ClientConnection>,
    pub(super) server: Arc<str>,
    pub(super) context: PathContext,
    pub(super) change: AnswerChange,
    /// Keeps the questions that are put to a legacy client of many servers: where one is
    /// alone, the tokens of its questions cannot meet others.
    pub(super) session: Weak<ClientSession>,
}

impl ReplyRewrite for ServerReply {
    fn answer(&self, answer: &Message) -> Outcome {
        let Self { client, server, context, change, .. } = self;
        let Some(fleet) = context.fleet.upgrade() else { return Failure::CLOSED.into() };
        let is_result = answer.kind() == Kind::Result;
        let answer = match if is_result { change } else { &AnswerChange::Plain } {
            AnswerChange::Plain => answer.clone(),
            AnswerChange::Show { kind, plan, grant } => {
                let shown = Visibility { plan, grant }.without_hidden(*kind, answer);
                fleet.approvals().without_held(server, *kind, &shown)
            }
            AnswerChange::NewTask => match fleet.tasks.created(client, server, answer) {
                Ok(answer) => answer,
                Err(why) => return why.into(),
            },
            AnswerChange::AboutTask => [Member::TaskId, Member::RelatedTaskId]
                .into_iter()
                .find_map(|member| fleet.tasks.under_ours(client, server, answer, member))
                .unwrap_or_else(|| answer.clone()),
            AnswerChange::TaskList(servers) => {
                of_ours(&fleet.tasks, client, server, answer, servers)
            }
        };
        if !context.is_many || client.era() == Era::Legacy || !is_result {
            return answer.into();
        }
        let Some(state) = answer.string(Member::RequestState) else { return answer.into() };
        // Only this server gets to see its state again.
        let whole = [server.as_bytes(), b"\0", state.as_bytes()].concat();
        let sealer = context.sealer.as_deref();
        match sealer.and_then(|it| it.seal_bytes(&whole, client.principal())) {
            Some(state) => answer.with_string(Member::RequestState, &state).into(),
            None => Failure::NotSealed.into(),
        }
    }

    fn note<'m>(&self, message: &'m Message) -> Option<Cow<'m, Message>> {
        self.context.to_client(&self.client, &self.server, message)
    }

    fn question<'m>(
        &self,
        asker: &Weak<dyn Asker>,
        ask: Ask,
        request: &'m Message,
    ) -> Option<Cow<'m, Message>> {
        let request = self.context.to_client(&self.client, &self.server, request)?;
        let session = self.session.upgrade();
        let renamed = session.and_then(|it| it.questions.rename(asker, ask, &request));
        Some(renamed.map_or(request, Cow::Owned))
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
    pub(super) fleet: Weak<Fleet>,
    /// Whether servers are together here.
    pub(super) is_many: bool,
    /// Seals what many servers let clients carry.
    pub(super) sealer: Option<Arc<Sealer>>,
    /// What must be known as long as a call lasts.
    pub(super) _kept: Option<Arc<Front>>,
}

impl PathContext {
    /// What the server says, in words that the client knows; none if it is not
    /// for its ears.
    pub(super) fn to_client<'m>(
        &self,
        client: &ClientConnection,
        server: &Arc<str>,
        message: &'m Message,
    ) -> Option<Cow<'m, Message>> {
        let fleet = self.fleet.upgrade()?;
        // Which lists have changed the front tells, for all servers.
        let is_told = self.is_many && is_about_lists(message);
        if is_told || !fleet.may_tell(client, server, message) {
            return None;
        }
        if self.is_many {
            fleet.tasks.to_client(client, server, message)
        } else {
            Some(Cow::Borrowed(message))
        }
    }
}

/// A list has changed in the client's own session with the server.
fn is_about_lists(message: &Message) -> bool {
    ["tools", "prompts", "resources"]
        .iter()
        .any(|list| method::list_changed(list) == Some(message.method()))
}

/// The request with the state as its server gave it; none if it has none.
pub(super) fn unseal(
    sealer: Option<&Sealer>,
    client: &ClientConnection,
    server: &Arc<str>,
    request: &Message,
) -> Result<Option<Message>, Refusal> {
    let Some(state) = request.string(Member::RequestState) else { return Ok(None) };
    let opened = || {
        let whole = sealer?.open_bytes(&state, client.principal())?;
        let whole = String::from_utf8(whole).ok()?;
        let (_, state) = whole.split_once('\0').filter(|(maker, _)| **maker == **server)?;
        Some(request.with_string(Member::RequestState, state))
    };
    opened().map(Some).ok_or(Refusal::BadState)
}

/// Questions with a token; as many as a client may be asked at once.
#[derive(Default)]
pub(super) struct Questions(Mutex<BTreeMap<Ask, PutQuestion>>);

struct PutQuestion {
    /// The token that the client knows.
    shown: Value,
    /// The server's own, as it wrote it.
    token: Bytes,
    asker: Weak<dyn Asker>,
}

impl Questions {
    /// Remembers a question of a server; with another token, if the client has the same one
    /// already.
    fn rename(&self, asker: &Weak<dyn Asker>, ask: Ask, request: &Message) -> Option<Message> {
        // Progress on a question with a token of any length would have to be remembered.
        let token = request.get(Member::MetaProgressToken).filter(|it| it.len() <= MAX_ID)?;
        let own = request.value(Member::MetaProgressToken)?;
        let mut all = lock(&self.0);
        let is_free = |token: &Value| !all.values().any(|it| it.shown == *token);
        let others = (0..).map(|number| Value::from(format!("{}-{number}", ask.0)));
        let shown = std::iter::once(own.clone()).chain(others).find(is_free)?;
        let renamed = (shown != own).then(|| shown.to_string());
        let token = Bytes::copy_from_slice(token);
        all.insert(ask, PutQuestion { shown, token, asker: Weak::clone(asker) });
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

/// Whether the answer to a request may be a task that was made.
pub(super) fn may_make_task(request: &Message, era: Era) -> bool {
    let takes_tasks = match era {
        Era::Legacy => request.has(Member::Task),
        Era::Modern => declares(request),
    };
    takes_tasks && request.method() == method::CALL_TOOL
}

/// Whether a modern client says with a request that it takes tasks.
fn declares(request: &Message) -> bool {
    let settings = request.inside(Member::MetaCapabilities, &["extensions", TASKS]);
    settings.is_some_and(Part::is_object)
}

impl Front {
    /// A request about tasks: to the server whose they are.
    pub(super) fn open_task(self: &Arc<Self>, request: FrontRequest) -> PendingWork {
        let (client, message) = (&request.client, &request.message);
        let is_known = match (message.method(), client.era()) {
            (method::TASK_RESULT | method::LIST_TASKS, era) => era == Era::Legacy,
            (method::UPDATE_TASK, era) => era == Era::Modern,
            (name, _) => matches!(name, method::GET_TASK | method::CANCEL_TASK),
        };
        if !is_known || !self.has_tasks(client.era()) {
            let method = message.method().to_owned();
            return request.turn_away(&Refusal::UnknownMethod { method });
        }
        if client.era() == Era::Modern && !declares(message) {
            let needed = json!({"extensions": {TASKS: {}}});
            return request.turn_away(&Refusal::NeedsMore { needed });
        }
        let (meant, change) = if message.method() == method::LIST_TASKS {
            let servers = self.task_servers(client);
            (whose_turn(message, &servers), AnswerChange::TaskList(servers))
        } else {
            (self.whose_task(client, message).map(Some), AnswerChange::AboutTask)
        };
        let (server, message) = match meant {
            Ok(Some(meant)) => meant,
            Ok(None) => return request.answer(&json!({"tasks": []})),
            Err(nowhere) => return request.fail(nowhere),
        };
        match self.running(&server) {
            Some(running) => {
                self.to_server(FrontRequest { message, ..request }, &server, &running, change)
            }
            None => request.finish(Failure::CLOSED),
        }
    }

    /// Whether any server has tasks that clients of this era can use.
    pub(super) fn has_tasks(&self, era: Era) -> bool {
        let all = self.capabilities(era);
        match era {
            Era::Legacy => all.get("tasks").is_some(),
            Era::Modern => all["extensions"].get(TASKS).is_some(),
        }
    }

    /// The server of a client's task, and its id there, if the server is one of ours.
    pub(super) fn own_task(
        &self,
        client: &ClientConnection,
        ours: &str,
    ) -> Option<(Arc<str>, String)> {
        let found = self.fleet.tasks.find(&TaskOwner::new(client), ours);
        found.filter(|(server, _)| self.members().contains(server))
    }

    /// Our servers at which a client has tasks, by name.
    fn task_servers(&self, client: &ClientConnection) -> Vec<Arc<str>> {
        let mut servers = self.fleet.tasks.servers(client);
        let members = self.members();
        servers.retain(|server| members.contains(server));
        servers
    }

    /// The server of a task, and the request in its words.
    fn whose_task(
        &self,
        client: &ClientConnection,
        request: &Message,
    ) -> Result<(Arc<str>, Message), Nowhere> {
        let ours = request.task_id().ok_or(Nowhere::Params { member: Member::TaskId.key() })?;
        let found = self.own_task(client, &ours);
        let unknown = || Nowhere::Unknown { what: "task", name: ours.into_owned() };
        let (server, theirs) = found.ok_or_else(unknown)?;
        Ok((server, request.with_string(Member::TaskId, &theirs)))
    }
}

/// The server whose tasks are next in a list; none if the client has no tasks.
fn whose_turn(
    request: &Message,
    servers: &[Arc<str>],
) -> Result<Option<(Arc<str>, Message)>, Nowhere> {
    let Some(cursor) = request.part(Member::Cursor) else {
        return Ok(servers.first().map(|first| (Arc::clone(first), request.clone())));
    };
    let cursor = cursor.as_string();
    let read = cursor.as_deref().and_then(|cursor| read_cursor(cursor, servers));
    let (server, theirs) = read.ok_or(Nowhere::Params { member: "cursor" })?;
    let request = match theirs {
        Some(cursor) => request.with_string(Member::Cursor, &cursor),
        None => request.without(Member::Cursor),
    };
    Ok(Some((server, request)))
}

impl GatewayTasks {
    /// The answer with our id of a new task, if it is one. The server's id is kept for
    /// as long as the task is known, so its length has a bound.
    fn created(
        &self,
        client: &ClientConnection,
        server: &Arc<str>,
        answer: &Message,
    ) -> Result<Message, Failure> {
        let (member, is_task) = match client.era() {
            Era::Legacy => (Member::NewTaskId, true),
            Era::Modern => (Member::TaskId, answer.result_type().as_deref() == Some("task")),
        };
        let Some(theirs) = answer.string(member).filter(|_| is_task) else {
            return Ok(answer.clone());
        };
        if theirs.len() > MAX_ID {
            return Err(Failure::TooLarge { what: "the server's task id", limit: MAX_ID });
        }
        Ok(answer.with_string(member, &self.put(TaskOwner::new(client), server, &theirs)))
    }

    /// What a server says, under our id; none if it is about a task of somebody else.
    pub(super) fn to_client<'m>(
        &self,
        client: &ClientConnection,
        server: &Arc<str>,
        message: &'m Message,
    ) -> Option<Cow<'m, Message>> {
        let ours = |member| self.under_ours(client, server, message, member).map(Cow::Owned);
        if matches!(message.method(), method::TASK_STATUS | method::TASK_CHANGED) {
            return ours(Member::TaskId);
        }
        let ours = if self.is_empty() { None } else { ours(Member::RelatedTaskId) };
        ours.or(Some(Cow::Borrowed(message)))
    }

    /// The message with our id as `member`; none if there is none there, or of a task of somebody else.
    fn under_ours(
        &self,
        client: &ClientConnection,
        server: &Arc<str>,
        message: &Message,
        member: Member,
    ) -> Option<Message> {
        let ours = self.ours(client, server, &message.string(member)?)?;
        Some(message.with_string(member, &ours))
    }
}

/// The server and its own cursor.
fn read_cursor(cursor: &str, servers: &[Arc<str>]) -> Option<(Arc<str>, Option<String>)> {
    let (length, rest) = cursor.split_once(':')?;
    let (name, theirs) = rest.split_at_checked(length.parse().ok()?)?;
    let server = servers.iter().find(|server| ***server == *name)?;
    Some((Arc::clone(server), (!theirs.is_empty()).then(|| theirs.to_owned())))
}

fn written(server: &str, theirs: &str) -> String {
    format!("{}:{server}{theirs}", server.len())
}

/// Where the list goes on after this page of `server`, if it does.
fn next_cursor(server: &str, page: &Message, servers: &[Arc<str>]) -> Option<String> {
    let theirs = page.string(Member::NextCursor).filter(|cursor| !cursor.is_empty());
    match theirs {
        Some(theirs) => Some(written(server, &theirs)),
        None => servers.iter().find(|other| ***other > *server).map(|next| written(next, "")),
    }
}

/// The page with this client's tasks alone, under our ids.
fn of_ours(
    tasks: &GatewayTasks,
    client: &ClientConnection,
    server: &Arc<str>,
    page: &Message,
    servers: &[Arc<str>],
) -> Message {
    if !page.part(Member::Tasks).is_some_and(Part::is_list) {
        return page.clone();
    }
    let id = Member::TaskId.key();
    let under_ours = |task: Part<'_>| {
        let ours = tasks.ours(client, server, &task.string(id)?)?;
        task.with_string(id, &ours)
    };
    let ours = page.with_list(Member::Tasks, |task| {
        under_ours(task).map_or(ItemAction::Drop, ItemAction::Replace)
    });
    match next_cursor(server, page, servers) {
        Some(next) => ours.with_string(Member::NextCursor, &next),
        None => ours.without(Member::NextCursor),
    }
}

#[cfg(test)]
mod list_tests {
    use switchboard_proto::jsonrpc::Id;

    use super::*;

    #[test]
    fn a_list_goes_on_with_the_next_server_where_one_has_ended() {
        let servers: Vec<Arc<str>> = ["a", "b:1"].map(Arc::from).to_vec();
        let next_cursor = |server, page: &str| {
            next_cursor(server, &Message::result(&Id::Integer(1), page.as_bytes()), &servers)
        };
        let more = next_cursor("a", r#"{"tasks":[],"nextCursor":"x:1"}"#).unwrap();
        assert_eq!(read_cursor(&more, &servers), Some(("a".into(), Some("x:1".to_owned()))));
        let next = next_cursor("a", r#"{"tasks":[]}"#).unwrap();
        assert_eq!(read_cursor(&next, &servers), Some(("b:1".into(), None)));
        assert_eq!(next_cursor("b:1", "{}"), None);
        for wrong in ["", "a", "1:z", "9:a", "x:a", "2:é"] {
            assert_eq!(read_cursor(wrong, &servers), None, "{wrong}");
        }
    }
}

/// Tasks that are remembered, of everybody and of one client; the oldest go first.
const MAX_TASKS: usize = 8192;
const MAX_TASKS_OF_ONE: usize = 1024;

/// The tasks that were made by calls of clients.
#[derive(Debug, Default)]
pub(crate) struct GatewayTasks {
    table: Mutex<TaskTable>,
    /// Makes ids that nobody guesses, the same each time.
    secret: RandomState,
}

#[derive(Debug, Default)]
struct TaskTable {
    by_id: HashMap<String, KnownTask>,
    made: u64,
}

#[derive(Debug)]
struct KnownTask {
    server: Arc<str>,
    theirs: Box<str>,
    owner: TaskOwner,
    age: u64,
}

/// Who may ask for a task: a legacy client in the session that made it, a modern
/// one whoever it speaks for.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum TaskOwner {
    Session(u64),
    Principal(Box<[u8]>),
}

impl TaskOwner {
    pub(super) fn new(client: &ClientConnection) -> Self {
        match client.era() {
            Era::Legacy => Self::Session(client.number()),
            Era::Modern => Self::Principal(client.principal().into()),
        }
    }
}

impl GatewayTasks {
    /// Remembers a task; our id of it.
    fn put(&self, owner: TaskOwner, server: &Arc<str>, theirs: &str) -> String {
        let ours = self.name(&owner, server, theirs);
        let mut table = lock(&self.table);
        if table.by_id.contains_key(&ours) {
            return ours;
        }
        table.make_room(&owner);
        table.made += 1;
        let (server, theirs, age) = (Arc::clone(server), theirs.into(), table.made);
        table.by_id.insert(ours.clone(), KnownTask { server, theirs, owner, age });
        ours
    }

    fn name(&self, owner: &TaskOwner, server: &str, theirs: &str) -> String {
        format!("{:016x}.{theirs}", self.secret.hash_one((owner, server, theirs)))
    }

    /// Our id of a task, if it is one of this client.
    pub(super) fn ours(
        &self,
        client: &ClientConnection,
        server: &str,
        theirs: &str,
    ) -> Option<String> {
        let ours = self.name(&TaskOwner::new(client), server, theirs);
        lock(&self.table).by_id.contains_key(&ours).then_some(ours)
    }

    /// The server of a task of this owner, and its id there.
    pub(super) fn find(&self, owner: &TaskOwner, ours: &str) -> Option<(Arc<str>, String)> {
        let table = lock(&self.table);
        let task = table.by_id.get(ours).filter(|task| task.owner == *owner)?;
        Some((Arc::clone(&task.server), task.theirs.to_string()))
    }

    /// The servers at which this client has tasks, by name.
    fn servers(&self, client: &ClientConnection) -> Vec<Arc<str>> {
        let (owner, table) = (TaskOwner::new(client), lock(&self.table));
        let own = table.by_id.values().filter(|task| task.owner == owner);
        own.map(|task| Arc::clone(&task.server)).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn is_empty(&self) -> bool {
        lock(&self.table).by_id.is_empty()
    }

    /// A session is over, and nobody can ask for its tasks.
    pub(crate) fn forget(&self, client: u64) {
        lock(&self.table).by_id.retain(|_, task| task.owner != TaskOwner::Session(client));
    }
}

impl TaskTable {
    fn make_room(&mut self, owner: &TaskOwner) {
        let own = self.by_id.values().filter(|task| task.owner == *owner).count();
        let is_in_the_way = |task: &KnownTask| own < MAX_TASKS_OF_ONE || task.owner == *owner;
        if own < MAX_TASKS_OF_ONE && self.by_id.len() < MAX_TASKS {
            return;
        }
        let oldest = self.by_id.iter().filter(|(_, task)| is_in_the_way(task));
        let oldest = oldest.min_by_key(|(_, task)| task.age).map(|(id, _)| id.clone());
        if let Some(id) = oldest {
            self.by_id.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_found_by_its_owner_alone() {
        let (tasks, server) = (GatewayTasks::default(), Arc::from("a"));
        let (one, other) = (TaskOwner::Session(1), TaskOwner::Principal(b"1".as_slice().into()));
        let ours = tasks.put(one.clone(), &server, "t");
        assert_eq!(tasks.put(one.clone(), &server, "t"), ours, "the same each time");
        assert_ne!(tasks.put(one.clone(), &Arc::from("b"), "t"), ours, "ids of two servers");
        assert_eq!(tasks.find(&one, &ours), Some((server, "t".to_owned())));
        assert_eq!(tasks.find(&other, &ours), None);
        assert_eq!(tasks.find(&one, "t"), None);
        tasks.forget(1);
        assert!(tasks.is_empty());
    }

    #[test]
    fn the_oldest_tasks_go_first_and_those_of_one_client_cost_no_other_its_own() {
        let (tasks, server) = (GatewayTasks::default(), Arc::from("a"));
        let first = tasks.put(TaskOwner::Session(0), &server, "first");
        let id = |number: usize| number.to_string();
        let early = tasks.put(TaskOwner::Session(1), &server, &id(0));
        for number in 1..=MAX_TASKS_OF_ONE {
            tasks.put(TaskOwner::Session(1), &server, &id(number));
        }
        assert_eq!(tasks.find(&TaskOwner::Session(1), &early), None);
        assert!(tasks.find(&TaskOwner::Session(0), &first).is_some());
        for session in 2..=u64::try_from(MAX_TASKS).unwrap() {
            tasks.put(TaskOwner::Session(session), &server, "t");
        }
        assert_eq!(tasks.find(&TaskOwner::Session(0), &first), None);
        assert_eq!(lock(&tasks.table).by_id.len(), MAX_TASKS);
    }
}
