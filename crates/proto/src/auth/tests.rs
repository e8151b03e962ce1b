//! Whole conversations: what goes out, in order, and what comes of it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use serde_json::{Value, json};

use super::*;

const SERVER: &str = "https://mcp.example/mcp";
const AS: &str = "https://as.example";
const REDIRECT: &str = "http://127.0.0.1:4100/callback";

/// Chance and keys that can be foretold.
#[derive(Debug, Default)]
struct Foretold {
    drawn: AtomicU8,
    now: AtomicU64,
}

impl Tools for Foretold {
    fn random(&self) -> [u8; 32] {
        [self.drawn.fetch_add(1, Ordering::Relaxed); 32]
    }

    fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    fn sha256(&self, bytes: &[u8]) -> [u8; 32] {
        [bytes[0]; 32]
    }

    fn new_key(&self) -> Result<Secret, AuthError> {
        Ok(Secret::new("key"))
    }

    fn public_key(&self, _key: &Secret) -> Result<(Value, KeyAlgorithm), AuthError> {
        Ok((json!({"kty": "EC"}), "ES256"))
    }

    fn sign(&self, _key: &Secret, header: &Value, claims: &Value) -> Result<String, AuthError> {
        Ok(format!("{header}{claims}"))
    }
}

/// All servers of a test, and what they were sent.
struct World {
    tools: Arc<Foretold>,
    settings: OauthSettings,
    challenge: Option<Challenge>,
    before: Option<TokenRecord>,
    /// What is at a URL; the answers to POSTs one after the other, the last again and again.
    pages: HashMap<String, Vec<(u16, Value)>>,
    registrations: HashMap<String, Registration>,
    /// What is added to the answer of the browser.
    callback: String,
    log: Vec<String>,
}

impl World {
    /// A protected server, and an authorization server that registers everybody.
    fn new() -> Self {
        let mut world = Self {
            tools: Arc::default(),
            settings: OauthSettings::default(),
            challenge: None,
            before: None,
            pages: HashMap::new(),
            registrations: HashMap::new(),
            callback: "&code=c0de".to_owned(),
            log: Vec::new(),
        };
        world.put(
            "https://mcp.example/.well-known/oauth-protected-resource/mcp",
            200,
            json!({"resource": SERVER, "authorization_servers": [AS]}),
        );
        world.put(&at_well_known(), 200, server_metadata());
        world.put(&format!("{AS}/register"), 201, json!({"client_id": "dyn"}));
        world.put(&format!("{AS}/token"), 200, tokens());
        world
    }

    fn put(&mut self, url: &str, status: u16, body: Value) {
        self.pages.insert(url.to_owned(), vec![(status, body)]);
    }

    fn then(&mut self, url: &str, status: u16, body: Value) {
        self.pages.entry(url.to_owned()).or_default().push((status, body));
    }

    /// Changes the metadata of the authorization server.
    fn say(&mut self, name: &str, value: Value) {
        self.pages.get_mut(&at_well_known()).expect("metadata")[0].1[name] = value;
    }

    fn goal(&self) -> Goal {
        let redirect =
            Redirect { uri: REDIRECT.to_owned(), is_native: true, client_name: "Test".to_owned() };
        Goal {
            server: SERVER.to_owned(),
            challenge: self.challenge.clone(),
            settings: self.settings.clone(),
            before: self.before.clone(),
            redirect,
        }
    }

    fn sign_in(&mut self) -> Result<TokenRecord, AuthError> {
        let (goal, tools) = (self.goal(), Arc::<Foretold>::clone(&self.tools));
        self.drive(SignIn::new(goal, tools))
    }

    fn renew(&mut self, record: &TokenRecord) -> Result<TokenRecord, AuthError> {
        let (goal, tools) = (self.goal(), Arc::<Foretold>::clone(&self.tools));
        self.drive(SignIn::renew(record.clone(), goal, tools))
    }

    fn drive(&mut self, mut run: SignIn) -> Result<TokenRecord, AuthError> {
        let mut answer = None;
        for _ in 0..100 {
            answer = Some(match run.step(answer.take()) {
                Step::Done(record) => return Ok(*record),
                Step::Failed(error) => return Err(error),
                Step::Fetch(request) => Answer::Response(self.fetch(&request)),
                Step::FindRegistration { issuer } => {
                    Answer::Registration(self.registrations.get(&issuer).cloned().map(Box::new))
                }
                Step::KeepRegistration(it) if it.client_id.is_empty() => {
                    self.registrations.remove(&it.issuer);
                    Answer::Done
                }
                Step::KeepRegistration(it) => {
                    self.registrations.insert(it.issuer.clone(), *it);
                    Answer::Done
                }
                Step::Authorize(pending) => {
                    self.log.push(format!("OPEN {}", pending.url));
                    let query = format!("state={}{}", pending.state.reveal(), self.callback);
                    Answer::Code(pending.read_callback(&query).unwrap_or(Err(AuthError::TimedOut)))
                }
                Step::ShowDevice { url, code, .. } => {
                    self.log.push(format!("SHOW {url} {code}"));
                    Answer::Done
                }
                Step::Wait(time) => {
                    self.tools.now.fetch_add(time.as_secs(), Ordering::Relaxed);
                    self.log.push(format!("WAIT {}", time.as_secs()));
                    Answer::Done
                }
            });
        }
        panic!("no end: {:#?}", self.log);
    }

