//! Who is let in, by which door, and what becomes of them when the rules change.

use std::time::Instant;

use http::{HeaderMap, Request};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use switchboard_net::access::Standing as _;
use switchboard_net::http::site::{Site, SiteOptions};
use switchboard_net::server::Server;
use switchboard_proto::refusal::Refusal;
use switchboard_testkit::issuer::Issuer;
use tokio::sync::Notify;

use super::*;
use crate::policy::KeyHash;

fn principal(name: &str, keys: &[&str], servers: Option<&[&str]>) -> Principal {
    let keys = keys.iter().map(|key| KeyHash::compute(key.as_bytes())).collect();
    let mut principal = Principal { name: name.to_owned(), keys, ..Principal::default() };
    let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    principal.grant.servers = servers.map(list);
    principal
}

fn access(principals: Vec<Principal>) -> Access {
    let principals = principals.into_iter().map(Arc::new).collect();
    Access { principals, anonymous: None, tokens: None }
}

fn showing(key: &str) -> HeaderMap {
    HeaderMap::from_iter([(http::header::AUTHORIZATION, format!("Bearer {key}").parse().unwrap())])
}

/// The name of whom a door lets in, or how it turns them away.
fn outcome(authenticator: &Arc<Authenticator>, door: Option<Place>, headers: &HeaderMap) -> String {
    match authenticator.gate(door).authenticate(headers) {
        Ok(who) => who.name().to_owned(),
        Err(turned) => format!("{turned:?}"),
    }
}

#[test]
fn a_door_lets_in_whom_it_is_for_and_tells_others_that_nothing_is_there() {
    let ada = principal("ada", &["a"], Some(&["files"]));
    let authenticator = Authenticator::new(access(vec![ada, principal("root", &["r"], None)]), 9);
    for (door, key, expected) in [
        (Some(Place::All), "a", "ada"),
        (Some(Place::Server("files".to_owned())), "a", "ada"),
        (Some(Place::Server("other".to_owned())), "a", "404"),
        (Some(Place::Server("other".to_owned())), "r", "root"),
        (Some(Place::Group("dev".to_owned())), "r", "root"),
        (None, "a", "403"),
        (None, "r", "root"),
        (Some(Place::All), "x", "invalid_token"),
    ] {
        let told = outcome(&authenticator, door.clone(), &showing(key));
        assert!(told.contains(expected), "{door:?} {key}: {told}");
    }
    let bare = outcome(&authenticator, Some(Place::All), &HeaderMap::new());
    assert!(bare.contains("401") && !bare.contains("invalid_token"), "{bare}");
}

#[test]
fn a_key_that_is_taken_away_opens_nothing_and_its_owner_has_to_leave() {
    let authenticator = Authenticator::new(access(vec![principal("ada", &["a"], None)]), 9);
    let gate = authenticator.gate(Some(Place::All));
    let by_a = gate.authenticate(&showing("a")).unwrap();
    assert!(by_a.is_current() && gate.keeps(&Who::new("ada")));
    authenticator.replace(access(vec![principal("ada", &["a", "b"], None)]));
    let by_b = gate.authenticate(&showing("b")).unwrap();
    assert_eq!(by_a.identity(), by_b.identity(), "one replaces the other");
    assert!(by_a.is_current() && by_b.is_current(), "another key takes nothing away");
    authenticator.replace(access(vec![principal("ada", &["b"], None)]));
    assert!(gate.authenticate(&showing("a")).is_err() && gate.authenticate(&showing("b")).is_ok());
    assert!(!by_a.is_current(), "what the old key opened is closed");
    assert!(by_b.is_current(), "and nothing else");
    authenticator.replace(access(vec![principal("ada", &["b"], Some(&["files"]))]));
    assert!(by_b.is_current() && gate.keeps(&Who::new("ada")));
    assert!(!authenticator.gate(Some(Place::Server("other".to_owned()))).keeps(&Who::new("ada")));
    authenticator.replace(access(Vec::new()));
    assert!(!gate.keeps(&Who::new("ada")) && authenticator.principal("ada").is_none());
    assert!(!by_b.is_current());
    authenticator.replace(access(vec![principal("ada", &["b"], None)]));
    assert!(!by_b.is_current(), "it was taken away meanwhile");
}

