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
use switchboard_proto::jsonrpc::{Kind, Message};
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::{Era, Revision};

use super::{Bridge, ConnectionKey, Hidden, Opening};
use crate::call::Call;
use crate::connection::{ClientConnection, lock};
use crate::upstream::{EraFound, Eras, Upstream};

/// What waits until the server's era is known.
#[derive(Default)]
pub(super) struct Waiting {
    opens: Vec<Opening>,
    /// The server is being asked, by this connection.
    pub(super) asking: Option<Arc<Upstream>>,
    /// The connection that it was asked by, for whoever needs one first.
    pub(super) spare: Option<Arc<Upstream>>,
}

impl Waiting {
    /// Whether nobody waits, and the server is not being asked.
    pub(super) fn is_quiet(&self) -> bool {
        self.calls() == 0 && self.asking.is_none()
    }

    pub(super) fn calls(&self) -> usize {
        self.opens.len()
    }

    /// A call is not wanted any more.
    pub(super) fn remove(&mut self, call: &Call) {
        self.opens.retain(|open| open.call != *call);
    }

    pub(super) fn forget(&mut self, client: &ClientConnection) {
        self.opens.retain(|open| open.client.number() != client.number());
    }
}

impl Bridge {
    /// Who speaks what, when this client calls.
    pub(super) fn eras(&self, client: &ClientConnection) -> Eras {
        let clients = client.era();
        let is_other = self.server.speaks(clients) == Some(false);
        let server = if is_other { other(clients) } else { clients };
        if self.is_common() {
            // Clients of that era pass by the layer.
            let server = self.common_era().unwrap_or(server);
            return Eras { clients: other(server), server };
        }
        Eras { clients, server }
    }

    /// What must be known of the answer before its client has it: that to a greeting
    /// may be about the era, and that to a list may name tools that are hidden.
    pub(super) fn prepare(
        &self,
        opening: &Opening,
        upstream: &Arc<Upstream>,
        whose: ConnectionKey,
    ) {
        let call = &opening.call;
        // The supervisor must hear of the server's end.
        if call.is_internal() && self.is_common() {
            upstream.attach(&call.listener());
        }
        if opening.request.method() == method::INITIALIZE && upstream.era() == Era::Legacy {
            let (bridge, upstream) = (Weak::clone(&self.this), Arc::downgrade(upstream));
            let greeting = Greeting { opening: opening.clone(), whose };
            call.set_intercept(move |answer| match (bridge.upgrade(), upstream.upgrade()) {
                (Some(bridge), Some(upstream)) if may_be_era(answer) && !upstream.is_stopped() => {
                    bridge.reconsider(greeting, upstream, answer.clone());
                    true
                }
                _ => false,
            });
        } else if self.hidden.concerns(&opening.request) {
            call.set_rewrite(Arc::<Hidden>::clone(&self.hidden));
        }
    }

    /// Keeps a modern client's call until it is known what the server speaks.
    pub(super) fn hold_back(&self, opening: Opening) -> Option<Opening> {
        let era = opening.client.era();
        if era == Era::Legacy && !self.is_common() {
            return Some(opening);
        }
        let mut state = lock(&self.state);
        // Where all share one it is not started twice, and what it speaks is settled.
        let is_unknown = match state.connections.get(&ConnectionKey::Everybody) {
            Some(_) => false,
            None if era == Era::Legacy => state.waiting.asking.is_some(),
            None => self.server.speaks(Era::Modern).is_none(),
        };
        if !is_unknown {
            return Some(opening);
        }
        if state.closed || state.waiting.opens.len() >= self.limits().calls {
            drop(state);
            opening.call.finish(Refusal::TooManyCalls);
            return None;
        }
        let this: Weak<Self> = Weak::clone(&self.this);
        if !opening.call.hold(this) {
            return None;
        }
        if state.waiting.asking.is_none() {
            let server = self.server_for(&opening.client);
            let asking = Upstream::new(
                server,
                Eras::both(Era::Modern),
                Sharing::Shared,
                None,
                self.limits(),
            );
            state.waiting.asking = Some(Arc::clone(&asking));
            let bridge = Weak::clone(&self.this);
            state.close(async move { settle(&bridge, asking).await });
        }
        state.waiting.opens.push(opening);
        None
    }

