//! The pure parts: framing, messages, halves, layers, and what a gateway decides for a call.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::HeaderMap;
use serde_json::json;
use switchboard_gateway::authenticator::Authenticator;
use switchboard_gateway::catalog::{Catalog, PAGE};
use switchboard_gateway::gateway::Place;
use switchboard_gateway::plan::ServerPlan;
use switchboard_gateway::policy::Access;
use switchboard_net::auth::jws::{PublicJwk, SignedToken, Signer};
use switchboard_net::roster::{Definition, ListKind};
use switchboard_net::stdio::child::Command;
use switchboard_net::upstream::Target;
use switchboard_proto::client::legacy::LegacyClientHalf;
use switchboard_proto::client::modern::ModernClientHalf;
use switchboard_proto::client::to_legacy::ToLegacy;
use switchboard_proto::client::to_modern::ToModern;
use switchboard_proto::client::{ClientHalf, Sharing, Ticket, Transmit};
use switchboard_proto::exchange::{Carrier, ClientEvent, Lane, ServerEvent};
use switchboard_proto::failure::Outcome;
use switchboard_proto::framing::{EventDecoder, LineDecoder};
use switchboard_proto::jsonrpc::{Id, Incoming, Kind, Message, parse_one};
use switchboard_proto::limits::Limits;
use switchboard_proto::revision::{Era, Revision};
use switchboard_proto::server::ServerHalf;
use switchboard_proto::server::legacy::LegacyServerHalf;
use switchboard_proto::server::modern::ModernServerHalf;

use crate::echo::{EchoServer, definition};
use crate::{Work, warm};

/// Reads one message: one pass over its text.
pub fn read_message(size: usize) -> Work {
    let text = call(Era::Legacy, "echo", size).text().clone();
    warm(move || {
        black_box(parse_one(black_box(text.clone())).expect("a message"));
    })
}

/// Writes another id into a message.
pub fn edit_id(size: usize) -> Work {
    let (message, id) = (call(Era::Legacy, "echo", size), Id::from(123_456));
    warm(move || {
        black_box(black_box(&message).with_id(&id).text());
    })
}

/// Finds one line in what came by a pipe.
pub fn decode_line(size: usize) -> Work {
    let text = [call(Era::Legacy, "echo", size).text(), &b"\n"[..]].concat();
    let mut decoder = LineDecoder::new(Limits::default().message);
    warm(move || {
        decoder.push(black_box(&text));
        black_box(decoder.next_line().expect("a whole line").expect("a short line"));
    })
}

/// Reads one event of a stream.
pub fn decode_event(size: usize) -> Work {
    let message = call(Era::Legacy, "echo", size);
    let text = [b"event: message\nid: 1-1\ndata: ", &message.text()[..], b"\n\n"].concat();
    let mut decoder = EventDecoder::new(Limits::default().message);
    warm(move || {
        decoder.push(black_box(&text));
        black_box(decoder.next_event().expect("a whole event").expect("a short event"));
    })
}

/// One call at the server half: from the message to the answer on its lane.
pub fn server_half(era: Era) -> Work {
    let limits = Limits::default();
    let (mut half, headers) = match era {
        Era::Legacy => {
            let mut half = LegacyServerHalf::new(Carrier::Http, &limits);
            greet(&mut half);
            (ServerHalf::Legacy(Box::new(half)), HeaderMap::new())
        }
        Era::Modern => {
            let half = ModernServerHalf::new(Carrier::Http, &limits);
            let mut headers = HeaderMap::new();
            for (name, value) in [
                ("mcp-protocol-version", Revision::NEWEST_MODERN.as_str()),
                ("mcp-method", "tools/call"),
                ("mcp-name", "echo"),
            ] {
                headers.insert(name, value.parse().expect("a header"));
            }
            (ServerHalf::Modern(Box::new(half)), headers)
        }
    };
    let (request, answer) = (call(era, "echo", 100), answer(era, 1));
    let mut lane = 10;
    warm(move || {
        lane += 1;
        half.handle_incoming(Lane(lane), Incoming::One(request.clone()), Some(&headers));
        let Some(ClientEvent::Open { exchange, .. }) = half.poll_to_server() else {
            panic!("the half opens no call: {:?}", half.poll_transmit());
        };
        half.finish(exchange, &answer);
        let mut frames = 0;
        while half.poll_transmit().is_some() {
            frames += 1;
        }
        assert!(frames > 0 && half.calls() == 0, "the call is answered");
    })
}

