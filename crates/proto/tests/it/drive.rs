//! Bytes drive a half through any sequence of events, and hold it to its promises.
//!
//! Used by the property tests and, as it stands, by the fuzz targets. What is
//! promised whatever happens: nothing panics, queues stay within their limits,
//! a lane hears nothing after its end, a call is answered once at most and,
//! when the link is gone, exactly once.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::HeaderMap;
use switchboard_proto::client::{self, Sharing, Ticket};
use switchboard_proto::exchange::{Ask, Carrier, ClientEvent, Exchange, Lane, ServerEvent};
use switchboard_proto::failure::Failure;
use switchboard_proto::jsonrpc::{Id, Incoming, Message, parse, parse_one};
use switchboard_proto::limits::Limits;
use switchboard_proto::method;
use switchboard_proto::server::{self, Frame};

const METHODS: [&str; 12] = [
    "initialize",
    "ping",
    "tools/call",
    "tools/list",
    "prompts/get",
    "resources/subscribe",
    "resources/unsubscribe",
    "logging/setLevel",
    "subscriptions/listen",
    "server/discover",
    "roots/list",
    "x/y",
];

const NOTICES: [&str; 8] = [
    "notifications/initialized",
    "notifications/cancelled",
    "notifications/progress",
    "notifications/message",
    "notifications/resources/updated",
    "notifications/tools/list_changed",
    "notifications/subscriptions/acknowledged",
    "x/y",
];

const META: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;

fn limits() -> Limits {
    Limits {
        calls: 4,
        asks: 3,
        streams: 2,
        history: 400,
        quiet: Duration::from_secs(10),
        total: Duration::from_secs(30),
        ..Limits::default()
    }
}

/// What is left of the bytes; zeros when nothing is.
struct Dice<'a>(&'a [u8]);

