//! Which era a server speaks: how it is asked, how long the answer is remembered (NEG-9),
//! and pings that keep a quiet legacy session.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant, SystemTime};

use serde_json::json;
use switchboard_proto::client::legacy::LegacyClientHalf;
use switchboard_proto::client::modern::ModernClientHalf;
use switchboard_proto::client::probe::{self, ProbeReply, Verdict};
use switchboard_proto::client::to_legacy::ToLegacy;
use switchboard_proto::client::to_modern::ToModern;
use switchboard_proto::client::{ClientHalf, Sharing};
use switchboard_proto::exchange::{Ask, Carrier, Exchange};
use switchboard_proto::failure::Outcome;
use switchboard_proto::jsonrpc::{Id, Message};
use switchboard_proto::limits::Limits;
use switchboard_proto::method;
use switchboard_proto::revision::Era;
use tokio::sync::oneshot;

use super::{ServerTarget, Strategy, Target, Transport, Upstream};
use crate::call::{Asker, Call, ReplySink};
use crate::connection::{lock, next_number, now};

/// Numbers the connections, so that no two use the same number for a question.
static CONNECTIONS: AtomicU64 = AtomicU64::new(1);

/// How long a child may think about its era. Most that do not know the question say so at once.
const CHILD_WAIT: Duration = Duration::from_secs(5);

/// The same for an endpoint.
const HTTP_WAIT: Duration = Duration::from_secs(30);

/// Who speaks what.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Eras {
    pub(crate) clients: Era,
    pub(crate) server: Era,
}

/// What a server turned out to be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Found {
    Modern,
    Legacy,
    /// Legacy, and behind the transport of the first revision.
    Old,
    /// Legacy, as far as silence or its end tells: begin anew with it (NEG-7).
    Silent,
    /// It could not be found out now.
    Nothing,
}

impl Eras {
    pub(crate) fn both(era: Era) -> Self {
        Self { clients: era, server: era }
    }

    /// The half for this pair.
    pub(super) fn half(
        self,
        transport: Transport,
        sharing: Sharing,
        hello: Option<Message>,
        limits: &Limits,
    ) -> ClientHalf<Call> {
        let first_ask = CONNECTIONS.fetch_add(1, Ordering::Relaxed) << 32;
        let carrier = if transport == Transport::Pipe { Carrier::Pipe } else { Carrier::Http };
        match (self.clients, self.server) {
            (Era::Legacy, Era::Legacy) => {
                let half = LegacyClientHalf::new(sharing, limits).asking_from(first_ask);
                ClientHalf::Legacy(Box::new(match hello {
                    Some(hello) => half.greeted_with(hello),
                    None => half,
                }))
            }
            (Era::Modern, Era::Modern) => {
                ClientHalf::Modern(Box::new(ModernClientHalf::new(carrier, sharing, limits)))
            }
            (Era::Legacy, Era::Modern) => {
                let half = ToModern::new(carrier, sharing, limits)
                    .asking_from(first_ask)
                    .knowing_time(now(), SystemTime::now());
                ClientHalf::ToModern(Box::new(match &hello {
                    Some(hello) => half.greeted_with(hello),
                    None => half,
                }))
            }
            (Era::Modern, Era::Legacy) => {
                let half = ToLegacy::new(carrier, sharing, limits).asking_from(first_ask);
                ClientHalf::ToLegacy(Box::new(half))
            }
        }
    }
}

impl Upstream {
    /// From here on clients of one era are served, and the server is spoken to
    /// in the other or the same, by the link that is there. Nothing may be open.
    pub(crate) fn turn(&self, eras: Eras, sharing: Sharing) {
        let mut core = lock(&self.core);
        core.transport = self.server.first_road(eras.server);
        core.half = eras.half(core.transport, sharing, None, &self.limits);
        self.modern.store(eras.server == Era::Modern, Ordering::Relaxed);
        self.shared.store(sharing == Sharing::Shared, Ordering::Relaxed);
    }

    /// The server does not know the era it was asked in: from here on it is
    /// spoken to in the other, on the same pipe. Nothing may be open.
    pub(crate) fn turn_legacy(&self) {
        self.turn(Eras::both(Era::Legacy), self.sharing());
    }

    /// Whether one client or several stand behind its calls.
    pub(super) fn sharing(&self) -> Sharing {
        if self.shared.load(Ordering::Relaxed) { Sharing::Shared } else { Sharing::Alone }
    }

    /// Says whether it is asked for its era only. Of an attempt whose first child
    /// does not survive that question, only the second counts as one that broke.
    pub(crate) fn scout(&self, scouts: bool) {
        self.scouts.store(scouts, Ordering::Relaxed);
    }

    pub(super) fn scouts(&self) -> bool {
        self.scouts.load(Ordering::Relaxed)
    }

    /// Asks the server which era it speaks. Say [`turn`](Self::turn) when it is known.
    pub(crate) async fn find_era(self: &Arc<Self>) -> Found {
        let question = probe::question(&Id::from(1), &whoami());
        match self.server.target() {
            Target::Command(_) => self.ask_child(&question).await,
            // The older transport has no modern servers.
            Target::Url { strategy: Strategy::SseOnly, .. } => Found::Legacy,
            Target::Url { .. } => {
                let asking = tokio::time::timeout(HTTP_WAIT, self.probe(&question));
                match self.stop.until(asking).await {
                    Some(Ok(probed)) if probed.is_old => Found::Old,
                    Some(Ok(probed)) => found(Carrier::Http, &probed.reply),
                    _ => Found::Nothing,
                }
            }
        }
    }

