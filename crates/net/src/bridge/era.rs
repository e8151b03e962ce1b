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
use switchboard_proto::exchange::{Carrier, Exchange, Up};
use switchboard_proto::jsonrpc::{Kind, Message};
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::{Era, Revision};

use super::going::{self, Going};
use super::{Bridge, Caller, Whose, hide};
use crate::face::{Face, lock};
use crate::upstream::{Before, Eras, Found, Passing, Recipient, Seat, Upstream};

/// What waits until the server's era is known.
#[derive(Default)]
pub(super) struct Waiting {
    opens: Vec<(Caller, Up)>,
    /// Calls that have waited, and are being made.
    going: Going,
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
        self.opens.len() + self.going.len()
    }

    pub(super) fn forget(&mut self, face: &Face) {
        self.opens.retain(|(theirs, _)| theirs.face.number() != face.number());
    }
}

impl Bridge {
    /// Who speaks what, when this client calls.
    pub(super) fn eras(&self, face: &Face) -> Eras {
        let clients = face.era();
        let is_other = self.server.speaks(clients) == Some(false);
        let server = if is_other { other(clients) } else { clients };
        if self.is_common() {
            // Clients of that era pass by the layer.
            let server = self.common_era().unwrap_or(server);
            return Eras { clients: other(server), server };
        }
        Eras { clients, server }
    }

    /// Whose a call is. The answer to a greeting may be about the era.
    pub(super) fn seat(
        &self,
        caller: &Caller,
        exchange: Exchange,
        upstream: &Arc<Upstream>,
        whose: Whose,
        request: &Message,
    ) -> Seat {
        let Caller { face, owner, hears, is_aside } = caller;
        let is_new = !Arc::ptr_eq(owner, hears) && face.era() == Era::Legacy;
        // Who watches over the server must hear of its end.
        if is_new || *is_aside && self.is_common() {
            upstream.attach(hears);
        }
        let is_native = face.era() == upstream.era();
        let owner = if request.method() == method::INITIALIZE && upstream.era() == Era::Legacy {
            upstream.attach(owner);
            let (caller, request) = (caller.clone(), request.clone());
            let greeting = Greeting { caller, request, exchange, whose };
            Greeter::before(self, upstream, greeting)
        } else {
            hide::owner(&self.hidden, caller, upstream, request)
        };
        Seat { owner, exchange, is_native, is_aside: *is_aside }
    }

    /// Keeps a modern client's call until it is known what the server speaks.
    pub(super) fn hold_back(&self, caller: &Caller, verb: Up) -> Option<Up> {
        let Caller { face, owner, .. } = caller;
        let is_common = self.is_common();
        if face.era() == Era::Legacy && !is_common {
            return Some(verb);
        }
        let mut state = lock(&self.state);
        // Where all share one it is not started twice, and what it speaks is settled.
        let is_unknown = match state.connections.get(&Whose::Everybody) {
            Some(_) => false,
            None if face.era() == Era::Legacy => state.waiting.asking.is_some(),
            None => self.server.speaks(Era::Modern).is_none(),
        };
        match &verb {
            Up::Drop { exchange: dropped, .. } => {
                let before = state.waiting.opens.len();
                state.waiting.opens.retain(|(theirs, open)| {
                    let is_it = matches!(open, Up::Open { exchange, .. } if exchange == dropped);
                    !(is_it && theirs.face.number() == face.number())
                });
                let was_waiting = state.waiting.opens.len() < before;
                let verb = state.waiting.going.keep((caller.clone(), verb));
                verb.filter(|_| !was_waiting).map(|(_, verb)| verb)
            }
            Up::Open { exchange, .. } if is_unknown => {
                if state.closed || state.waiting.opens.len() >= self.limits().calls {
                    drop(state);
                    owner.finish(*exchange, &Message::refusal(None, &Refusal::TooManyCalls));
                    return None;
                }
                state.waiting.opens.push((caller.clone(), verb));
                if state.waiting.asking.is_none() {
                    let limits = self.limits();
                    let sharing = Sharing::Shared;
                    let server = self.server_for(face);
                    let asking = Upstream::new(server, Era::Modern, sharing, None, limits);
                    state.waiting.asking = Some(Arc::clone(&asking));
                    let bridge = Weak::clone(&self.this);
                    state.close(async move { settle(&bridge, asking).await });
                }
                None
            }
            _ => Some(verb),
        }
    }