    /// A legacy client's greeting was refused: is that because of its era?
    fn reconsider(&self, greeting: Greeting, old: Arc<Upstream>, answer: Message) {
        let server = self.server_for(&greeting.opening.client);
        let limits = self.limits();
        let sharing = greeting.whose.sharing();
        // A child that refused may be gone, or may answer nothing else any more.
        let fresh = Upstream::new(server, Eras::both(Era::Modern), sharing, None, limits);
        let bridge = Weak::clone(&self.this);
        lock(&self.state).close(async move {
            let found =
                if names_modern(&answer) { EraFound::Modern } else { fresh.find_era().await };
            let Some(bridge) = bridge.upgrade() else { return fresh.close().await };
            if found == EraFound::Modern && bridge.replace(&greeting, &old, &fresh) {
                let Opening { call, request, .. } = greeting.opening;
                fresh.open(&call, false, &request, &None).detach();
                old.close().await;
            } else {
                greeting.opening.call.finish(answer);
                fresh.close().await;
            }
        });
    }

    /// The server is modern: its client goes by a connection that translates.
    fn replace(&self, greeting: &Greeting, old: &Arc<Upstream>, fresh: &Arc<Upstream>) -> bool {
        tracing::info!(server = fresh.name(), "modern only: translating for legacy clients");
        self.server.learn(Era::Legacy, false);
        self.server.learn(Era::Modern, true);
        let eras = Eras { clients: Era::Legacy, server: Era::Modern };
        fresh.turn(eras, greeting.whose.sharing());
        let mut state = lock(&self.state);
        let current = state.connections.get_mut(&greeting.whose);
        match current.filter(|current| Arc::ptr_eq(current, old)) {
            Some(current) => {
                *current = Arc::clone(fresh);
                true
            }
            None => false,
        }
    }
}

fn other(era: Era) -> Era {
    match era {
        Era::Legacy => Era::Modern,
        Era::Modern => Era::Legacy,
    }
}

/// Asks the server, and lets everything go on that waited for it.
async fn settle(bridge: &Weak<Bridge>, asking: Arc<Upstream>) {
    let found = asking.find_era().await;
    let Some(bridge) = bridge.upgrade() else { return asking.close().await };
    match found {
        EraFound::Modern => bridge.server.learn(Era::Modern, true),
        // It may not have started: if it has, its connection remembers what it speaks.
        EraFound::Silent if bridge.is_common() => bridge.server.guess(Era::Modern, false),
        EraFound::Legacy | EraFound::Silent | EraFound::Sse => {
            tracing::info!(server = asking.name(), "legacy only: translating for modern clients");
            bridge.server.learn(Era::Modern, false);
        }
        // Whatever is the matter, the server may say it itself.
        EraFound::Nothing => bridge.server.guess(Era::Modern, true),
    }
    // Some take the question for the beginning of a modern conversation, and
    // refuse any other; so a legacy server begins anew (NEG-7). Where all share
    // one it is not started twice, unless it refuses (see `common.rs`).
    let is_kept = found == EraFound::Modern || found == EraFound::Legacy && bridge.is_common();
    if !is_kept && bridge.is_common() {
        asking.close().await;
    }
    let opens = {
        let mut state = lock(&bridge.state);
        state.waiting.asking = None;
        if is_kept && !state.closed {
            state.waiting.spare = Some(Arc::clone(&asking));
        }
        std::mem::take(&mut state.waiting.opens)
    };
    for open in opens {
        bridge.connect(&open).detach();
    }
    let unused = {
        let mut state = lock(&bridge.state);
        // Nobody may have needed it: its client has gone, or has a connection.
        state.waiting.spare.take()
    };
    bridge.stirred.notify_waiters();
    let unused = unused.or_else(|| (!is_kept).then_some(asking));
    if let Some(unused) = unused {
        unused.close().await;
    }
}

/// A greeting on its way.
struct Greeting {
    opening: Opening,
    whose: ConnectionKey,
}

/// Whether an answer says that the server is modern: by the versions it names
/// (NEG-2), or by welcoming its client to one that has no greeting (NEG-11).
fn names_modern(answer: &Message) -> bool {
    if answer.kind() == Kind::Result {
        let version = answer.protocol_version();
        return version.is_some_and(|name| Revision::names(Era::Modern).contains(&&*name));
    }
    let reply = probe::reply(None, answer);
    matches!(probe::verdict(Carrier::Pipe, &reply), Verdict::Modern(_))
}

/// Whether an answer may be about the era.
fn may_be_era(answer: &Message) -> bool {
    answer.kind() == Kind::Error || names_modern(answer)
}