impl Dice<'_> {
    fn roll(&mut self) -> u64 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first.into()
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.roll()).unwrap_or_default() % choices.len()]
    }

    fn id(&mut self) -> String {
        let number = self.roll() % 12;
        if self.roll().is_multiple_of(4) { format!("\"{number}\"") } else { number.to_string() }
    }

    fn params(&mut self) -> String {
        let id = self.id();
        let token = self.id();
        let meta = self.of(&[META, r#""k":1"#]);
        format!(
            r#"{{"requestId":{id},"uri":"x:{id}","name":"t","progressToken":{token},"_meta":{{{meta},"progressToken":{token},"io.modelcontextprotocol/subscriptionId":{id}}}}}"#
        )
        .replace("x:\"", "x:")
        .replace("\"\",\"name", "\",\"name")
    }

    fn request(&mut self) -> Message {
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":{},"method":"{}","params":{}}}"#,
            self.id(),
            self.of(&METHODS),
            self.params()
        );
        parse_one(Bytes::from(text)).expect("a request")
    }

    fn notice(&mut self) -> Message {
        let text = format!(
            r#"{{"jsonrpc":"2.0","method":"{}","params":{}}}"#,
            self.of(&NOTICES),
            self.params()
        );
        parse_one(Bytes::from(text)).expect("a notification")
    }

    fn answer(&mut self) -> Message {
        let payload = self.of(&[
            r#""result":{"protocolVersion":"2025-11-25"}"#,
            r#""result":{"protocolVersion":"2025-03-26","tools":[{"name":"t","inputSchema":{"properties":{"r":{"type":"string","x-mcp-header":"R"}}}}]}"#,
            r#""error":{"code":-32020,"message":"m"}"#,
            r#""error":{"code":-32603,"message":"m"}"#,
        ]);
        let text = format!(r#"{{"jsonrpc":"2.0","id":{},{payload}}}"#, self.id());
        parse_one(Bytes::from(text)).expect("an answer")
    }

    fn message(&mut self) -> Message {
        match self.roll() % 4 {
            0 => self.notice(),
            1 => self.answer(),
            _ => self.request(),
        }
    }

    /// A message, a batch, or whatever the bytes say.
    fn text(&mut self) -> Bytes {
        match self.roll() % 8 {
            0 => {
                let (one, two) = (self.message(), self.message());
                Bytes::from([b"[", &one.text()[..], b",", two.text(), b"]"].concat())
            }
            1 => {
                let length = usize::try_from(self.roll()).unwrap_or_default().min(self.0.len());
                let (text, rest) = self.0.split_at(length);
                self.0 = rest;
                Bytes::copy_from_slice(text)
            }
            _ => self.message().text().clone(),
        }
    }
}

/// Holds each lane to: an answer, or taken, or a stream with an end; and then nothing.
#[derive(Default)]
struct Lanes {
    begun: HashSet<Lane>,
    over: HashSet<Lane>,
}

impl Lanes {
    fn check(&mut self, carrier: Carrier, lane: Lane, frame: &Frame) {
        if carrier == Carrier::Pipe {
            assert!(matches!(frame, Frame::Message { event: None, .. }), "a line, not {frame:?}");
            return;
        }
        assert!(!self.over.contains(&lane), "{frame:?} after the end of {lane:?}");
        let begun = self.begun.contains(&lane);
        match frame {
            Frame::Answer { .. } | Frame::Accepted => {
                assert!(!begun, "{frame:?} on a stream");
                self.over.insert(lane);
            }
            Frame::Begin { .. } => assert!(self.begun.insert(lane), "{lane:?} begins twice"),
            Frame::Message { .. } => assert!(begun, "{frame:?} before the beginning"),
            Frame::End => _ = self.over.insert(lane),
        }
        if let Frame::Answer { text, .. } | Frame::Message { text, .. } = frame {
            parse_one(text.clone()).expect("what we send is a message");
        }
    }
}

/// A client of the legacy era does anything, and so does the inside.
pub(crate) fn server_legacy(bytes: &[u8]) {
    let mut dice = Dice(bytes);
    let carrier = dice.of(&[Carrier::Http, Carrier::Pipe]);
    let mut half = server::legacy::LegacyServerHalf::new(carrier, &limits());
    if dice.roll().is_multiple_of(2) {
        half = half.sharing();
    }
    let (mut lanes, mut next_lane, mut open) = (Lanes::default(), 1, HashSet::new());
    while !dice.0.is_empty() {
        let lane = Lane(dice.roll() % next_lane);
        let exchange = Exchange(dice.roll() % 16);
        match dice.roll() % 11 {
            0..=3 => {
                let lane = if carrier == Carrier::Pipe { Lane::MAIN } else { Lane(next_lane) };
                next_lane += 1;
                match parse(dice.text()) {
                    Ok(incoming) => half.handle_incoming(lane, incoming),
                    Err(refused) => half.handle_refused(lane, &refused),
                }
            }
            4 if carrier == Carrier::Http => {
                let last = format!("{}-{}", dice.roll() % (next_lane + 1), dice.roll() % 8);
                let last = Some(last.as_str()).filter(|_| dice.roll().is_multiple_of(2));
                _ = half.handle_listen(Lane(next_lane), last);
                next_lane += 1;
            }
            5 => {
                half.handle_closed(lane);
                lanes.over.insert(lane);
            }
            6 => half.begin_stream(lane),
            7 => {
                half.note(Some(exchange).filter(|_| dice.roll().is_multiple_of(2)), &dice.notice());
            }
            8 => {
                let exchange = Some(exchange).filter(|_| dice.roll().is_multiple_of(2));
                _ = half.ask(exchange, Ask(dice.roll() % 8), &dice.request());
            }
            9 => half.recall(Ask(dice.roll() % 8), &dice.notice()),
            _ if dice.roll() == 255 => half.end(),
            _ => half.finish(exchange, &dice.answer()),
        }
        while let Some((lane, frame)) = half.poll_transmit() {
            lanes.check(carrier, lane, &frame);
        }
        while let Some(up) = half.poll_to_server() {
            check_up(&mut open, &up);
        }
        assert!(half.calls() <= 4, "more calls than allowed");
    }
}

fn check_up(open: &mut HashSet<Exchange>, up: &ClientEvent) {
    match up {
        ClientEvent::Open { exchange, .. } => assert!(open.insert(*exchange), "opened twice"),
        ClientEvent::Drop { exchange, .. } => assert!(open.remove(exchange), "dropped twice"),
        ClientEvent::Again { exchange, .. } => assert!(open.contains(exchange), "nobody was away"),
        ClientEvent::Supply { .. } | ClientEvent::Note { .. } => {}
    }
}

/// A client of the modern era does anything, and so does the inside.
pub(crate) fn server_modern(bytes: &[u8]) {
    let mut dice = Dice(bytes);
    let carrier = dice.of(&[Carrier::Http, Carrier::Pipe]);
    let mut half = server::modern::ModernServerHalf::new(carrier, &limits());
    let (mut lanes, mut next_lane, mut open) = (Lanes::default(), 1, HashSet::new());
    while !dice.0.is_empty() {
        let lane = Lane(dice.roll() % next_lane);
        let exchange = Exchange(dice.roll() % 16);
        match dice.roll() % 8 {
            0..=2 => {
                let lane = if carrier == Carrier::Pipe { Lane::MAIN } else { Lane(next_lane) };
                next_lane += 1;
                let headers = Some(HeaderMap::new()).filter(|_| dice.roll().is_multiple_of(4));
                match parse(dice.text()) {
                    Ok(Incoming::One(message)) => {
                        half.handle_message(lane, message, headers.as_ref());
                    }
                    Ok(Incoming::Batch(_)) => {}
                    Err(refused) => half.handle_refused(lane, &refused),
                }
            }
            3 => {
                half.handle_closed(lane);
                lanes.over.insert(lane);
            }
            4 => half.begin_stream(lane),
            5 => {
                half.note(Some(exchange).filter(|_| dice.roll().is_multiple_of(2)), &dice.notice());
            }
            _ if dice.roll() == 255 => half.end(),
            _ => half.finish(exchange, &dice.answer()),
        }
        while let Some((lane, frame)) = half.poll_transmit() {
            lanes.check(carrier, lane, &frame);
        }
        while let Some(up) = half.poll_to_server() {
            check_up(&mut open, &up);
        }
        assert!(half.calls() <= 4, "more calls than allowed");
    }
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Call {
    owner: u64,
    number: u64,
}

impl Ticket for Call {
    fn owner(&self) -> u64 {
        self.owner
    }

    /// Every other call.
    fn has_own_id(&self) -> bool {
        self.number.is_multiple_of(2)
    }
}

/// The calls that somebody waits for.
#[derive(Default)]
struct Waiting {
    /// By the methods that they call.
    calls: HashMap<Call, String>,
    /// Methods whose calls may be answered though they were dropped: they may wait for
    /// what the server says to somebody else.
    shared: &'static [&'static str],
    /// Such calls.
    late: HashSet<Call>,
    finished: HashSet<Call>,
    next: u64,
}

impl Waiting {
    fn ticket(&mut self, owner: u64) -> Call {
        self.next += 1;
        Call { owner, number: self.next }
    }

    /// One of the calls that are open, which is dropped.
    fn pick(&mut self, dice: &mut Dice<'_>) -> Option<Call> {
        let mut calls: Vec<_> = self.calls.keys().cloned().collect();
        calls.sort_by_key(|call| call.number);
        let at = usize::try_from(dice.roll()).unwrap_or_default() % calls.len().max(1);
        let call = calls.get(at)?;
        let method = self.calls.remove(call)?;
        if self.shared.contains(&&*method) {
            self.late.insert(call.clone());
        }
        Some(call.clone())
    }

    fn check(&mut self, down: &ServerEvent<Call>) {
        if let ServerEvent::Finish { to, .. } = down {
            let is_open = self.calls.remove(to).is_some() || self.late.remove(to);
            assert!(is_open, "{to:?} was not open");
            assert!(self.finished.insert(to.clone()), "{to:?} finished twice");
        }
    }

    fn begin(&mut self, ticket: Call, request: &Message) {
        self.calls.insert(ticket, request.method().to_owned());
    }
}

fn start() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "any start will do, only differences count")]
    Instant::now()
}

