//! What is kept, for whom, and until when.

use http::{HeaderMap, HeaderValue};
use serde_json::json;

use super::*;
use crate::http::fetch::{Fetch, FetchOptions, ServerTls};
use crate::http::tls::TlsIdentity;
use crate::upstream::Strategy;

fn place(url: &'static str, token: &'static str) -> CacheOwner {
    let headers =
        HeaderMap::from_iter([(http::header::AUTHORIZATION, HeaderValue::from_static(token))]);
    let fetch = Fetch::new(FetchOptions::default()).unwrap();
    let url = http::Uri::from_static(url);
    CacheOwner::new(&ServerTarget::url(url, Strategy::HttpOnly, headers, fetch))
}

fn result(ttl: &Value, scope: &str, text: &str) -> Bytes {
    json!({"ttlMs": ttl, "cacheScope": scope, "text": text}).to_string().into()
}

fn params(cursor: &str) -> Bytes {
    json!({ "cursor": cursor }).to_string().into()
}

const A: &str = "http://127.0.0.1:1/a";
const LIST: &str = method::LIST_TOOLS;

struct Keeper {
    cache: ResponseCache,
    now: Instant,
}

impl Keeper {
    fn new(most: usize) -> Self {
        Self { cache: ResponseCache::new(most), now: Instant::now() }
    }

    fn put(&self, place: &CacheOwner, cursor: &str, result: &Bytes) {
        let emptied = self.cache.emptied();
        self.cache.put(place, (LIST, &params(cursor)), result, emptied, self.now);
    }

    fn has(&self, place: &CacheOwner, cursor: &str) -> bool {
        self.cache.get(place, LIST, &params(cursor), self.now).is_some()
    }
}

/// wire: CACHE-3
#[test]
fn another_certificate_is_another_identity_and_other_trust_is_another_server() {
    let keeper = Keeper::new(1 << 20);
    let url = http::Uri::from_static("https://a/mcp");
    let own = rcgen::generate_simple_self_signed(["a".to_owned()]).unwrap();
    let (chain, key) = (own.cert.pem(), own.signing_key.serialize_pem());
    let identity = TlsIdentity::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
    let owner = |tls: &ServerTls| {
        let fetch = Fetch::new(FetchOptions::default()).unwrap().with_tls(&url, tls).unwrap();
        let headers = HeaderMap::new();
        CacheOwner::new(&ServerTarget::url(url.clone(), Strategy::HttpOnly, headers, fetch))
    };
    let plain = owner(&ServerTls::default());
    let certified = owner(&ServerTls::default().identity(identity));
    let insecure = owner(&ServerTls::default().insecure());
    keeper.put(&certified, "private", &result(&json!(1000), "private", ""));
    assert!(keeper.has(&certified, "private") && !keeper.has(&plain, "private"));
    keeper.put(&plain, "public", &result(&json!(1000), "public", ""));
    assert!(keeper.has(&certified, "public"), "anybody may have it");
    assert!(!keeper.has(&insecure, "public"), "it may be somebody else's");
    keeper.put(&insecure, "forged", &result(&json!(1000), "public", ""));
    assert!(!keeper.has(&plain, "forged"));
}

/// wire: CACHE-2
#[test]
fn a_result_is_fresh_for_as_long_as_its_server_says_and_no_longer() {
    let mut keeper = Keeper::new(1 << 20);
    let place = place(A, "x");
    for ttl in [json!(0), json!(-1), json!(null), json!("1"), json!(1.5)] {
        keeper.put(&place, "", &result(&ttl, "public", ""));
        assert!(!keeper.has(&place, ""), "{ttl}");
    }
    keeper.put(&place, "", &result(&json!(1000), "public", ""));
    keeper.now += Duration::from_millis(999);
    assert!(keeper.has(&place, ""));
    keeper.now += Duration::from_millis(1);
    assert!(!keeper.has(&place, ""));
    keeper.put(&place, "", &result(&json!(u64::MAX), "public", ""));
    keeper.now += LONGEST;
    assert!(!keeper.has(&place, ""), "nothing is kept for ever");
}

