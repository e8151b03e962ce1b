//! Who we are at an authorization server.

use super::*;

#[test]
fn the_client_is_who_the_user_says_then_a_document_then_registered() {
    // wire: OC-20, OC-22, OC-25, OC-40, AUTH-9, AUTH-10
    let mut world = World::new();
    world.say("client_id_metadata_document_supported", json!(true));
    world.settings.client_metadata_url = Some("https://me.example/client.json".to_owned());
    world.sign_in().unwrap();
    assert!(world.opened().contains("client_id=https%3A%2F%2Fme.example%2Fclient.json&"));
    assert!(!world.log.iter().any(|line| line.contains("/register")));

    // With a key, where the server takes signatures of ours; without, where it does not.
    world.settings.private_key = Some(Secret::new("pem"));
    world.settings.public_metadata_url = Some("https://me.example/public.json".to_owned());
    for (methods, algorithms, document) in [
        (json!(["private_key_jwt"]), json!(null), "client"),
        (json!(["none", "private_key_jwt"]), json!(["ES256"]), "client"),
        (json!(["private_key_jwt"]), json!(["RS256"]), "public"),
        (json!(["none"]), json!(null), "public"),
        (json!(null), json!(null), "public"),
    ] {
        world.say("token_endpoint_auth_methods_supported", methods);
        world.say("token_endpoint_auth_signing_alg_values_supported", algorithms);
        world.log.clear();
        let record = world.sign_in().unwrap();
        let id = format!("client_id=https%3A%2F%2Fme.example%2F{document}.json&");
        assert!(world.opened().contains(&id), "{}", world.opened());
        assert_eq!(world.token_requests()[0].contains("client_assertion="), document == "client");
        // A renewal needs nothing but the record.
        assert_eq!(record.source.client.private_key.is_some(), document == "client");
    }
    // A client that was registered has no key, whatever is said of it.
    world.say("client_id_metadata_document_supported", json!(false));
    world.log.clear();
    world.sign_in().unwrap();
    assert!(world.opened().contains("client_id=dyn&"), "{}", world.opened());
    assert!(!world.token_requests()[0].contains("client_assertion="));
    world.settings.private_key = None;

    world.settings.client_id = Some("my id".to_owned());
    world.settings.client_secret = Some(Secret::new("s:1"));
    world.log.clear();
    world.sign_in().unwrap();
    assert!(world.opened().contains("client_id=my%20id&"));
    // The id and the secret are encoded before they are joined.
    assert!(world.token_requests()[0].ends_with(" [Basic bXklMjBpZDpzJTNBMQ==]"));
    assert!(!world.token_requests()[0].contains("client_id"));

    world.say("token_endpoint_auth_methods_supported", json!(["client_secret_post"]));
    world.log.clear();
    world.sign_in().unwrap();
    assert!(world.token_requests()[0].ends_with("&client_id=my%20id&client_secret=s%3A1"));

    // A registration for another port is of no use, nor one whose secret is over.
    let mut world = World::new();
    world.tools.now.store(50, Ordering::Relaxed);
    let stored = |uri: &str, end| Registration {
        issuer: AS.to_owned(),
        client_id: "stored".to_owned(),
        redirect_uris: vec![uri.to_owned()],
        secret_expires_at: end,
        is_dynamic: true,
        ..Registration::default()
    };
    for (registration, is_used) in [
        (stored(REDIRECT, None), true),
        (stored("http://localhost:4100/callback", Some(51)), true),
        (stored("http://127.0.0.1:1/callback", None), false),
        (stored(REDIRECT, Some(50)), false),
        (Registration { is_in_doubt: true, ..stored(REDIRECT, None) }, false),
        (Registration { issuer: "https://old".to_owned(), ..stored(REDIRECT, None) }, false),
    ] {
        world.registrations.insert(AS.to_owned(), registration);
        world.log.clear();
        world.sign_in().unwrap();
        assert_eq!(world.opened().contains("client_id=stored"), is_used, "{:#?}", world.log);
    }
}

#[test]
fn a_server_that_has_forgotten_us_is_told_once_more() {
    // wire: OC-26, OC-27
    let mut world = World::new();
    let token = format!("{AS}/token");
    world.put(&token, 401, json!({"error": "invalid_client"}));
    world.then(&token, 200, tokens());
    world.sign_in().unwrap();
    let registrations = |world: &World| {
        world.log.iter().filter(|line| line.starts_with(&format!("{AS}/register"))).count()
    };
    assert_eq!(registrations(&world), 2);
    let mut world = World::new();
    world.put(&token, 401, json!({"error": "invalid_client"}));
    assert_eq!(world.sign_in().unwrap_err().code(), Some("invalid_client"));
    assert_eq!(registrations(&world), 2);
    // One that takes no addresses is tried with a name, and else says why.
    let mut world = World::new();
    let refused = json!({"error": "invalid_redirect_uri", "error_description": "no addresses"});
    world.put(&format!("{AS}/register"), 400, refused.clone());
    let error = world.sign_in().unwrap_err().to_string();
    assert!(error.contains("no addresses (invalid_redirect_uri)"), "{error}");
    assert!(world.log[3].contains("http://localhost:4100/callback"), "{:#?}", world.log);
    world.put(&format!("{AS}/register"), 400, refused);
    let given = json!({"client_id": "x", "redirect_uris": ["http://localhost:4100/callback"]});
    world.then(&format!("{AS}/register"), 201, given);
    world.log.clear();
    world.sign_in().unwrap();
    assert!(world.opened().contains("redirect_uri=http%3A%2F%2Flocalhost%3A4100%2Fcallback"));
}