/// The handshake of a client with a legacy server half.
fn greet(half: &mut LegacyServerHalf) {
    let version = Revision::NEWEST_LEGACY.as_str();
    let hello = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    let hello = Message::request(&0.into(), "initialize", Some(hello.to_string().as_bytes()));
    half.handle_incoming(Lane(1), Incoming::One(hello.clone()));
    let Some(ClientEvent::Open { exchange, .. }) = half.poll_to_server() else { panic!("no call") };
    half.finish(exchange, &reply(&EchoServer::new(false, 1), &hello));
    let note = Message::notification("notifications/initialized", None);
    half.handle_incoming(Lane(2), Incoming::One(note));
    while half.poll_transmit().is_some() {}
    while half.poll_to_server().is_some() {}
}

/// A call's owner: one client with one call at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct OnlyTicket;

impl Ticket for OnlyTicket {
    fn owner(&self) -> u64 {
        1
    }
}

/// One call at the client half, for a client and a server of these eras: from the request to
/// the answer. Where the eras differ, both are translated.
pub fn client_half(client: Era, server: Era) -> Work {
    let limits = Limits::default();
    let (carrier, sharing) = (Carrier::Http, Sharing::Shared);
    let half: ClientHalf<OnlyTicket> = match (client, server) {
        (Era::Legacy, Era::Legacy) => {
            ClientHalf::Legacy(Box::new(LegacyClientHalf::new(sharing, &limits)))
        }
        (Era::Modern, Era::Modern) => {
            ClientHalf::Modern(Box::new(ModernClientHalf::new(carrier, sharing, &limits)))
        }
        (Era::Legacy, Era::Modern) => {
            ClientHalf::ToModern(Box::new(ToModern::new(carrier, sharing, &limits)))
        }
        (Era::Modern, Era::Legacy) => {
            ClientHalf::ToLegacy(Box::new(ToLegacy::new(carrier, sharing, &limits)))
        }
    };
    // Any time will do: none passes.
    let now = Instant::now();
    let mut pair = HalfAndServer { half, server: EchoServer::new(server == Era::Modern, 1), now };
    if client == Era::Legacy {
        let version = Revision::NEWEST_LEGACY.as_str();
        let hello = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
        let hello = Message::request(&0.into(), "initialize", Some(hello.to_string().as_bytes()));
        pair.run(&hello);
        pair.half.note(Message::notification("notifications/initialized", None), pair.now);
    }
    let request = call(client, "echo", 100);
    warm(move || pair.run(&request))
}

/// A client half and the server that it talks to, without anything between them.
struct HalfAndServer {
    half: ClientHalf<OnlyTicket>,
    server: EchoServer,
    now: Instant,
}

impl HalfAndServer {
    /// Opens a call and answers whatever the half sends, until the call is answered.
    fn run(&mut self, request: &Message) {
        self.half.open(OnlyTicket, request, &None, self.now);
        loop {
            while let Some(transmit) = self.half.poll_transmit() {
                let Transmit::Send { lane, message, .. } = transmit else { continue };
                if message.id().is_some() {
                    let answer = reply(&self.server, &message);
                    self.half.handle_message(lane, &answer, self.now);
                }
            }
            match self.half.poll_to_client() {
                Some(ServerEvent::Finish { outcome, .. }) => {
                    let Outcome::Answered(answer) = black_box(&outcome) else {
                        panic!("the call fails: {outcome:?}");
                    };
                    assert_eq!(answer.kind(), Kind::Result, "{answer:?}");
                    return;
                }
                Some(_) => {}
                None => panic!("the call stays open"),
            }
        }
    }
}