fn gone() -> Failure {
    Failure::CLOSED
}

/// A server of the legacy era does anything, and so do its clients.
pub(crate) fn client_legacy(bytes: &[u8]) {
    let mut dice = Dice(bytes);
    let sharing = dice.of(&[Sharing::Alone, Sharing::Shared]);
    let half = client::legacy::LegacyClientHalf::<Call>::new(sharing, &limits());
    let mut half = client::ClientHalf::Legacy(Box::new(half));
    let mut waiting = Waiting::default();
    if sharing == Sharing::Shared {
        waiting.shared = &[method::INITIALIZE];
    }
    let mut now = start();
    while !dice.0.is_empty() {
        let owner = dice.roll() % 3;
        let lane = Lane(dice.roll() % 16);
        match dice.roll() % 14 {
            0..=3 => {
                let ticket = waiting.ticket(owner);
                let request = dice.request();
                waiting.begin(ticket.clone(), &request);
                half.open(ticket, &request, &None, now);
            }
            4..=6 => half.handle_message(lane, &dice.message(), now),
            7 => {
                if let Some(call) = waiting.pick(&mut dice) {
                    half.drop_call(&call, Some(&dice.notice()), now);
                }
            }
            8 => half.note(dice.notice(), now),
            9 => half.supply(Ask(dice.roll() % 8), &dice.answer(), now),
            10 => half.handle_unanswered(lane, &gone(), now),
            11 if dice.roll().is_multiple_of(2) => half.renew_session(now),
            11 => half.handle_session_over(lane, now),
            12 if dice.roll().is_multiple_of(4) => half.handle_unsupplied(&dice.answer(), now),
            12 => {
                now += Duration::from_secs(dice.roll() % 8);
                half.handle_timeout(now);
            }
            _ if dice.roll().is_multiple_of(4) => {
                half.forget_owner(owner, now);
                waiting.calls.retain(|call, _| call.owner != owner);
            }
            _ if dice.roll().is_multiple_of(4) => half.handle_lost(&gone(), now),
            _ => half.refuse_ask(Ask(dice.roll() % 8), now),
        }
        while half.poll_transmit().is_some() {}
        while let Some(down) = half.poll_to_client() {
            waiting.check(&down);
        }
        assert!(half.calls() <= 64, "more calls than allowed");
    }
    half.handle_lost(&gone(), now);
    while let Some(down) = half.poll_to_client() {
        waiting.check(&down);
    }
    assert!(waiting.calls.is_empty(), "left hanging: {:?}", waiting.calls);
}