    /// A legacy client's greeting was refused: is that because of its era?
    fn reconsider(&self, greeting: Greeting, old: Arc<Upstream>, answer: Message) {
        let server = self.server_for(&greeting.caller.face);
        let limits = self.limits();
        let sharing = greeting.whose.sharing();
        // A child that refused may be gone, or may answer nothing else any more.
        let fresh = Upstream::new(server, Era::Modern, sharing, None, limits);
        let bridge = Weak::clone(&self.this);
        lock(&self.state).close(async move {
            let found = if names_modern(&answer) { Found::Modern } else { fresh.find_era().await };
            let Some(bridge) = bridge.upgrade() else { return fresh.close().await };
            if found == Found::Modern && bridge.replace(&greeting, &old, &fresh) {
                let Greeting { caller, request, exchange, .. } = greeting;
                let is_aside = caller.is_aside;
                let seat = Seat { owner: caller.owner, exchange, is_native: false, is_aside };
                fresh.open(seat, &request, &None).detach();
                old.close().await;
            } else {
                greeting.caller.owner.finish(greeting.exchange, &answer);
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
        Found::Modern => bridge.server.learn(Era::Modern, true),
        // It may not have started: if it has, its connection remembers what it speaks.
        Found::Silent if bridge.is_common() => bridge.server.guess(Era::Modern, false),
        Found::Legacy | Found::Silent | Found::Old => {
            tracing::info!(server = asking.name(), "legacy only: translating for modern clients");
            bridge.server.learn(Era::Modern, false);
        }
        // Whatever is the matter, the server may say it itself.
        Found::Nothing => bridge.server.guess(Era::Modern, true),
    }
    // Some take the question for the beginning of a modern conversation, and
    // refuse any other; so a legacy server begins anew (NEG-7). Where all share
    // one it is not started twice, unless it refuses (see `common.rs`).
    let is_kept = found == Found::Modern || found == Found::Legacy && bridge.is_common();
    if !is_kept && bridge.is_common() {
        asking.close().await;
    }
    let opens = {
        let mut state = lock(&bridge.state);
        state.waiting.asking = None;
        if is_kept && !state.closed {
            state.waiting.spare = Some(Arc::clone(&asking));
        }
        let opens = std::mem::take(&mut state.waiting.opens);
        for open in &opens {
            state.waiting.going.begin(open);
        }
        opens
    };
    for open in opens {
        let key = going::key(&open);
        let (caller, verb) = open;
        bridge.pass_on(&caller, verb).detach();
        let dropped = lock(&bridge.state).waiting.going.end(key);
        if let Some((caller, verb)) = dropped {
            bridge.pass_on(&caller, verb).detach();
        }
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
#[derive(Clone, Debug)]
struct Greeting {
    caller: Caller,
    request: Message,
    exchange: Exchange,
    whose: Whose,
}

/// Waits for the answer to a greeting in place of its client.
#[derive(Debug)]
struct Greeter {
    greeting: Greeting,
    bridge: Weak<Bridge>,
    upstream: Weak<Upstream>,
}

impl Greeter {
    fn before(bridge: &Bridge, upstream: &Arc<Upstream>, greeting: Greeting) -> Arc<dyn Recipient> {
        let (bridge, upstream) = (Weak::clone(&bridge.this), Arc::downgrade(upstream));
        Arc::new(Passing(Self { greeting, bridge, upstream }))
    }
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

/// Whether an answer may be about the era: of refusals, only the server's own words are.
fn may_be_era(answer: &Message) -> bool {
    let is_refused = answer.kind() == Kind::Error && answer.id().is_some();
    is_refused || names_modern(answer)
}

impl Before for Greeter {
    fn owner(&self) -> &Arc<dyn Recipient> {
        &self.greeting.caller.owner
    }

    fn finish(&self, exchange: Exchange, answer: &Message) {
        match (self.bridge.upgrade(), self.upstream.upgrade()) {
            (Some(bridge), Some(upstream)) if may_be_era(answer) && !upstream.is_stopped() => {
                bridge.reconsider(self.greeting.clone(), upstream, answer.clone());
            }
            _ => self.greeting.caller.owner.finish(exchange, answer),
        }
    }
}
