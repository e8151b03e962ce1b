//! Codes, refresh tokens and assertions: what they give, and to whom.

use super::*;

// wire: OS-2, OA-20
#[tokio::test]
async fn a_code_that_is_used_twice_or_by_others_ends_what_it_gave() {
    let bed = Bed::start().await;
    let (client, other) = (bed.client().await, bed.client().await);
    let code = bed.code(&client).await;
    let tokens = bed.redeem(&client, &code, VERIFIER).await.json();
    let token = tokens["access_token"].as_str().unwrap();
    assert!(bed.check(token).is_ok());
    let twice = bed.redeem(&client, &code, VERIFIER).await;
    assert_eq!(twice.error(), (400, "invalid_grant".to_owned()));
    assert!(bed.check(token).is_err(), "its access token is over, too");
    let refresh = tokens["refresh_token"].as_str().unwrap();
    assert_eq!(bed.refresh(&client, refresh).await.error().1, "invalid_grant");
    for (client_id, verifier) in [(&other, VERIFIER), (&client, "wrong")] {
        let code = bed.code(&client).await;
        assert_eq!(bed.redeem(client_id, &code, verifier).await.error().1, "invalid_grant");
        assert_eq!(bed.redeem(&client, &code, VERIFIER).await.error().1, "invalid_grant");
    }
    let code = bed.code(&client).await;
    bed.wait(61);
    assert_eq!(bed.redeem(&client, &code, VERIFIER).await.error().1, "invalid_grant");
    assert_eq!(bed.redeem("sbc_0", &code, VERIFIER).await.error(), (401, "invalid_client".into()));
}

// wire: OS-8, OA-20
#[tokio::test]
async fn a_refresh_token_may_be_repeated_at_once_and_never_later() {
    let bed = Bed::start().await;
    let client = bed.client().await;
    let code = bed.code(&client).await;
    let first = bed.redeem(&client, &code, VERIFIER).await.json();
    let old = first["refresh_token"].as_str().unwrap();
    let second = bed.refresh(&client, old).await;
    bed.wait(30);
    assert_eq!(bed.refresh(&client, old).await.text, second.text, "the same answer again");
    bed.wait(1);
    assert_eq!(bed.refresh(&client, old).await.error().1, "invalid_grant");
    let newest = second.json()["refresh_token"].as_str().unwrap().to_owned();
    assert_eq!(
        bed.refresh(&client, &newest).await.error().1,
        "invalid_grant",
        "the family is over"
    );
    assert!(bed.check(second.json()["access_token"].as_str().unwrap()).is_err());
}

// wire: OS-8
#[tokio::test]
async fn a_grant_ends_with_its_person_at_the_provider() {
    let bed = Bed::start().await;
    let client = bed.client().await;
    let code = bed.code(&client).await;
    let tokens = bed.redeem(&client, &code, VERIFIER).await.json();
    bed.wait(301);
    bed.issuer.give(
        "idp1",
        json!({"access_token": "b", "token_type": "Bearer", "refresh_token": "idp2"}),
    );
    let renewed = bed.refresh(&client, tokens["refresh_token"].as_str().unwrap()).await;
    assert_eq!(renewed.status(), 200, "{}", renewed.text);
    bed.wait(301);
    // It cannot be reached: the person is taken to be there still.
    bed.issuer.set_down(true);
    let refresh = renewed.json()["refresh_token"].as_str().unwrap().to_owned();
    let renewed = bed.refresh(&client, &refresh).await;
    assert_eq!(renewed.status(), 200, "{}", renewed.text);
    bed.issuer.set_down(false);
    let refresh = renewed.json()["refresh_token"].as_str().unwrap().to_owned();
    let ended = bed.refresh(&client, &refresh).await;
    assert_eq!(ended.error(), (400, "invalid_grant".to_owned()), "the provider refuses idp2");
    assert!(bed.check(renewed.json()["access_token"].as_str().unwrap()).is_err());
}