/// A server of the modern era does anything, and so do its clients.
pub(crate) fn client_modern(bytes: &[u8]) {
    let mut dice = Dice(bytes);
    let carrier = dice.of(&[Carrier::Http, Carrier::Pipe]);
    let sharing = dice.of(&[Sharing::Alone, Sharing::Shared]);
    let half = client::modern::ModernClientHalf::<Call>::new(carrier, sharing, &limits());
    let mut half = client::ClientHalf::Modern(Box::new(half));
    let mut waiting = Waiting::default();
    let mut now = start();
    while !dice.0.is_empty() {
        let owner = dice.roll() % 3;
        let lane = Lane(dice.roll() % 16);
        match dice.roll() % 10 {
            0..=2 => {
                let ticket = waiting.ticket(owner);
                let said = Some(Vec::new()).filter(|_| dice.roll().is_multiple_of(2));
                let request = dice.request();
                waiting.begin(ticket.clone(), &request);
                half.open(ticket, &request, &said, now);
            }
            3..=5 => half.handle_message(lane, &dice.message(), now),
            6 => {
                if let Some(call) = waiting.pick(&mut dice) {
                    half.drop_call(&call, Some(&dice.notice()), now);
                }
            }
            7 => half.handle_unanswered(lane, &gone(), now),
            8 => {
                now += Duration::from_secs(dice.roll() % 8);
                half.handle_timeout(now);
            }
            _ if dice.roll().is_multiple_of(4) => {
                half.forget_owner(owner, now);
                waiting.calls.retain(|call, _| call.owner != owner);
            }
            _ if dice.roll().is_multiple_of(4) => half.handle_lost(&gone(), now),
            _ => half.note(dice.notice(), now),
        }
        while half.poll_transmit().is_some() {}
        while let Some(down) = half.poll_to_client() {
            waiting.check(&down);
        }
        assert!(half.calls() <= 64, "more calls than allowed");
    }
    half.handle_lost(&gone(), now);
    while let Some(down) = half.poll_to_client() {
        waiting.check(&down);
    }
    assert!(waiting.calls.is_empty(), "left hanging: {:?}", waiting.calls);
}

/// A modern server and its legacy clients do anything.
pub(crate) fn client_to_modern(bytes: &[u8]) {
    let mut dice = Dice(bytes);
    let carrier = dice.of(&[Carrier::Http, Carrier::Pipe]);
    let sharing = dice.of(&[Sharing::Alone, Sharing::Shared]);
    let half = client::to_modern::ToModern::new(carrier, sharing, &limits());
    across(dice, client::ClientHalf::ToModern(Box::new(half)));
}

/// A legacy server and its modern clients do anything.
pub(crate) fn client_to_legacy(bytes: &[u8]) {
    let mut dice = Dice(bytes);
    let carrier = dice.of(&[Carrier::Http, Carrier::Pipe]);
    let sharing = dice.of(&[Sharing::Alone, Sharing::Shared]);
    let half = client::to_legacy::ToLegacy::new(carrier, sharing, &limits());
    across(dice, client::ClientHalf::ToLegacy(Box::new(half)));
}

