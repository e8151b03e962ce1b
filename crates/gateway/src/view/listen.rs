//! `subscriptions/listen` of modern clients: of changed lists we tell ourselves,
//! of changed resources and tasks their servers do, each by a part of the listen.
//!
//! ```text
//!   listen ──▶ parts, one for each server that has some of the resources or tasks
//!     part acknowledged, or refused ──▶ once all are: one acknowledgement
//!     part ends later ──▶ the whole ends, and the client may listen again
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use serde_json::{Map, Value, json};
use switchboard_net::OwnedTask;
use switchboard_net::backend::{Backend as _, PendingWork};
use switchboard_net::bridge::Bridge;
use switchboard_net::call::{Call, ReplySink};
use switchboard_net::connection::ClientConnection;
use switchboard_proto::exchange::Exchange;
use switchboard_proto::failure::Outcome;
use switchboard_proto::jsonrpc::{Id, Member, Message};
use switchboard_proto::method::{self, meta};
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::Era;

use super::list::tell;
use super::{Front, FrontRequest, list};
use crate::lock;

/// Resources, or tasks, in one listen.
const MOST_URIS: usize = 1024;

/// How long servers have to say what they honour before the client is told without them.
const PATIENCE: Duration = Duration::from_secs(2);

/// The member of a filter for each list.
const LISTS: [(&str, &str); 3] = [
    ("toolsListChanged", "tools"),
    ("promptsListChanged", "prompts"),
    ("resourcesListChanged", "resources"),
];

const URIS: &str = "resourceSubscriptions";
const TASKS: &str = "taskIds";

/// The open listens. Each counts as a session of its client over HTTP, and as an
/// open call on a pipe, so there are no more than `limits` let be (SUB-12).
pub(super) type OpenListens = Mutex<HashMap<(u64, Exchange), Arc<OpenListen>>>;

#[derive(Debug)]
pub(super) struct OpenListen {
    pub(super) client: Arc<ClientConnection>,
    call: Call,
    id: Id,
    lists: BTreeSet<&'static str>,
    /// The servers whose resources it is about.
    servers: Vec<(Arc<str>, Weak<Bridge>)>,
    /// The calls to these servers.
    parts: Mutex<Vec<Call>>,
    stage: Mutex<ListenStage>,
    /// The task that acknowledges it without the servers that are late.
    patience: OnceLock<OwnedTask>,
}

/// How far the servers have got.
#[derive(Debug, Default)]
struct ListenStage {
    /// Servers that have not said what they honour.
    pending: BTreeSet<Arc<str>>,
    honoured: ListenShare,
    is_acknowledged: bool,
}

/// What of one server is listened for; tasks by the ids of who is told.
#[derive(Debug, Default)]
struct ListenShare {
    uris: BTreeSet<String>,
    tasks: BTreeSet<String>,
}

impl ListenShare {
    /// As members of a filter.
    fn members(&self) -> Map<String, Value> {
        let members = [(URIS, &self.uris), (TASKS, &self.tasks)].into_iter();
        let members = members.filter(|(_, names)| !names.is_empty());
        members.map(|(member, names)| (member.to_owned(), json!(names))).collect()
    }
}

/// The share of each server.
type ListenShares = BTreeMap<Arc<str>, ListenShare>;

/// The lists, resources and tasks that are wanted.
fn read_wanted(request: &Message) -> Result<(BTreeSet<&'static str>, ListenShare), Refusal> {
    let bad = |what: &str| Refusal::BadParams { what: what.to_owned() };
    let wanted: Map<String, Value> = request
        .read(Member::Notifications)
        .ok_or_else(|| bad("params.notifications must be an object"))?;
    let names = |member: &str| {
        let names = wanted.get(member).cloned().unwrap_or_else(|| json!([]));
        let names = serde_json::from_value::<BTreeSet<String>>(names).ok();
        let names = names.filter(|names| names.len() <= MOST_URIS);
        names.ok_or_else(|| bad(&format!("{member} is a list of some strings")))
    };
    let share = ListenShare { uris: names(URIS)?, tasks: names(TASKS)? };
    let is_wanted = |member: &str| wanted.get(member) == Some(&Value::Bool(true));
    let lists = LISTS.iter().filter(|(member, _)| is_wanted(member));
    Ok((lists.map(|(_, list)| *list).collect(), share))
}

