//! Which era a server speaks: how it is asked, and how long the answer is remembered (NEG-9).
//! `bridge/era.rs` says when a bridge asks, and what waits meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use serde_json::json;
use switchboard_proto::client::legacy::LegacyClientHalf;
use switchboard_proto::client::modern::ModernClientHalf;
use switchboard_proto::client::probe::{self, ProbeReply, Verdict};
use switchboard_proto::client::to_legacy::ToLegacy;
use switchboard_proto::client::to_modern::ToModern;
use switchboard_proto::client::{ClientHalf, Sharing};
use switchboard_proto::exchange::{Carrier, Exchange};
use switchboard_proto::failure::{Failure, Outcome};
use switchboard_proto::framing::EventDecoder;
use switchboard_proto::header::Mirror;
use switchboard_proto::jsonrpc::{self, Id, Message};
use switchboard_proto::limits::Limits;
use switchboard_proto::revision::{Era, Revision};
use tokio::sync::oneshot;

use super::http::{HttpEndpoint, HttpRefusal, HttpSession};
use super::{ServerTarget, Strategy, Target, Transport, Upstream};
use crate::call::{Call, ReplySink};
use crate::connection::{ClientConnection, lock, next_number};
use crate::drive::{Either, now, race};
use crate::http::fetch::FetchBody;
use crate::http::{content_type, is_event_stream, is_json};

/// Numbers the connections, so that no two use the same number for a question.
static CONNECTIONS: AtomicU64 = AtomicU64::new(1);

/// How long a child may think about its era. Most that do not know the question say so at once.
const CHILD_WAIT: Duration = Duration::from_secs(5);

/// The same for an endpoint.
const HTTP_WAIT: Duration = Duration::from_secs(30);

/// The era of the clients, and that of the server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Eras {
    pub(crate) clients: Era,
    pub(crate) server: Era,
}

/// What a server turned out to be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum EraFound {
    Modern,
    Legacy,
    /// Legacy, as far as silence or its end tells: begin anew with it (NEG-7).
    Silent,
    /// It could not be found out now.
    Nothing,
    /// Whoever it was asked for has to sign in first: that says nothing about the server.
    NotSignedIn(Failure),
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

/// What came of the question which era a server speaks.
pub(crate) struct Probed {
    pub(crate) reply: ProbeReply,
    /// The answer, if it is one.
    pub(crate) answer: Option<Message>,
    /// What came is the stream of an HTTP+SSE server.
    pub(crate) is_sse: bool,
    /// Why there is no answer, for a caller that cannot go on.
    pub(crate) failure: Option<Failure>,
}

impl Probed {
    fn failed(reply: ProbeReply, failure: Failure) -> Self {
        Self { reply, answer: None, is_sse: false, failure: Some(failure) }
    }
}

impl Upstream {
    /// From here on clients of one era are served, and the server is spoken to
    /// in the other or the same, on the pipe that is there. Nothing may be open.
    pub(crate) fn change_eras(&self, eras: Eras, sharing: Sharing) {
        let mut core = lock(&self.core);
        core.transport = self.server.first_transport(eras.server);
        core.half = eras.half(core.transport, sharing, None, &self.limits);
        core.sharing = sharing;
        self.modern.store(eras.server == Era::Modern, Ordering::Relaxed);
    }

    /// Asks the server which era it speaks. Say [`change_eras`](Self::change_eras) when it is known.
    pub(crate) async fn find_era(self: &Arc<Self>) -> EraFound {
        let us = json!({"name": "switchboard", "version": env!("CARGO_PKG_VERSION")});
        let question = probe::question(&Id::from(1), &us);
        let (carrier, time) = match self.server.target() {
            Target::Command(_) => (Carrier::Pipe, CHILD_WAIT),
            // The older transport has no modern servers.
            Target::Url { strategy: Strategy::SseOnly, .. } => return EraFound::Legacy,
            Target::Url { .. } => (Carrier::Http, HTTP_WAIT),
        };
        let Some(probed) = self.stop.until(self.probe(&question, time, true)).await else {
            return EraFound::Nothing;
        };
        if let Some(why) = probed.failure.filter(Failure::is_sign_in) {
            return EraFound::NotSignedIn(why);
        }
        match (probe::verdict(carrier, &probed.reply), &probed.answer) {
            _ if probed.is_sse => EraFound::Legacy,
            (Verdict::Legacy, None) if carrier == Carrier::Pipe => EraFound::Silent,
            (Verdict::Modern(_), _) => EraFound::Modern,
            (Verdict::Legacy, _) => EraFound::Legacy,
            (Verdict::Undecided | Verdict::Unusable, _) => EraFound::Nothing,
        }
    }

