//! Which era the server speaks, found out when it matters.
//!
//! ```text
//!   a legacy client greets ──▶ passed on ──▶ welcome: the same era, nothing to do      (GW-1)
//!                                   └──▶ refused ──▶ asked ──▶ modern: translated
//!                                                      └──▶ not: the refusal passes
//!   a modern client asks ──▶ known? ──▶ the same era, or translated
//!                              └──▶ not: everything waits until the server was asked   (NEG-4)
//! ```

use std::sync::{Arc, Weak};

use switchboard_proto::client::Sharing;
use switchboard_proto::client::probe::{self, Verdict};
use switchboard_proto::exchange::Carrier;
use switchboard_proto::jsonrpc::{Kind, Member, Message};
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::{Era, Revision};

use super::{Bridge, ConnectionKey, Opening};
use crate::connection::lock;
use crate::upstream::{EraFound, Eras, Upstream};

/// What waits until the server's era is known.
#[derive(Default)]
pub(super) struct EraWait {
    pub(super) opens: Vec<Opening>,
    /// The server is being asked, by this connection.
    pub(super) asking: Option<Arc<Upstream>>,
    /// Greetings that the server refused, and that may be made again in its era. No
    /// connection has them meanwhile.
    pub(super) reconsidered: usize,
    /// The connection that it was asked by, for the client that needs one first.
    pub(super) spare: Option<Arc<Upstream>>,
}

impl Bridge {
    /// The answer to a greeting may be about the era: then the client does not get it yet.
    pub(super) fn watch_greeting(
        &self,
        opening: &Opening,
        upstream: &Arc<Upstream>,
        key: ConnectionKey,
    ) {
        let (bridge, upstream) = (Weak::clone(&self.this), Arc::downgrade(upstream));
        let greeting = opening.clone();
        opening.call.set_intercept(move |answer| match (bridge.upgrade(), upstream.upgrade()) {
            (Some(bridge), Some(upstream))
                if (answer.kind() == Kind::Error || names_modern(answer))
                    && !upstream.is_stopped() =>
            {
                bridge.reconsider(greeting, key, upstream, answer.clone());
                true
            }
            _ => false,
        });
    }

    /// Keeps a call until it is known what the server speaks.
    pub(super) fn hold_back(&self, opening: Opening) -> Option<Opening> {
        let mut state = lock(&self.state);
        // Where all share one it is not started twice, and what it speaks is settled.
        let is_unknown = match state.connections.get(&ConnectionKey::Everybody) {
            Some(_) => false,
            None if opening.client.era() == Era::Legacy => state.era.asking.is_some(),
            None => self.server.speaks(Era::Modern).is_none(),
        };
        if !is_unknown {
            return Some(opening);
        }
        if state.closed || state.era.opens.len() >= self.limits().calls {
            drop(state);
            opening.call.finish(Refusal::TooManyCalls);
            return None;
        }
        let this: Weak<Self> = Weak::clone(&self.this);
        if !opening.call.hold(this) {
            return None;
        }
        if state.era.asking.is_none() {
            let (server, limits) = (self.server_for(&opening.client), self.limits());
            let modern = Eras::both(Era::Modern);
            let asking = Upstream::new(server, modern, Sharing::Shared, None, limits);
            state.era.asking = Some(Arc::clone(&asking));
            state.spawn(find_era(Weak::clone(&self.this), asking));
        }
        state.era.opens.push(opening);
        None
    }

    /// A legacy client's greeting was refused: is that because of its era?
    fn reconsider(
        &self,
        greeting: Opening,
        key: ConnectionKey,
        old: Arc<Upstream>,
        answer: Message,
    ) {
        let server = self.server_for(&greeting.client);
        let (modern, limits) = (Eras::both(Era::Modern), self.limits());
        // A child that refused may be gone, or may answer nothing else any more.
        let fresh = Upstream::new(server, modern, key.sharing(), None, limits);
        let bridge = Weak::clone(&self.this);
        let mut state = lock(&self.state);
        state.era.reconsidered += 1;
        state.spawn(async move {
            let is_modern = names_modern(&answer) || fresh.find_era().await == EraFound::Modern;
            let Some(bridge) = bridge.upgrade() else { return fresh.close().await };
            let is_replaced = is_modern && bridge.replace(key, &old, &fresh);
            if is_replaced {
                fresh.open(&greeting.call, false, &greeting.request, &None).detach();
            } else {
                greeting.call.finish(answer);
            }
            lock(&bridge.state).era.reconsidered -= 1;
            bridge.stirred.notify_waiters();
            if is_replaced { old } else { fresh }.close().await;
        });
    }