impl Front {
    /// Says what is honoured, and goes on until dropped (SUB-1, SUB-3).
    pub(super) fn listen(self: &Arc<Self>, request: &FrontRequest) -> PendingWork {
        let FrontRequest { client, call, message, .. } = request;
        let (mut lists, share) = match read_wanted(message) {
            Ok(wanted) => wanted,
            Err(why) => return request.finish(why),
        };
        let offered = self.capabilities(Era::Modern);
        lists.retain(|list| offered[list]["listChanged"] == true);
        let shares = self.shares(client, share);
        let bridge = |server: &Arc<str>| {
            let running = self.fleet.running(server)?;
            Some((Arc::clone(server), Arc::downgrade(&running.bridge)))
        };
        let pending = shares.keys().cloned().collect();
        client.introduce(&list::identity());
        let listen = Arc::new(OpenListen {
            client: Arc::clone(client),
            call: call.clone(),
            id: request.id().clone(),
            lists,
            servers: shares.keys().filter_map(bridge).collect(),
            parts: Mutex::default(),
            stage: Mutex::new(ListenStage { pending, ..ListenStage::default() }),
            patience: OnceLock::new(),
        });
        let key = (client.number(), call.exchange());
        lock(&self.listens).insert(key, Arc::clone(&listen));
        let mut works = PendingWork::none();
        for (server, share) in shares {
            let Some(running) = self.fleet.running(&server) else { continue };
            self.want(&server);
            let (part_of, front) = (Arc::clone(&listen), Arc::downgrade(self));
            let owner = Arc::new(ListenPart { listen: part_of, server, front });
            // For its own resources and tasks alone.
            let wanted = Value::from(share.members()).to_string();
            let part = Call::new(owner, call.exchange());
            lock(&listen.parts).push(part.clone());
            let narrowed = message.with(Member::Notifications, wanted);
            works.append(running.bridge.open(client, &part, narrowed, None));
        }
        if !lock(&self.listens).contains_key(&key) {
            // It ended while its parts were opened.
            listen.leave();
        } else if !listen.acknowledge_if_known() {
            let late = Arc::downgrade(&listen);
            // Not among the works of the call, which may be awaited before the
            // client hears anything.
            let patience = OwnedTask::spawn(async move {
                tokio::time::sleep(PATIENCE).await;
                if let Some(late) = late.upgrade() {
                    lock(&late.stage).pending.clear();
                    late.acknowledge_if_known();
                }
            });
            listen.patience.get_or_init(|| patience);
        }
        works
    }

    /// What is wanted of each server, under its own ids.
    fn shares(&self, client: &ClientConnection, wanted: ListenShare) -> ListenShares {
        let catalog = self.catalog();
        let mut shares = ListenShares::new();
        for uri in wanted.uris {
            if let Some(server) = catalog.resource(&uri)
                && self.fleet.may_watch(client, server, &uri)
            {
                shares.entry(Arc::clone(server)).or_default().uris.insert(uri);
            }
        }
        for ours in wanted.tasks {
            if let Some((server, theirs)) = self.own_task(client, &ours) {
                shares.entry(server).or_default().tasks.insert(theirs);
            }
        }
        shares
    }

    /// A listen is over, if it was one.
    pub(super) fn unlisten(&self, client: u64, exchange: Exchange) {
        let listen = lock(&self.listens).remove(&(client, exchange));
        if let Some(listen) = listen {
            listen.leave();
        }
    }

    /// Takes out these listens; servers need not tell them anything any more.
    pub(super) fn forget_listens(
        &self,
        is_meant: impl Fn(&OpenListen) -> bool,
    ) -> Vec<Arc<OpenListen>> {
        let mut open = lock(&self.listens);
        let gone: Vec<_> =
            open.extract_if(|_, listen| is_meant(listen)).map(|(_, listen)| listen).collect();
        drop(open);
        for listen in &gone {
            listen.leave();
        }
        gone
    }

    /// Ends these listens with their results: the clients may begin others.
    pub(super) fn end_listens(&self, is_meant: impl Fn(&OpenListen) -> bool) {
        for listen in self.forget_listens(is_meant) {
            let mut result = json!({});
            list::sign(&mut result);
            result["_meta"][meta::SUBSCRIPTION] = listen.subscription();
            let answer = Message::result(&listen.id, result.to_string().as_bytes());
            listen.call.finish(answer);
        }
    }

    /// Who listens.
    pub(super) fn listeners(&self) -> Vec<Arc<ClientConnection>> {
        lock(&self.listens).values().map(|listen| Arc::clone(&listen.client)).collect()
    }

