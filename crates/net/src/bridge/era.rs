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
        lock(&self.state).spawn(async move {
            let is_modern = names_modern(&answer) || fresh.find_era().await == EraFound::Modern;
            let Some(bridge) = bridge.upgrade() else { return fresh.close().await };
            if is_modern && bridge.replace(key, &old, &fresh) {
                fresh.open(&greeting.call, false, &greeting.request, &None).detach();
                old.close().await;
            } else {
                greeting.call.finish(answer);
                fresh.close().await;
            }
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
    // Some take the question for the beginning of a modern conversation, and
    // refuse any other; so a legacy server begins anew (NEG-7). Where all share
    // one it is not started twice, unless it refuses.
    let is_kept = found == EraFound::Modern || found == EraFound::Legacy && bridge.is_common();
    if !is_kept && bridge.is_common() {
        asking.close().await;
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
        bridge.connect(&open).detach();
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