    async fn ask_child(self: &Arc<Self>, question: &Message) -> Found {
        self.turn(Eras::both(Era::Modern), self.sharing());
        self.scout(true);
        let (scout, told) = Scout::new();
        let call = Call::new(scout, Exchange(1));
        self.open(&call, true, question, &None).detach();
        let waiting = tokio::time::timeout(CHILD_WAIT, told);
        let reply = match self.stop.until(waiting).await {
            None => return Found::Nothing,
            Some(Err(_)) => ProbeReply::Silence,
            Some(Ok(Ok(Outcome::Answered(answer)))) => probe::reply(None, &answer),
            Some(Ok(_)) => ProbeReply::Broken,
        };
        self.scout(false);
        call.cancel(None).detach();
        match reply {
            ProbeReply::Silence | ProbeReply::Broken => Found::Silent,
            reply => found(Carrier::Pipe, &reply),
        }
    }
}

fn found(carrier: Carrier, reply: &ProbeReply) -> Found {
    match probe::verdict(carrier, reply) {
        Verdict::Modern(_) => Found::Modern,
        Verdict::Legacy => Found::Legacy,
        Verdict::Undecided | Verdict::Unusable => Found::Nothing,
    }
}

fn whoami() -> serde_json::Value {
    json!({"name": "switchboard", "version": env!("CARGO_PKG_VERSION")})
}

/// Waits for one answer.
#[derive(Debug)]
pub(super) struct Scout {
    number: u64,
    tell: Mutex<Option<oneshot::Sender<Outcome>>>,
}

impl Scout {
    /// One, and where its answer arrives.
    pub(super) fn new() -> (Arc<Self>, oneshot::Receiver<Outcome>) {
        let (tell, told) = oneshot::channel();
        (Arc::new(Self { number: next_number(), tell: Mutex::new(Some(tell)) }), told)
    }
}

impl ReplySink for Scout {
    fn number(&self) -> u64 {
        self.number
    }

    fn principal(&self) -> &[u8] {
        b""
    }

    fn note(&self, _exchange: Option<Exchange>, _message: &Message) {}

    fn ask(
        self: Arc<Self>,
        _of: Option<Exchange>,
        _asker: Weak<dyn Asker>,
        _ask: Ask,
        _request: &Message,
    ) -> bool {
        false
    }

    fn recall(&self, _ask: Ask, _message: &Message) {}

    fn finish(&self, _exchange: Exchange, outcome: Outcome) {
        if let Some(tell) = lock(&self.tell).take() {
            // Who does not wait any more need not know.
            _ = tell.send(outcome);
        }
    }
}

/// What is known of one server.
#[derive(Default)]
pub(super) struct Known {
    eras: Mutex<KnownEras>,
}

#[derive(Default)]
struct KnownEras {
    legacy: Option<(bool, Instant)>,
    modern: Option<(bool, Instant)>,
}

/// How long an endpoint is taken for what it was: it may be replaced.
const ENDPOINT: Duration = Duration::from_mins(10);

/// The same for a command, which is what it is until it is installed anew.
const COMMAND: Duration = Duration::from_hours(24);

/// How long the user's word holds.
const FOR_GOOD: Duration = Duration::from_hours(24 * 365);

/// How long a guess holds that was made because nothing could be found out.
const GUESSED: Duration = Duration::from_secs(2);

impl Known {
    fn assume(&self, era: Era, speaks: bool, time: Duration) {
        let mut eras = lock(&self.eras);
        let known = if era == Era::Modern { &mut eras.modern } else { &mut eras.legacy };
        *known = Some((speaks, now() + time));
    }
}

impl ServerTarget {
    /// The same server, of which it is known that it speaks this era: it is not asked.
    #[must_use]
    pub fn speaking(self, era: Era) -> Self {
        self.known().assume(era, true, FOR_GOOD);
        self
    }

    /// Whether it speaks an era, if that is known.
    pub(crate) fn speaks(&self, era: Era) -> Option<bool> {
        let eras = lock(&self.known().eras);
        let known = if era == Era::Modern { eras.modern } else { eras.legacy };
        known.filter(|(_, until)| *until > now()).map(|(speaks, _)| speaks)
    }

    /// Remembers that it speaks an era, or does not.
    pub(crate) fn learn(&self, era: Era, speaks: bool) {
        let is_command = matches!(self.target(), Target::Command(_));
        self.known().assume(era, speaks, if is_command { COMMAND } else { ENDPOINT });
    }

    /// Takes it to speak an era for now, or not to.
    pub(crate) fn guess(&self, era: Era, speaks: bool) {
        self.known().assume(era, speaks, GUESSED);
    }
}

/// Nothing else counts as idle while a ping is open, so none is open for long.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// Sends pings until told to stop.
pub(super) async fn send_pings(up: Arc<Upstream>) {
    while up.stop.sleep(up.limits.ping).await {
        if up.may_ping() {
            up.ping().await;
        }
    }
}

impl Upstream {
    /// Whether somebody wants pings to be sent to such a server.
    pub(super) fn wants_pings(&self) -> bool {
        !self.limits.ping.is_zero() && matches!(self.server.target(), Target::Url { .. })
    }

    /// Modern servers have no sessions, and no such method.
    fn may_ping(&self) -> bool {
        let half = &lock(&self.core).half;
        matches!(half, ClientHalf::Legacy(_)) && !half.is_greeting() && half.calls() == 0
    }

    async fn ping(self: &Arc<Self>) {
        let (scout, told) = Scout::new();
        let call = Call::new(scout, Exchange(1));
        let ping = Message::request(&Id::from(1), method::PING, None);
        // Not by `open`: a ping is no use of the connection.
        self.begin(&call, &ping, &None).detach();
        _ = self.stop.until(tokio::time::timeout(ANSWER_WAIT, told)).await;
        call.cancel(None).detach();
    }
}