    /// The server is modern: its client goes by a connection that translates.
    fn replace(&self, key: ConnectionKey, old: &Arc<Upstream>, fresh: &Arc<Upstream>) -> bool {
        tracing::info!(server = fresh.name(), "modern only: translating for legacy clients");
        self.server.learn(Era::Legacy, false);
        self.server.learn(Era::Modern, true);
        fresh.change_eras(Eras { clients: Era::Legacy, server: Era::Modern }, key.sharing());
        let mut state = lock(&self.state);
        let current = state.connections.get_mut(&key).filter(|it| Arc::ptr_eq(it, old));
        current.map(|current| *current = Arc::clone(fresh)).is_some()
    }
}

/// Asks the server, and lets everything go on that waited for it.
async fn find_era(bridge: Weak<Bridge>, asking: Arc<Upstream>) {
    let found = asking.find_era().await;
    let Some(bridge) = bridge.upgrade() else { return asking.close().await };
    // Some take the question for the beginning of a modern conversation, and
    // refuse any other; so a legacy server begins anew (NEG-7). Where all share
    // one it is not started twice, unless it refuses.
    let is_kept = found == EraFound::Modern || found == EraFound::Legacy && bridge.is_common();
    if !is_kept && bridge.is_common() {
        asking.close().await;
    }
    match found {
        EraFound::Modern => bridge.server.learn(Era::Modern, true),
        // It may not have started: if it has, its connection remembers what it speaks.
        EraFound::Silent if bridge.is_common() => bridge.server.guess(Era::Modern, false),
        EraFound::Legacy | EraFound::Silent => {
            tracing::info!(server = asking.name(), "legacy only: translating for modern clients");
            bridge.server.learn(Era::Modern, false);
        }
        // Whatever is the matter, the server may say it itself.
        EraFound::Nothing => bridge.server.guess(Era::Modern, true),
    }
    let opens = {
        let mut state = lock(&bridge.state);
        state.era.asking = None;
        if is_kept && !state.closed {
            state.era.spare = Some(Arc::clone(&asking));
        }
        std::mem::take(&mut state.era.opens)
    };
    for open in opens {
        bridge.connect(open).detach();
    }
    // Perhaps no client needed it: the client has gone, or has a connection.
    let unused = lock(&bridge.state).era.spare.take();
    bridge.stirred.notify_waiters();
    let unused = unused.or_else(|| (!is_kept).then_some(asking));
    if let Some(unused) = unused {
        unused.close().await;
    }
}

/// Whether an answer says that the server is modern: by the versions it names
/// (NEG-2), or by welcoming its client to one that has no greeting (NEG-11).
fn names_modern(answer: &Message) -> bool {
    if answer.kind() == Kind::Result {
        let version = answer.string(Member::ProtocolVersion);
        return version.is_some_and(|name| Revision::names(Era::Modern).contains(&&*name));
    }
    let reply = probe::reply(None, answer);
    matches!(probe::verdict(Carrier::Pipe, &reply), Verdict::Modern(_))
}

#[cfg(test)]
mod tests {
    use switchboard_proto::exchange::Exchange;
    use switchboard_proto::jsonrpc::Id;
    use switchboard_proto::limits::Limits;
    use switchboard_proto::method;

    use super::*;
    use crate::bridge::Children;
    use crate::call::Call;
    use crate::connection::ClientConnection;
    use crate::stdio::child::Command;
    use crate::upstream::ServerTarget;

    /// Else its server is put to sleep between the refusal and the second attempt.
    #[tokio::test(start_paused = true)]
    async fn a_server_whose_refusal_is_being_looked_into_is_in_use() {
        let server = ServerTarget::command(Command::new("sleep").args(["1000"]), Vec::new());
        let bridge = Bridge::new(server.clone(), Children::PerSession, Arc::default());
        let backend: Arc<Bridge> = Arc::clone(&bridge);
        let limits = Arc::new(Limits::default());
        let client = ClientConnection::new(Era::Legacy, Carrier::Http, backend, &limits, false);
        let call = Call::new(Arc::<ClientConnection>::clone(&client), Exchange(1));
        let request = Message::request(&1.into(), method::INITIALIZE, None);
        let greeting = Opening { client, call, request, said: None };
        let old = Upstream::new(server, Eras::both(Era::Legacy), Sharing::Alone, None, limits);
        let refusal = Message::refusal(Some(&Id::from(1)), &Refusal::TooManyCalls);
        assert!(lock(&bridge.state).is_quiet());
        bridge.reconsider(greeting, ConnectionKey::Everybody, old, refusal);
        assert!(!lock(&bridge.state).is_quiet());
        bridge.close().await;
        assert!(lock(&bridge.state).is_quiet(), "it was looked into");
    }
}