    /// Asks the server which era it speaks, for so long. Of an attempt whose first child
    /// does not survive that question, only the second counts as one that broke, if there
    /// `may_be_second`.
    pub(crate) async fn probe(
        self: &Arc<Self>,
        question: &Message,
        time: Duration,
        may_be_second: bool,
    ) -> Probed {
        let (waiter, answer) = AnswerWaiter::new();
        let call = Call::new(waiter, Exchange(1));
        let asking = async {
            if let Some(endpoint) = &self.http {
                return self.probe_endpoint(endpoint, question).await;
            }
            self.probes_era.store(may_be_second, Ordering::Relaxed);
            self.open(&call, true, question, &None).detach();
            match answer.await {
                Ok(Outcome::Answered(answer)) => {
                    let reply = probe::reply(None, &answer);
                    Probed { reply, answer: Some(answer), is_sse: false, failure: None }
                }
                Ok(Outcome::Failed(why)) => Probed::failed(ProbeReply::Broken, why),
                Err(_) => Probed::failed(ProbeReply::Broken, Failure::CLOSED),
            }
        };
        let probed = self.without_sign_in(time, asking).await;
        self.probes_era.store(false, Ordering::Relaxed);
        call.cancel(None).detach();
        let late = || Probed::failed(ProbeReply::Silence, Failure::Timeout { waited: time });
        probed.unwrap_or_else(late)
    }

    /// Waits for `work`, for so long. While a person is asked to sign in the time does not
    /// run, and afterwards it begins anew: what was refused is asked again (OC-13).
    pub(super) async fn without_sign_in<T>(
        &self,
        time: Duration,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let mut work = Box::pin(work);
        let Some(mut asked) = self.server.person_asked() else {
            return tokio::time::timeout(time, work).await.ok();
        };
        loop {
            let asking = async { asked.wait_for(Option::is_some).await.is_ok() };
            match race(&mut work, tokio::time::timeout(time, asking)).await {
                Either::Left(done) => return Some(done),
                Either::Right(Ok(true)) => {}
                Either::Right(_) => return None,
            }
            let answered = async { asked.wait_for(Option::is_none).await.is_ok() };
            if let Either::Left(done) = race(&mut work, answered).await {
                return Some(done);
            }
        }
    }

    async fn probe_endpoint(&self, endpoint: &HttpEndpoint, question: &Message) -> Probed {
        let question = self.declaring(question.clone());
        let asking = self.send(endpoint, &endpoint.url, false, |endpoint| {
            let mut request = endpoint.post_request(question.text(), &HttpSession::default(), &[]);
            let version = Revision::NEWEST_MODERN.as_str();
            Mirror { version, method: question.method(), name: None }.write(request.headers_mut());
            request
        });
        let response = match asking.await {
            Ok(response) => response,
            Err(why) => return Probed::failed(ProbeReply::Broken, why),
        };
        let code = response.status().as_u16();
        let media = content_type(response.headers()).unwrap_or_default();
        let (answer, is_sse, failure) = if response.status().is_success() {
            let is_other = !is_json(media) && !is_event_stream(media);
            let other: Option<Box<str>> = is_other.then(|| media.into());
            let (answer, is_sse) = if is_event_stream(media) {
                self.first_answer(response.into_body()).await
            } else {
                let body = Limited::new(response.into_body(), self.limits.message).collect().await;
                (body.ok().and_then(|body| as_answer(body.to_bytes())), false)
            };
            let failure = Failure::NotMcp { status: code, media: other };
            let failure = answer.is_none().then_some(failure);
            (answer, is_sse, failure)
        } else {
            let refused = HttpRefusal::read(response, endpoint).await;
            let failure = refused.failure(self);
            (refused.error, false, Some(failure))
        };
        let reply = match &answer {
            Some(answer) => probe::reply(Some(code), answer),
            None => ProbeReply::Http { status: code },
        };
        Probed { reply, answer, is_sse, failure }
    }

