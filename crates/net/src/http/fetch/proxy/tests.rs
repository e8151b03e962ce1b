//! Variables in, proxies out.

use super::*;

#[test]
fn each_scheme_finds_its_proxy() {
    check("HTTP_PROXY=http://one:1 HTTPS_PROXY=http://two:2", "http://a.example", "one:1");
    check("HTTP_PROXY=http://one:1 HTTPS_PROXY=http://two:2", "https://a.example", "two:2");
    check("HTTP_PROXY=http://one:1 ALL_PROXY=http://all:9", "http://a.example", "one:1");
    check("HTTP_PROXY=http://one:1 ALL_PROXY=http://all:9", "https://a.example", "all:9");
    check("HTTP_PROXY=http://one:1", "https://a.example", "direct");
    check("https_proxy=two:2", "https://a.example", "two:2");
    check("", "https://a.example", "direct");
}

#[test]
fn lower_case_wins_and_an_empty_value_is_none() {
    check("https_proxy=http://low:1 HTTPS_PROXY=http://up:2", "https://a.example", "low:1");
    check("https_proxy= HTTPS_PROXY=http://up:2", "https://a.example", "up:2");
    check("HTTPS_PROXY=", "https://a.example", "direct");
}

#[test]
fn no_proxy_exempts_names_and_networks() {
    let vars = "ALL_PROXY=http://all:9 NO_PROXY=corp.example,*.wild.example,10.0.0.0/8,fd00::1";
    for (target, expected) in [
        ("https://corp.example", "direct"),
        ("https://sub.corp.example", "direct"),
        ("https://notcorp.example", "all:9"),
        ("https://sub.wild.example", "direct"),
        ("https://10.1.2.3:8443", "direct"),
        ("https://11.1.2.3", "all:9"),
        ("https://[fd00::1]", "direct"),
    ] {
        check(vars, target, expected);
    }
    check("ALL_PROXY=http://all:9 no_proxy=*", "https://a.example", "direct");
}

#[test]
fn loopback_goes_direct_unless_asked() {
    let settings = settings("ALL_PROXY=http://all:9");
    for target in ["http://localhost:1", "http://127.0.0.1:1", "http://127.9.9.9", "http://[::1]:1"]
    {
        check("ALL_PROXY=http://all:9", target, "direct");
        let asked = settings.clone().including_loopback().compile().unwrap();
        assert!(asked.towards(&target.parse().unwrap()).is_some(), "{target}");
    }
}

#[test]
fn upper_case_http_proxy_is_not_trusted_in_cgi() {
    check("HTTP_PROXY=http://evil:1 REQUEST_METHOD=GET", "http://a.example", "direct");
    check("http_proxy=http://one:1 REQUEST_METHOD=GET", "http://a.example", "one:1");
}

#[test]
fn unusable_proxies_are_named_by_their_variable_and_not_shown() {
    for value in
        ["ftp://user:secret@host", "http://user:secret@", "socks4://user:secret@host", "::"]
    {
        let refused = settings(&format!("HTTPS_PROXY={value}")).compile().unwrap_err();
        assert_eq!(refused.to_string(), "HTTPS_PROXY names no proxy that can be used", "{value}");
        assert!(!format!("{refused:?}").contains("secret"));
    }
}

#[test]
fn credentials_are_not_shown() {
    let settings = settings("ALL_PROXY=http://user:secret@proxy.example:3128");
    let proxies = settings.compile().unwrap();
    let shown = format!("{settings:?} {proxies:?}");
    assert!(shown.contains("proxy.example:3128"), "{shown}");
    assert!(!shown.contains("secret") && !shown.contains("user"), "{shown}");
}

#[track_caller]
fn check(vars: &str, target: &str, expected: &str) {
    let proxies = settings(vars).compile().unwrap();
    let found = proxies.towards(&target.parse().unwrap());
    let found =
        found.map_or("direct".to_owned(), |proxy| proxy.uri().authority().unwrap().to_string());
    assert_eq!(found, expected, "{vars} {target}");
}

fn settings(vars: &str) -> ProxySettings {
    let pairs = vars.split_whitespace().map(|pair| pair.split_once('=').unwrap());
    ProxySettings::from_vars(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())))
}