#[test]
fn a_new_key_of_the_same_name_is_somebody_else() {
    let authenticator = Authenticator::new(access(vec![principal("ada", &["a"], None)]), 9);
    let gate = authenticator.gate(Some(Place::All));
    let old = gate.authenticate(&showing("a")).unwrap();
    authenticator.replace(access(vec![principal("ada", &["b"], None)]));
    let new = gate.authenticate(&showing("b")).unwrap();
    assert_eq!(new.name(), old.name());
    assert_ne!(new.identity(), old.identity());
    assert!(!old.is_current() && new.is_current());
}

#[test]
fn what_is_counted_stays_counted_when_the_rules_change() {
    let ada = |calls, sessions| {
        let ada = principal("ada", &["a"], None);
        Principal { calls: Some(calls), sessions: Some(sessions), ..ada }
    };
    let authenticator =
        Authenticator::new(access(vec![ada(1, 1), principal("bob", &["b"], None)]), 3);
    let present = |name: &str| {
        let user = Arc::clone(authenticator.table().users.get(name).unwrap());
        PresentUser { user, key: None, token: None, room: Arc::clone(&authenticator.sessions) }
    };
    let (ada_here, bob_here) = (present("ada"), present("bob"));
    let now = Instant::now();
    assert_eq!(ada_here.begin_call(now), Ok(()));
    assert_eq!(ada_here.begin_call(now), Err(Refusal::TooManyCalls));
    assert_eq!(ada_here.begin_session(), Ok(()));
    assert_eq!(ada_here.begin_session(), Err(Refusal::TooManySessions));
    assert_eq!((bob_here.begin_session(), bob_here.begin_session()), (Ok(()), Ok(())));
    assert_eq!(bob_here.begin_session(), Err(Refusal::TooManySessions), "three in all");
    authenticator.replace(access(vec![ada(2, 2), principal("bob", &["b"], None)]));
    assert_eq!(authenticator.counts(), [("ada".into(), 1, 1), ("bob".into(), 2, 0)]);
    assert_eq!(ada_here.begin_session(), Err(Refusal::TooManySessions), "still three in all");
    bob_here.end_session();
    assert_eq!(present("ada").begin_session(), Ok(()));
    assert_eq!((ada_here.begin_call(now), ada_here.begin_call(now).is_ok()), (Ok(()), false));
}

#[test]
fn who_is_gone_is_not_told_of_changes_and_not_remembered() {
    let authenticator = Authenticator::new(access(Vec::new()), 9);
    let told = Arc::new(AtomicUsize::new(0));
    let hear = || {
        let told = Arc::clone(&told);
        authenticator.on_replace(move || _ = told.fetch_add(1, Ordering::Relaxed))
    };
    let stays = hear();
    for _ in 0..100 {
        drop(hear());
    }
    assert!(lock(&authenticator.hear).len() <= 2, "they do not pile up");
    authenticator.replace(access(Vec::new()));
    assert_eq!(told.load(Ordering::Relaxed), 1);
    drop(stays);
    authenticator.replace(access(Vec::new()));
    assert_eq!(told.load(Ordering::Relaxed), 1);
}

#[test]
fn one_key_leaves_sessions_to_others_unless_the_file_says_how_many_it_has() {
    let ada = principal("ada", &["a"], None);
    let bob = Principal { sessions: Some(8), ..principal("bob", &["b"], None) };
    let authenticator = Authenticator::new(access(vec![ada, bob]), 8);
    let sessions_of = |name: &str| {
        let user = Arc::clone(authenticator.table().users.get(name).unwrap());
        let present =
            PresentUser { user, key: None, token: None, room: Arc::clone(&authenticator.sessions) };
        let open = (0..9).filter(|_| present.begin_session().is_ok()).count();
        (0..open).for_each(|_| present.end_session());
        open
    };
    assert_eq!((sessions_of("ada"), sessions_of("bob")), (6, 8));
}

