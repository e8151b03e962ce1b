//! Tokens that are over: one renewal for all, and what is kept while there is none.

use super::*;

// wire: OC-44, OC-46, OT-6, OA-8, OA-10, AUTH-19
#[tokio::test]
async fn tokens_are_renewed_once_for_all_and_kept_while_they_cannot_be() {
    let world = AuthWorld::start().await;
    let store = memory();
    let authorizer = world.authorizer(&store, LoginMode::Wait);
    let first = within(authorizer.sign_in(None)).await.unwrap();
    let renewing = (0..10).map(|_| {
        let (authorizer, first) = (world.authorizer(&store, LoginMode::Never), first.clone());
        tokio::spawn(async move { authorizer.renew(&first).await.unwrap().unwrap() })
    });
    for renewed in renewing.collect::<Vec<_>>() {
        assert_eq!(within(renewed).await.unwrap().access_token.reveal(), "a2");
    }
    assert_eq!(world.refreshes.load(Ordering::SeqCst), 1);

    // Trouble that may pass throws nothing away, and what is still good is used.
    let second = authorizer.tokens().await.unwrap().unwrap();
    for trouble in [
        (500, json!({})),
        (429, json!({})),
        (200, json!("html")),
        (503, json!({"error": "invalid_grant"})),
    ] {
        *world.trouble.lock().unwrap() = Some(trouble);
        let authorizer = world.authorizer(&store, LoginMode::Wait);
        let before = world.refreshes.load(Ordering::SeqCst);
        for _ in 0..3 {
            let kept = within(authorizer.renew(&second)).await.unwrap().unwrap();
            assert_eq!(kept, second);
        }
        // One try, and then a pause.
        assert_eq!(world.refreshes.load(Ordering::SeqCst), before + 1);
        assert_eq!(authorizer.tokens().await.unwrap().unwrap(), second);
    }
    // A refresh token that is over goes, and nothing else does.
    *world.trouble.lock().unwrap() = Some((400, json!({"error": "invalid_grant"})));
    assert_eq!(within(authorizer.renew(&second)).await.unwrap().unwrap(), second);
    let left = authorizer.tokens().await.unwrap().unwrap();
    assert_eq!((left.refresh_token, left.access_token.reveal()), (None, "a2"));
    *world.trouble.lock().unwrap() = None;
    // There is nothing to renew it with: somebody has to sign in when it is over.
    world.life.store(0, Ordering::SeqCst);
    within(authorizer.sign_in(None)).await.unwrap();
    *world.trouble.lock().unwrap() = Some((400, json!({"error": "invalid_grant"})));
    assert_eq!(within(authorizer.current()).await.unwrap(), None);
}

// wire: OC-45
#[tokio::test]
async fn a_renewal_that_fails_for_a_while_is_the_error_and_opens_no_page() {
    let world = AuthWorld::start().await;
    let (store, client) = (memory(), HeaderMap::new());
    world.life.store(0, Ordering::SeqCst);
    within(world.authorizer(&store, LoginMode::Wait).sign_in(None)).await.unwrap();
    *world.trouble.lock().unwrap() = Some((503, json!({})));
    let credential = credential(&world, &store);
    let bare = within(credential.headers(nobody(&client), None)).await.unwrap().unwrap();
    assert!(bare.headers.is_empty());
    let error = within(credential.headers(nobody(&client), Some(&refusal()))).await.unwrap_err();
    assert!(error.to_string().contains("503"), "{error}");
    assert_eq!(world.counts(), [1, 1, 1], "nobody is asked");

    // Who was lacking is not any more once somebody has signed in elsewhere.
    let never = world.authorizer(&store, LoginMode::Never);
    within(never.sign_in(None)).await.unwrap_err();
    assert!(never.lacks_person());
    *world.trouble.lock().unwrap() = None;
    let credential = OauthCredential::new(never.clone(), HeaderMap::new());
    let found = within(credential.headers(nobody(&client), None)).await.unwrap().unwrap();
    assert_eq!(found.headers["authorization"], "Bearer a2");
    assert!(!never.lacks_person());
}

// wire: OT-7
#[tokio::test]
async fn nobody_waits_for_a_sign_in_whose_code_is_spent() {
    let world = AuthWorld::start().await;
    let store = memory();
    let account = Account { server: format!("{}/mcp", world.url), ..Account::default() };
    let pending = account.record(RecordKind::Pending);
    // What another process would find if this one were killed now.
    let found = Arc::new(Mutex::new(Vec::new()));
    let (seen, kept) = (Arc::clone(&found), Arc::clone(&store));
    *world.meanwhile.lock().unwrap() = Some(Box::new(move || {
        let left = kept.read(&pending).now_or_never().unwrap().unwrap();
        seen.lock().unwrap().push(left.is_some());
    }));
    within(world.authorizer(&store, LoginMode::Wait).sign_in(None)).await.unwrap();
    assert_eq!(*found.lock().unwrap(), [false]);
}
