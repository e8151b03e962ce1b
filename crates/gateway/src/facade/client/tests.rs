//! What clients may register, and where people may be sent back to.

use super::*;

fn rule() -> FacadeRule {
    FacadeRule::default()
}

fn read(about: Value) -> Result<FacadeClient, BadClient> {
    let Value::Object(about) = about else { panic!("an object") };
    read_client(&about, "c".to_owned(), 1, &rule())
}

// wire: OS-3, OA-19
#[test]
fn people_are_sent_back_to_registered_places_alone() {
    let redirects = json!(["http://127.0.0.1:1000/cb", "https://app.example/cb?x=1", "app.x:/cb"]);
    let client = read(json!({"redirect_uris": redirects})).unwrap();
    for uri in [
        "http://127.0.0.1:1000/cb",
        "http://127.0.0.1:65000/cb",
        "http://127.0.0.1/cb",
        "https://app.example/cb?x=1",
        "app.x:/cb",
    ] {
        assert!(client.may_redirect(uri, &rule()), "{uri}");
    }
    for uri in [
        "http://127.0.0.1:1000/cb2",
        "http://127.0.0.1:1000/cb/",
        "http://127.0.0.1:1000/cb?x",
        "http://127.0.0.2:1000/cb",
        "http://localhost:1000/cb",
        "http://127.0.0.1:1000@evil.example/cb",
        "http://127.0.0.1:80:80/cb",
        "http://127.0.0.1:evil/cb",
        "https://127.0.0.1:1000/cb",
        "https://app.example:444/cb?x=1",
        "https://app.example/cb",
        "https://app.example/cb?x=1&y=2",
        "https://app.example/cb?x=1#f",
        "https://app.example.evil/cb?x=1",
        "https://app.example@evil.example/cb?x=1",
        "https://user@app.example/cb?x=1",
        "https://app.example\\@evil.example/cb?x=1",
        "https://app.example/%63b?x=1",
        "https://app.example/./cb?x=1",
        "HTTPS://app.example/cb?x=1",
        "//app.example/cb?x=1",
        "app.x:/cb2",
        "javascript:alert(1)",
        "",
    ] {
        assert!(!client.may_redirect(uri, &rule()), "{uri}");
    }
    let only = FacadeRule { allowed_redirects: vec!["https://app.example/*".to_owned()], ..rule() };
    assert!(client.may_redirect("https://app.example/cb?x=1", &only));
    assert!(!client.may_redirect("http://127.0.0.1:1000/cb", &only));
}

// wire: OS-3, OA-19
#[test]
fn a_star_for_hosts_stands_for_hosts_alone() {
    for (pattern, uri, expected) in [
        ("https://*.corp.example/*", "https://a.corp.example/x/y?z=1", true),
        ("https://*.corp.example/*", "https://evil.example/.corp.example/x", false),
        ("https://*.corp.example/*", "https://evil.example?.corp.example/x", false),
        ("https://*.corp.example/*", "http://a.corp.example/x", false),
        ("https://a.example/cb", "https://a.example/cb", true),
        ("https://a.example/cb", "https://a.example/cb2", false),
        ("https://a.example", "https://a.example/cb", false),
        ("http://127.0.0.1:*", "http://127.0.0.1:99/cb", true),
        ("http://127.0.0.1:*", "http://127.0.0.1.evil.example/cb", false),
        ("cursor://*", "cursor://anysphere/cb", true),
        ("app.x:/*", "app.x:/cb", true),
        ("https:*.corp.example/*", "https://evil.example/.corp.example/x", false),
        ("*", "https://a.example/cb", true),
    ] {
        assert_eq!(allows(pattern, uri), expected, "{pattern} {uri}");
    }
}

// wire: OS-3, OS-9, OA-19
#[test]
fn clients_register_what_is_safe() {
    for (uri, kind, is_right) in [
        ("http://127.0.0.1:1/cb", "native", true),
        ("http://[::1]:1/cb", "native", true),
        ("http://localhost/cb", "native", true),
        ("cursor://anysphere/cb", "native", true),
        ("https://a.example/cb", "native", true),
        ("https://a.example/cb", "web", true),
        ("http://127.0.0.1:1/cb", "web", false),
        ("cursor://anysphere/cb", "web", false),
        ("http://a.example/cb", "native", false),
        ("http://localhost.evil.example/cb", "native", false),
        ("javascript:alert(1)//", "native", false),
        ("data:text/html,x", "native", false),
        ("file:///etc/passwd", "native", false),
        ("vbscript:x", "native", false),
        ("blob:https://a.example/x", "native", false),
        ("about:blank", "native", false),
        ("JavaScript:alert(1)", "native", false),
        ("https://a.example/cb#f", "web", false),
        ("https://a@b.example/cb", "web", false),
        ("https:/a.example", "web", false),
        ("https://a.example/ cb", "web", false),
        ("app:", "native", false),
        ("no scheme", "native", false),
    ] {
        let about = json!({"redirect_uris": [uri], "application_type": kind});
        assert_eq!(read(about).is_ok(), is_right, "{uri} {kind}");
    }
    for about in [
        json!({}),
        json!({"redirect_uris": []}),
        json!({"redirect_uris": [1]}),
        json!({"redirect_uris": vec!["https://a.example/"; 17]}),
        json!({"redirect_uris": ["https://a.example/"], "token_endpoint_auth_method": "client_secret_basic"}),
        json!({"redirect_uris": ["https://a.example/"], "token_endpoint_auth_method": "private_key_jwt"}),
        json!({"redirect_uris": ["https://a.example/"], "application_type": "other"}),
    ] {
        assert!(read(about.clone()).is_err(), "{about}");
    }
}

// wire: OS-10, OA-21
#[test]
fn a_metadata_document_speaks_for_its_own_url() {
    let id = "https://app.example/client.json";
    let read = |about: Value| {
        let Value::Object(about) = about else { panic!("an object") };
        read_document(id, &about, 1, &rule())
    };
    let right =
        json!({"client_id": id, "client_name": "App", "redirect_uris": ["https://app.example/cb"]});
    let client = read(right.clone()).unwrap();
    assert!(client.is_proven() && client.name == "App");
    let changed = |name: &str, value: Value| {
        let mut about = right.clone();
        about[name] = value;
        read(about)
    };
    assert!(changed("client_id", json!("https://app.example/client.json/")).is_err());
    assert!(changed("client_id", json!("https://other.example/client.json")).is_err());
    assert!(changed("client_id", Value::Null).is_err());
    assert!(changed("client_secret", json!("s")).is_err());
    assert!(changed("redirect_uris", json!(["javascript:x"])).is_err());
    // A document that has other redirects by now.
    let moved = changed("redirect_uris", json!(["https://app.example/other"])).unwrap();
    assert!(!moved.may_redirect("https://app.example/cb", &rule()));
}

// wire: OS-10
#[test]
fn only_plain_https_urls_with_a_path_are_metadata_documents() {
    let none: [String; 0] = [];
    assert!(is_document_url("https://app.example/client.json", &none));
    for id in [
        "http://app.example/client.json",
        "https://app.example/",
        "https://app.example",
        "https://app.example/a#b",
        "https://app.example/a?b",
        "https://u@app.example/a",
        "https://app.example/../a",
        "sbc_0123",
    ] {
        assert!(!is_document_url(id, &none), "{id}");
    }
    let hosts = ["*.example.com".to_owned()];
    assert!(is_document_url("https://app.example.com/c", &hosts));
    assert!(!is_document_url("https://app.example/c", &hosts));
}
