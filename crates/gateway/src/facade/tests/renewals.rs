//! Grants that are renewed: what the identity provider says of their people by then, and what is
//! kept of it.

use switchboard_net::auth::store::{RecordId, RecordKind};

use super::*;

impl Bed {
    /// A client, and the refresh token that it got.
    pub(super) async fn signed_in(&self) -> (String, String) {
        let client = self.client().await;
        let code = self.code(&client).await;
        let given = self.redeem(&client, &code, VERIFIER).await;
        (client, refresh_token(&given))
    }

    /// All that the store has of this kind.
    pub(super) async fn records(&self, kind: RecordKind) -> Vec<String> {
        let mut found = Vec::new();
        for name in self.store.list(kind).await.unwrap() {
            let content = self.store.read(&RecordId { kind, name }).await.unwrap().unwrap();
            found.push(String::from_utf8(content.to_vec()).unwrap());
        }
        found
    }
}

pub(super) fn refresh_token(given: &Reply) -> String {
    assert_eq!(given.status(), 200, "{}", given.text);
    given.json()["refresh_token"].as_str().unwrap().to_owned()
}

// wire: OS-8
#[tokio::test]
async fn another_secret_in_the_configuration_ends_no_grant() {
    let mut bed = Bed::start().await;
    let (client, refresh) = bed.signed_in().await;
    assert!(bed.records(RecordKind::Grant).await.iter().all(|it| !it.contains("s3cret")));
    // "gw:n3w", in base64.
    bed.issuer.ask_for("Basic Z3c6bjN3");
    let tokens = json!({"access_token": "b", "token_type": "Bearer", "refresh_token": "idp2"});
    bed.issuer.give("idp1", tokens);
    bed.wait(301);
    let refresh = refresh_token(&bed.refresh(&client, &refresh).await);
    let secret = Some("n3w".to_owned());
    bed.restart_with(FacadeRule { client_secret: secret, ..rule() }).await;
    let refresh = refresh_token(&bed.refresh(&client, &refresh).await);
    let kept = bed.records(RecordKind::Grant).await;
    assert!(kept[0].contains("idp2") && !kept[0].contains("n3w"), "asked with the new one");
    bed.wait(301);
    assert_eq!(bed.refresh(&client, &refresh).await.error().1, "invalid_grant", "no idp2 there");
}

// wire: OS-8
#[tokio::test]
async fn what_is_said_of_a_person_is_asked_for_again() {
    let bed = Bed::start().await;
    let (client, refresh) = bed.signed_in().await;
    let tokens = json!({"access_token": "b", "token_type": "Bearer"});
    bed.issuer.give("idp1", tokens);
    bed.issuer.say_of_everybody(json!({"sub": "ada", "groups": ["other"]}));
    bed.wait(301);
    let given = bed.refresh(&client, &refresh).await;
    let refresh = refresh_token(&given);
    let facts = bed.check(given.json()["access_token"].as_str().unwrap()).unwrap();
    assert_eq!(facts.claims, [], "no member of dev any more");
    // Nobody says it again: for a day it counts.
    bed.issuer.say_of_everybody(Value::Null);
    bed.wait(86_400);
    let refresh = refresh_token(&bed.refresh(&client, &refresh).await);
    bed.wait(301);
    assert_eq!(bed.refresh(&client, &refresh).await.error().1, "invalid_grant");
}

// wire: OS-8
#[tokio::test]
async fn what_the_provider_gives_is_kept_if_its_word_does_not_count() {
    let bed = Bed::start().await;
    let (client, refresh) = bed.signed_in().await;
    let other = Issuer::start().await;
    let forged = other.sign(&bed.issuer.claims("ada", "gw", &json!({})));
    let tokens = json!({
        "access_token": "b", "token_type": "Bearer", "refresh_token": "idp2", "id_token": forged,
    });
    bed.issuer.give("idp1", tokens);
    bed.wait(86_400 + 301);
    assert_eq!(bed.refresh(&client, &refresh).await.status(), 503);
    bed.issuer.give("idp1", Value::Null);
    bed.issuer.give("idp2", json!({"access_token": "b", "token_type": "Bearer"}));
    bed.issuer.say_of_everybody(json!({"sub": "ada"}));
    bed.wait(301);
    refresh_token(&bed.refresh(&client, &refresh).await);
}

// wire: OS-8
#[tokio::test]
async fn what_was_ended_stays_so_after_a_restart() {
    let mut bed = Bed::start().await;
    let client = bed.client().await;
    let code = bed.code(&client).await;
    let given = bed.redeem(&client, &code, VERIFIER).await;
    let refresh = refresh_token(&given);
    let pairs = [("client_id", &*client), ("token", &*refresh)];
    assert_eq!(bed.post("/oauth/revoke", &pairs).await.status(), 200);
    bed.restart().await;
    assert!(bed.check(given.json()["access_token"].as_str().unwrap()).is_err());
    assert_eq!(bed.refresh(&client, &refresh).await.error().1, "invalid_grant");
    // Its tokens are over by then.
    bed.facade.state.sweep(bed.now() + 661).await.unwrap();
    assert_eq!(bed.records(RecordKind::Grant).await.len(), 0);
}

// wire: OS-8
#[tokio::test]
async fn the_store_alone_has_no_token_of_a_client() {
    let bed = Bed::start().await;
    let (client, refresh) = bed.signed_in().await;
    let given = bed.refresh(&client, &refresh).await;
    let kept = bed.records(RecordKind::Grant).await.join("");
    let refresh = refresh_token(&given);
    let secret = refresh.split_once('.').unwrap().1;
    let token = given.json()["access_token"].as_str().unwrap().to_owned();
    assert!(!kept.contains(secret) && !kept.contains(&token), "{kept}");
}

// wire: OS-9
#[tokio::test]
async fn a_client_that_only_renews_its_tokens_stays_registered() {
    let bed = Bed::start().await;
    let (client, mut refresh) = bed.signed_in().await;
    bed.issuer.give("idp1", json!({"access_token": "b", "token_type": "Bearer"}));
    bed.issuer.say_of_everybody(json!({"sub": "ada"}));
    for _ in 0..3 {
        bed.wait(20 * 86_400);
        bed.facade.state.sweep(bed.now()).await.unwrap();
        refresh = refresh_token(&bed.refresh(&client, &refresh).await);
    }
}

// wire: OS-8
#[tokio::test]
async fn claims_stay_while_the_provider_cannot_be_asked_for_them() {
    let bed = Bed::start().await;
    let (client, refresh) = bed.signed_in().await;
    let renew = async |refresh: &str, userinfo: Value| {
        let id_token = bed.issuer.id_token("ada", "gw", &json!({}));
        let tokens = json!({"access_token": "b", "token_type": "Bearer", "id_token": id_token});
        bed.issuer.give("idp1", tokens);
        bed.issuer.say_of_everybody(userinfo);
        bed.wait(301);
        let given = bed.refresh(&client, refresh).await;
        let facts = bed.check(given.json()["access_token"].as_str().unwrap()).unwrap();
        (refresh_token(&given), facts.claims)
    };
    let (refresh, claims) = renew(&refresh, json!(503)).await;
    assert_eq!(claims, [("groups".to_owned(), "dev".to_owned())], "what was said at the sign-in");
    let (_, claims) = renew(&refresh, json!(403)).await;
    assert_eq!(claims, [], "it does not say it any more");
}
