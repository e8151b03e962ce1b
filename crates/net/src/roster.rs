//! Many servers, each with a name: connected side by side, kept, and offered
//! together.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use serde_json::json;
//! use switchboard_net::roster::{Cache, Roster, RosterOptions};
//! use switchboard_net::stdio::child::Command;
//! use switchboard_net::upstream::ServerTarget;
//!
//! let cache = Some(Cache::at("/var/cache/example"));
//! let roster = Roster::new(RosterOptions { cache, ..RosterOptions::default() });
//! for (name, line) in [("files", "files-server ."), ("search", "npx -y search-server")] {
//!     let environment = std::env::vars_os().collect();
//!     roster.add(name, ServerTarget::command(Command::parse(line)?, environment))?;
//! }
//! for late in roster.ready().await {
//!     println!("{}: {}", late.name, late.state);
//! }
//! for tool in roster.tools() {
//!     println!("{} of {}", tool.name(), tool.server);
//! }
//! let found = roster.call("search", "find", json!({"text": "mcp"})).await?;
//! println!("{found}");
//! roster.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! A server that is slow or broken neither delays nor hides the others. It is
//! connected again, a little later each time, and what it offered at an earlier
//! time is offered meanwhile, if there is a [`Cache`]. A call to it waits a
//! while and is sent at most once: whether a call that broke was acted on is
//! for the caller to find out.
//!
//! What servers offer is not renamed, even if two offer the same.

mod cache;
mod connection;
mod definition;
mod entry;
mod inner;
mod state;
mod supervisor;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::sync::{broadcast, watch};
use tokio::time::{timeout, timeout_at};

pub use cache::{Bounds, Cache};
pub use definition::{Definition, ListKind};
pub use state::{AddError, Change, Deferred, RosterError, RosterOptions, ServerPhase, ServerState};
pub use switchboard_proto::project::CacheHints as Hints;

use crate::client::{CallOptions, Client, ClientOptions};
use crate::connection::now;
use crate::drive::race;
use crate::upstream::ServerTarget;
use connection::Link;
use entry::ServerEntry;
use inner::Inner;

/// Named servers. Clones share them; the last one dropped lets go of them.
#[derive(Clone, Debug)]
pub struct Roster {
    inner: Arc<Inner>,
    _end: Arc<End>,
}

/// Ends the connections with their last user. Nobody waits for it, but it comes.
#[derive(Debug)]
struct End(Arc<Inner>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.shut();
    }
}

impl Roster {
    /// No servers yet. Must be called within a tokio runtime.
    pub fn new(options: RosterOptions) -> Self {
        let inner = Inner::new(options);
        let end = Arc::new(End(Arc::clone(&inner)));
        Self { inner, _end: end }
    }

    /// Adds a server and begins to connect it.
    pub fn add(&self, name: impl Into<Arc<str>>, server: ServerTarget) -> Result<(), AddError> {
        self.add_with(name, server, self.inner.options.client.clone())
    }

    /// The same with something different about how to connect, or whom to ask.
    pub fn add_with(
        &self,
        name: impl Into<Arc<str>>,
        server: ServerTarget,
        options: ClientOptions,
    ) -> Result<(), AddError> {
        self.add_within(name, server, options, self.inner.options.connect)
    }

    /// The same for a server that may take another time to start.
    pub fn add_within(
        &self,
        name: impl Into<Arc<str>>,
        server: ServerTarget,
        options: ClientOptions,
        connect: Duration,
    ) -> Result<(), AddError> {
        self.inner.add(ServerEntry::new(name.into(), server, options, connect))
    }

    /// Removes a server and waits for its end. False if there is none of that name.
    pub async fn remove(&self, name: &str) -> bool {
        match self.let_go(name) {
            Some(gone) => {
                gone.await;
                true
            }
            None => false,
        }
    }

    /// Removes a server; what is returned waits for its end, which comes anyway.
    /// None if there is none of that name.
    pub fn let_go(&self, name: &str) -> Option<impl Future<Output = ()> + Send + use<>> {
        let entry = self.inner.remove(name)?;
        Some(gone(entry, self.inner.options.close))
    }

    /// Puts another server in the place of one. What that one offered is offered
    /// until this one is ready. What is returned waits for the end of the old
    /// one, which comes anyway; none if there is none of that name.
    pub fn replace_within(
        &self,
        name: &str,
        server: ServerTarget,
        connect: Duration,
    ) -> Option<impl Future<Output = ()> + Send + use<>> {
        let options = self.inner.options.client.clone();
        let entry = self.inner.replace(ServerEntry::new(name.into(), server, options, connect))?;
        Some(gone(entry, self.inner.options.close))
    }

