//! What a person is asked for, and what they come back with.

use super::*;

#[test]
fn a_pending_sign_in_is_printed_without_what_ends_it() {
    // wire: OC-36
    let url = format!("{AS}/authorize?client_id=me&state=s3cret&code_challenge=ch");
    let (state, verifier) = (Secret::new("s3cret"), Secret::new("ver1fier"));
    let pending = PendingSignIn { url, state, verifier, ..PendingSignIn::default() };
    let printed = format!("{pending:?}");
    assert!(printed.contains("https://as.example/authorize"), "{printed}");
    for hidden in ["s3cret", "ver1fier", "client_id=me"] {
        assert!(!printed.contains(hidden), "{printed}");
    }
}

#[test]
fn an_answer_of_the_browser_is_believed_only_when_it_is_known_from_whom_it_is() {
    // wire: OC-34, OC-35, OC-36, OA-1, OA-3, AUTH-16, AUTH-17
    let pending = |is_issuer_promised| PendingSignIn {
        state: Secret::new("st"),
        source: TokenSource { issuer: AS.to_owned(), ..TokenSource::default() },
        is_issuer_promised,
        began_at: 100,
        ..PendingSignIn::default()
    };
    let iss = "iss=https%3A%2F%2Fas.example";
    for (query, promised, expected) in [
        ("state=st&code=c".to_owned(), false, "code c"),
        (format!("state=st&code=c&{iss}"), true, "code c"),
        (format!("state=st&code=c&{iss}%2F"), false, "wrong issuer"),
        (
            format!("state=st&code=c&{}", iss.to_uppercase().replace("ISS", "iss")),
            false,
            "wrong issuer",
        ),
        ("state=st&code=c".to_owned(), true, "wrong issuer"),
        ("state=st&error=e&iss=https%3A%2F%2Fevil".to_owned(), false, "wrong issuer"),
        ("state=st&error=access_denied&error_description=no+thanks".to_owned(), false, "refused"),
        ("state=st&code=".to_owned(), false, "no code"),
        ("state=st".to_owned(), false, "no code"),
        ("state=other&code=c".to_owned(), false, "goes on"),
        ("state=s&code=c".to_owned(), false, "goes on"),
        ("code=c".to_owned(), false, "goes on"),
        (String::new(), false, "goes on"),
        ("state=st&state=st&code=c".to_owned(), false, "goes on"),
        (format!("state=st&code=c&{iss}&{iss}"), false, "goes on"),
        ("state=st&code=c&code=d".to_owned(), false, "goes on"),
        ("error=access_denied&error_description=x".to_owned(), false, "goes on"),
    ] {
        let found = match pending(promised).read_callback(&query) {
            None => "goes on".to_owned(),
            Some(Ok(code)) => format!("code {}", code.reveal()),
            Some(Err(AuthError::WrongIssuer)) => "wrong issuer".to_owned(),
            Some(Err(AuthError::Refused { .. })) => "refused".to_owned(),
            Some(Err(AuthError::NoCode)) => "no code".to_owned(),
            Some(Err(other)) => other.to_string(),
        };
        assert_eq!(found, expected, "{query}");
    }
    assert!(!pending(true).is_over(700) && pending(true).is_over(701));

    let mut world = World::new();
    world.callback = "&code=c&iss=https%3A%2F%2Fevil".to_owned();
    assert_eq!(world.sign_in().unwrap_err(), AuthError::WrongIssuer);
    assert!(world.token_requests().is_empty());
}

#[test]
fn scopes_are_those_of_the_user_the_challenge_or_the_metadata() {
    // wire: OC-32, OC-50, OC-52, AUTH-15, AUTH-18
    let scope_of = |world: &mut World| {
        world.log.clear();
        world.sign_in().unwrap();
        let query = world.opened().split_once('?').expect("a query").1.to_owned();
        let scope = query_pairs(&query).into_iter().find(|(name, _)| name == "scope");
        scope.map(|(_, scope)| scope)
    };
    let scoped = |scope: &str, error: Option<&str>| {
        let (scope, error) = (Some(scope.to_owned()), error.map(str::to_owned));
        Some(Challenge { scope, error, ..Challenge::default() })
    };
    let mut world = World::new();
    assert_eq!(scope_of(&mut world), None);
    let place = "https://mcp.example/.well-known/oauth-protected-resource/mcp";
    let metadata =
        json!({"resource": SERVER, "authorization_servers": [AS], "scopes_supported": ["p", "q"]});
    world.put(place, 200, metadata);
    assert_eq!(scope_of(&mut world).as_deref(), Some("p q"));
    world.challenge = scoped("c", None);
    assert_eq!(scope_of(&mut world).as_deref(), Some("c"));
    let source = TokenSource { scopes: vec!["a".into(), "c".into()], ..TokenSource::default() };
    world.before = Some(TokenRecord { source, ..TokenRecord::default() });
    assert_eq!(scope_of(&mut world).as_deref(), Some("c"));
    world.challenge = scoped("c d", Some("insufficient_scope"));
    assert_eq!(scope_of(&mut world).as_deref(), Some("a c d"));
    world.settings.scopes = Some(vec!["mine".to_owned()]);
    assert_eq!(scope_of(&mut world).as_deref(), Some("mine a c d"));
    world.challenge = None;
    assert_eq!(scope_of(&mut world).as_deref(), Some("mine"));
    world.say("scopes_supported", json!(["offline_access"]));
    assert_eq!(scope_of(&mut world).as_deref(), Some("mine offline_access"));
    assert!(world.opened().contains("&prompt=consent"));
}

#[test]
fn the_parameters_of_the_user_replace_none_of_ours() {
    // wire: OC-30, OC-31, OC-12
    let mut world = World::new();
    let pairs =
        [("audience", "api"), ("state", "mine"), ("resource", "theirs"), ("code_challenge", "x")];
    world.settings.authorize_params =
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    world.sign_in().unwrap();
    let page = world.opened();
    assert!(page.contains("audience=api") && page.contains("resource=theirs"), "{page}");
    assert!(!page.contains("state=mine") && !page.contains("code_challenge=x"), "{page}");

    let mut world = World::new();
    world.settings.resource = ResourceParameter::LeftOut;
    world.say("require_pushed_authorization_requests", json!(true));
    world.say("pushed_authorization_request_endpoint", json!(format!("{AS}/par")));
    world.put(&format!("{AS}/par"), 201, json!({"request_uri": "urn:x"}));
    world.sign_in().unwrap();
    assert_eq!(
        world.opened(),
        "OPEN https://as.example/authorize?client_id=dyn&request_uri=urn%3Ax"
    );
    assert!(!world.log.iter().any(|line| line.contains("resource=")), "{:#?}", world.log);
}
