//! One client whose call asks it things. The state is the exchange and the
//! round in plain sight here; sealing it is the owner's business.

use std::time::Duration;

use super::*;
use crate::jsonrpc::Part;

/// wire: MRTR-1, MRTR-2, MRTR-3, MRTR-5, MRTR-9, GW-45
#[test]
fn a_question_is_answered_by_a_retry_under_another_id() {
    let mut client = Client::new(Carrier::Http, "{\"elicitation\":{},\"roots\":{}}");
    client.call(1, "\"a\"", "");
    assert!(client.ask(1, "elicitation/create", r#"{"message":"name?"}"#));
    assert!(client.ask(2, "roots/list", "{}"));
    assert_eq!(client.close_rounds(), ["1/1"]);
    let asked = client.heard();
    assert_eq!(asked["id"], "a");
    let result = &asked["result"];
    assert_eq!(result["resultType"], "input_required");
    assert_eq!(result["requestState"], "1/1");
    assert_eq!(result["inputRequests"]["q1"]["method"], "elicitation/create");
    assert_eq!(result["inputRequests"]["q1"]["params"]["message"], "name?");
    assert_eq!(result["inputRequests"]["q2"]["method"], "roots/list");

    let answers = r#""inputResponses":{"q1":{"action":"accept"},"zz":{}},"requestState":"1/1""#;
    client.retry("1/1", 2, "\"b\"", answers);
    assert_eq!(client.supplied(), [(1, r#"{"action":"accept"}"#.to_owned())]);
    assert_eq!(client.close_rounds(), ["1/2"], "what was left open is asked again");
    let again = client.heard();
    assert_eq!(again["id"], "b");
    assert!(again["result"]["inputRequests"].get("q1").is_none());

    client.retry("1/2", 3, "3", r#""inputResponses":{"q2":{"roots":[]}}"#);
    assert_eq!(client.supplied(), [(2, r#"{"roots":[]}"#.to_owned())]);
    client.half.finish(Exchange(1), &Message::result(&Id::from(0), b"{}"));
    assert_eq!(client.heard()["id"], 3);
    assert_eq!((client.half.calls(), client.half.parked()), (0, 0));
}

/// Questions that come one after the other each want their round closed; by then
/// the client may be back, and be asked something else.
///
/// wire: MRTR-5, GW-45
#[test]
fn a_round_that_was_closed_is_not_closed_again_in_the_next_ones_place() {
    let mut client = Client::new(Carrier::Http, "{\"roots\":{}}");
    client.call(1, "1", "");
    let until = client.start + Duration::from_mins(1);
    assert!(client.ask(1, "roots/list", "{}"));
    let first = client.half.poll_round().unwrap();
    assert!(client.ask(2, "roots/list", "{}"));
    let second = client.half.poll_round().unwrap();
    client.half.close_round(first, "1/1", until);
    assert_eq!(client.heard()["result"]["requestState"], "1/1");
    client.retry("1/1", 2, "2", r#""inputResponses":{"q1":{"roots":[]},"q2":{"roots":[]}}"#);
    assert_eq!(client.supplied().len(), 2);
    assert!(client.ask(3, "roots/list", "{}"));
    let third = client.half.poll_round().unwrap();
    client.half.close_round(second, "1/1", until);
    assert!(client.half.poll_transmit().is_none(), "its state would be good for nothing");
    client.half.close_round(third, "1/2", until);
    assert_eq!(client.heard()["result"]["requestState"], "1/2");
    client.retry("1/2", 3, "3", r#""inputResponses":{"q3":{"roots":[]}}"#);
    assert_eq!(client.supplied().len(), 1);
}

/// wire: MOD-7
#[test]
fn what_the_half_answers_by_itself_names_the_server() {
    let mut client = Client::new(Carrier::Pipe, "{\"roots\":{}}");
    client.half.introduce(Bytes::from_static(br#"{"name":"n"}"#));
    client.call(0, "1", "");
    assert!(client.ask(1, "roots/list", "{}"));
    client.close_rounds();
    let named = serde_json::json!({"name": "n"});
    assert_eq!(client.heard()["result"]["_meta"][meta::SERVER], named);
    let text = client.request("2", "").text().to_vec();
    let text = String::from_utf8(text).unwrap().replace("tools/call", method::LISTEN);
    let listen = crate::jsonrpc::parse_one(text.into()).unwrap();
    client.half.handle_message(Lane::MAIN, listen, None);
    client.half.end();
    let end = client.heard();
    assert_eq!(end["result"]["_meta"][meta::SERVER], named);
    assert_eq!(end["result"]["_meta"][meta::SUBSCRIPTION], 2);
}

/// wire: MRTR-3
#[test]
fn a_question_has_the_name_its_server_gave_it() {
    let mut client = Client::new(Carrier::Http, "{\"roots\":{}}");
    client.call(1, "1", "");
    for (ask, id) in [(1, Id::Text("q1".into())), (2, Id::from(7)), (3, Id::Text("q1".into()))] {
        let request = Message::request(&id, "roots/list", None);
        assert!(client.half.ask(Some(Exchange(1)), Ask(ask), &request));
    }
    client.close_rounds();
    let asked = client.heard();
    let keys: Vec<_> = asked["result"]["inputRequests"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["q1", "q2", "q3"]);
}

/// On a pipe it is a guess which call a question is about. When that one is over
/// the question is another's, and its client knows it already.
///
/// wire: GW-47, GW-50
#[test]
fn a_question_that_a_client_knows_is_not_asked_again_for_another_call() {
    let roots = Message::request(&Id::from(0), "roots/list", Some(b"{}"));
    let done = Message::result(&Id::from(0), b"{}");
    for (answers, supplied) in [
        (r#""inputResponses":{"q1":{"roots":[1]},"q2":{"roots":[2]}}"#, Some("[2]")),
        (r#""inputResponses":{}"#, None),
    ] {
        let mut client = Client::new(Carrier::Pipe, "{\"roots\":{}}");
        client.call(0, "1", "");
        client.call(0, "2", "");
        assert!(client.ask(1, "roots/list", "{}") && client.ask(2, "roots/list", "{}"));
        assert_eq!(client.close_rounds(), ["1/1"]);
        client.heard();
        client.half.recall(Ask(1));
        client.half.recall(Ask(2));
        assert!(client.half.ask(Some(Exchange(2)), Ask(2), &roots));
        client.half.finish(Exchange(1), &done);
        assert!(client.close_rounds().is_empty(), "it was asked on the way of the first");
        client.retry("1/1", 0, "3", answers);
        assert_eq!(client.heard()["id"], 3);
        let verbs: Vec<_> = std::iter::from_fn(|| client.half.poll_to_server()).collect();
        // The call is over: nobody need know who comes for its answer.
        let [ClientEvent::Supply { ask: Ask(2), answer }] = &verbs[..] else { panic!("{verbs:?}") };
        let roots = Part::new(answer.payload().unwrap()).get(&["roots"]).map(Part::text);
        assert_eq!(roots, supplied.map(str::as_bytes), "or nobody has answered it");
    }
}

/// wire: MRTR-7, MRTR-8, GW-46
#[test]
fn a_state_is_good_for_the_last_round_of_its_own_call() {
    let mut client = Client::new(Carrier::Http, "{\"roots\":{}}");
    client.call(1, "1", "\"arguments\":{\"a\":1},");
    assert!(client.ask(1, "roots/list", "{}"));
    client.close_rounds();
    client.heard();
    let refused = |client: &mut Client, state: &str, params: &str| {
        client.retry(state, 9, "9", params);
        client.heard()["error"]["code"].clone()
    };
    let same = "\"arguments\":{\"a\":1},\"inputResponses\":{\"q1\":{}}";
    assert_eq!(refused(&mut client, "1/1", "\"arguments\":{\"a\":2}"), -32602, "another call");
    assert_eq!(refused(&mut client, "1/2", same), -32602, "a round that never was");
    assert_eq!(refused(&mut client, "2/1", same), -32602, "an exchange that never was");
    client.retry("1/1", 4, "4", same);
    assert_eq!(client.supplied().len(), 1);
    assert_eq!(refused(&mut client, "1/1", same), -32602, "used before");
}

/// wire: MRTR-4, META-3, META-5
#[test]
fn only_what_was_declared_is_asked() {
    let check = |declared: &str, method: &str, params: &str| {
        let mut client = Client::new(Carrier::Http, declared);
        client.call(1, "1", "");
        client.ask(1, method, params)
    };
    let url = r#"{"mode":"url","url":"https://a.test"}"#;
    assert!(check(r#"{"elicitation":{}}"#, "elicitation/create", "{}"));
    assert!(!check(r#"{"elicitation":{}}"#, "elicitation/create", url));
    assert!(check(r#"{"elicitation":{"url":{}}}"#, "elicitation/create", url));
    assert!(!check(r#"{"elicitation":{"url":{}}}"#, "elicitation/create", "{}"));
    assert!(!check("{}", "elicitation/create", "{}"));
    assert!(check(r#"{"sampling":{}}"#, "sampling/createMessage", "{}"));
    assert!(!check(r#"{"sampling":{}}"#, "sampling/createMessage", r#"{"tools":[]}"#));
    assert!(check(r#"{"sampling":{"tools":{}}}"#, "sampling/createMessage", r#"{"tools":[]}"#));
    assert!(!check("{}", "roots/list", "{}"));
    assert!(!check(r#"{"roots":{}}"#, "ping", "{}"));
}

/// wire: GW-46, GW-50
#[test]
fn who_does_not_come_back_is_given_up() {
    let mut client = Client::new(Carrier::Http, "{\"roots\":{}}");
    client.call(1, "1", "");
    assert!(client.ask(1, "roots/list", "{}"));
    client.close_rounds();
    client.heard();
    client.half.handle_closed(Lane(1));
    assert!(client.half.poll_to_server().is_none(), "the lane was done with");
    let until = client.half.poll_timeout().unwrap();
    client.half.handle_timeout(until.checked_sub(Duration::from_millis(1)).unwrap());
    assert_eq!(client.half.parked(), 1);
    client.half.handle_timeout(until);
    assert_eq!(client.half.parked(), 0);
    assert!(matches!(
        client.half.poll_to_server(),
        Some(ClientEvent::Drop { exchange: Exchange(1), .. })
    ));
}

/// wire: MRTR-3, GW-45
#[test]
fn a_retry_takes_the_place_that_its_call_has_already() {
    let mut client = Client::new(Carrier::Pipe, "{\"roots\":{}}");
    client.half = ModernServerHalf::new(Carrier::Pipe, &Limits { calls: 1, ..Limits::default() });
    client.call(0, "1", "");
    assert!(client.ask(1, "roots/list", "{}"));
    client.close_rounds();
    client.heard();
    let another = client.request("2", "");
    client.half.handle_message(Lane::MAIN, another, None);
    assert!(client.heard()["error"].is_object(), "a parked call has a place");
    client.retry("1/1", 0, "3", r#""inputResponses":{"q1":{"roots":[]}}"#);
    assert_eq!(client.supplied().len(), 1);
    assert_eq!((client.half.calls(), client.half.parked()), (1, 0));
}

/// wire: GW-55, PRG-1
#[test]
fn progress_goes_by_the_token_of_the_last_request() {
    let mut client = Client::new(Carrier::Pipe, "{\"roots\":{}}");
    client.call(0, "1", "");
    client.progress(1);
    assert_eq!(client.heard()["params"]["progressToken"], "first");
    assert!(client.ask(1, "roots/list", "{}"));
    client.close_rounds();
    client.heard();
    client.progress(2);
    assert!(client.half.poll_transmit().is_none(), "nobody is there to hear it");
    client.token = Some("second");
    client.retry("1/1", 0, "2", r#""inputResponses":{"q1":{}}"#);
    assert_eq!(client.heard()["params"], json!({"progressToken": "second", "progress": 2}));
    assert!(client.ask(2, "roots/list", "{}"));
    client.close_rounds();
    client.heard();
    client.progress(3);
    client.token = None;
    client.retry("1/2", 0, "3", r#""inputResponses":{"q2":{}}"#);
    client.progress(4);
    assert!(client.half.poll_transmit().is_none(), "the retry wants no progress");
}

/// wire: META-3, GW-54
#[test]
fn who_answers_a_call_gets_its_last_request_before_the_input() {
    let mut client = Client::new(Carrier::Http, "{\"roots\":{}}");
    client.call(1, "1", "");
    assert!(client.ask(1, "roots/list", "{}"));
    client.close_rounds();
    client.declare("{\"sampling\":{}}");
    client.retry("1/1", 2, "2", r#""inputResponses":{"q1":{}}"#);
    let Some(ClientEvent::Again { exchange: Exchange(1), request }) = client.half.poll_to_server()
    else {
        panic!("the retry comes first")
    };
    assert_eq!(request.get(Member::MetaCapabilities).unwrap(), b"{\"sampling\":{}}");
    assert!(matches!(client.half.poll_to_server(), Some(ClientEvent::Supply { .. })));
}

/// wire: MRTR-4, META-3
#[test]
fn a_call_is_asked_what_its_last_request_declares() {
    let mut client = Client::new(Carrier::Http, "{\"elicitation\":{}}");
    client.call(1, "1", "");
    assert!(client.ask(1, "elicitation/create", "{}"));
    client.close_rounds();
    client.heard();
    client.declare("{\"roots\":{}}");
    client.retry("1/1", 2, "2", r#""inputResponses":{"q1":{"action":"accept"}}"#);
    assert_eq!(client.supplied(), [(1, r#"{"action":"accept"}"#.to_owned())]);
    assert!(!client.ask(2, "elicitation/create", "{}"), "only the first request can do that");
    assert!(client.ask(3, "roots/list", "{}"), "only the second can");
    assert_eq!(client.close_rounds(), ["1/2"]);
    client.heard();
    assert!(!client.ask(4, "elicitation/create", "{}"), "the client is away");
    client.declare("{}");
    client.retry("1/2", 3, "3", r#""inputResponses":{"q2":{"roots":[]}}"#);
    assert_eq!(client.supplied(), [(3, r#"{"roots":[]}"#.to_owned())]);
    assert!(!client.ask(5, "roots/list", "{}"));
    client.half.finish(Exchange(1), &Message::result(&Id::from(0), b"{}"));
    assert_eq!(client.heard()["id"], 3);
}

/// wire: MRTR-4, MRTR-9, META-3
#[test]
fn what_a_retry_leaves_open_and_does_not_permit_is_refused_at_the_server() {
    let mut client = Client::new(Carrier::Http, "{\"elicitation\":{},\"roots\":{}}");
    client.level = Some("\"info\"");
    client.call(1, "1", "");
    assert!(client.ask(1, "elicitation/create", "{}") && client.ask(2, "roots/list", "{}"));
    client.close_rounds();
    client.heard();
    assert!(client.ask(3, "elicitation/create", "{}"), "asked while the client is away");
    client.declare("{\"roots\":{}}");
    client.retry("1/1", 2, "2", r#""inputResponses":{}"#);
    let nobody = Refusal::NobodyToAsk.rpc_code();
    assert_eq!(client.refused(), [(1, nobody.into()), (3, nobody.into())]);
    assert_eq!(client.close_rounds(), ["1/2"]);
    let again = client.heard();
    let keys: Vec<_> = again["result"]["inputRequests"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["q2"], "what is permitted is asked again");

    client.declare("{}");
    client.retry("1/2", 3, "3", r#""inputResponses":{}"#);
    assert_eq!(client.refused(), [(2, nobody.into())]);
    assert!(client.close_rounds().is_empty(), "there is nothing left to ask");
    client.log("on");
    assert_eq!(client.heard()["params"]["data"], "on", "and nothing to wait for");
}

/// Whoever knows which arguments a tool wants repeated has seen the first request only.
///
/// wire: HDR-11, MRTR-5
#[test]
fn a_retry_repeats_the_arguments_that_its_call_repeated() {
    let mut client = Client::new(Carrier::Http, "{\"roots\":{}}");
    let first = client.request("1", "");
    let headers = client.headers(&["eu", "42"]);
    client.half.handle_message(Lane(1), first, Some(&headers));
    assert!(matches!(client.half.poll_to_server(), Some(ClientEvent::Open { said: Some(_), .. })));
    assert!(client.ask(1, "roots/list", "{}"));
    client.close_rounds();
    client.heard();
    let retry = client.request("2", r#""inputResponses":{"q1":{}}"#);
    for others in [&[][..], &["eu"], &["us", "42"], &["EU", "42"]] {
        let headers = client.headers(others);
        client.half.handle_retry((Exchange(1), 1), Lane(2), &retry, Some(&headers));
        let code = client.heard()["error"]["code"].clone();
        assert_eq!(code, Refusal::HeaderMismatch { what: String::new() }.rpc_code(), "{others:?}");
        assert!(client.half.poll_to_server().is_none());
    }
    // The same in other words, and one more that the tool may have come to want.
    let headers = client.headers(&["=?base64?ZXU=?=", " 42 ", "7"]);
    client.half.handle_retry((Exchange(1), 1), Lane(3), &retry, Some(&headers));
    assert_eq!(client.supplied().len(), 1);
}

/// A question that is moot has nobody who waits for an answer.
///
/// wire: GW-50
#[test]
fn what_nobody_waits_for_is_not_refused() {
    let mut client = Client::new(Carrier::Http, "{\"roots\":{}}");
    client.call(1, "1", "");
    assert!(client.ask(1, "roots/list", "{}"));
    client.close_rounds();
    client.heard();
    client.half.recall(Ask(1));
    client.declare("{}");
    client.retry("1/1", 2, "2", "");
    assert_eq!(client.refused(), []);
}

/// wire: LOG-1, GW-54
#[test]
fn log_records_are_those_that_the_last_request_asks_for() {
    let levels =
        ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency", "own"];
    let none: [&str; 0] = [];
    for (wanted, told) in [
        (None, &none[..]),
        (Some("\"debug\""), &levels),
        (Some("\"notice\""), &levels[2..]),
        (Some("\"error\""), &levels[4..]),
        (Some("\"emergency\""), &levels[7..]),
        (Some("\"loud\""), &none),
        (Some("7"), &none),
    ] {
        let mut client = Client::new(Carrier::Pipe, "{\"roots\":{}}");
        client.level = Some("\"debug\"");
        client.call(0, "1", "");
        assert!(client.ask(1, "roots/list", "{}"));
        client.close_rounds();
        client.heard();
        for level in levels {
            client.log_at(level, "held");
        }
        client.level = wanted;
        client.retry("1/1", 0, "2", r#""inputResponses":{"q1":{"roots":[]}}"#);
        for level in levels {
            client.log_at(level, "at once");
        }
        let both = ["held", "at once"].into_iter();
        for (when, level) in both.flat_map(|when| told.iter().map(move |level| (when, level))) {
            assert_eq!(client.heard()["params"], json!({"level": level, "data": when}));
        }
        assert!(client.half.poll_transmit().is_none(), "{wanted:?}");
    }
}

/// Clients take the answer with the question for the end of what they are told.
///
/// wire: GW-45, GW-55
#[test]
fn what_follows_a_question_is_told_after_it() {
    let mut client = Client::new(Carrier::Http, "{\"roots\":{}}");
    client.level = Some("\"info\"");
    client.call(1, "1", "");
    assert!(client.ask(1, "roots/list", "{}"));
    client.log("a");
    client.close_rounds();
    assert_eq!(client.heard()["result"]["resultType"], "input_required");
    client.log("b");
    client.half.finish(Exchange(1), &Message::result(&Id::from(0), b"{}"));
    client.retry("1/1", 2, "2", r#""inputResponses":{"q1":{}}"#);
    assert_eq!(client.heard()["params"]["data"], "a");
    assert_eq!(client.heard()["params"]["data"], "b");
    assert_eq!(client.heard()["id"], 2);
}

#[test]
fn what_follows_a_question_that_nobody_has_heard_is_told_without_it() {
    let mut client = Client::new(Carrier::Http, "{\"roots\":{}}");
    client.call(1, "1", "");
    assert!(client.ask(1, "roots/list", "{}"));
    client.log("a");
    assert!(client.half.poll_transmit().is_none());
    client.half.recall(Ask(1));
    assert_eq!(client.heard()["params"]["data"], "a");
    assert!(client.ask(2, "roots/list", "{}"));
    client.log("b");
    client.half.finish(Exchange(1), &Message::result(&Id::from(0), b"{}"));
    assert_eq!(client.heard()["params"]["data"], "b");
    assert_eq!(client.heard()["id"], 1);
}

#[test]
fn the_last_of_what_is_said_to_nobody_is_kept() {
    let mut client = Client::new(Carrier::Pipe, "{\"roots\":{}}");
    client.level = Some("\"info\"");
    client.call(0, "1", "");
    assert!(client.ask(1, "roots/list", "{}"));
    client.close_rounds();
    client.heard();
    for number in 0..10_000 {
        client.log(&number.to_string());
    }
    client.retry("1/1", 0, "2", r#""inputResponses":{"q1":{}}"#);
    let first: usize = client.heard()["params"]["data"].as_str().unwrap().parse().unwrap();
    assert!((9_000..9_900).contains(&first), "{first}");
    for number in first + 1..10_000 {
        assert_eq!(client.heard()["params"]["data"], number.to_string());
    }
    assert!(client.half.poll_transmit().is_none());
}

struct Client {
    half: ModernServerHalf,
    declared: String,
    /// What the next request asks for progress under.
    token: Option<&'static str>,
    /// Which log records it asks for, as JSON.
    level: Option<&'static str>,
    start: Instant,
}

impl Client {
    #[expect(clippy::disallowed_methods, reason = "any start will do, only differences count")]
    fn new(carrier: Carrier, declared: &str) -> Self {
        let half = ModernServerHalf::new(carrier, &Limits::default());
        let (token, level) = (None, None);
        Self { half, declared: declared.to_owned(), token, level, start: Instant::now() }
    }

    fn request(&self, id: &str, params: &str) -> Message {
        let sep = if params.is_empty() || params.ends_with(',') { "" } else { "," };
        let token = self.token.map(|token| format!("\"progressToken\":\"{token}\","));
        let level = self.level.map(|level| format!("\"{}\":{level},", meta::LOG_LEVEL));
        let wanted = token.into_iter().chain(level).collect::<String>();
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t",{params}{sep}"_meta":{{{wanted}"{}":"2026-07-28","{}":{}}}}}}}"#,
            meta::VERSION,
            meta::CAPABILITIES,
            self.declared
        );
        crate::jsonrpc::parse_one(text.into()).unwrap()
    }

    /// The headers of a POST that repeats these arguments.
    fn headers(&self, arguments: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let request = self.request("0", "");
        let version = request.string(Member::MetaVersion).expect("requests here have an envelope");
        Mirror { version: &version, method: method::CALL_TOOL, name: Some("t") }
            .write(&mut headers);
        for (name, value) in ["a", "b", "c"].into_iter().zip(arguments) {
            let name = HeaderName::try_from(format!("{PARAM_PREFIX}{name}")).expect("a name");
            headers.insert(name, HeaderValue::from_static(value));
        }
        headers
    }

    fn call(&mut self, lane: u64, id: &str, params: &str) {
        let request = self.request(id, params);
        self.half.handle_message(Lane(lane), request, None);
        assert!(matches!(self.half.poll_to_server(), Some(ClientEvent::Open { .. })));
    }

    fn ask(&mut self, ask: u64, method: &str, params: &str) -> bool {
        let request = Message::request(&Id::from(0), method, Some(params.as_bytes()));
        self.half.ask(Some(Exchange(1)), Ask(ask), &request)
    }

    fn close_rounds(&mut self) -> Vec<String> {
        let mut states = Vec::new();
        while let Some((exchange, round)) = self.half.poll_round() {
            let state = format!("{}/{round}", exchange.0);
            self.half.close_round((exchange, round), &state, self.start + Duration::from_mins(1));
            states.push(state);
        }
        states
    }

    fn retry(&mut self, state: &str, lane: u64, id: &str, params: &str) {
        let (exchange, round) = state.split_once('/').unwrap();
        let key = (Exchange(exchange.parse().unwrap()), round.parse().unwrap());
        let request = self.request(id, params);
        self.half.handle_retry(key, Lane(lane), &request, None);
    }

    /// The next request can do this.
    fn declare(&mut self, capabilities: &str) {
        capabilities.clone_into(&mut self.declared);
    }

    /// The questions that the server is told nobody answers, and the codes.
    fn refused(&mut self) -> Vec<(u64, i64)> {
        let refused = self.supplied().into_iter().map(|(ask, error)| {
            let error: Value = serde_json::from_str(&error).unwrap();
            (ask, error["code"].as_i64().expect("an error has a code"))
        });
        refused.collect()
    }

    fn supplied(&mut self) -> Vec<(u64, String)> {
        let verbs = std::iter::from_fn(|| self.half.poll_to_server());
        let supplies = verbs.filter_map(|verb| match verb {
            ClientEvent::Supply { ask, answer } => {
                Some((ask.0, String::from_utf8(answer.payload().unwrap().to_vec()).unwrap()))
            }
            ClientEvent::Again { .. } => None,
            other => panic!("{other:?}"),
        });
        supplies.collect()
    }

    /// The server tells how far a call got, under the token of the first request.
    fn progress(&mut self, progress: u32) {
        let params = json!({"progressToken": "first", "progress": progress}).to_string();
        let note = Message::notification(method::PROGRESS, Some(params.as_bytes()));
        self.half.note(Some(Exchange(1)), &note);
    }

    fn log(&mut self, data: &str) {
        self.log_at("info", data);
    }

    fn log_at(&mut self, level: &str, data: &str) {
        let params = json!({"level": level, "data": data}).to_string();
        let note = Message::notification(method::LOG, Some(params.as_bytes()));
        self.half.note(Some(Exchange(1)), &note);
    }

    fn heard(&mut self) -> Value {
        let is_said = |frame: &Frame| !matches!(frame, Frame::Begin { .. });
        let mut frames = std::iter::from_fn(|| self.half.poll_transmit());
        match frames.find(|(_, frame)| is_said(frame)) {
            Some((_, Frame::Answer { text, .. } | Frame::Message { text, .. })) => {
                serde_json::from_slice(&text).unwrap()
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_is_kept_of_questions_has_a_bound_and_can_be_let_go_of() {
    let mut client = Client::new(Carrier::Http, "{\"elicitation\":{}}");
    client.call(1, "1", "");
    let half = format!(r#"{{"message":"{}"}}"#, "x".repeat(MOST_QUESTION_BYTES / 2 - 1000));
    assert!(client.ask(1, "elicitation/create", &half));
    assert!(client.ask(2, "elicitation/create", &half));
    assert!(!client.ask(3, "elicitation/create", &half), "the server is refused");
    assert_eq!(client.half.parked_bytes(), 0, "its client is there");
    client.close_rounds();
    client.heard();
    let kept = client.half.parked_bytes();
    assert!((2 * half.len()..MOST_QUESTION_BYTES + 2000).contains(&kept), "{kept}");
    client.half.handle_silence();
    assert_eq!((client.half.parked(), client.half.parked_bytes()), (0, 0));
    assert!(
        matches!(client.half.poll_to_server(), Some(ClientEvent::Drop { .. })),
        "the server hears of it"
    );
}