    /// Connects a server anew, whatever it is doing. False if there is none of that name.
    pub fn restart(&self, name: &str) -> bool {
        self.inner.step(|supervisor, now| supervisor.restart(name, now))
    }

    /// Ends the connection to a server that nobody uses; what it offers is offered
    /// as before, and whoever wants it wakes it. False if it is not ready.
    pub fn sleep(&self, name: &str) -> bool {
        self.inner.step(|supervisor, _| supervisor.sleep(name))
    }

    /// What the supervisor of a server knows of it, from here on. The last thing that it
    /// says is [`ServerPhase::Draining`]. None if there is no server of that name.
    pub fn state(&self, name: &str) -> Option<watch::Receiver<ServerState>> {
        self.inner.entry(name).map(|entry| entry.state.subscribe())
    }

    /// Whether a server can be called.
    pub fn is_ready(&self, name: &str) -> bool {
        let entry = self.inner.entry(name);
        entry.is_some_and(|entry| entry.state.borrow().phase == ServerPhase::Ready)
    }

    /// Connects a server that sleeps; nobody waits for it.
    pub fn wake(&self, name: &str) {
        self.inner.step(|supervisor, now| supervisor.want(name, now));
    }

    /// Waits until every server is ready or known to be broken, or until
    /// [`patience`](RosterOptions::patience) is over; those that are not ready.
    pub async fn ready(&self) -> Vec<Deferred> {
        let until = now() + self.inner.options.patience;
        for entry in self.inner.entries() {
            let (mut state, mut lists) = (entry.state.subscribe(), entry.lists.subscribe());
            let settled = async {
                _ = state.wait_for(|state| !state.is_pending()).await;
                if !entry.state.borrow().accepts_calls {
                    _ = lists.wait_for(|lists| lists.is_loaded).await;
                }
            };
            if timeout_at(until.into(), settled).await.is_err() {
                break;
            }
        }
        self.deferred()
    }

    /// The servers that are not ready, by name.
    pub fn deferred(&self) -> Vec<Deferred> {
        self.inner.entries().iter().filter_map(|entry| entry.deferred()).collect()
    }

    /// All servers and how they stand, by name.
    pub fn servers(&self) -> Vec<(Arc<str>, ServerState)> {
        let entries = self.inner.entries();
        let state =
            |entry: &Arc<ServerEntry>| (Arc::clone(&entry.name), entry.state.borrow().clone());
        entries.iter().map(state).collect()
    }

    /// What changes from here on.
    pub fn changes(&self) -> Changes {
        Changes { heard: self.inner.heard() }
    }

    /// Another number whenever a server offers something else: what was made of
    /// [`definitions`](Self::definitions) under this number is still true.
    pub fn edition(&self) -> u64 {
        self.inner.edition()
    }

    /// What all servers offer of one kind: by name, in the order of each.
    pub fn definitions(&self, kind: ListKind) -> Vec<Definition> {
        self.inner.entries().iter().flat_map(|entry| entry.definitions(kind)).collect()
    }

    /// How long others may keep the lists of one kind of these servers together,
    /// and by whom it may be shared: the least that any of them allows (GW-83).
    /// None if none of them has such a list.
    pub fn hints(&self, kind: ListKind, of: impl Fn(&str) -> bool) -> Option<Hints> {
        let (entries, now) = (self.inner.entries(), now());
        let each = entries.iter().filter(|entry| of(&entry.name));
        each.filter_map(|entry| entry.hints(kind, now)).reduce(Hints::least)
    }

    /// Has lists of one kind read again whose time is over, without waiting for them.
    pub fn freshen(&self, kind: ListKind, of: impl Fn(&str) -> bool) {
        let (entries, now) = (self.inner.entries(), now());
        entries.iter().filter(|entry| of(&entry.name)).for_each(|entry| entry.freshen(kind, now));
    }

    /// The names of all that a server lists of a kind; none if its lists are not
    /// known, of whatever time.
    pub fn listed(&self, server: &str, kind: ListKind) -> Option<Vec<String>> {
        let entry = self.inner.entry(server)?;
        let is_known = entry.lists.borrow().is_known;
        let definitions = entry.definitions(kind).into_iter();
        is_known.then(|| definitions.map(|it| it.name().into_owned()).collect())
    }

    /// Waits until the lists of a server are known, or it has broken, for
    /// `patience` at most.
    pub async fn until_listed(&self, server: &str, patience: Duration) {
        let Some(entry) = self.inner.entry(server) else { return };
        let (mut lists, mut state) = (entry.lists.subscribe(), entry.state.subscribe());
        let is_known = lists.wait_for(|lists| lists.is_known);
        let is_over = race(is_known, state.wait_for(|state| !state.is_pending()));
        // In time or not, what is listed tells.
        _ = timeout(patience, is_over).await;
    }

