//! An authorization server for tests, on a real socket and with real signatures: its metadata,
//! its keys, and what it says about tokens. Nobody signs in there: the test makes the tokens,
//! and says which ones a code gets.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use serde_json::{Value, json};
use switchboard_net::auth::jws::Signer;
use tokio::task::JoinHandle;

use crate::http::{Hit, HttpServer};

/// An issuer until it is dropped.
#[derive(Debug)]
pub struct Issuer {
    /// Its identifier.
    pub url: String,
    books: Arc<Mutex<Books>>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Books {
    /// The keys as they are published, the newest last.
    published: Vec<Value>,
    signers: Vec<Signer>,
    active: HashMap<String, Value>,
    /// What clients must show at the token endpoint; none if anything will do.
    authorization: Option<String>,
    /// What the token endpoint gives for a code, a refresh token or a token to exchange.
    given: HashMap<String, Value>,
    /// What is said of whoever has any token.
    userinfo: Option<Value>,
    is_down: bool,
    /// How often the keys were read, and how often somebody asked about a token.
    reads: usize,
    questions: usize,
    /// How often its metadata was read.
    metadata_reads: usize,
}

fn unix() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl Issuer {
    /// Listens on a free port, with one key.
    pub async fn start() -> Self {
        let mut server = HttpServer::start().await;
        let url = server.url("/realm").to_string();
        let books = Arc::new(Mutex::new(Books::default()));
        let (told, own) = (Arc::clone(&books), url.clone());
        let task = tokio::spawn(async move {
            loop {
                let hit = server.take(|_| true).await;
                let (status, answer) = answer(&told, &own, &hit);
                hit.json(status, &answer).await;
            }
        });
        let issuer = Self { url, books, task };
        issuer.rotate("first");
        issuer
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Signs with a new key of this name from here on; the old ones stay published.
    pub fn rotate(&self, kid: &str) {
        let signer = Signer::generate_es256().expect("there is randomness");
        let mut key = signer.public_jwk();
        key["kid"] = kid.into();
        let mut books = self.books();
        books.published.push(key);
        books.signers.push(signer);
    }

    /// Publishes the newest key alone.
    pub fn withdraw(&self) {
        let mut books = self.books();
        let newest = books.published.pop();
        books.published = newest.into_iter().collect();
    }

    /// Whether it answers with errors.
    pub fn set_down(&self, is_down: bool) {
        self.books().is_down = is_down;
    }

    /// How often its keys were read.
    pub fn reads(&self) -> usize {
        self.books().reads
    }

    /// How often its metadata was read.
    pub fn metadata_reads(&self) -> usize {
        self.books().metadata_reads
    }

    /// How often it was asked about a token.
    pub fn questions(&self) -> usize {
        self.books().questions
    }

    /// The claims of a token for `subject` at `audience`, with these changes; null takes one out.
    pub fn claims(&self, subject: &str, audience: &str, changes: &Value) -> Value {
        let now = unix();
        let mut claims = json!({
            "iss": self.url, "sub": subject, "aud": audience, "iat": now, "exp": now + 600,
        });
        for (name, value) in changes.as_object().into_iter().flatten() {
            claims[name] = value.clone();
        }
        let members = claims.as_object_mut().expect("claims are an object");
        members.retain(|_, value| !value.is_null());
        claims
    }

    /// A token with these claims, signed by the newest key.
    pub fn sign(&self, claims: &Value) -> String {
        self.sign_as("at+jwt", claims)
    }

    /// The same with another type in its header.
    pub fn sign_as(&self, typ: &str, claims: &Value) -> String {
        let books = self.books();
        let kid = books.published.last().map(|key| key["kid"].clone());
        let signer = books.signers.last().expect("there is a key");
        signer.sign(json!({"kid": kid, "typ": typ}), claims).expect("there is randomness")
    }

    /// A token with the usual claims.
    pub fn token(&self, subject: &str, audience: &str, changes: &Value) -> String {
        self.sign(&self.claims(subject, audience, changes))
    }

    /// An ID token of `subject` for `client`, with these changes to its claims.
    pub fn id_token(&self, subject: &str, client: &str, changes: &Value) -> String {
        self.sign(&self.claims(subject, client, changes))
    }

    /// Has the token endpoint refuse clients whose `Authorization` is another.
    pub fn ask_for(&self, authorization: &str) {
        self.books().authorization = Some(authorization.to_owned());
    }

    /// Has the token endpoint give these tokens for a code, a refresh token or a token to
    /// exchange; null for none.
    pub fn give(&self, grant: &str, tokens: Value) {
        self.books().given.insert(grant.to_owned(), tokens);
    }

    /// Says this of whoever asks with a token; a number is the status of an error.
    pub fn say_of_everybody(&self, userinfo: Value) {
        self.books().userinfo = Some(userinfo);
    }

    /// Says that this opaque token is active, with these claims.
    pub fn activate(&self, token: &str, claims: Value) {
        self.books().active.insert(token.to_owned(), claims);
    }

    /// Says that this opaque token is not active any more.
    pub fn revoke(&self, token: &str) {
        self.books().active.remove(token);
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn answer(books: &Mutex<Books>, url: &str, hit: &Hit) -> (u16, Value) {
    let mut books = books.lock().unwrap_or_else(PoisonError::into_inner);
    let path = &*hit.path;
    books.reads += usize::from(path == "/realm/jwks");
    books.questions += usize::from(path == "/realm/introspect");
    books.metadata_reads += usize::from(path == "/.well-known/openid-configuration/realm");
    match path {
        _ if books.is_down => (500, json!({})),
        "/.well-known/openid-configuration/realm" => {
            let metadata = json!({
                "issuer": url,
                "jwks_uri": format!("{url}/jwks"),
                "introspection_endpoint": format!("{url}/introspect"),
                "authorization_endpoint": format!("{url}/authorize"),
                "token_endpoint": format!("{url}/token"),
                "userinfo_endpoint": format!("{url}/userinfo"),
            });
            (200, metadata)
        }
        "/realm/userinfo" => match &books.userinfo {
            Some(Value::Number(status)) => {
                let status = status.as_u64().and_then(|status| u16::try_from(status).ok());
                (status.unwrap_or(500), json!({}))
            }
            Some(userinfo) if hit.header("authorization").is_some() => (200, userinfo.clone()),
            _ => (403, json!({})),
        },
        "/realm/token"
            if books.authorization.is_some()
                && books.authorization.as_deref() != hit.header("authorization") =>
        {
            (401, json!({"error": "invalid_client"}))
        }
        "/realm/token" => {
            let body = String::from_utf8_lossy(&hit.body);
            let mut pairs = body.split('&').filter_map(|pair| pair.split_once('='));
            let is_grant = |name: &str| matches!(name, "code" | "refresh_token" | "subject_token");
            let grant = pairs.find(|(name, _)| is_grant(name));
            let given = grant.and_then(|(_, grant)| books.given.get(grant)).cloned();
            match given.filter(|given| !given.is_null()) {
                Some(given) => (200, given),
                None => (400, json!({"error": "invalid_grant"})),
            }
        }
        "/realm/jwks" => (200, json!({"keys": books.published})),
        // "gw:s3cret", in base64.
        "/realm/introspect" if hit.header("authorization") != Some("Basic Z3c6czNjcmV0") => {
            (401, json!({}))
        }
        "/realm/introspect" => {
            let body = String::from_utf8_lossy(&hit.body);
            let token = body.split('&').find_map(|pair| pair.strip_prefix("token="));
            let claims = token.and_then(|token| books.active.get(token)).cloned();
            let mut claims = claims.unwrap_or_else(|| json!({}));
            claims["active"] = (!claims.as_object().is_none_or(serde_json::Map::is_empty)).into();
            (200, claims)
        }
        _ => (404, json!({})),
    }
}
