//! Who is let in, what they see, and how often they may call.

use std::time::{Duration, Instant};

use super::*;
use crate::glob::NameFilter;

fn list(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn principal(name: &str, keys: &[&str]) -> Arc<Principal> {
    let keys = keys.iter().map(|key| KeyHash::compute(key.as_bytes())).collect();
    Arc::new(Principal { name: name.to_owned(), keys, ..Principal::default() })
}

#[track_caller]
fn check(access: &Access, headers: &[(&'static str, &str)], expected: Result<&str, Denied>) {
    let headers = headers.iter().map(|(name, value)| {
        (http::HeaderName::from_static(name), value.parse::<http::HeaderValue>().unwrap())
    });
    let found = access.identify(&headers.collect());
    assert_eq!(
        found.as_ref().map(|(who, _)| who.name.as_str()),
        expected.as_ref().map(|name| *name)
    );
}

#[test]
fn a_key_tells_who_somebody_is() {
    let principals = vec![principal("ada", &["one", "two"]), principal("bob", &["three"])];
    let mut access = Access { principals, anonymous: None, tokens: None };
    check(&access, &[("x-api-key", "one")], Ok("ada"));
    check(&access, &[("authorization", "Bearer two")], Ok("ada"));
    check(&access, &[("authorization", "bearer  three")], Ok("bob"));
    check(&access, &[("authorization", "Basic three")], Err(Denied::NoKey));
    check(&access, &[("authorization", "Bearer four")], Err(Denied::UnknownKey));
    check(&access, &[("x-api-key", "four"), ("authorization", "Bearer one")], Ok("ada"));
    check(&access, &[("x-api-key", "")], Err(Denied::UnknownKey));
    check(&access, &[("cookie", "one")], Err(Denied::NoKey));
    check(&access, &[], Err(Denied::NoKey));
    access.anonymous = Some(principal("", &[]));
    check(&access, &[], Ok(""));
    check(&access, &[("x-api-key", "four")], Err(Denied::UnknownKey));
}

#[test]
fn where_nobody_has_a_key_none_is_wrong() {
    let open = Access::default();
    check(&open, &[("authorization", "Bearer of-another-server")], Ok(""));
    check(&open, &[], Ok(""));
    assert!(open.is_open());
}

#[test]
fn a_hash_is_written_and_read_and_shows_little() {
    let hash = KeyHash::compute(b"abc");
    let text = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(hash.to_string(), text);
    assert_eq!(text.parse(), Ok(hash));
    assert_eq!(text.to_uppercase().replace("SHA256", "sha256").parse(), Ok(hash));
    assert_eq!(format!("{hash:?}"), "sha256:ba78…");
    let long = format!("{text}0");
    for bad in ["", "sha256:", "abc", &text[..70], &text[7..], &long, "sha256:é"] {
        assert_eq!(bad.parse::<KeyHash>(), Err(BadHash), "{bad}");
    }
    assert!(hash.matches(&KeyHash::compute(b"abc")) && !hash.matches(&KeyHash::compute(b"abd")));
}

fn may_see(who: &Principal, server: &str, tool: &str) -> bool {
    who.grant.has_server(server) && who.grant.has_tool(server, tool)
}

#[test]
fn a_grant_names_servers_groups_and_tools() {
    let mut who = Principal::default();
    assert!(
        who.grant.has_server("files")
            && may_see(&who, "files", "read")
            && who.grant.has_group("dev")
    );
    who.grant.servers = Some(list(&["git*"]));
    assert!(who.grant.has_server("github") && !who.grant.has_server("files"));
    who.grant.tools =
        NameFilter { only: Some(list(&["github__get_*"])), never: list(&["*__get_key"]) };
    assert!(may_see(&who, "github", "get_issue"));
    assert!(!may_see(&who, "github", "delete") && !may_see(&who, "gitlab", "get_issue"));
    assert!(!may_see(&who, "github", "get_key"));
    assert!(!may_see(&who, "files", "get_issue"), "the server is not granted");
}

#[test]
fn what_two_rules_let_through_is_what_each_of_them_does() {
    let may = |name: &str, servers: &[&str], keys: &[&[u8]]| {
        let keys = keys.iter().map(|key| KeyHash::compute(key)).collect();
        let mut who = Principal { name: name.to_owned(), keys, ..Principal::default() };
        who.grant.servers = Some(list(servers));
        Arc::new(who)
    };
    let same = may("same", &["x"], &[b"s"]);
    let old = Access {
        principals: vec![may("ada", &["*"], &[b"1", b"2"]), may("gone", &["a"], &[b"g"]), same],
        anonymous: Some(Arc::default()),
        tokens: None,
    };
    let mut narrow = Principal::clone(&may("ada", &["a", "b"], &[b"2", b"3"]));
    narrow.grant.tools.never = list(&["a__drop"]);
    let same = may("same", &["x"], &[b"s"]);
    let new = Access {
        principals: vec![Arc::new(narrow), may("new", &["a"], &[b"n"]), Arc::clone(&same)],
        anonymous: None,
        tokens: None,
    };
    for both in [new.within(&old), old.within(&new)] {
        let names: Vec<_> = both.principals.iter().map(|who| who.name.as_str()).collect();
        assert_eq!((names, both.is_open()), (vec!["ada", "same"], false));
        let ada = &both.principals[0];
        assert_eq!(ada.keys, [KeyHash::compute(b"2")]);
        assert!(
            ada.grant.has_server("a") && ada.grant.has_server("b") && !ada.grant.has_server("c")
        );
        assert!(may_see(ada, "a", "get") && !may_see(ada, "a", "drop"));
        assert!(!ada.grant.is_open() && !ada.grant.has_all_tools());
        assert_eq!(both.principals[1], same);
    }
}

#[test]
fn who_has_groups_has_their_servers_and_no_others() {
    let mut who = Principal::default();
    who.grant.groups = Some(list(&["dev"]));
    who.grant.members = list(&["files"]);
    assert!(who.grant.has_server("files") && !who.grant.has_server("github"));
    assert!(who.grant.has_group("dev") && !who.grant.has_group("ops"));
    who.grant.servers = Some(list(&["github"]));
    assert!(
        who.grant.has_server("files")
            && who.grant.has_server("github")
            && !who.grant.has_server("other")
    );
}

/// Calls at these milliseconds, each over at once; which were let through.
fn play(rate: &str, calls: &[u64]) -> String {
    let mut meter = Meter::new(Some(rate.parse().unwrap()), None);
    let start = Instant::now();
    let told = calls.iter().map(|at| match meter.enter(start + Duration::from_millis(*at)) {
        Ok(()) => "ok".to_owned(),
        Err(Refusal::TooOften { wait }) => wait.as_millis().to_string(),
        Err(other) => other.to_string(),
    });
    told.collect::<Vec<_>>().join(" ")
}

#[test]
fn calls_beyond_the_rate_wait_for_their_share() {
    assert_eq!(play("2/s", &[0, 0, 0, 400, 500, 500]), "ok ok 500 100 ok 500");
    assert_eq!(play("2/s", &[0, 60_000, 60_000, 60_000]), "ok ok ok 500", "saved up to the bound");
    assert_eq!(play("1/s", &[5000, 0, 5999, 6000]), "ok 1000 1 ok", "a clock that goes back");
}

#[test]
fn open_calls_are_bounded_and_a_refused_one_costs_nothing() {
    let mut meter = Meter::new(Some("2/h".parse().unwrap()), Some(1));
    let now = Instant::now();
    assert_eq!(meter.enter(now), Ok(()));
    assert_eq!(meter.enter(now), Err(Refusal::TooManyCalls));
    meter.leave();
    assert_eq!(meter.enter(now), Ok(()), "the refused call was not counted");
    meter.leave();
    assert!(matches!(meter.enter(now), Err(Refusal::TooOften { .. })));
    meter.adjust(None, Some(2));
    assert_eq!((meter.enter(now), meter.enter(now)), (Ok(()), Ok(())));
    assert_eq!(meter.enter(now), Err(Refusal::TooManyCalls));
    assert_eq!(meter.open(), 2);
}

#[test]
fn a_rate_is_a_number_and_a_time() {
    let rate = |calls, seconds| Ok(Rate { calls, per: Duration::from_secs(seconds) });
    assert_eq!("60/m".parse(), rate(60, 60));
    assert_eq!("1000 / hour".parse(), rate(1000, 3600));
    for bad in ["", "60", "0/s", "-1/s", "60/fortnight", "x/s"] {
        assert!(bad.parse::<Rate>().is_err(), "{bad}");
    }
}