    /// The tools of all servers.
    pub fn tools(&self) -> Vec<Definition> {
        self.definitions(ListKind::Tools)
    }

    /// The prompts of all servers.
    pub fn prompts(&self) -> Vec<Definition> {
        self.definitions(ListKind::Prompts)
    }

    /// The resources of all servers.
    pub fn resources(&self) -> Vec<Definition> {
        self.definitions(ListKind::Resources)
    }

    /// The templates of resources of all servers.
    pub fn templates(&self) -> Vec<Definition> {
        self.definitions(ListKind::Templates)
    }

    /// Calls a tool of a server; the result may say `isError`. What goes on as a
    /// task is waited for.
    pub async fn call(
        &self,
        server: &str,
        tool: &str,
        args: impl Serialize,
    ) -> Result<Value, RosterError> {
        self.call_with(server, tool, args, CallOptions::default()).await
    }

    /// The same with something different about this call.
    pub async fn call_with(
        &self,
        server: &str,
        tool: &str,
        args: impl Serialize,
        options: CallOptions,
    ) -> Result<Value, RosterError> {
        let (client, link) = self.reach(server, &options).await?;
        link.noting(client.call_tool_with(tool, args, options).await)
    }

    /// Calls any method of a server; the result as it came.
    pub async fn request(
        &self,
        server: &str,
        method: &str,
        params: impl Serialize,
        options: CallOptions,
    ) -> Result<Value, RosterError> {
        let (client, link) = self.reach(server, &options).await?;
        link.noting(client.request_with(method, params, options).await)
    }

    /// The connection to a server, for whatever else it can do. It ends when
    /// it breaks; ask again then.
    pub async fn client(&self, server: &str) -> Result<Client, RosterError> {
        Ok(self.reach(server, &CallOptions::default()).await?.0)
    }

    /// The connection to a server that is ready, at once.
    pub fn present(&self, server: &str) -> Option<Client> {
        let is_ready = |state: &ServerState| state.phase == ServerPhase::Ready;
        Some(self.inner.entry(server)?.client_if(is_ready)?.0)
    }

    /// What a server that is ready, or sleeps, has said of itself. One that
    /// sleeps cannot be called by it.
    pub fn known(&self, server: &str) -> Option<Client> {
        Some(self.inner.entry(server)?.client_if(ServerState::is_up)?.0)
    }

    /// Waits for a server within the time of a call to it.
    async fn reach(
        &self,
        name: &str,
        options: &CallOptions,
    ) -> Result<(Client, Arc<Link>), RosterError> {
        let unknown = || RosterError::Unknown { name: name.to_owned() };
        let entry = self.inner.entry(name).ok_or_else(unknown)?;
        self.inner.step(|supervisor, now| supervisor.want(name, now));
        let time = options.timeout.unwrap_or(entry.options.timeout).min(self.inner.options.wait);
        let mut state = entry.state.subscribe();
        let is_over = |state: &ServerState| {
            use ServerPhase::{Draining, Failed, Ready};
            matches!(state.phase, Ready | Failed | Draining)
        };
        // In time or not, the state tells.
        _ = timeout(time, state.wait_for(is_over)).await;
        if let Some(there) = entry.client_if(|state| state.phase == ServerPhase::Ready) {
            return Ok(there);
        }
        let state = entry.state.borrow().clone();
        match state.phase {
            ServerPhase::Draining => Err(unknown()),
            _ => Err(RosterError::NotReady { name: name.to_owned(), state }),
        }
    }

    /// Lets go of every server and waits for its end, for
    /// [`close`](RosterOptions::close) at most. What is open fails.
    pub async fn close(&self) {
        let entries = self.inner.shut();
        let ending = async {
            for entry in entries {
                entry.gone().await;
            }
        };
        // What takes longer ends by itself.
        _ = timeout(self.inner.options.close, ending).await;
    }
}

async fn gone(entry: Arc<ServerEntry>, close: Duration) {
    // What takes longer ends by itself.
    _ = timeout(close, entry.gone()).await;
}

/// Tells what changes; see [`Roster::changes`].
#[derive(Debug)]
pub struct Changes {
    heard: broadcast::Receiver<Change>,
}

impl Changes {
    /// The next change; none when the roster is gone.
    pub async fn next(&mut self) -> Option<Change> {
        match self.heard.recv().await {
            Ok(change) => Some(change),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(Change::Missed),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}