/// What servers of the other era say besides.
fn across_message(dice: &mut Dice<'_>) -> Message {
    let text = dice.of(&[
        r#""result":{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"},"b":{"method":"elicitation/create","params":{"message":"m"}}},"requestState":"s"}"#,
        r#""result":{"resultType":"input_required","requestState":"s"}"#,
        r#""result":{"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{}}}"#,
        r#""error":{"code":-32042,"message":"m","data":{"elicitations":[{"url":"u"}]}}"#,
        r#""method":"roots/list""#,
    ]);
    let text = format!(r#"{{"jsonrpc":"2.0","id":{},{text}}}"#, dice.id());
    parse_one(Bytes::from(text)).expect("a message")
}

fn across(mut dice: Dice<'_>, mut half: client::ClientHalf<Call>) {
    let shared: &[_] = match half {
        client::ClientHalf::ToLegacy(_) => &[method::INITIALIZE, method::DISCOVER],
        _ => &[method::INITIALIZE, method::SUBSCRIBE],
    };
    let mut waiting = Waiting { shared, ..Waiting::default() };
    let mut now = start();
    while !dice.0.is_empty() {
        let owner = dice.roll() % 3;
        let lane = Lane(dice.roll() % 16);
        match dice.roll() % 16 {
            0..=3 => {
                let ticket = waiting.ticket(owner);
                let request = dice.request();
                waiting.begin(ticket.clone(), &request);
                half.open(ticket, &request, &None, now);
            }
            4..=5 => half.handle_message(lane, &dice.message(), now),
            6..=8 => half.handle_message(lane, &across_message(&mut dice), now),
            9 => {
                if let Some(call) = waiting.pick(&mut dice) {
                    half.drop_call(&call, Some(&dice.notice()), now);
                }
            }
            10 => half.note(dice.notice(), now),
            11 => half.supply(Ask(1 + dice.roll() % 8), &dice.answer(), now),
            12 => half.handle_unanswered(lane, &gone(), now),
            13 if dice.roll().is_multiple_of(2) => half.renew_session(now),
            13 => half.handle_session_over(lane, now),
            14 if dice.roll().is_multiple_of(4) => half.handle_unsupplied(&dice.answer(), now),
            14 if dice.roll().is_multiple_of(4) => half.handle_gap(now),
            14 => {
                now += Duration::from_secs(dice.roll() % 8);
                half.handle_timeout(now);
            }
            _ if dice.roll().is_multiple_of(4) => {
                half.forget_owner(owner, now);
                waiting.calls.retain(|call, _| call.owner != owner);
            }
            _ if dice.roll().is_multiple_of(4) => half.handle_lost(&gone(), now),
            _ => half.refuse_ask(Ask(1 + dice.roll() % 8), now),
        }
        while half.poll_transmit().is_some() {}
        while let Some(down) = half.poll_to_client() {
            waiting.check(&down);
        }
        assert!(half.calls() <= 64, "more calls than allowed");
    }
    half.handle_lost(&gone(), now);
    while let Some(down) = half.poll_to_client() {
        waiting.check(&down);
    }
    // Listens outlive the link: they are ended by whoever listens.
    assert_eq!(half.calls(), waiting.calls.len(), "left hanging: {:?}", waiting.calls);
    assert!(waiting.calls.values().all(|method| method == method::LISTEN));
}

/// Any text: parsing does not panic, and a message that moves to another id
/// and back is what it was.
pub(crate) fn jsonrpc(text: &[u8]) {
    let Ok(incoming) = parse(Bytes::copy_from_slice(text)) else { return };
    let messages = match incoming {
        Incoming::One(message) => vec![message],
        Incoming::Batch(elements) => elements.into_iter().flatten().collect(),
    };
    for message in messages {
        let again = parse_one(message.text().clone()).expect("parsed before");
        assert_eq!(again.kind(), message.kind());
        assert_eq!(again.payload(), message.payload());
        let Some(id) = message.id() else { continue };
        let moved = message.with_id(&Id::Text("moved".into()));
        let moved = parse_one(moved.text().clone()).expect("still a message");
        assert_eq!(moved.payload(), message.payload());
        assert_eq!(moved.method(), message.method());
        let back = moved.with_id(id);
        assert_eq!(parse_one(back.text().clone()).expect("still a message").id(), Some(id));
        assert_eq!(back.with_id(id).text(), back.text());
    }
}
