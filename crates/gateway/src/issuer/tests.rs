//! Tokens against an issuer with real sockets: signatures, keys that rotate, introspection.

use std::sync::atomic::AtomicU64;
use std::sync::{OnceLock, Weak};

use serde_json::json;
use switchboard_testkit::issuer::Issuer;
use tokio::task::JoinHandle;

use super::keys::metadata_urls;
use super::*;
use crate::lock;

const AUDIENCE: &str = "https://gw.example/mcp";

fn rule(issuer: &Issuer) -> IssuerRule {
    IssuerRule {
        name: "corp".to_owned(),
        issuer: issuer.url.clone(),
        introspect: Some(crate::token::Introspection {
            client_id: "gw".to_owned(),
            client_secret: "s3cret".to_owned(),
        }),
        ..IssuerRule::default()
    }
}

fn accepting(issuer: &Issuer) -> Arc<Issuers> {
    let issuers = Issuers::new(None, system_clock(), &Arc::default());
    let rules = vec![rule(issuer)];
    issuers.follow(Some(&TokenAccess { issuers: rules, ..TokenAccess::default() }));
    issuers
}

async fn check(issuers: &Arc<Issuers>, token: &str) -> Result<String, TokenDenial> {
    let hash = hash_token(token);
    let checked = match issuers.remembered(&hash) {
        Some(known) => known,
        None => match issuers.check(token, hash) {
            TokenCheck::Now(checked) => checked,
            TokenCheck::Later(check) => check.run().await,
        },
    };
    checked.map(|known| known.facts.subject.clone())
}

fn state(issuers: &Issuers) -> Arc<IssuerState> {
    Arc::clone(&read(&issuers.states)[0])
}

/// Forgets that a token had the keys read a moment ago.
fn after_a_pause(issuers: &Issuers) {
    lock(&state(issuers).keys).asked = None;
}

const INVALID: Result<String, TokenDenial> = Err(TokenDenial::Invalid);

// wire: OR-9, OR-10
#[tokio::test]
async fn a_token_is_checked_once_and_then_found_by_its_hash() {
    let issuer = Issuer::start().await;
    let issuers = accepting(&issuer);
    let token = issuer.token("ada", AUDIENCE, &json!({}));
    assert_eq!(check(&issuers, &token).await, Ok("ada".to_owned()));
    for _ in 0..3 {
        assert!(issuers.remembered(&hash_token(&token)).unwrap().is_ok(), "it is known");
    }
    let text = format!("{:?}", state(&issuers).rule);
    assert!(!text.contains("s3cret"), "{text}");
}

// wire: OA-2
#[tokio::test]
async fn metadata_that_speak_for_another_issuer_are_not_used() {
    let issuer = Issuer::start().await;
    // Its documents are found at the same place, and say that they are of the other.
    let other = format!("{}/", issuer.url);
    let issuers = Issuers::new(None, system_clock(), &Arc::default());
    let rules = vec![IssuerRule { issuer: other.clone(), ..rule(&issuer) }];
    issuers.follow(Some(&TokenAccess { issuers: rules, ..TokenAccess::default() }));
    let token = issuer.token("ada", AUDIENCE, &json!({"iss": other}));
    assert_eq!(check(&issuers, &token).await, Err(TokenDenial::Unclear(RETRY)));
    assert_eq!(issuer.reads(), 0, "the keys that they name are not read");
}

// wire: OR-12, OA-14
#[tokio::test]
async fn tokens_with_made_up_keys_have_the_keys_read_once() {
    let (issuer, other) = (Issuer::start().await, Issuer::start().await);
    let issuers = accepting(&issuer);
    let good = issuer.token("ada", AUDIENCE, &json!({}));
    assert_eq!(check(&issuers, &good).await, Ok("ada".to_owned()));
    let before = issuer.reads();
    for number in 0..300 {
        other.rotate(&format!("kid-{number}"));
        let forged = other.sign(&issuer.claims("ada", AUDIENCE, &json!({"jti": number})));
        assert_eq!(check(&issuers, &forged).await, INVALID);
        assert_eq!(check(&issuers, &good).await, Ok("ada".to_owned()));
    }
    assert!(issuer.reads() <= before + 1, "{} reads", issuer.reads() - before);
}