/// Finds the server that a call of a tool goes to.
pub fn find_destination(tools: usize) -> Work {
    let (catalog, request) = (catalog(tools), call(Era::Legacy, "it__echo", 100));
    warm(move || {
        let found = catalog.find_destination(black_box(&request), None, |_, _| None);
        assert!(black_box(found).is_ok(), "the tool is known");
    })
}

/// Takes the first page of the tools.
pub fn list_page(tools: usize) -> Work {
    let catalog = catalog(tools);
    warm(move || {
        let page = catalog.page(ListKind::Tools, None, PAGE).expect("there is no cursor");
        assert_eq!(black_box(page).items.len(), tools.min(PAGE));
    })
}

/// Finds the user of a key, among so many.
pub fn check_key(keys: usize) -> Work {
    let key = |number: usize| format!("key-of-user-{number:04}-0123456789abcdef");
    let access = (0..keys).fold(Access::default(), |access, number| {
        access.with_key(&format!("user-{number}"), key(number).as_bytes())
    });
    let gate = Authenticator::new(access, Authenticator::SESSIONS).gate(Some(Place::All));
    let mut headers = HeaderMap::new();
    let value = format!("Bearer {}", key(keys / 2)).parse().expect("a header");
    headers.insert("authorization", value);
    warm(move || {
        black_box(gate.authenticate(black_box(&headers)).expect("the key is known"));
    })
}

/// Checks the signature of an access token.
pub fn check_token() -> Work {
    let signer = Signer::generate_es256().expect("there is randomness");
    let mut key = signer.public_jwk();
    key["kid"] = "first".into();
    let keys = [PublicJwk::read(&key).expect("a key")];
    let claims = json!({
        "iss": "https://as.example", "sub": "ada", "aud": "https://gw.example/mcp",
        "iat": 1_900_000_000, "exp": 1_900_000_600, "scope": "mcp:read mcp:write",
    });
    let header = json!({"kid": "first", "typ": "at+jwt"});
    let token = signer.sign(header, &claims).expect("there is randomness");
    warm(move || {
        let token = SignedToken::parse(black_box(&token)).expect("a token");
        black_box(token.verify(keys.iter()).expect("a good signature"));
    })
}

/// A call of a tool with a text of this size.
fn call(era: Era, tool: &str, size: usize) -> Message {
    let mut params = json!({"name": tool, "arguments": {"text": "x".repeat(size)}});
    if era == Era::Modern {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": Revision::NEWEST_MODERN.as_str(),
            "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
    }
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
    parse_one(Bytes::from(call.to_string())).expect("a call")
}

/// What the server answers to a call with this id.
fn answer(era: Era, id: u64) -> Message {
    reply(&EchoServer::new(era == Era::Modern, 1), &call(era, "echo", 100).with_id(&id.into()))
}

fn reply(server: &EchoServer, request: &Message) -> Message {
    let text = std::str::from_utf8(request.text()).expect("a message is text");
    let answer = server.answer(text).expect("a request");
    parse_one(Bytes::from(answer)).expect("an answer")
}

/// The catalog of a server with so many tools.
fn catalog(tools: usize) -> Catalog {
    let server: Arc<str> = Arc::from("it");
    let definition = |number| Definition {
        server: Arc::clone(&server),
        kind: ListKind::Tools,
        text: Bytes::from(definition(number)),
        is_cached: false,
    };
    let target = Target::Command(Command::new("true"));
    Catalog::new((0..tools).map(definition).collect(), |name| {
        Some(Arc::new(ServerPlan::new(name, target.clone())))
    })
}