/// Accepts the tokens of an issuer, by a clock that is ahead by so many seconds.
fn accepting(issuer: &Issuer) -> (Arc<Authenticator>, Arc<AtomicU64>) {
    let ahead = Arc::new(AtomicU64::new(0));
    let (shift, real) = (Arc::clone(&ahead), system_clock());
    let clock: Clock = Arc::new(move || real() + shift.load(Ordering::Relaxed));
    let rule = crate::token::IssuerRule {
        name: "corp".to_owned(),
        issuer: issuer.url.clone(),
        grant: Some(Principal::default()),
        ..crate::token::IssuerRule::default()
    };
    let by_token = Access::default().with_issuer(rule, None);
    (Authenticator::with(by_token, 9, None, clock), ahead)
}

// wire: OR-18
#[tokio::test]
async fn what_a_token_opened_ends_a_minute_after_the_newest_of_its_user() {
    let issuer = Issuer::start().await;
    let (authenticator, ahead) = accepting(&issuer);
    let gate = EntranceGate {
        authenticator: Arc::clone(&authenticator),
        place: Some(Place::All),
        paths: Vec::new(),
    };
    let enter = async |lasts: u64| {
        let now = issuer.claims("ada", "x", &json!({}))["iat"].as_u64().unwrap();
        let token = issuer.token("ada", "x", &json!({"exp": now + lasts}));
        let hash = crate::issuer::hash_token(&token);
        let known = match authenticator.issuers.check(&token, hash) {
            crate::issuer::TokenCheck::Now(known) => known,
            crate::issuer::TokenCheck::Later(check) => check.run().await,
        };
        let known = known.unwrap();
        let user = authenticator.token_user(&known).unwrap();
        gate.authenticator.enter(&user.user, None, Some(known))
    };
    let first = enter(100).await;
    assert!(first.is_current() && gate.keeps(&first) && first.name() == "corp/ada");
    ahead.store(100 + 70, Ordering::Relaxed);
    assert!(!first.is_current());
    ahead.store(0, Ordering::Relaxed);
    let second = enter(500).await;
    ahead.store(100 + 70, Ordering::Relaxed);
    assert!(first.is_current() && second.is_current(), "the newest counts");
    assert_eq!(first.identity(), second.identity());
    ahead.store(500 + 70, Ordering::Relaxed);
    let told = Arc::new(Notify::new());
    let hear = Arc::clone(&told);
    let _hearing = authenticator.on_replace(move || hear.notify_one());
    lock(&authenticator.token_users_of("corp/ada").unwrap().meter).enter(Instant::now()).unwrap();
    authenticator.sweep_token_users();
    told.notified().await;
    assert!(authenticator.token_users_of("corp/ada").is_none(), "nothing is kept of them");
    assert!(!first.is_current());
}