// wire: OR-12, OA-15
#[tokio::test]
async fn keys_that_are_rotated_reused_or_withdrawn_are_noticed() {
    let issuer = Issuer::start().await;
    let issuers = accepting(&issuer);
    let old = issuer.token("old", AUDIENCE, &json!({}));
    assert_eq!(check(&issuers, &old).await, Ok("old".to_owned()));
    issuer.rotate("second");
    let new = issuer.token("new", AUDIENCE, &json!({}));
    after_a_pause(&issuers);
    assert_eq!(check(&issuers, &new).await, Ok("new".to_owned()));
    assert_eq!(check(&issuers, &old).await, Ok("old".to_owned()), "its key is still there");
    // A new key under the name of the old one.
    issuer.rotate("second");
    issuer.withdraw();
    let reused = issuer.token("reused", AUDIENCE, &json!({}));
    after_a_pause(&issuers);
    assert_eq!(check(&issuers, &reused).await, Ok("reused".to_owned()));
    assert_eq!(check(&issuers, &old).await, INVALID, "its key is gone");
    assert_eq!(check(&issuers, &new).await, INVALID, "its key is gone");
}

// wire: OR-12, OA-15
#[tokio::test]
async fn old_keys_count_for_a_day_while_the_issuer_is_down() {
    let issuer = Issuer::start().await;
    let issuers = accepting(&issuer);
    let first = issuer.token("first", AUDIENCE, &json!({}));
    assert_eq!(check(&issuers, &first).await, Ok("first".to_owned()));
    issuer.set_down(true);
    after_a_pause(&issuers);
    let (second, third) =
        (issuer.token("second", AUDIENCE, &json!({})), issuer.token("third", AUDIENCE, &json!({})));
    issuer.rotate("next");
    let unknown = issuer.token("unknown", AUDIENCE, &json!({}));
    let unclear = Err(TokenDenial::Unclear(RETRY));
    assert_eq!(check(&issuers, &unknown).await, unclear, "nobody can tell, so nobody says no");
    let read_before = |time| lock(&state(&issuers).keys).read = Instant::now().checked_sub(time);
    read_before(Duration::from_hours(23));
    assert_eq!(check(&issuers, &second).await, Ok("second".to_owned()));
    read_before(Duration::from_hours(25));
    assert_eq!(check(&issuers, &third).await, unclear);
}

// wire: OR-12, OA-15
#[tokio::test]
async fn valid_tokens_count_for_a_day_without_their_issuer() {
    let issuer = Issuer::start().await;
    let ahead = Arc::new(AtomicU64::new(0));
    let (shift, real) = (Arc::clone(&ahead), system_clock());
    let clock: Clock = Arc::new(move || real() + shift.load(Ordering::Relaxed));
    let issuers = Issuers::new(None, clock, &Arc::default());
    let rules = vec![rule(&issuer)];
    issuers.follow(Some(&TokenAccess { issuers: rules, ..TokenAccess::default() }));
    let token = |number: u64| {
        let now = system_clock()() + number * 60;
        issuer.token("ada", AUDIENCE, &json!({"jti": number, "exp": now + 600}))
    };
    assert_eq!(check(&issuers, &token(0)).await, Ok("ada".to_owned()));
    issuer.set_down(true);
    tokio::time::pause();
    let mut last = token(0);
    for minute in 1..24 * 60 {
        tokio::time::advance(Duration::from_mins(1)).await;
        ahead.store(minute * 60, Ordering::Relaxed);
        for token in [token(minute), last] {
            assert_eq!(check(&issuers, &token).await, Ok("ada".to_owned()), "{minute}");
        }
        last = token(minute);
    }
    tokio::time::advance(Duration::from_mins(10)).await;
    let unclear = Err(TokenDenial::Unclear(RETRY));
    assert_eq!(check(&issuers, &token(24 * 60)).await, unclear, "after a day nobody can tell");
}

