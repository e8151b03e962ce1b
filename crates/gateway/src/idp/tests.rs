//! Visitors who sign in at an identity provider with real sockets and signatures.

use serde_json::json;
use switchboard_net::http::fetch::FetchOptions;
use switchboard_proto::auth::query_pairs;
use switchboard_testkit::issuer::Issuer;

use super::*;
use crate::policy::Access;
use crate::token::{IssuerRule, TokenAccess};

fn client(issuer: &Issuer, claims: &[&str]) -> IdpClient {
    let claims = claims.iter().map(|name| ((*name).to_owned(), std::iter::empty().collect()));
    let rule = IssuerRule {
        name: "corp".to_owned(),
        issuer: issuer.url.clone(),
        claims: claims.collect(),
        ..IssuerRule::default()
    };
    let tokens = TokenAccess { issuers: vec![rule], ..TokenAccess::default() };
    let access = Access { tokens: Some(Arc::new(tokens)), ..Access::default() };
    let settings = OauthSettings {
        client_id: Some("gw".to_owned()),
        client_secret: Some(Secret::new("s3cret")),
        ..OauthSettings::default()
    };
    let fetch = Fetch::new(FetchOptions::default()).unwrap();
    IdpClient::new(&Authenticator::new(access, 1), "corp", settings, fetch).unwrap()
}

fn parameter(url: &str, name: &str) -> String {
    let pairs = query_pairs(url.split_once('?').unwrap().1);
    pairs.into_iter().find(|(found, _)| found == name).map(|(_, value)| value).unwrap_or_default()
}

async fn begun(client: &IdpClient) -> IdpVisit {
    client.begin("https://gw.example/oauth/callback").await.unwrap()
}

fn back(visit: &IdpVisit, more: &str) -> String {
    format!("code=c1&state={}{more}", visit.state().reveal())
}

// wire: OS-6, OC-30
#[tokio::test]
async fn a_visitor_is_who_the_signed_token_says() {
    let issuer = Issuer::start().await;
    let client = client(&issuer, &[]);
    let visit = begun(&client).await;
    for (name, value) in [
        ("client_id", "gw"),
        ("scope", "openid"),
        ("redirect_uri", "https://gw.example/oauth/callback"),
        ("code_challenge_method", "S256"),
        ("resource", ""),
    ] {
        assert_eq!(parameter(visit.url(), name), value, "{name}");
    }
    let nonce = parameter(visit.url(), "nonce");
    let id_token = issuer.id_token("ada", "gw", &json!({"nonce": nonce, "email": "a@b.c"}));
    issuer.give("c1", json!({"access_token": "a", "token_type": "Bearer", "id_token": id_token}));
    let query = back(&visit, &format!("&iss={}", issuer.url));
    let who = client.finish(visit.clone(), &query).await.unwrap();
    assert_eq!((&*who.issuer, &*who.subject), ("corp", "ada"));
    assert_eq!(who.claims["email"], "a@b.c");
    let text = format!("{visit:?} {who:?} {client:?}");
    for secret in [&nonce, visit.state().reveal(), "s3cret", &id_token] {
        assert!(!text.contains(secret), "{text}");
    }
}