    /// The first answer on an event stream, or whether it is that of an HTTP+SSE server.
    async fn first_answer(&self, mut body: FetchBody) -> (Option<Message>, bool) {
        let mut decoder = EventDecoder::new(self.limits.message);
        while let Some(Ok(frame)) = body.frame().await {
            decoder.push(frame.data_ref().map_or(&[], |data| &data[..]));
            while let Some(event) = decoder.next_event() {
                let Ok(event) = event else { continue };
                if event.name.as_deref() == Some("endpoint") {
                    return (None, true);
                }
                if let Some(answer) = as_answer(event.data) {
                    return (Some(answer), false);
                }
            }
        }
        (None, false)
    }
}

fn as_answer(text: Bytes) -> Option<Message> {
    jsonrpc::parse_one(text).ok().filter(Message::is_response)
}

/// Waits for one answer.
#[derive(Debug)]
pub(crate) struct AnswerWaiter {
    number: u64,
    /// The client that it stands in for, if it does.
    client: Option<Arc<ClientConnection>>,
    tell: Mutex<Option<oneshot::Sender<Outcome>>>,
}

impl AnswerWaiter {
    /// One, and where its answer arrives.
    pub(super) fn new() -> (Arc<Self>, oneshot::Receiver<Outcome>) {
        Self::with(next_number(), None)
    }

    /// The same for a call that is made in the place of a client: it ends with the client.
    pub(crate) fn standing_in_for(
        client: &Arc<ClientConnection>,
    ) -> (Arc<Self>, oneshot::Receiver<Outcome>) {
        Self::with(client.number(), Some(Arc::clone(client)))
    }

    fn with(
        number: u64,
        client: Option<Arc<ClientConnection>>,
    ) -> (Arc<Self>, oneshot::Receiver<Outcome>) {
        let (tell, told) = oneshot::channel();
        (Arc::new(Self { number, client, tell: Mutex::new(Some(tell)) }), told)
    }
}

impl ReplySink for AnswerWaiter {
    fn client(&self) -> Option<&Arc<ClientConnection>> {
        self.client.as_ref()
    }

    fn number(&self) -> u64 {
        self.number
    }

    fn note(&self, _exchange: Option<Exchange>, _message: &Message) {}

    fn finish(&self, _exchange: Exchange, outcome: Outcome) {
        if let Some(tell) = lock(&self.tell).take() {
            // A caller that does not wait any more need not know.
            _ = tell.send(outcome);
        }
    }
}

/// Which eras one server speaks or does not, and how long that holds: legacy, then modern.
pub(super) type KnownEras = Mutex<[Option<(bool, Instant)>; 2]>;

/// How long an endpoint is taken for what it was: it may be replaced.
const ENDPOINT: Duration = Duration::from_mins(10);

/// The same for a command, which is what it is until it is installed anew.
const COMMAND: Duration = Duration::from_hours(24);

/// How long the word of the user holds.
const FOR_GOOD: Duration = Duration::from_hours(24 * 365);

/// How long a guess holds that was made because nothing could be found out.
const GUESSED: Duration = Duration::from_secs(2);

impl ServerTarget {
    fn assume(&self, era: Era, speaks: bool, time: Duration) {
        lock(&self.details.known_eras)[usize::from(era == Era::Modern)] =
            Some((speaks, now() + time));
    }

    /// The same server, of which it is known that it speaks this era: it is not asked.
    #[must_use]
    pub fn speaking(self, era: Era) -> Self {
        self.assume(era, true, FOR_GOOD);
        self
    }

    /// Whether it speaks an era, if that is known.
    pub(crate) fn speaks(&self, era: Era) -> Option<bool> {
        let known = lock(&self.details.known_eras)[usize::from(era == Era::Modern)];
        known.filter(|(_, until)| *until > now()).map(|(speaks, _)| speaks)
    }

    /// Remembers that it speaks an era, or does not.
    pub(crate) fn learn(&self, era: Era, speaks: bool) {
        let is_command = matches!(self.target(), Target::Command(_));
        self.assume(era, speaks, if is_command { COMMAND } else { ENDPOINT });
    }

    /// Takes it to speak an era for now, or not to.
    pub(crate) fn guess(&self, era: Era, speaks: bool) {
        self.assume(era, speaks, GUESSED);
    }
}