// wire: OR-12, OA-15
#[tokio::test]
async fn keys_that_rotate_under_load_cost_no_valid_token() {
    let issuer = Arc::new(Issuer::start().await);
    let issuers = accepting(&issuer);
    let (checked, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let clients = (0..4).map(|client| {
        let (issuer, issuers) = (Arc::clone(&issuer), Arc::clone(&issuers));
        let (checked, is_over) = (Arc::clone(&checked), Arc::clone(&is_over));
        tokio::spawn(async move {
            let (user, mut number) = (format!("user-{client}"), 0);
            let known = issuer.token(&user, AUDIENCE, &json!({"jti": "known"}));
            while !is_over.load(Ordering::Relaxed) {
                number += 1;
                let new = issuer.token(&user, AUDIENCE, &json!({"jti": number}));
                for token in [&new, &known] {
                    assert_eq!(check(&issuers, token).await, Ok(user.clone()), "{number}");
                }
                checked.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    for round in 0..10 {
        // Everybody has seen the key before, so that nobody reads keys at this moment.
        let enough = checked.load(Ordering::Relaxed) + 40;
        while checked.load(Ordering::Relaxed) < enough
            && !clients.iter().any(JoinHandle::is_finished)
        {
            tokio::task::yield_now().await;
        }
        after_a_pause(&issuers);
        issuer.rotate(&format!("round-{round}"));
    }
    is_over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    assert!(issuer.reads() >= 10, "{} reads", issuer.reads());
}

// wire: OA-13
#[tokio::test]
async fn a_remembered_token_ends_with_its_time() {
    let issuer = Issuer::start().await;
    let ahead = Arc::new(AtomicU64::new(0));
    let (shift, real) = (Arc::clone(&ahead), system_clock());
    let clock: Clock = Arc::new(move || real() + shift.load(Ordering::Relaxed));
    let issuers = Issuers::new(None, clock, &Arc::default());
    let rules = vec![rule(&issuer)];
    issuers.follow(Some(&TokenAccess { issuers: rules, ..TokenAccess::default() }));
    let token = issuer.token("ada", AUDIENCE, &json!({}));
    assert_eq!(check(&issuers, &token).await, Ok("ada".to_owned()));
    ahead.store(600 + 50, Ordering::Relaxed);
    assert_eq!(check(&issuers, &token).await, Ok("ada".to_owned()), "within the leeway");
    ahead.store(600 + 70, Ordering::Relaxed);
    assert_eq!(check(&issuers, &token).await, INVALID);
}

// wire: OR-13
#[tokio::test]
async fn issuers_are_asked_about_opaque_tokens_and_remembered_for_a_moment() {
    let issuer = Issuer::start().await;
    let issuers = accepting(&issuer);
    assert_eq!(check(&issuers, "opaque-1").await, INVALID);
    issuer.activate("opaque-1", issuer.claims("ada", AUDIENCE, &json!({"iss": null})));
    assert_eq!(check(&issuers, "opaque-1").await, INVALID, "a no counts for some seconds");
    issuer.activate("opaque-2", issuer.claims("ada", AUDIENCE, &json!({})));
    assert_eq!(check(&issuers, "opaque-2").await, Ok("ada".to_owned()));
    let questions = issuer.questions();
    assert_eq!(check(&issuers, "opaque-2").await, Ok("ada".to_owned()));
    assert_eq!(issuer.questions(), questions);
    issuer
        .activate("opaque-3", issuer.claims("ada", AUDIENCE, &json!({"iss": "https://b.example"})));
    assert_eq!(check(&issuers, "opaque-3").await, INVALID);
    issuer.set_down(true);
    assert_eq!(check(&issuers, "opaque-4").await, Err(TokenDenial::Unclear(RETRY)));
    write(&issuers.known).values_mut().for_each(|it| it.until -= KNOWN_ANSWER);
    assert_eq!(check(&issuers, "opaque-2").await, Err(TokenDenial::Unclear(RETRY)));
}

#[tokio::test]
async fn tokens_are_remembered_within_a_bound() {
    let issuers = Issuers::new(None, system_clock(), &Arc::default());
    for number in 0..MAX_KNOWN + 100 {
        let mut hash = TokenHash::default();
        hash[..8].copy_from_slice(&number.to_be_bytes());
        issuers.remember(hash, None, KNOWN_NO);
    }
    assert_eq!(read(&issuers.known).len(), MAX_KNOWN);
}

#[test]
fn metadata_are_looked_for_where_the_rules_say() {
    // wire: OC-6
    let urls = |issuer| metadata_urls(issuer).join(" ");
    assert_eq!(
        urls("https://a.example"),
        "https://a.example/.well-known/oauth-authorization-server https://a.example/.well-known/openid-configuration"
    );
    assert_eq!(
        urls("https://a.example/t"),
        "https://a.example/.well-known/oauth-authorization-server/t https://a.example/.well-known/openid-configuration/t https://a.example/t/.well-known/openid-configuration"
    );
}

// wire: OS-8
#[tokio::test]
async fn a_token_that_is_remembered_after_the_end_of_its_grant_does_not_count() {
    let issuers = Issuers::new(None, system_clock(), &Arc::default());
    let signer = switchboard_net::auth::jws::Signer::generate_es256().unwrap();
    let issuer = Issuer::start().await;
    let facade = crate::token::FacadeRule { issuer: "corp".to_owned(), ..Default::default() };
    issuers.follow(Some(&TokenAccess {
        issuers: vec![rule(&issuer)],
        public_url: Some("https://gw.example".to_owned()),
        facade: Some(facade),
        ..TokenAccess::default()
    }));
    issuers.set_own_keys(PublicJwk::read(&signer.public_jwk()).into_iter().collect());
    let changes = json!({"iss": "https://gw.example", "sid": "g"});
    let claims = issuer.claims("ada", AUDIENCE, &changes);
    let token = signer.sign(json!({"typ": "at+jwt"}), &claims).unwrap();
    let Ok(JwtCheck::Counts(known)) = issuers.check_jwt(&token) else { panic!("it counts") };
    issuers.end_grant("g".to_owned(), 600);
    issuers.remember(hash_token(&token), Some(known), KNOWN_JWT);
    assert_eq!(check(&issuers, &token).await, INVALID);
}

// wire: OS-7
#[tokio::test]
async fn a_check_of_our_own_tokens_holds_no_lock_that_a_reload_waits_for() {
    let issuer = Issuer::start().await;
    // Whether somebody else can change all tables while a check looks at the time.
    let (looked_at, held) = (Arc::new(OnceLock::<Weak<Issuers>>::new()), Arc::default());
    let (here, seen): (_, Arc<Mutex<Vec<bool>>>) = (Arc::clone(&looked_at), Arc::clone(&held));
    let real = system_clock();
    let clock: Clock = Arc::new(move || {
        if let Some(issuers) = here.get().and_then(Weak::upgrade) {
            let is_free = issuers.own.try_write().is_ok() && issuers.states.try_write().is_ok();
            lock(&seen).push(!is_free);
        }
        real()
    });
    let issuers = Issuers::new(None, clock, &Arc::default());
    let facade = crate::token::FacadeRule { issuer: "corp".to_owned(), ..Default::default() };
    let access = TokenAccess {
        issuers: vec![rule(&issuer)],
        public_url: Some(issuer.url.clone()),
        facade: Some(facade),
        ..TokenAccess::default()
    };
    issuers.follow(Some(&access));
    let (published, _) = state(&issuers).fetch_keys().await.unwrap();
    issuers.set_own_keys(published);
    assert!(looked_at.set(Arc::downgrade(&issuers)).is_ok());
    let claims = issuer.claims("ada", AUDIENCE, &json!({OWN_GRANT: "g"}));
    let token = issuer.sign(&claims);
    assert_eq!(check(&issuers, &token).await, Ok("ada".to_owned()));
    assert!(!lock(&held).is_empty() && !lock(&held).contains(&true), "{held:?}");
}
