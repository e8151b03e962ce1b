//! The connections to the server: found, or made.

use std::borrow::Cow;
use std::sync::{Arc, Weak};

use switchboard_proto::client::Sharing;
use switchboard_proto::exchange::Exchange;
use switchboard_proto::failure::Failure;
use switchboard_proto::jsonrpc::{Member, Message};
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::Era;
use switchboard_proto::server::legacy::Phase;

use super::{Bridge, Children, State, Whose, idle};
use crate::drive::OwnedTask;
use crate::face::{Face, lock};
use crate::upstream::{Eras, Server, Target, Tenant, Upstream};

impl Bridge {
    /// The connection that a call goes by, made if need be; none at the end.
    pub(super) fn upstream_for(
        &self,
        face: &Face,
        whose: Whose,
        eras: Eras,
        request: &Message,
    ) -> Result<Arc<Upstream>, Failure> {
        let mut state = lock(&self.state);
        // A client that was forgotten meanwhile must not get a new connection.
        if state.closed || face.phase() == Some(Phase::Ended) {
            return Err(Failure::CLOSED);
        }
        let greets = request.method() == method::INITIALIZE;
        if greets && self.children == Children::PerRequest {
            state.hellos.insert(face.number(), request.clone());
        }
        if let Some(upstream) = state.connections.get(&whose) {
            upstream.touch();
            return Ok(Arc::clone(upstream));
        }
        state.make_room(whose)?;
        let tenant = self.tenant(&mut state, whose, face)?;
        if whose.is_swept() {
            let sweep = || OwnedTask::spawn(idle::sweep(Weak::clone(&self.this)));
            state.sweeping.get_or_insert_with(sweep);
        }
        let hello = match whose {
            Whose::Call(number, _) if !greets => state.hellos.get(&number).cloned(),
            _ => None,
        };
        let server = self.server_for(face);
        let is_alike = |spare: &mut Arc<Upstream>| spare.passed() == server.passed();
        let fits = eras.clients == Era::Modern || whose == Whose::Everybody;
        let spare = state.waiting.spare.take_if(|spare| fits && is_alike(spare));
        let spare = spare.or_else(|| state.take_warm());
        let upstream = if let Some(spare) = spare {
            spare.turn(eras, whose.sharing());
            spare
        } else {
            let limits = self.limits();
            Upstream::between(server, eras, whose.sharing(), hello, limits)
        };
        if let Some(tenant) = tenant {
            upstream.let_to(tenant);
        }
        if face.is_bare() && whose.sharing() == Sharing::Alone {
            upstream.go_deaf();
        }
        state.connections.insert(whose, Arc::clone(&upstream));
        drop(state);
        self.fill_pool();
        Ok(upstream)
    }

    /// Whom a connection is for; none if it is for everybody.
    fn tenant(
        &self,
        state: &mut State,
        whose: Whose,
        face: &Face,
    ) -> Result<Option<Tenant>, Refusal> {
        if matches!(whose, Whose::Everybody | Whose::All(_)) {
            return Ok(None);
        }
        let who = face.who();
        if !who.is_known() {
            return Err(Refusal::KeyRemoved);
        }
        if !matches!(self.server.target(), Target::Command(_)) {
            return Ok(Some(Tenant::visiting(who)));
        }
        let tenant = Tenant::housed(who, || state.end_unused(whose));
        tenant.map(Some).ok_or(Refusal::TooManyProcesses)
    }

    /// The connections that hear what belongs to no call: those of this client
    /// alone, else the one that it shares with others.
    pub(super) fn hearing(&self, face: &Face, message: &Message) -> Vec<Arc<Upstream>> {
        let whose = if self.children.is_shared() {
            self.whose(face, Exchange(0), message)
        } else {
            Whose::All(face.era())
        };
        let state = lock(&self.state);
        let own = state.connections.iter().filter(|(whose, _)| whose.is_own(face));
        let own: Vec<_> = own.map(|(_, upstream)| Arc::clone(upstream)).collect();
        let shared = state.connections.get(&whose).cloned().filter(|_| own.is_empty());
        drop(state);
        // To a modern server this means that somebody wants to hear of changes.
        let is_vain = message.method() == method::INITIALIZED && face.is_bare();
        let hears = |upstream: &Arc<Upstream>| !is_vain || upstream.era() == Era::Legacy;
        own.into_iter().chain(shared).filter(hears).collect()
    }

    /// The server, as it is reached for this client.
    pub(super) fn server_for(&self, face: &Face) -> Server {
        self.server.passing(self.server.passed_of(face.carried()))
    }

    /// Who goes by the connection that a call goes by.
    pub(super) fn whose(&self, face: &Face, exchange: Exchange, request: &Message) -> Whose {
        if self.is_common() {
            return Whose::Everybody;
        }
        let (eras, passed) = (self.eras(face), self.server.passed_of(face.carried()));
        let whose = self.children.whose(face, exchange, request, eras.server, &passed);
        self.keeper(whose, face, request).unwrap_or(whose)
    }

    /// The connection by which the same caller began the task that a request is
    /// about: its id is enough, whatever the request declares besides.
    fn keeper(&self, whose: Whose, face: &Face, request: &Message) -> Option<Whose> {
        let task = subject(request)?;
        let state = lock(&self.state);
        let has_it = |upstream: &Upstream| upstream.has_task(&task, face.principal());
        if state.connections.get(&whose).is_some_and(|upstream| has_it(upstream)) {
            return None;
        }
        let mut theirs = state.connections.iter().filter(|(other, _)| other.is_alike(whose));
        theirs.find(|(_, upstream)| has_it(upstream)).map(|(other, _)| *other)
    }
}

/// The task that a request is about; of a listen the first.
fn subject(request: &Message) -> Option<Cow<'_, str>> {
    match request.method() {
        method::LISTEN => {
            let tasks: Vec<String> = request.read(Member::ListenTasks)?;
            tasks.into_iter().next().map(Cow::Owned)
        }
        name if name.starts_with("tasks/") => request.task_id(),
        _ => None,
    }
}