/// wire: CACHE-3
#[test]
fn private_results_stay_with_their_identity_and_public_ones_with_their_server() {
    let keeper = Keeper::new(1 << 20);
    let [ours, theirs] = [place(A, "ours"), place(A, "theirs")];
    let elsewhere = place("http://127.0.0.1:1/b", "ours");
    for scope in ["private", "unheard of"] {
        keeper.cache.clear();
        keeper.put(&ours, "", &result(&json!(1000), scope, ""));
        assert!(keeper.has(&ours, "") && keeper.has(&place(A, "ours"), ""), "{scope}");
        assert!(!keeper.has(&theirs, "") && !keeper.has(&ours, "other"), "{scope}");
    }
    keeper.cache.clear();
    keeper.put(&ours, "", &result(&json!(1000), "public", ""));
    assert!(keeper.has(&theirs, "") && !keeper.has(&elsewhere, ""));
    let child = crate::stdio::child::Command::parse("x").unwrap();
    let child = ServerTarget::command(child, Vec::new());
    keeper.put(&CacheOwner::new(&child), "", &result(&json!(1000), "public", ""));
    assert!(!keeper.has(&CacheOwner::new(&child), ""), "each child is a server of its own");
}

/// wire: CACHE-4
#[test]
fn pages_of_a_list_share_the_narrowest_scope() {
    let keeper = Keeper::new(1 << 20);
    let [ours, theirs] = [place(A, "ours"), place(A, "theirs")];
    let [public, private] = ["public", "private"].map(|scope| result(&json!(1000), scope, ""));
    keeper.put(&ours, "1", &public);
    assert!(keeper.has(&theirs, "1"));
    keeper.put(&ours, "2", &private);
    assert!(!keeper.has(&theirs, "1"), "it cannot have been for everybody");
    keeper.put(&ours, "3", &public);
    assert!(keeper.has(&ours, "3") && !keeper.has(&theirs, "3"));
}

/// wire: CACHE-5
#[test]
fn a_note_empties_what_it_is_about_and_what_is_on_its_way() {
    let keeper = Keeper::new(1 << 20);
    let place = place(A, "x");
    let kept = result(&json!(1000), "public", "");
    let read = |uri: &str| Bytes::from(json!({ "uri": uri }).to_string());
    let put = |uri: &str, emptied: u64| {
        keeper.cache.put(&place, (method::READ_RESOURCE, &read(uri)), &kept, emptied, keeper.now);
    };
    let has = |uri: &str| {
        keeper.cache.get(&place, method::READ_RESOURCE, &read(uri), keeper.now).is_some()
    };
    let before = keeper.cache.emptied();
    for uri in ["file:///a", "file:///b"] {
        put(uri, before);
    }
    keeper.put(&place, "", &kept);
    keeper.cache.handle_note(&place, method::UPDATED, || json!({"uri": "file:///a/part"}));
    assert!(!has("file:///a") && has("file:///b") && keeper.has(&place, ""));
    put("file:///a", before);
    assert!(!has("file:///a"), "it was asked for before the change");
    keeper.cache.handle_note(&place, "notifications/tools/list_changed", || json!({}));
    assert!(has("file:///b") && !keeper.has(&place, ""));
    keeper.cache.handle_note(&place, "notifications/message", || panic!("nothing to look at"));
}

#[test]
fn there_is_a_bound_and_what_is_stale_soonest_goes_first() {
    let keeper = Keeper::new(3 * 1024);
    let place = place(A, "x");
    let text = "x".repeat(500);
    for (cursor, ttl) in [("1", 3000), ("2", 1000), ("3", 2000), ("4", 4000)] {
        keeper.put(&place, cursor, &result(&json!(ttl), "public", &text));
    }
    let has: Vec<_> = ["1", "2", "3", "4"].map(|cursor| keeper.has(&place, cursor)).into();
    assert_eq!(has, [true, false, true, true]);
    keeper.put(&place, "5", &result(&json!(9000), "public", &"x".repeat(4096)));
    assert!(!keeper.has(&place, "5"));
    assert!(lock(&keeper.cache.entries).bytes <= 3 * 1024);
}

#[test]
fn a_result_that_does_not_fit_costs_the_others_nothing() {
    let keeper = Keeper::new(2000);
    let place = place(A, "x");
    keeper.put(&place, "a", &result(&json!(1000), "public", ""));
    keeper.put(&place, "b", &result(&json!(1000), "public", &"b".repeat(3000)));
    assert!(keeper.has(&place, "a"));
    assert!(!keeper.has(&place, "b"));
}

#[test]
fn what_is_kept_and_for_whom_is_in_no_log() {
    let keeper = Keeper::new(2000);
    let place = place("http://127.0.0.1:1/a?key=secret", "secret");
    keeper.put(&place, "a", &result(&json!(1000), "private", "secret"));
    let shown = format!("{:?}", keeper.cache);
    assert!(shown.contains("entries: 1"), "{shown}");
    assert!(!shown.contains("secret") && !shown.contains("115, 101"), "{shown}");
}