// wire: OR-18
#[tokio::test]
async fn a_stream_ends_a_minute_after_the_newest_token_of_its_user() {
    let issuer = Issuer::start().await;
    let (authenticator, ahead) = accepting(&issuer);
    let server = Server::builder("any", "1").build().unwrap();
    let gate = authenticator.gate_at(Some(Place::All), vec!["/mcp".to_owned()]);
    let site = Site::new(server, SiteOptions::default().authenticator(Some(gate)));
    let again = site.clone();
    let _hearing = authenticator.on_replace(move || again.recheck());
    let now = issuer.claims("ada", "", &json!({}))["iat"].as_u64().unwrap();
    let token =
        |lasts: u64| issuer.token("ada", "http://localhost/mcp", &json!({"exp": now + lasts}));
    let ask = async |method: &str, token: &str, session: &str, body: &Value| {
        let request = Request::builder().method(method).uri("/mcp").header("host", "localhost");
        let request = request.header("accept", "application/json, text/event-stream");
        let request = request.header("content-type", "application/json");
        let mut request = request.header("authorization", format!("Bearer {token}"));
        if !session.is_empty() {
            request = request.header("mcp-session-id", session);
        }
        let body = if body.is_null() { String::new() } else { body.to_string() };
        site.endpoint(request.body(body).unwrap()).await
    };
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
    }});
    let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
    let first = token(100);
    let welcome = ask("POST", &first, "", &hello).await;
    assert_eq!(welcome.status(), 200);
    let session = welcome.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    welcome.into_body().collect().await.unwrap();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(ask("POST", &first, &session, &ready).await.status(), 202);
    let mut stream = ask("GET", &first, &session, &Value::Null).await;
    assert_eq!(stream.status(), 200);
    // Looks at who is there, as it does when the time has come.
    let look = || authenticator.token_users.earlier.notify_one();
    let is_open = async || {
        look();
        tokio::task::yield_now().await;
        site.sessions() == 1
    };
    ahead.store(150, Ordering::Relaxed);
    assert!(is_open().await, "within the minute");
    let second = token(500);
    assert_eq!(ask("POST", &second, &session, &ping).await.status(), 200);
    ahead.store(170, Ordering::Relaxed);
    assert!(is_open().await, "the newer token counts");
    ahead.store(555, Ordering::Relaxed);
    assert!(is_open().await, "within the minute of the newer one");
    ahead.store(570, Ordering::Relaxed);
    look();
    while let Some(frame) = stream.body_mut().frame().await {
        frame.unwrap();
    }
    assert_eq!(site.sessions(), 0);
    assert_eq!(ask("POST", &second, &session, &ping).await.status(), 401);
}

// wire: OX-6
#[tokio::test]
async fn the_newest_token_of_a_user_is_kept_while_tokens_are_exchanged() {
    let issuer = Issuer::start().await;
    let (authenticator, ahead) = accepting(&issuer);
    let server = Server::builder("any", "1").build().unwrap();
    let gate = authenticator.gate_at(Some(Place::All), vec!["/mcp".to_owned()]);
    let site = Site::new(server, SiteOptions::default().authenticator(Some(gate)));
    let now = issuer.claims("ada", "", &json!({}))["iat"].as_u64().unwrap();
    let token = |who: &str, lasts: u64| {
        issuer.token(who, "http://localhost/mcp", &json!({"exp": now + lasts}))
    };
    let come = async |token: &str| {
        let request = Request::builder().method("POST").uri("/mcp").header("host", "localhost");
        let request = request.header("authorization", format!("Bearer {token}"));
        site.endpoint(request.body(String::new()).unwrap()).await.status()
    };
    let kept = |name: &str| {
        authenticator.subject_token(name).map(|it| it.token.reveal().to_owned()).unwrap_or_default()
    };
    let (short, long, bob) = (token("ada", 300), token("ada", 500), token("bob", 400));
    come(&short).await;
    assert_eq!(kept("corp/ada"), "", "no server exchanges tokens");
    authenticator.keep_subjects(true);
    come(&short).await;
    assert_eq!(kept("corp/ada"), short);
    come(&long).await;
    come(&short).await;
    come(&bob).await;
    assert_eq!((kept("corp/ada"), kept("corp/bob")), (long.clone(), bob));
    let not_ours = issuer.token("ada", "https://other.example", &json!({"exp": now + 900}));
    assert_eq!(come(&not_ours).await, 401);
    assert_eq!(kept("corp/ada"), long, "one for another audience is not exchanged");
    ahead.store(500, Ordering::Relaxed);
    assert_eq!(kept("corp/ada"), "", "it is over, though the user is there for a minute more");
    ahead.store(0, Ordering::Relaxed);
    assert_eq!(kept("corp/ada"), long);
    authenticator.keep_subjects(false);
    assert_eq!(kept("corp/ada"), "");
}
