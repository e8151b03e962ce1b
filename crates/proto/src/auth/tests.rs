//! Whole conversations: what goes out, in order, and what comes of it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use serde_json::{Value, json};

use super::*;

mod consent;
mod discover;
mod grants;
mod registration;

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