    fn fetch(&mut self, request: &AuthRequest) -> Result<AuthResponse, String> {
        let body = match &request.body {
            None => "GET".to_owned(),
            Some(AuthBody::Form(form)) => format!("POST {form}"),
            Some(AuthBody::Json(json)) => format!("POST {json}"),
        };
        let authorization = request.authorization.as_ref().map(|it| format!(" [{}]", it.reveal()));
        let proof = request.dpop.as_ref().map(|proof| format!(" <{proof}>")).unwrap_or_default();
        let shown = authorization.unwrap_or_default();
        self.log.push(format!("{} {body}{shown}{proof}", request.url));
        let Some(pages) = self.pages.get_mut(&request.url) else {
            return Ok(AuthResponse { status: 404, ..AuthResponse::default() });
        };
        let (status, body) = if pages.len() > 1 { pages.remove(0) } else { pages[0].clone() };
        if status == 0 {
            return Err("connection refused".to_owned());
        }
        let dpop_nonce = body["nonce"].as_str().map(str::to_owned);
        Ok(AuthResponse { status, body: body.to_string().into_bytes(), dpop_nonce })
    }

    /// What was sent to the token endpoint.
    fn token_requests(&self) -> Vec<&String> {
        self.log.iter().filter(|line| line.starts_with(&format!("{AS}/token"))).collect()
    }

    fn opened(&self) -> &str {
        self.log.iter().find(|line| line.starts_with("OPEN")).expect("a page")
    }
}

fn at_well_known() -> String {
    format!("{AS}/.well-known/oauth-authorization-server")
}

fn server_metadata() -> Value {
    json!({
        "issuer": AS,
        "authorization_endpoint": format!("{AS}/authorize"),
        "token_endpoint": format!("{AS}/token"),
        "registration_endpoint": format!("{AS}/register"),
        "code_challenge_methods_supported": ["S256"],
    })
}

fn tokens() -> Value {
    json!({"access_token": "a1", "token_type": "bearer", "refresh_token": "r1", "expires_in": 100})
}

#[test]
fn a_person_signs_in_at_a_server_that_nobody_has_heard_of() {
    // wire: OC-3, OC-20, OC-23, OC-30, OC-31, OC-40, AUTH-9, AUTH-11, AUTH-14
    let mut world = World::new();
    let record = world.sign_in().unwrap();
    let random = |byte: u8| {
        base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, [byte; 32])
    };
    let (state, verifier, challenge) = (random(0), random(1), random(random(1).as_bytes()[0]));
    let redirect = "http%3A%2F%2F127.0.0.1%3A4100%2Fcallback";
    let resource = "https%3A%2F%2Fmcp.example%2Fmcp";
    assert_eq!(
        world.log,
        [
            "https://mcp.example/.well-known/oauth-protected-resource/mcp GET".to_owned(),
            "https://as.example/.well-known/oauth-authorization-server GET".to_owned(),
            "https://as.example/register POST {\"application_type\":\"native\",\
             \"client_name\":\"Test\",\"grant_types\":[\"authorization_code\",\"refresh_token\"],\
             \"redirect_uris\":[\"http://127.0.0.1:4100/callback\"],\"response_types\":[\"code\"],\
             \"token_endpoint_auth_method\":\"none\"}"
                .to_owned(),
            format!(
                "OPEN https://as.example/authorize?response_type=code&client_id=dyn\
                 &redirect_uri={redirect}&code_challenge={challenge}&code_challenge_method=S256\
                 &state={state}&resource={resource}"
            ),
            format!(
                "https://as.example/token POST grant_type=authorization_code&code=c0de\
                 &redirect_uri={redirect}&code_verifier={verifier}&resource={resource}&client_id=dyn"
            ),
        ]
    );
    assert_eq!(record.access_token.reveal(), "a1");
    assert_eq!(record.expires_at, Some(100));
    assert_eq!(record.source.issuer, AS);
    assert!(!world.registrations[AS].is_in_doubt);

    // The next time we are known.
    world.log.clear();
    world.sign_in().unwrap();
    assert!(!world.log.iter().any(|line| line.contains("/register")), "{:#?}", world.log);
}

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

#[test]
fn the_client_is_who_the_user_says_then_a_document_then_registered() {
    // wire: OC-20, OC-22, OC-25, OC-40, AUTH-9, AUTH-10
    let mut world = World::new();
    world.say("client_id_metadata_document_supported", json!(true));
    world.settings.client_metadata_url = Some("https://me.example/client.json".to_owned());
    world.sign_in().unwrap();
    assert!(world.opened().contains("client_id=https%3A%2F%2Fme.example%2Fclient.json&"));
    assert!(!world.log.iter().any(|line| line.contains("/register")));

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
    // wire: OX-1, OX-2, OX-4, AUTH-21
    let mut world = World::new();
    world.settings.grant = GrantType::ClientCredentials;
    assert!(world.sign_in().unwrap_err().to_string().contains("oauth.clientId"));
    world.settings.client_id = Some("me".to_owned());
    world.settings.private_key = Some(Secret::new("pem"));
    world.settings.scopes = Some(vec!["s".to_owned()]);
    world.sign_in().unwrap();
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