    /// Ends the listens at servers that are not ours any more, or are others now.
    pub(super) fn end_listens_left(&self) {
        let (members, running_servers) = (self.members(), self.fleet.running_servers());
        let is_there = |(server, bridge): &(Arc<str>, Weak<Bridge>)| {
            let there = running_servers.get(server).filter(|_| members.contains(server));
            there.is_some_and(|it| std::ptr::eq(Weak::as_ptr(bridge), Arc::as_ptr(&it.bridge)))
        };
        self.end_listens(|listen| !listen.servers.iter().all(is_there));
    }

    /// Tells those who wanted to hear of a list, each under its own id (SUB-2, SUB-4).
    pub(super) fn tell_listens(&self, list: &str, name: &str) {
        let open: Vec<_> = lock(&self.listens).values().cloned().collect();
        for listen in open.iter().filter(|listen| listen.lists.contains(list)) {
            if lock(&listen.stage).is_acknowledged {
                let params = listen.stamped(json!({}));
                let message = Message::notification(name, Some(&params));
                tell(&listen.client, Some(listen.call.exchange()), &message);
            }
        }
    }
}

impl OpenListen {
    /// Acknowledges once all servers have said what they honour; whether that is so.
    fn acknowledge_if_known(&self) -> bool {
        let mut stage = lock(&self.stage);
        if stage.is_acknowledged || !stage.pending.is_empty() {
            return stage.is_acknowledged;
        }
        stage.is_acknowledged = true;
        let mut honoured = stage.honoured.members();
        drop(stage);
        for (member, _) in LISTS.iter().filter(|(_, list)| self.lists.contains(list)) {
            honoured.insert((*member).to_owned(), true.into());
        }
        let params = self.stamped(json!({"notifications": honoured}));
        let message = Message::notification(method::ACKNOWLEDGED, Some(&params));
        self.call.note(&message);
        true
    }

    /// The servers need not tell it anything any more.
    fn leave(&self) {
        // Not in the head of the loop: the lock must not be held in its body.
        let parts = std::mem::take(&mut *lock(&self.parts));
        for part in parts {
            part.cancel(None).detach();
        }
    }

    fn subscription(&self) -> Value {
        serde_json::from_str(&self.id.to_string()).unwrap_or_default()
    }

    fn stamped(&self, mut params: Value) -> Vec<u8> {
        params["_meta"] = json!({meta::SUBSCRIPTION: self.subscription()});
        params.to_string().into_bytes()
    }
}

/// Hears one server in place of the client.
struct ListenPart {
    listen: Arc<OpenListen>,
    server: Arc<str>,
    front: Weak<Front>,
}

impl ListenPart {
    /// The server has said what it honours: nothing, if it refuses.
    fn note_honoured(&self, honoured: ListenShare) -> bool {
        let mut stage = lock(&self.listen.stage);
        let is_awaited = stage.pending.remove(&self.server);
        if is_awaited {
            stage.honoured.uris.extend(honoured.uris);
            stage.honoured.tasks.extend(honoured.tasks);
        }
        drop(stage);
        self.listen.acknowledge_if_known();
        is_awaited
    }
}

impl ReplySink for ListenPart {
    fn client(&self) -> Option<&Arc<ClientConnection>> {
        Some(&self.listen.client)
    }

    fn note(&self, exchange: Option<Exchange>, message: &Message) {
        let Some(front) = self.front.upgrade() else { return };
        let client = &self.listen.client;
        if message.method() != method::ACKNOWLEDGED {
            if let Some(message) = front.context(None).to_client(client, &self.server, message) {
                client.note(exchange, &message);
            }
            return;
        }
        let names = |member| -> BTreeSet<String> { message.read(member).unwrap_or_default() };
        let tasks = names(Member::ListenTasks);
        let tasks =
            tasks.iter().filter_map(|theirs| front.fleet.tasks.ours(client, &self.server, theirs));
        self.note_honoured(ListenShare { uris: names(Member::ListenUris), tasks: tasks.collect() });
    }

    fn finish(&self, _: Exchange, _: Outcome) {
        // One that never began is not missed; one that ends takes the listen with it.
        if !self.note_honoured(ListenShare::default())
            && let Some(front) = self.front.upgrade()
        {
            front.end_listens(|listen| std::ptr::eq(listen, Arc::as_ptr(&self.listen)));
        }
    }
}

impl fmt::Debug for ListenPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenPart").field("server", &self.server).finish_non_exhaustive()
    }
}
