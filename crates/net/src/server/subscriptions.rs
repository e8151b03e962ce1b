//! Who hears of changes: legacy sessions by themselves, modern clients by a listen.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use serde_json::{Map, Value, json};
use switchboard_proto::exchange::Exchange;
use switchboard_proto::jsonrpc::{Id, Member, Message};
use switchboard_proto::method::{self, meta};
use switchboard_proto::project;
use switchboard_proto::revision::Revision;

use super::Server;
use super::handler::{Error, Request};
use super::session::{Session, covers};
use crate::call::ReplySink as _;
use crate::connection::{ClientConnection, lock};

/// Listens at once, over all clients (SUB-12).
const MOST_LISTENS: usize = 1024;

/// URIs, or tasks, in one listen.
const MOST_NAMES: usize = 1024;

/// The open listens.
#[derive(Debug, Default)]
pub(super) struct Listens {
    open: Mutex<HashMap<(u64, Exchange), Listen>>,
}

#[derive(Debug)]
struct Listen {
    client: Weak<ClientConnection>,
    id: Id,
    filter: Filter,
}

/// What a listen wants to hear of.
#[derive(Clone, Debug, Default, PartialEq)]
struct Filter {
    /// Of tools, prompts, resources.
    lists: BTreeSet<&'static str>,
    uris: BTreeSet<String>,
    tasks: BTreeSet<String>,
}

/// The member of a filter for each list.
const LISTS: [(&str, &str); 3] = [
    ("toolsListChanged", "tools"),
    ("promptsListChanged", "prompts"),
    ("resourcesListChanged", "resources"),
];

