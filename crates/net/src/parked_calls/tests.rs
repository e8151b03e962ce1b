//! Parked calls: who looks after them, how many there may be, and their sealed states.

use std::sync::atomic::{AtomicBool, Ordering};

use switchboard_proto::client::Sharing;
use switchboard_proto::exchange::{Ask, Carrier, HeaderParams, Lane};
use switchboard_proto::jsonrpc::{Id, parse};
use switchboard_proto::patch;
use switchboard_proto::revision::{Era, Revision};
use switchboard_proto::server::Frame;

use super::*;
use crate::backend::{Backend, PendingWork};
use crate::call::{Call, ReplySink as _};
use crate::upstream::Upstream;

/// Asks a client for roots, on a call of its own.
fn ask(client: &Arc<ClientConnection>, on: Exchange, number: u64) -> bool {
    let question = Message::request(&Id::from(number), "roots/list", None);
    let nobody = Weak::<Upstream>::new();
    Arc::clone(client).ask(Some(on), nobody, Ask(on.0 * 100 + number), &question)
}

/// Asks for roots whatever it is asked.
struct Curious;

impl Backend for Curious {
    fn open(
        &self,
        client: &Arc<ClientConnection>,
        call: &Call,
        _: Message,
        _: HeaderParams,
    ) -> PendingWork {
        if !ask(client, call.exchange(), 1) {
            call.finish(Message::result(&Id::from(1), b"{\"asked\":false}"));
        }
        PendingWork::none()
    }
}

/// A call of a client that can be asked for roots, or the same with a state.
fn call(state: Option<&str>) -> Message {
    let params = serde_json::json!({"name": "t", "requestState": state, "_meta": {
        "io.modelcontextprotocol/protocolVersion": Revision::NEWEST_MODERN.as_str(),
        "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
    }});
    Message::request(&Id::from(1), "tools/call", Some(params.to_string().as_bytes()))
}

/// Somebody tidies up all the time, while a client is asked over and over; each
/// time it comes back there is a moment in which it is parked nowhere.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_just_being_parked_is_not_swept_away() {
    let limits = Limits::default();
    let parking = Parking::new(&limits);
    let is_over = Arc::new(AtomicBool::new(false));
    let (sweeping, until) = (Arc::clone(&parking), Arc::clone(&is_over));
    let sweeper = std::thread::spawn(move || {
        while !until.load(Ordering::Relaxed) {
            sweeping.give_up_late();
        }
    });
    let client = on_pipe(&parking, &limits);
    begin(&client, 1);
    for round in 1..5000 {
        let Some(Frame::Message { text, .. }) = client.next_frame(Lane::MAIN).await else {
            panic!("it is asked in round {round}")
        };
        let state = patch::string(&text, &["result", "requestState"]).unwrap();
        let back = call(Some(&state));
        let found = parking.claim(&back, b"");
        let Ok(Some((found, key))) = found else { panic!("it is lost in round {round}") };
        found.step(|half| half.handle_retry(key, Lane::MAIN, &back, None)).1.detach();
    }
    is_over.store(true, Ordering::Relaxed);
    sweeper.join().unwrap();
    assert_eq!(client.parked(), 0);
    parking.give_up_late();
    assert!(lock(&parking.waiting).clients.is_empty(), "nothing is left");
}

