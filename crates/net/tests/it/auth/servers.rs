//! Whose token goes where: accounts, identity providers, and what servers are asked.

use super::*;

// wire: OT-6, OC-43
#[tokio::test]
async fn a_person_and_each_client_have_tokens_of_their_own_at_one_server() {
    let world = AuthWorld::start().await;
    let store = memory();
    let person = world.authorizer(&store, LoginMode::Wait);
    within(person.sign_in(None)).await.unwrap();
    let client = |id: &str| world.machine(&store, id);
    for (id, token) in [("one", "a2"), ("two", "a3")] {
        assert_eq!(within(client(id).current()).await.unwrap(), None);
        within(client(id).sign_in(None)).await.unwrap();
        let kept = within(client(id).current()).await.unwrap().unwrap();
        assert_eq!(kept.access_token.reveal(), token);
    }
    let kept = within(person.current()).await.unwrap().unwrap();
    assert_eq!(kept.access_token.reveal(), "a1");
    let mut names = store.list(RecordKind::Tokens).await.unwrap();
    names.sort_unstable();
    let accounts: Vec<_> = names.iter().filter_map(|name| Account::from_name(name)).collect();
    let grants: Vec<_> = accounts.iter().map(|account| account.grant.as_deref()).collect();
    assert_eq!(grants, [None, Some("client-credentials one"), Some("client-credentials two")]);
    assert_eq!(accounts[2].record(RecordKind::Tokens).name, names[2]);
}

// wire: OX-2
#[tokio::test]
async fn one_sign_in_at_the_identity_provider_is_for_all_servers() {
    let world = AuthWorld::start().await;
    let store = memory();
    let at = |path: &str, mode| {
        let (issuer, client_id) = (world.url.clone(), "desk".to_owned());
        let provider = IdentityProvider::SignIn { issuer, client_id, client_secret: None };
        let grant = GrantType::Enterprise(provider);
        let client_id = Some("at-as".to_owned());
        let settings = OauthSettings { grant, client_id, ..OauthSettings::default() };
        let account = Account { server: format!("{}{path}", world.url), ..Account::default() };
        let options = SignInOptions::default().mode(mode);
        Authorizer::new(account, settings, Arc::clone(&store), fetch(), Arc::new(Yes), options)
    };
    let never = at("/mcp", LoginMode::Never);
    let error = within(never.sign_in(None)).await.unwrap_err().to_string();
    assert_eq!(error, format!("run `switchboard login {}/mcp`", world.url));
    assert!(never.lacks_person());

    // A code, an exchange, and an assertion; then only the latter two.
    let first = within(at("/mcp", LoginMode::Wait).sign_in(None)).await.unwrap();
    assert_eq!(first.access_token.reveal(), "a3");
    let second = within(at("/other", LoginMode::Wait).sign_in(None)).await.unwrap();
    assert_eq!(second.access_token.reveal(), "a5");
    assert_eq!(world.counts(), [0, 1, 5], "one page, and nobody registers");
    // Where nobody may be asked, nobody has to be.
    let third = within(at("/third", LoginMode::Never).sign_in(None)).await.unwrap();
    assert_eq!((third.access_token.reveal(), world.counts()[1]), ("a7", 1));
    // Who asks for it by hand signs in at the provider, too.
    within(at("/mcp", LoginMode::Wait).sign_in_by_hand(None)).await.unwrap();
    assert_eq!(world.counts()[1], 2);

    // What it gave is refused: if that is old somebody signs in there once more, else not.
    *world.trouble.lock().unwrap() = Some((400, json!({"error": "invalid_grant"})));
    within(at("/mcp", LoginMode::Wait).sign_in(None)).await.unwrap_err();
    assert_eq!(world.counts()[1], 2);
    let account = Account { server: world.url.clone(), ..Account::default() };
    let known = account.tokens(&*store).await.unwrap().unwrap();
    let old = TokenRecord { issued_at: 0, ..known };
    let mut lock = store.lock(&account.record(RecordKind::Tokens)).await.unwrap();
    lock.write(&Plaintext::new(serde_json::to_vec(&old).unwrap())).await.unwrap();
    drop(lock);
    let error = within(at("/mcp", LoginMode::Never).sign_in(None)).await.unwrap_err();
    assert!(matches!(error, AuthError::NoPerson(_)), "{error}");
    within(at("/mcp", LoginMode::Wait).sign_in(None)).await.unwrap_err();
    assert_eq!(world.counts()[1], 3);
}