/// Something that changed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change<'a> {
    /// `tools`, `prompts` or `resources`.
    List(&'static str),
    Resource(&'a str),
    Task(&'a str),
}

impl Filter {
    fn read(call: &Request) -> Result<Self, Error> {
        let wanted = call.request.part(Member::Notifications).filter(|wanted| wanted.is_object());
        let wanted = wanted
            .ok_or_else(|| Error::invalid_params("params.notifications must be an object"))?;
        let wanted: Value =
            wanted.read().map_err(|error| Error::invalid_params(error.to_string()))?;
        let names = |member: &str| -> Result<BTreeSet<String>, Error> {
            let Some(names) = wanted.get(member) else { return Ok(BTreeSet::new()) };
            let names = serde_json::from_value::<BTreeSet<String>>(names.clone());
            let names = names.ok().filter(|names| names.len() <= MOST_NAMES);
            names.ok_or_else(|| {
                let what =
                    format!("notifications.{member} is a list of at most {MOST_NAMES} strings");
                Error::invalid_params(what)
            })
        };
        let lists = LISTS.iter().filter(|(member, _)| wanted[member] == true);
        Ok(Self {
            lists: lists.map(|(_, list)| *list).collect(),
            uris: names("resourceSubscriptions")?,
            tasks: names("taskIds")?,
        })
    }

    fn to_json(&self) -> Value {
        let mut all = Map::new();
        for (member, _) in LISTS.iter().filter(|(_, list)| self.lists.contains(list)) {
            all.insert((*member).to_owned(), true.into());
        }
        for (member, names) in [("resourceSubscriptions", &self.uris), ("taskIds", &self.tasks)] {
            if !names.is_empty() {
                all.insert(member.to_owned(), json!(names));
            }
        }
        all.into()
    }

    fn wants(&self, change: Change<'_>) -> bool {
        match change {
            Change::List(list) => self.lists.contains(list),
            Change::Resource(uri) => self.uris.iter().any(|wanted| covers(wanted, uri)),
            Change::Task(id) => self.tasks.contains(id),
        }
    }
}

impl Server {
    /// `subscriptions/listen`: says what is honoured, and goes on until dropped
    /// (SUB-1, SUB-3, SUB-5). A result only if nothing is.
    pub(super) fn listen(
        &self,
        client: &Arc<ClientConnection>,
        exchange: Exchange,
        call: &Request,
    ) -> Option<Result<Bytes, Error>> {
        let mut filter = match Filter::read(call) {
            Ok(filter) => filter,
            Err(error) => return Some(Err(error)),
        };
        let offered = self.capabilities(&self.catalog(), Revision::NEWEST_MODERN);
        filter.lists.retain(|list| offered[list]["listChanged"] == true);
        if offered["resources"]["subscribe"] != true {
            filter.uris.clear();
        }
        filter.tasks.retain(|id| self.tasks.knows(id, client));
        let id = call.request.id()?.clone();
        let honoured = json!({"notifications": filter.to_json()});
        let honoured = stamped(honoured, &id);
        let nothing = filter == Filter::default();
        if !nothing {
            client.introduce(&self.identity.text);
            let mut open = lock(&self.listens.open);
            if open.len() >= MOST_LISTENS {
                return Some(Err(Error::internal("too many subscriptions are open")));
            }
            let listen = Listen { client: Arc::downgrade(client), id: id.clone(), filter };
            open.insert((client.number(), exchange), listen);
        }
        client.note(Some(exchange), &Message::notification(method::ACKNOWLEDGED, Some(&honoured)));
        nothing.then(|| Ok(stamped(json!({}), &id).into()))
    }

    /// A listen is over, if it was one.
    pub(super) fn unlisten(&self, client: u64, exchange: Exchange) {
        lock(&self.listens.open).remove(&(client, exchange));
    }

    pub(super) fn forget_listens(&self, client: u64) {
        lock(&self.listens.open).retain(|&(of, _), _| of != client);
    }

    /// Ends every listen with its result (SUB-8): say this before a shutdown.
    pub fn close(&self) {
        let open = std::mem::take(&mut *lock(&self.listens.open));
        for ((_, exchange), listen) in open {
            let Some(client) = listen.client.upgrade() else { continue };
            let result = stamped(json!({}), &listen.id);
            let projected =
                project::modern(&result, method::LISTEN, Some(&self.identity.text), self.cache);
            let result = projected.unwrap_or_else(|_| result.into());
            client.finish(exchange, Message::result(&listen.id, &result).into());
        }
    }

    /// The list of tools is another one.
    pub fn tools_changed(&self) {
        self.list_changed("tools");
    }

    /// The list of prompts is another one.
    pub fn prompts_changed(&self) {
        self.list_changed("prompts");
    }

    /// The list of resources, or of templates, is another one.
    pub fn resources_changed(&self) {
        self.list_changed("resources");
    }

    fn list_changed(&self, list: &'static str) {
        let Some(name) = method::list_changed(list) else { return };
        let message = Message::notification(name, None);
        let told = |session: &Arc<Session>| session.is_ready() && session.expects(list);
        for session in self.sessions.all().into_iter().filter(told) {
            tell(&session.client, None, &message);
        }
        self.tell_listens(Change::List(list), name, &json!({}));
    }

    /// A resource has changed; whoever watches it, or what it lies beneath, is told (SUB-13).
    pub fn resource_updated(&self, uri: &str) {
        let params = json!({"uri": uri});
        let text = params.to_string();
        let message = Message::notification(method::UPDATED, Some(text.as_bytes()));
        for session in self.sessions.all().into_iter().filter(|session| session.watches(uri)) {
            tell(&session.client, None, &message);
        }
        self.tell_listens(Change::Resource(uri), method::UPDATED, &params);
    }

    /// Tells the listens that want to hear of it, each under its own id (SUB-2, SUB-4).
    pub(super) fn tell_listens(&self, change: Change<'_>, name: &str, params: &Value) {
        let open = lock(&self.listens.open);
        let wanted = open.iter().filter(|(_, listen)| listen.filter.wants(change));
        let wanted: Vec<_> = wanted
            .map(|(&(_, exchange), listen)| {
                (exchange, Weak::clone(&listen.client), listen.id.clone())
            })
            .collect();
        drop(open);
        for (exchange, client, id) in wanted {
            let params = stamped(params.clone(), &id);
            tell(&client, Some(exchange), &Message::notification(name, Some(&params)));
        }
    }
}

/// Tells one client. One that does not read what it asked for is cut loose: a
/// slow reader must harm nobody else.
pub(super) fn tell(client: &Weak<ClientConnection>, exchange: Option<Exchange>, message: &Message) {
    let Some(client) = client.upgrade() else { return };
    client.note(exchange, message);
    if client.is_slow() {
        tracing::warn!("a client that does not read is disconnected");
        client.end();
    }
}

/// `params` with the listen they belong to.
fn stamped(mut params: Value, id: &Id) -> Vec<u8> {
    let id: Value = serde_json::from_str(&id.to_string()).unwrap_or_default();
    params["_meta"] = json!({meta::SUBSCRIPTION: id});
    params.to_string().into_bytes()
}
