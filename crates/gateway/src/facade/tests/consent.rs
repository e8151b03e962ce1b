//! What a person is asked, and where they are sent.

use super::*;

// wire: OS-4, OA-18
#[tokio::test]
async fn the_page_tells_who_asks_and_no_name_becomes_markup() {
    let bed = Bed::start().await;
    let client = bed.client().await;
    let page = bed.get(&asking(&client, &[]), "").await;
    for text in [
        "&lt;App&gt;",
        "app.example",
        "chose its name itself",
        "mcp:read",
        "https://gw.example/mcp",
    ] {
        assert!(page.text.contains(text), "{text}: {}", page.text);
    }
    assert!(!page.text.contains("<App>") && !page.text.contains("<script"));
    assert!(page.header("content-security-policy").contains("frame-ancestors 'none'"));
    assert!(page.header("set-cookie").starts_with("__Host-switchboard="));
    for part in ["Secure", "HttpOnly", "SameSite=Lax", "Path=/"] {
        assert!(page.header("set-cookie").contains(part), "{part}");
    }
    let about = json!({"client_name": "Desk", "redirect_uris": ["http://127.0.0.1:1/cb"]});
    let desk = bed.register(about).await.json()["client_id"].as_str().unwrap().to_owned();
    let page = bed.get(&asking(&desk, &[("redirect_uri", "http://127.0.0.1:9/cb")]), "").await;
    assert!(page.text.contains("Any program there can claim this"), "{}", page.text);
}

// wire: OS-4, OS-5, OA-18, AUTH-34
#[tokio::test]
async fn nobody_is_sent_on_without_saying_yes_in_this_browser() {
    let bed = Bed::start().await;
    let client = bed.client().await;
    let page = bed.get(&asking(&client, &[]), "").await;
    let cookie = page.cookie();
    // Posted from elsewhere: no cookie, another one, another request, another proof.
    let other = bed.get(&asking(&client, &[]), "").await;
    let changed = bed.get(&asking(&client, &[("scope", "")]), &cookie).await;
    let (request, proof) = (page.hidden("request"), page.hidden("proof"));
    let bare = bed.answer_form(&page, "", "allow").await;
    let foreign = bed.answer_form(&page, &other.cookie(), "allow").await;
    let mixed =
        [("request", &*changed.hidden("request")), ("proof", &proof), ("decision", "allow")];
    let mixed = bed.visit(Method::POST, "/oauth/consent", &cookie, &form(mixed)).await;
    let none = [("request", &*request), ("decision", "allow")];
    let none = bed.visit(Method::POST, "/oauth/consent", &cookie, &form(none)).await;
    let whole = form([("request", &*request), ("proof", &proof), ("decision", "allow")]);
    let framed =
        bed.visit_from("cross-site", Method::POST, "/oauth/consent", &cookie, &whole).await;
    for refused in [&bare, &foreign, &mixed, &none, &framed] {
        assert_eq!(refused.status(), 400, "{}", refused.text);
        assert!(!refused.text.contains("/authorize?"), "{}", refused.text);
    }
    // Back in another browser, or with another state, and then a second time.
    let (cookie, page) = bed.allow(&client, &[]).await;
    for (cookie, page) in [("", &*page), (&*other.cookie(), &page), (&cookie, "?state=x&nonce=y")] {
        let back = bed.come_back(cookie, page).await;
        assert_eq!((back.status(), back.header("location")), (400, ""));
    }
    assert_eq!(bed.come_back(&cookie, &page).await.status(), 303);
    assert_eq!(bed.come_back(&cookie, &page).await.status(), 400, "it is used once");
    let (cookie, page) = bed.allow(&client, &[]).await;
    bed.wait(601);
    assert_eq!(bed.come_back(&cookie, &page).await.status(), 400, "it is over");
}

// wire: OS-11
#[tokio::test]
async fn a_person_who_says_no_is_heard_by_the_client() {
    let bed = Bed::start().await;
    let client = bed.client().await;
    let page = bed.get(&asking(&client, &[]), "").await;
    let url = bed.answer_form(&page, &page.cookie(), "deny").await.leads_to();
    assert!(url.starts_with(REDIRECT));
    for (name, value) in [("error", "access_denied"), ("state", "s t"), ("iss", BASE)] {
        assert_eq!(parameter(&url, name), value);
    }
    let (cookie, page) = bed.allow(&client, &[]).await;
    let state = parameter(&page, "state");
    let back =
        bed.get(&format!("/oauth/signed-in?error=access_denied&state={state}"), &cookie).await;
    assert_eq!(parameter(back.header("location"), "error"), "access_denied");
}

// wire: OS-2, OS-3, OS-7, OS-11, OA-19
#[tokio::test]
async fn a_bad_client_or_redirect_gets_a_page_and_other_faults_are_told() {
    let bed = Bed::start().await;
    let client = bed.client().await;
    for more in [
        [("client_id", "sbc_0")],
        [("client_id", "")],
        [("redirect_uri", "https://app.example/cb2")],
        [("redirect_uri", "https://app.example@evil.example/cb")],
        [("redirect_uri", "https://evil.example/")],
        [("redirect_uri", "")],
    ] {
        let page = bed.get(&asking(&client, &more), "").await;
        assert_eq!((page.status(), page.header("location")), (400, ""), "{more:?}");
        assert!(!page.text.contains("evil"), "nothing is repeated");
    }
    for (more, error) in [
        ([("response_type", "token")], "unsupported_response_type"),
        ([("code_challenge", "")], "invalid_request"),
        ([("code_challenge_method", "plain")], "invalid_request"),
        ([("code_challenge_method", "")], "invalid_request"),
        ([("resource", "https://other.example/mcp")], "invalid_target"),
        ([("resource", "https://gw.example.evil/mcp")], "invalid_target"),
        ([("request", "x")], "request_not_supported"),
    ] {
        let told = bed.get(&asking(&client, &more), "").await;
        // Anybody may have registered it: the person decides whether they go there.
        assert_eq!((told.status(), told.header("location")), (400, ""), "{more:?}");
        assert!(!told.text.contains("http-equiv"), "{}", told.text);
        let url = told.leads_to();
        assert!(url.starts_with(REDIRECT), "{more:?} {}", told.text);
        assert_eq!(parameter(&url, "error"), error, "{more:?}");
        assert_eq!((parameter(&url, "iss"), parameter(&url, "state")), (BASE.into(), "s t".into()));
    }
    // The host of one with a document is proven, and it is told at once.
    let id = "https://app.example/c";
    let about = json!({"client_id": id, "redirect_uris": [REDIRECT]});
    let proven = client::read_document(id, about.as_object().unwrap(), bed.now(), &rule()).unwrap();
    bed.facade.state.keep_document(&proven, bed.now() + 60, bed.now());
    let twice = format!("{}&scope=a", asking(id, &[]));
    assert_eq!(parameter(bed.get(&twice, "").await.header("location"), "error"), "invalid_request");
}