// wire: OB-3, OA-6, AUTH-4
#[tokio::test]
async fn addresses_inside_are_not_connected_to_by_any_name() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    let careful = fetch().within(Reach::public()).unwrap();
    for host in [
        "127.0.0.1",
        "localhost",
        "127.1",
        "0x7f000001",
        "2130706433",
        "[::ffff:127.0.0.1]",
        "[::1]",
    ] {
        let mut request = http::Request::new(bytes::Bytes::new());
        *request.uri_mut() = format!("http://{host}:{port}/").parse().unwrap();
        assert!(within(careful.send_once(request)).await.is_err(), "{host}");
    }
    assert_eq!(connections.load(Ordering::SeqCst), 0);
}

// wire: OC-1, OC-13, OC-42, OC-48, AUTH-1, AUTH-20
#[tokio::test]
async fn a_refused_question_of_the_era_is_asked_again_after_the_sign_in() {
    let world = AuthWorld::start().await;
    let url = format!("{}/mcp", world.url).parse().unwrap();
    let server = ServerTarget::url(url, Strategy::HttpOnly, HeaderMap::new(), fetch());
    let server = server.showing(Arc::new(credential(&world, &memory())));
    let client = within(Client::connect(server)).await.unwrap();
    assert_eq!(client.era(), Era::Modern);
    assert_eq!(world.counts(), [1, 1, 1]);
    let asked = world.asked.lock().unwrap().clone();
    let discover = |is_shown| ("server/discover".to_owned(), is_shown);
    assert_eq!(asked, [discover(false), discover(true)], "nobody takes it for a legacy server");
}

// wire: OX-7
#[tokio::test]
async fn a_server_is_told_of_the_extension_that_its_tokens_are_got_by() {
    const MACHINES: &str = "io.modelcontextprotocol/oauth-client-credentials";
    let world = AuthWorld::start().await;
    let to = |url, credential: OauthCredential| {
        let server = ServerTarget::url(url, Strategy::HttpOnly, HeaderMap::new(), fetch());
        server.showing(Arc::new(credential))
    };
    let machine = || OauthCredential::new(world.machine(&memory(), "m"), HeaderMap::new());
    let url = || format!("{}/mcp", world.url).parse::<http::Uri>().unwrap();
    // The library.
    within(Client::connect(to(url(), machine()))).await.unwrap();
    assert_eq!(world.declared.lock().unwrap()["extensions"], json!({MACHINES: {}}));
    let person = credential(&world, &memory());
    within(Client::connect(to(url(), person))).await.unwrap();
    assert_eq!(world.declared.lock().unwrap().get("extensions"), None);
    // A bridge keeps what its client declares, in each request of the modern era.
    let bridge = |server| Bridge::new(server, Children::PerSession, Arc::new(Limits::default()));
    let modern = bridge(to(url(), machine()).speaking(Era::Modern));
    let mut client = caller(&modern);
    let mut params = enveloped(json!({}));
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({"roots": {}, "extensions": {"a/b": {"c": 1}}});
    within(client.call("tools/list", params)).await;
    let both = json!({"roots": {}, "extensions": {MACHINES: {}, "a/b": {"c": 1}}});
    assert_eq!(*world.declared.lock().unwrap(), both);
    // In the greeting of the legacy era.
    let mut old = HttpServer::start().await;
    let legacy = bridge(to(old.url("/mcp"), machine()).speaking(Era::Legacy));
    let mut client = caller(&legacy);
    client
        .ask("initialize", json!({"protocolVersion": LEGACY, "capabilities": {"roots": {}}}))
        .await;
    let greeting = old.post("initialize").await.message();
    let declared = json!({"roots": {}, "extensions": {MACHINES: {}}});
    assert_eq!(greeting["params"]["capabilities"], declared);
}