#[tokio::test(start_paused = true)]
async fn one_client_has_no_more_calls_parked_than_there_may_be() {
    let limits = Limits { parked: 2, ..Limits::default() };
    let parking = Parking::new(&limits);
    let client = on_pipe(&parking, &limits);
    for number in 1..=3 {
        begin(&client, number);
        let Some(Frame::Message { text, .. }) = client.next_frame(Lane::MAIN).await else {
            panic!("call {number} is answered")
        };
        let asked = patch::string(&text, &["result", "requestState"]).is_some();
        assert_eq!(asked, number < 3, "call {number}");
    }
    assert_eq!(parking.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn who_is_back_takes_nobodys_place() {
    let limits = Limits { parked: 1, ..Limits::default() };
    let parking = Parking::new(&limits);
    for turn in 1..=3 {
        let client = on_pipe(&parking, &limits);
        begin(&client, 1);
        let Some(Frame::Message { text, .. }) = client.next_frame(Lane::MAIN).await else {
            panic!("client {turn} is answered")
        };
        let state = patch::string(&text, &["result", "requestState"]);
        let back = call(Some(&state.unwrap_or_else(|| panic!("client {turn} is asked"))));
        // It answers, and is not asked again.
        let back = back.with(Member::InputResponses, r#"{"q1":{"roots":[]}}"#);
        let (found, key) = parking.claim(&back, b"").unwrap().unwrap();
        found.step(|half| half.handle_retry(key, Lane::MAIN, &back, None)).1.detach();
    }
}

/// wire: GW-45
#[tokio::test(start_paused = true)]
async fn questions_that_follow_each_other_closely_share_a_round() {
    let limits = Limits::default();
    let parking = Parking::new(&limits);
    let client = on_pipe(&parking, &limits);
    begin(&client, 1);
    for number in 2..=4 {
        tokio::time::sleep(GATHER * 3 / 4).await;
        assert!(ask(&client, Exchange(1), number));
    }
    tokio::time::sleep(GATHER * 3).await;
    let Some(Frame::Message { text, .. }) = client.try_frame(Lane::MAIN) else {
        panic!("it is answered")
    };
    let answer: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(answer["result"]["inputRequests"].as_object().unwrap().len(), 4, "{answer}");
}

fn on_pipe(parking: &Arc<Parking>, limits: &Limits) -> Arc<ClientConnection> {
    let client = ClientConnection::new(
        Era::Modern,
        Carrier::Pipe,
        Arc::new(Curious),
        limits,
        Sharing::Alone,
    );
    client.park_in(parking);
    client
}

fn begin(client: &Arc<ClientConnection>, number: u64) {
    let call = parse(call(None).with_id(&Id::from(number)).text().clone()).unwrap();
    client.step(|half| half.handle_incoming(Lane::MAIN, call, None)).1.detach();
}

/// wire: MRTR-7, MRTR-8, GW-45
#[test]
fn a_state_opens_for_whom_it_was_sealed_and_in_time() {
    let start = Instant::now();
    let sealer = Sealer::new(start).unwrap();
    let until = start + Duration::from_mins(1);
    let token = SealedCall { client: 7, exchange: Exchange(8), round: 9, until, owner: None };
    let state = sealer.seal(token, b"ann").unwrap();
    assert!(sealer.is_ours(&state) && Sealer::is_sealed(&state));
    assert_eq!(sealer.open(&state, b"ann", start), Some(token));
    assert_eq!(sealer.open(&state, b"bob", start), None);
    assert_eq!(sealer.open(&state, b"ann", until), None);
    assert_eq!(sealer.open(&format!("{state}-TAMPERED"), b"ann", start), None);
    let other = Sealer::new(start).unwrap();
    assert!(!other.is_ours(&state), "it may belong to whoever is behind");
    assert_eq!(other.open(&state, b"ann", start), None);
    assert_ne!(sealer.seal(token, b"ann").unwrap(), state, "no two are alike");
}

#[test]
fn any_flipped_character_is_noticed() {
    let start = Instant::now();
    let sealer = Sealer::new(start).unwrap();
    let until = start + Duration::from_mins(1);
    let state = sealer
        .seal(SealedCall { client: 1, exchange: Exchange(1), round: 1, until, owner: None }, b"")
        .unwrap();
    for at in 0..state.len() {
        let mut forged = state.clone().into_bytes();
        forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
        let forged = String::from_utf8(forged).unwrap();
        assert_eq!(sealer.open(&forged, b"", start), None, "character {at}");
    }
    for garbage in ["", "!!", "AAAA"] {
        let garbage = format!("{}{garbage}", sealer.keys[0].0);
        assert_eq!(sealer.open(&garbage, b"", start), None, "{garbage}");
    }
}