// wire: OS-6, OC-34, OC-35
#[tokio::test]
async fn nobody_is_believed_by_another_answer() {
    let issuer = Issuer::start().await;
    let client = client(&issuer, &[]);
    let visit = begun(&client).await;
    let nonce = parameter(visit.url(), "nonce");
    let finish = async |claims: Value, client_id: &str, query: String| {
        let id_token = issuer.id_token("ada", client_id, &claims);
        let tokens = json!({"access_token": "a", "token_type": "Bearer", "id_token": id_token});
        issuer.give("c1", tokens);
        client.finish(visit.clone(), &query).await.map(drop)
    };
    let right = json!({"nonce": nonce});
    let ended = finish(right.clone(), "gw", "code=c1&state=x".to_owned()).await;
    assert!(matches!(ended, Err(IdpError::OtherVisit)), "{ended:?}");
    let other = back(&visit, "&iss=https%3A%2F%2Fevil.example");
    let ended = finish(right.clone(), "gw", other).await;
    assert!(matches!(ended, Err(IdpError::Auth(AuthError::WrongIssuer))), "{ended:?}");
    let query = back(&visit, "");
    let ended = finish(json!({"nonce": "of another"}), "gw", query.clone()).await;
    assert!(matches!(ended, Err(IdpError::IdToken(BadClaims::OtherNonce))), "{ended:?}");
    let ended = finish(right.clone(), "other", query.clone()).await;
    assert!(matches!(ended, Err(IdpError::IdToken(BadClaims::OtherClient))), "{ended:?}");
    // Signed by somebody else.
    let stranger = Issuer::start().await;
    let claims = issuer.claims("ada", "gw", &right);
    let forged = stranger.sign(&claims);
    issuer.give("c1", json!({"access_token": "a", "token_type": "Bearer", "id_token": forged}));
    let ended = client.finish(visit.clone(), &query).await;
    assert!(matches!(ended, Err(IdpError::Issuer(_))), "{ended:?}");
    assert!(finish(right, "gw", query).await.is_ok());
}

// wire: OS-6
#[tokio::test]
async fn what_the_token_does_not_say_the_user_info_does() {
    let issuer = Issuer::start().await;
    let client = client(&issuer, &["groups"]);
    issuer.say_of_everybody(json!({"sub": "ada", "groups": ["dev"]}));
    issuer.give("c1", json!({"access_token": "a", "token_type": "Bearer"}));
    let visit = begun(&client).await;
    let query = back(&visit, "");
    let who = client.finish(visit, &query).await.unwrap();
    assert_eq!((&*who.subject, &who.claims["groups"]), ("ada", &json!(["dev"])));
    // It must be about the same person.
    let visit = begun(&client).await;
    let nonce = parameter(visit.url(), "nonce");
    let id_token = issuer.id_token("bob", "gw", &json!({"nonce": nonce}));
    issuer.give("c1", json!({"access_token": "a", "token_type": "Bearer", "id_token": id_token}));
    let query = back(&visit, "");
    let ended = client.finish(visit, &query).await;
    assert!(matches!(ended, Err(IdpError::TwoSubjects)), "{ended:?}");
}

// wire: OS-8
#[tokio::test]
async fn tokens_are_renewed_while_the_person_is_there() {
    let issuer = Issuer::start().await;
    let client = client(&issuer, &[]);
    let visit = begun(&client).await;
    let nonce = parameter(visit.url(), "nonce");
    let id_token = issuer.id_token("ada", "gw", &json!({"nonce": nonce, "exp": 1_900_000_000}));
    let first = json!({
        "access_token": "a", "token_type": "Bearer", "id_token": id_token, "refresh_token": "r1",
    });
    issuer.give("c1", first);
    let query = back(&visit, "");
    let who = client.finish(visit, &query).await.unwrap();
    issuer.give("r1", json!({"access_token": "b", "token_type": "Bearer", "refresh_token": "r2"}));
    let renewed = client.renew(who.tokens).await.unwrap();
    assert!(matches!(renewed.who, Err(IdpError::NotSaid(_))), "{:?}", renewed.who);
    issuer.say_of_everybody(json!({"sub": "ada", "groups": ["ops"]}));
    issuer.give("r2", json!({"access_token": "c", "token_type": "Bearer"}));
    let first = client.renew(renewed.tokens).await.unwrap();
    let reads = issuer.metadata_reads();
    let renewed = client.renew(first.tokens).await.unwrap();
    assert_eq!(issuer.metadata_reads(), reads, "the metadata is known");
    assert_eq!(renewed.who.unwrap().claims["groups"], json!(["ops"]), "asked without an ID token");
    issuer.give("r2", Value::Null);
    let ended = client.renew(renewed.tokens).await.unwrap_err();
    assert!(ended.is_ended(), "{ended}");
}
