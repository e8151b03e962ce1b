//! Who gets past the guard, as tables: the head of a request, and what comes of it.

use http::request::Parts;
use http::{HeaderMap, Request, Version};
use switchboard_net::access::Guard;

#[test]
fn loopback_guard_knows_its_own_names_and_no_other_host() {
    // wire: MH-11, HTTP-28, OLD-1
    let guard = Guard::bound_to("127.0.0.1:8080".parse().unwrap());
    check(
        &guard,
        "host: localhost                       => passes
         host: localhost:8080                  => passes
         host: LOCALHOST:9999                  => passes
         host: 127.0.0.1:8080                  => passes
         host: 127.0.0.53:1                    => passes
         host: [::1]:8080                      => passes
         host: [0:0:0:0:0:0:0:1]               => passes
         host: [::ffff:127.0.0.1]:80           => passes
         host: evil.example.com                => 403
         host: evil.example.com:8080           => 403
         host: localhost.evil.example.com      => 403
         host: 127.0.0.1.evil.example.com      => 403
         host: 192.168.1.5:8080                => 403
         host: 0.0.0.0:8080                    => 403
         host: [::2]                           => 403
         host: ::1                             => 400
         host: [::1                            => 400
         host: [::1]8080                       => 400
         host: localhost:                      => 400
         host: localhost:70000                 => 400
         host: localhost:+80                   => 400
         host: localhost:80:80                 => 400
         host: user@localhost                  => 400
         host: localhost, evil.example.com     => 400
         host:                                 => 400
         host: localhost | host: localhost     => 400
         host: localhost | host: evil.example  => 400",
    );
}

#[test]
fn loopback_guard_lets_local_pages_in_and_no_others() {
    // wire: MH-11, HTTP-28
    let guard = Guard::loopback();
    check(
        &guard,
        "host: localhost                                                  => passes
         host: localhost | origin: http://localhost                       => passes
         host: localhost | origin: http://localhost:6274                  => passes
         host: localhost | origin: HTTPS://LocalHost:6274                 => passes
         host: localhost | origin: http://127.0.0.1:3000                  => passes
         host: localhost | origin: http://[::1]:3000                      => passes
         host: localhost | origin: null                                   => 403
         host: localhost | origin:                                        => 403
         host: localhost | origin: http://evil.example.com                => 403
         host: localhost | origin: http://localhost.evil.example.com      => 403
         host: localhost | origin: http://localhost@evil.example.com      => 403
         host: localhost | origin: http://evil.example.com#localhost      => 403
         host: localhost | origin: file://localhost                       => 403
         host: localhost | origin: vscode-webview://localhost             => 403
         host: localhost | origin: http://localhost | origin: http://localhost => 403
         host: evil.example.com | origin: http://evil.example.com         => 403
         host: evil.example.com | origin: http://localhost                => 403",
    );
}

#[test]
fn listed_hosts_and_origins_pass_beside_the_local_ones() {
    let guard = Guard::loopback()
        .allow_host("mcp.example.com")
        .allow_host("Ported.Example.com:8443")
        .allow_origin("https://App.example.com/")
        .allow_origin("vscode-webview://abc");
    check(
        &guard,
        "host: MCP.example.com                                          => passes
         host: mcp.example.com:8443                                     => passes
         host: ported.example.com:8443                                  => passes
         host: ported.example.com                                       => 403
         host: sub.mcp.example.com                                      => 403
         host: localhost | origin: https://app.example.com              => passes
         host: localhost | origin: https://app.example.com:444          => 403
         host: localhost | origin: http://app.example.com               => 403
         host: localhost | origin: vscode-webview://abc                 => passes
         host: localhost | origin: vscode-webview://abd                 => 403
         host: mcp.example.com | origin: https://mcp.example.com        => passes
         host: mcp.example.com | origin: https://mcp.example.com:99     => 403
         host: localhost | origin: https://mcp.example.com              => 403",
    );
    check(&Guard::loopback().allow_origin("null"), "host: localhost | origin: null => passes");
    check(
        &Guard::loopback().allow_origin("*"),
        "host: localhost | origin: null                    => passes
         host: localhost | origin: http://evil.example.com => passes
         host: evil.example.com                            => 403",
    );
}

#[test]
fn guard_of_a_public_address_lets_in_its_own_pages_by_address_only() {
    // A name may be rebound, so that equal Host and Origin prove nothing.
    let guard = Guard::bound_to("0.0.0.0:8080".parse().unwrap());
    check(
        &guard,
        "host: anything.example.com:8080                                          => passes
         host: 192.168.1.5:8080 | origin: http://192.168.1.5:8080                 => passes
         host: 192.168.1.5:8080 | origin: http://192.168.1.5:8081                 => 403
         host: [fd00::5]:8080 | origin: http://[fd00::5]:8080                     => passes
         host: evil.example.com:8080 | origin: http://evil.example.com:8080       => 403
         host: 192.168.1.5:8080 | origin: http://localhost                        => 403",
    );
    let named = Guard::bound_to("0.0.0.0:8080".parse().unwrap()).allow_host("mcp.example.com");
    check(&named, "host: mcp.example.com | origin: https://mcp.example.com => passes");
}

#[test]
fn open_guard_lets_everybody_in() {
    check(
        &Guard::open(),
        "host: anything.example.com                                  => passes
         host: anything.example.com | origin: null                   => passes
         host: anything.example.com | origin: http://evil.example.com => passes",
    );
}

#[test]
fn missing_host_is_excused_in_http_1_0_only() {
    for (version, expected) in
        [(Version::HTTP_10, "passes"), (Version::HTTP_11, "400"), (Version::HTTP_2, "400")]
    {
        let mut parts = parts("", "/mcp");
        parts.version = version;
        assert_eq!(outcome(&Guard::loopback(), &parts), expected, "{version:?}");
    }
    let mut foreign = parts("origin: http://evil.example.com", "/mcp");
    foreign.version = Version::HTTP_10;
    assert_eq!(outcome(&Guard::loopback(), &foreign), "403");
}

#[test]
fn authority_of_the_target_counts_as_a_host_too() {
    let guard = Guard::loopback();
    for (head, target, expected) in [
        ("", "http://localhost:8080/mcp", "passes"),
        ("", "http://evil.example.com/mcp", "403"),
        ("host: localhost", "http://evil.example.com/mcp", "403"),
        ("host: evil.example.com", "http://localhost/mcp", "403"),
    ] {
        assert_eq!(outcome(&guard, &parts(head, target)), expected, "{head} {target}");
    }
}

#[test]
fn refusals_say_what_was_wrong() {
    let refused = |head| Guard::loopback().check(&parts(head, "/")).unwrap_err().to_string();
    assert_eq!(refused("host: evil.example"), r#"host "evil.example" is not served here"#);
    assert_eq!(
        refused("host: localhost | origin: http://evil.example"),
        r#"origin "http://evil.example" is not allowed here"#
    );
}

#[test]
fn preflight_of_a_listed_origin_is_answered_with_our_headers() {
    // wire: HTTP-29, HDR-16
    let guard = Guard::loopback().allow_origin("https://app.example.com");
    let mut asked = parts(
        "origin: https://app.example.com
         | access-control-request-method: POST
         | access-control-request-headers: content-type, mcp-param-city, x-other",
        "/mcp",
    );
    asked.method = http::Method::OPTIONS;
    let answer = guard.preflight(&asked).unwrap();
    assert_eq!(
        shown(&answer),
        "access-control-allow-headers: authorization, content-type, last-event-id, mcp-method, \
         mcp-name, mcp-protocol-version, mcp-session-id, x-api-key, mcp-param-city
access-control-allow-methods: GET, POST, DELETE, OPTIONS
access-control-allow-origin: https://app.example.com
access-control-expose-headers: mcp-session-id, retry-after, www-authenticate
access-control-max-age: 7200
vary: origin"
    );
    asked.method = http::Method::POST;
    assert_eq!(guard.preflight(&asked), None);
}

#[test]
fn only_listed_origins_and_those_of_this_machine_are_granted_cors() {
    // wire: HTTP-29
    let local = parts("host: localhost | origin: http://localhost:3000", "/").headers;
    let mut answer = HeaderMap::new();
    Guard::loopback().grant(&local).unwrap().apply(&mut answer);
    assert_eq!(answer["access-control-allow-origin"], "http://localhost:3000");
    let elsewhere = Guard::bound_to("0.0.0.0:8080".parse().unwrap());
    assert_eq!(elsewhere.grant(&local), None);
    assert_eq!(Guard::open().grant(&local), None);
    assert_eq!(elsewhere.allow_origin("http://localhost").grant(&local), None);
    for foreign in
        ["https://app.example", "http://localhost.evil.example", "app://localhost", "null"]
    {
        let foreign = parts(&format!("host: localhost | origin: {foreign}"), "/").headers;
        assert_eq!(Guard::loopback().grant(&foreign), None, "{foreign:?}");
    }

    let mut answer = HeaderMap::new();
    Guard::loopback().allow_origin("*").grant(&local).unwrap().apply(&mut answer);
    assert_eq!(
        shown(&answer),
        "access-control-allow-origin: *
access-control-expose-headers: mcp-session-id, retry-after, www-authenticate"
    );
    let program = parts("host: localhost", "/").headers;
    assert_eq!(Guard::loopback().allow_origin("*").grant(&program), None);
}

/// One request head a line, `=>`, what comes of it.
#[track_caller]
fn check(guard: &Guard, table: &str) {
    for line in table.lines() {
        let (head, expected) = line.split_once("=>").unwrap();
        assert_eq!(outcome(guard, &parts(head, "/mcp")), expected.trim(), "{}", head.trim());
    }
}

fn outcome(guard: &Guard, parts: &Parts) -> String {
    match guard.check(parts) {
        Ok(()) => "passes".to_owned(),
        Err(refused) => refused.status().as_u16().to_string(),
    }
}

fn parts(head: &str, target: &str) -> Parts {
    let mut request = Request::post(target);
    for header in head.split('|').map(str::trim).filter(|header| !header.is_empty()) {
        let (name, value) = header.split_once(':').unwrap();
        request = request.header(name, value.trim());
    }
    request.body(()).unwrap().into_parts().0
}

fn shown(headers: &HeaderMap) -> String {
    let mut lines = headers
        .iter()
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
        .collect::<Vec<_>>();
    lines.sort();
    lines.join("\n")
}
