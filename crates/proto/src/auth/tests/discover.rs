//! Documents of servers: which are read, and which are not believed.

use super::*;

#[test]
fn documents_of_others_end_it_before_anything_is_sent() {
    // wire: OC-4, OC-7, OC-8, OC-11, OC-24, OA-2, OA-4, OA-5, AUTH-4, AUTH-7, AUTH-12, AUTH-13
    type Change = fn(&mut World);
    let cases: [(Change, &str); 9] = [
        (|it| it.say("issuer", json!("https://evil.example")), "says that it is \"https://evil"),
        (|it| it.say("issuer", json!(format!("{AS}/"))), "says that it is"),
        (|it| it.say("code_challenge_methods_supported", json!(["plain"])), "PKCE"),
        (|it| it.say("authorization_endpoint", json!("javascript:alert(1)")), "not an https URL"),
        (|it| it.say("token_endpoint", json!("http://as.example/token")), "not an https URL"),
        (|it| it.say("registration_endpoint", Value::Null), "set oauth.clientId"),
        (
            |it| {
                it.settings.issuer = Some("https://mine.example".to_owned());
                it.settings.client_id = Some("id".to_owned());
            },
            "the client id is for https://mine.example, but the server's tokens come from https://as",
        ),
        (
            |it| {
                let url = "https://mcp.example/.well-known/oauth-protected-resource/mcp";
                let other = json!({"resource": "https://evil/mcp", "authorization_servers": [AS]});
                it.put(url, 200, other);
            },
            "which is another server",
        ),
        (
            |it| {
                let url = "https://mcp.example/.well-known/oauth-protected-resource/mcp";
                it.put(url, 200, json!({"resource": SERVER}));
            },
            "does not say who issues",
        ),
    ];
    for (change, expected) in cases {
        let mut world = World::new();
        change(&mut world);
        let error = world.sign_in().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        let sent = |line: &String| line.starts_with("OPEN") || line.contains("/token");
        assert!(!world.log.iter().any(sent), "{:#?}", world.log);
    }
    // Ways out, by hand.
    let mut world = World::new();
    world.say("issuer", json!("https://other.example"));
    world.say("code_challenge_methods_supported", json!([]));
    world.settings.trusted_issuer = Some("https://other.example".to_owned());
    world.settings.assume_pkce = true;
    world.sign_in().unwrap();
}

#[test]
fn the_issuer_is_the_one_of_our_tokens_then_the_configured_one_then_the_first_that_answers() {
    // wire: OC-5, OC-24, AUTH-5, AUTH-12
    const OTHER: &str = "https://other.example";
    let world = || {
        let mut world = World::new();
        let url = "https://mcp.example/.well-known/oauth-protected-resource/mcp";
        let servers = json!([OTHER, AS]);
        world.put(url, 200, json!({"resource": SERVER, "authorization_servers": servers}));
        let metadata = server_metadata().to_string().replace(AS, OTHER);
        let metadata = serde_json::from_str(&metadata).unwrap();
        world.put(&format!("{OTHER}/.well-known/oauth-authorization-server"), 200, metadata);
        world.put(&format!("{OTHER}/register"), 201, json!({"client_id": "theirs"}));
        world.put(&format!("{OTHER}/token"), 200, tokens());
        world
    };
    let first = world().sign_in().unwrap();
    assert_eq!((&*first.source.issuer, &*first.source.client.client_id), (OTHER, "theirs"));
    let mut configured = world();
    configured.settings.issuer = Some(AS.to_owned());
    let second = configured.sign_in().unwrap();
    assert_eq!((&*second.source.issuer, &*second.source.client.client_id), (AS, "dyn"));
    let asked = |log: &[String]| log.iter().any(|line| line.contains(OTHER));
    assert!(!asked(&configured.log), "{:#?}", configured.log);
    let mut again = world();
    again.before = Some(second);
    assert_eq!(again.sign_in().unwrap().source.issuer, AS, "that of the tokens before");
    assert!(!asked(&again.log), "{:#?}", again.log);
    let mut failing = world();
    failing.put(&format!("{OTHER}/.well-known/oauth-authorization-server"), 500, json!({}));
    assert_eq!(failing.sign_in().unwrap().source.issuer, AS, "the first that answers");
}

#[test]
fn metadata_that_cannot_be_had_is_not_metadata_that_is_not_there() {
    // wire: OC-3, OC-9, OA-8, AUTH-3, AUTH-8
    let place = "https://mcp.example/.well-known/oauth-protected-resource/mcp";
    for status in [0, 429, 500, 503] {
        let mut world = World::new();
        world.put(place, status, Value::Null);
        assert!(world.sign_in().unwrap_err().is_temporary());
        assert_eq!(world.log.len(), 1);
    }
    // Nothing anywhere: what servers of 2025-03-26 have.
    let mut world = World::new();
    world.pages.clear();
    world.put("https://mcp.example/register", 200, json!({"client_id": "old"}));
    world.put("https://mcp.example/token", 200, tokens());
    world.sign_in().unwrap();
    let asked: Vec<_> = world.log.iter().filter_map(|line| line.strip_suffix(" GET")).collect();
    let expected = [
        place,
        "https://mcp.example/.well-known/oauth-protected-resource",
        "https://mcp.example/.well-known/oauth-authorization-server",
    ];
    assert_eq!(asked, expected);
    assert!(world.opened().starts_with("OPEN https://mcp.example/authorize?"));
    // Its own metadata may have a path in its name, but no other host.
    let place_of_server = "https://mcp.example/.well-known/oauth-authorization-server";
    let mut metadata = server_metadata();
    metadata["issuer"] = json!("https://mcp.example/oauth");
    world.put(place_of_server, 200, metadata.clone());
    world.put(&format!("{AS}/register"), 200, json!({"client_id": "old"}));
    world.put(&format!("{AS}/token"), 200, tokens());
    assert_eq!(world.sign_in().unwrap().source.issuer, "https://mcp.example/oauth");
    metadata["issuer"] = json!("https://mcp.example.evil/oauth");
    world.put(place_of_server, 200, metadata);
    assert!(matches!(world.sign_in(), Err(AuthError::OtherIssuer { .. })));
    // A page for all that is not known is no metadata, and 404 to the registration no OAuth.
    let mut world = World::new();
    world.pages.clear();
    world.put(place, 200, json!("<html>"));
    assert_eq!(world.sign_in().unwrap_err(), AuthError::NoOauth);
}