// wire: OS-7
#[tokio::test]
async fn tokens_of_others_are_none_of_ours() {
    let bed = Bed::start().await;
    let claims = json!({
        "iss": BASE, "sub": "ada", "aud": "https://gw.example/mcp", "exp": 9_999_999_999_u64,
    });
    let forged = bed.issuer.sign(&claims);
    assert!(bed.check(&forged).is_err(), "signed by the provider in our name");
    let keys = bed.facade.keys();
    let kid = &keys.published[0]["kid"];
    let untyped = keys.signer.sign(json!({"kid": kid, "typ": "JWT"}), &claims).unwrap();
    assert!(bed.check(&untyped).is_err(), "only access tokens");
}

// wire: OS-15, OX-3
#[tokio::test]
async fn what_the_provider_says_of_a_person_gets_a_token_once() {
    let bed = Bed::start().await;
    let signer = switchboard_net::auth::jws::Signer::generate_es256().unwrap();
    let about = json!({
        "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "private_key_jwt",
        "jwks": {"keys": [signer.public_jwk()]},
    });
    let client = bed.register(about).await.json()["client_id"].as_str().unwrap().to_owned();
    let now = bed.clock.load(Ordering::SeqCst);
    let show = |id: &str| {
        let claims = json!({
            "iss": client, "sub": client, "aud": BASE, "jti": id, "iat": now, "exp": now + 60,
        });
        Some(signer.sign(json!({"typ": "JWT"}), &claims).unwrap())
    };
    let jag = |id: &str, audience: &str| {
        let more = json!({
            "client_id": client, "resource": "https://gw.example/mcp", "jti": id, "iat": now,
            "exp": now + 60, "scope": "mcp:read other", "groups": ["dev"],
        });
        bed.issuer.sign_as("oauth-id-jag+jwt", &bed.issuer.claims("ada", audience, &more))
    };
    let ask = async |client: &str, assertion: &str, shown: Option<String>| {
        let shown = shown.unwrap_or_default();
        let mut pairs = vec![
            ("grant_type", assertion::JWT_BEARER),
            ("client_id", client),
            ("assertion", assertion),
        ];
        if !shown.is_empty() {
            pairs.push(("client_assertion_type", assertion::CLIENT_ASSERTION));
            pairs.push(("client_assertion", &shown));
        }
        bed.post("/oauth/token", &pairs).await
    };
    let given = ask(&client, &jag("1", BASE), show("a")).await;
    assert_eq!(given.status(), 200, "{}", given.text);
    assert!(given.json().get("refresh_token").is_none());
    let facts = bed.check(given.json()["access_token"].as_str().unwrap()).unwrap();
    assert_eq!((&*facts.issuer, &*facts.subject), ("corp", "ada"));
    assert_eq!(facts.scopes, ["mcp:read"]);
    assert_eq!(facts.claims, [("groups".to_owned(), "dev".to_owned())]);
    let public = bed.client().await;
    let stranger = Issuer::start().await;
    let claims = bed.issuer.claims("ada", BASE, &json!({"client_id": client}));
    let forged = stranger.sign_as("oauth-id-jag+jwt", &claims);
    for (client, assertion, shown, error) in [
        (&client, jag("1", BASE), show("b"), "invalid_grant"),
        (&client, jag("2", "https://other.example"), show("c"), "invalid_grant"),
        (&client, jag("3", BASE), show("a"), "invalid_client"),
        (&client, jag("4", BASE), None, "invalid_client"),
        (&public, jag("5", BASE), None, "unauthorized_client"),
        (&client, forged, show("d"), "invalid_grant"),
    ] {
        assert_eq!(ask(client, &assertion, shown).await.error().1, error);
    }
}

// wire: OS-8
#[tokio::test]
async fn revoking_ends_a_grant_of_the_client_alone() {
    let bed = Bed::start().await;
    let (client, other) = (bed.client().await, bed.client().await);
    let code = bed.code(&client).await;
    let tokens = bed.redeem(&client, &code, VERIFIER).await.json();
    let refresh = tokens["refresh_token"].as_str().unwrap();
    let revoke = async |client: &str| {
        bed.post("/oauth/revoke", &[("client_id", client), ("token", refresh)]).await.status()
    };
    assert_eq!(revoke(&other).await, 200);
    assert!(bed.check(tokens["access_token"].as_str().unwrap()).is_ok());
    assert_eq!(revoke(&client).await, 200);
    assert!(bed.check(tokens["access_token"].as_str().unwrap()).is_err());
    assert_eq!(bed.refresh(&client, refresh).await.error().1, "invalid_grant");
}
