//! Tokens: what servers give for a code, a refresh token, a device, a key or a word of others.

use super::*;

#[test]
fn tokens_are_taken_as_servers_give_them_and_refused_when_odd() {
    // wire: OC-41, OC-46, OA-9, OB-1
    let mut world = World::new();
    for (status, answer, expected) in [
        (200, json!({"access_token": "a", "token_type": "BEARER", "expires_in": "60"}), "until 60"),
        (200, json!({"access_token": "a", "token_type": "Bearer", "expires_in": 60.5}), "until 60"),
        (201, json!({"access_token": "a", "token_type": "Bearer"}), "for ever"),
        (
            200,
            json!({"access_token": "a", "token_type": "Bearer", "expires_in": u64::MAX}),
            "until 315360000",
        ),
        (418, json!({"message": "no"}), "refused: HTTP 418"),
        (200, json!({"access_token": "a", "token_type": "mac"}), "a token of the type \"mac\""),
        (200, json!({"access_token": "a b", "token_type": "Bearer"}), "unusable"),
        (200, json!({"access_token": "a".repeat(16_385), "token_type": "Bearer"}), "unusable"),
        (200, json!({"error": "access_denied"}), "refused: access_denied"),
        (
            400,
            json!({"error": "invalid_grant", "error_description": "gone"}),
            "refused: gone (invalid_grant)",
        ),
        (500, json!({"error": "server_error"}), "answers with HTTP 500"),
        (200, json!("html"), "answers with what cannot be used"),
    ] {
        world.put(&format!("{AS}/token"), status, answer);
        let found = match world.sign_in() {
            Ok(record) => {
                record.expires_at.map_or("for ever".to_owned(), |end| format!("until {end}"))
            }
            Err(error) => error.to_string(),
        };
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn a_renewal_goes_where_the_token_came_from_and_keeps_what_does_not_come_anew() {
    // wire: OC-10, OC-44, OC-45, OA-24, AUTH-19
    let mut world = World::new();
    let record = world.sign_in().unwrap();
    world.log.clear();
    world.put(&format!("{AS}/token"), 200, json!({"access_token": "a2", "token_type": "Bearer"}));
    let renewed = world.renew(&record).unwrap();
    let expected = "https://as.example/token POST grant_type=refresh_token&refresh_token=r1\
                    &resource=https%3A%2F%2Fmcp.example%2Fmcp&client_id=dyn";
    assert_eq!(world.log, [expected]);
    assert_eq!(
        (renewed.access_token.reveal(), renewed.refresh_token.unwrap().reveal()),
        ("a2", "r1")
    );
    let rotated = json!({"access_token": "a3", "token_type": "Bearer", "refresh_token": "r2"});
    world.put(&format!("{AS}/token"), 200, rotated);
    assert_eq!(world.renew(&record).unwrap().refresh_token.unwrap().reveal(), "r2");
    // Stale a tenth of its life before the end, and a minute at most.
    assert!(
        !record.is_stale(89) && record.is_stale(90) && !record.is_over(99) && record.is_over(100)
    );
    let long = TokenRecord { expires_at: Some(6000), ..record };
    assert!(!long.is_stale(5939) && long.is_stale(5940));
    assert_eq!(format!("{long:?}").matches("a1").count(), 0);
}

#[test]
fn a_person_may_say_yes_on_another_machine() {
    // wire: OC-37
    let mut world = World::new();
    world.settings.grant = GrantType::Device;
    assert!(world.sign_in().unwrap_err().to_string().contains("no endpoint for devices"));
    world.say("device_authorization_endpoint", json!(format!("{AS}/device")));
    let shown = json!({"device_code": "d", "user_code": "AB-CD", "verification_uri": "https://as.example/go", "expires_in": 60});
    world.put(&format!("{AS}/device"), 200, shown);
    let token = format!("{AS}/token");
    world.put(&token, 400, json!({"error": "authorization_pending"}));
    world.then(&token, 400, json!({"error": "slow_down"}));
    world.then(&token, 200, tokens());
    world.log.clear();
    world.registrations.clear();
    world.sign_in().unwrap();
    let seen: Vec<_> = world
        .log
        .iter()
        .filter(|line| line.starts_with("WAIT") || line.starts_with("SHOW"))
        .collect();
    assert_eq!(seen, ["SHOW https://as.example/go AB-CD", "WAIT 5", "WAIT 5", "WAIT 10"]);
    assert!(
        world.log[2].contains("urn:ietf:params:oauth:grant-type:device_code"),
        "{:#?}",
        world.log
    );
    assert!(
        world.log[2].contains("\"redirect_uris\":[],\"response_types\":[]"),
        "{}",
        world.log[2]
    );
    world.put(&token, 400, json!({"error": "authorization_pending"}));
    assert_eq!(world.sign_in().unwrap_err(), AuthError::TimedOut);
}

#[test]
fn machines_and_companies_sign_in_without_a_page() {
    // wire: OX-1, OX-2, OX-4, OU-9, AUTH-21
    let mut world = World::new();
    world.settings.grant = GrantType::ClientCredentials;
    assert!(world.sign_in().unwrap_err().to_string().contains("oauth.clientId"));
    world.settings.client_id = Some("me".to_owned());
    world.settings.private_key = Some(Secret::new("pem"));
    world.settings.scopes = Some(vec!["s".to_owned()]);
    let record = world.sign_in().unwrap();
    // The tokens can be revoked when the file has the server no more.
    assert!(record.source.client.private_key.is_some());
    let sent = world.token_requests()[0].clone();
    let pairs = query_pairs(sent.split_once("POST ").unwrap().1);
    let value =
        |name: &str| pairs.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str());
    assert_eq!(value("grant_type"), Some("client_credentials"));
    assert_eq!((value("scope"), value("resource")), (Some("s"), Some(SERVER)));
    let assertion = value("client_assertion").unwrap();
    assert!(assertion.contains("\"aud\":\"https://as.example\""), "{assertion}");
    assert!(
        assertion.contains("\"iss\":\"me\"") && assertion.contains("\"sub\":\"me\""),
        "{assertion}"
    );

    let mut world = World::new();
    world.settings.client_id = Some("me".to_owned());
    let token = ProviderToken::given(
        "https://idp.example/token".to_owned(),
        "at-idp".to_owned(),
        None,
        Secret::new("id-token"),
    );
    world.settings.grant = GrantType::Enterprise(IdentityProvider::Token(Box::new(token)));
    let jag = json!({"access_token": "jag", "token_type": "N_A", "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag"});
    world.put("https://idp.example/token", 200, jag);
    world.sign_in().unwrap();
    let exchange = world.log.iter().find(|line| line.starts_with("https://idp.example")).unwrap();
    for part in [
        "audience=https%3A%2F%2Fas.example&",
        "subject_token=id-token&",
        "client_id=at-idp",
        "id-jag",
    ] {
        assert!(exchange.contains(part), "{part} {exchange}");
    }
    assert!(world.token_requests()[0].contains("jwt-bearer&assertion=jag&"));

    let mut world = World::new();
    world.settings.grant = GrantType::Workload { assertion: Secret::new("platform") };
    world.put(&format!("{AS}/token"), 400, json!({"error": "invalid_grant"}));
    assert_eq!(world.sign_in().unwrap_err().code(), Some("invalid_grant"));
    assert_eq!(world.token_requests().len(), 1);
    assert!(world.token_requests()[0].contains("assertion=platform"));
}

#[test]
fn a_users_token_is_exchanged_where_the_file_says_and_the_server_has_no_say() {
    // wire: OX-6, OR-17
    let mut world = World::new();
    world.settings.grant = GrantType::Exchange { subject: Some(Secret::new("users-own")) };
    world.settings.client_id = Some("gw".to_owned());
    world.settings.client_secret = Some(Secret::new("s"));
    world.settings.audience = Some("api".to_owned());
    let why = world.sign_in().unwrap_err().to_string();
    assert!(why.contains("oauth.issuer"), "{why}");
    assert_eq!(world.log, [""; 0], "the server's metadata would say where the token goes");
    world.settings.issuer = Some(AS.to_owned());
    let record = world.sign_in().unwrap();
    assert_eq!(record.access_token, Secret::new("a1"));
    assert!(world.log.iter().all(|line| line.starts_with(AS)), "{:#?}", world.log);
    let sent = world.token_requests()[0].clone();
    for part in [
        "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&",
        "subject_token=users-own&",
        "subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aaccess_token&",
        "audience=api&",
        "resource=https%3A%2F%2Fmcp.example%2Fmcp [Basic Z3c6cw==]",
    ] {
        assert!(sent.contains(part), "{part} {sent}");
    }
    let refused = json!({"error": "invalid_target", "error_description": "not for users-own"});
    world.put(&format!("{AS}/token"), 400, refused);
    let why = world.sign_in().unwrap_err().to_string();
    assert!(why.contains("invalid_target") && why.contains("allow the client \"gw\""), "{why}");
    assert!(!why.contains("users-own"), "{why}");
    let same = json!({"access_token": "users-own", "token_type": "Bearer"});
    world.put(&format!("{AS}/token"), 200, same);
    assert!(matches!(world.sign_in(), Err(AuthError::OddToken { .. })), "it would be passed on");
    world.settings.grant = GrantType::Exchange { subject: None };
    assert!(matches!(world.sign_in(), Err(AuthError::Settings(_))));
}

#[test]
fn a_record_of_another_program_is_completed_before_it_is_renewed() {
    // wire: OT-10, OC-10, OC-24
    let mut world = World::new();
    let client = Registration { client_id: "theirs".to_owned(), ..Registration::default() };
    let source = TokenSource { client, ..TokenSource::default() };
    let refresh_token = Some(Secret::new("r"));
    let record = TokenRecord { source, refresh_token, ..TokenRecord::default() };
    let renewed = world.renew(&record).unwrap();
    assert_eq!(renewed.source.token_endpoint, format!("{AS}/token"));
    assert_eq!((&*renewed.source.issuer, &*renewed.source.client.issuer), (AS, AS));
    assert_eq!(renewed.source.resource.as_deref(), Some(SERVER));
    assert!(world.token_requests()[0].contains("refresh_token=r&resource="));
    assert!(world.token_requests()[0].contains("client_id=theirs"));
    // What is known is not looked for again.
    world.log.clear();
    world.renew(&renewed).unwrap();
    assert_eq!(world.log.len(), 1, "{:?}", world.log);
    // Another issuer never sees the token.
    let mut other = record.clone();
    other.source.issuer = "https://gone.example".to_owned();
    world.log.clear();
    assert!(matches!(world.renew(&other), Err(AuthError::OtherClientIssuer { .. })));
    assert!(world.token_requests().is_empty());
}

#[test]
fn tokens_are_bound_to_a_key_where_both_sides_want_it() {
    // wire: OX-5
    let mut world = World::new();
    world.settings.dpop = true;
    world.sign_in().unwrap();
    assert!(!world.token_requests()[0].contains('<'));
    world.say("dpop_signing_alg_values_supported", json!(["ES256"]));
    let token = format!("{AS}/token");
    world.put(&token, 400, json!({"error": "use_dpop_nonce", "nonce": "n1"}));
    world.then(&token, 200, json!({"access_token": "a", "token_type": "DPoP"}));
    world.log.clear();
    let record = world.sign_in().unwrap();
    assert!(record.source.dpop_key.is_some());
    let sent = world.token_requests();
    assert!(sent[0].contains("\"htu\":\"https://as.example/token\"") && !sent[0].contains("nonce"));
    assert!(sent[1].contains("\"nonce\":\"n1\""));
}
