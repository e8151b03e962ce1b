//! What files say about signing in.

use std::path::Path;

use switchboard_proto::auth::{
    GrantType, IdentityProvider, OauthSettings, ResourceParameter, Secret,
};

use super::super::{Config, Surroundings, Weight};
use super::{CallbackPlan, OauthPlan};

fn parse(file: &str, text: &str) -> Config {
    let variables = [("S", "s3cret")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    Config::parse(Path::new(file), text, &Surroundings::new(variables, "/p")).unwrap()
}

/// What a file says about signing in to its server `a`.
#[track_caller]
fn plan_in(file: &str, text: &str) -> OauthPlan {
    let config = parse(file, text);
    assert_eq!(config.problems, [], "{text}");
    config.server("a").unwrap().unwrap().plan.oauth.clone()
}

#[track_caller]
fn plan(block: &str) -> OauthPlan {
    plan_in("m.json", &format!(r#"{{"mcpServers": {{"a": {{"url": "https://a/mcp", {block}}}}}}}"#))
}

#[expect(clippy::unnecessary_wraps, reason = "it is compared with what may be absent")]
fn words(words: &[&str]) -> Option<Vec<String>> {
    Some(words.iter().map(ToString::to_string).collect())
}

#[test]
fn our_own_block_is_read() {
    assert_eq!(plan("\"description\": \"x\""), OauthPlan::default());
    assert_eq!(plan("\"oauth\": false").is_wanted, Some(false));
    assert_eq!(plan("\"requires_oauth\": true").is_wanted, Some(true));
    let all = plan(
        r#""oauth": {"clientId": "c", "clientSecret": "${S}", "scopes": ["a", "b"], "resource": false,
            "issuer": "https://as", "trustedIssuer": "https://other", "assumePkce": true,
            "authorizeParams": {"audience": "x"}, "grant": "device-code", "dpop": true,
            "clientMetadata": {"client_uri": "https://me"}, "callbackPort": 3118,
            "clientMetadataUrl": "https://me/client.json", "useIdToken": true,
            "accountName": "work", "allowPrivate": ["idp.corp", "10.0.0.0/8"]}"#,
    );
    assert_eq!(all.account_name.as_deref(), Some("work"));
    assert_eq!(Some(all.allow_private.clone()), words(&["idp.corp", "10.0.0.0/8"]));
    let expected = OauthSettings {
        grant: GrantType::Device,
        client_id: Some("c".to_owned()),
        client_secret: Some(Secret::new("s3cret")),
        issuer: Some("https://as".to_owned()),
        trusted_issuer: Some("https://other".to_owned()),
        scopes: words(&["a", "b"]),
        resource: ResourceParameter::LeftOut,
        authorize_params: vec![("audience".to_owned(), "x".to_owned())],
        assume_pkce: true,
        client_metadata_url: Some("https://me/client.json".to_owned()),
        client_metadata: serde_json::json!({"client_uri": "https://me"})
            .as_object()
            .unwrap()
            .clone(),
        use_id_token: true,
        dpop: true,
        ..OauthSettings::default()
    };
    assert_eq!(all.settings, expected);
    assert_eq!(all.callback.port, Some(3118));
    assert!(!format!("{all:?}").contains("s3cret"));
}

#[test]
fn blocks_of_six_clients_are_read() {
    let claude = plan(
        r#""oauth": {"clientId": "c", "callbackPort": 3118, "scopes": "a b",
            "authServerMetadataUrl": "https://as/.well-known/openid-configuration", "xaa": true}"#,
    );
    assert_eq!(claude.settings.scopes, words(&["a", "b"]));
    assert_eq!(claude.callback.port, Some(3118));
    let metadata = "https://as/.well-known/openid-configuration";
    assert_eq!(claude.settings.metadata_url.as_deref(), Some(metadata));

    let cursor =
        plan(r#""auth": {"CLIENT_ID": "c", "CLIENT_SECRET": "${env:S}", "scopes": ["a"]}"#);
    assert_eq!(cursor.settings.client_id.as_deref(), Some("c"));
    assert_eq!(cursor.settings.client_secret, Some(Secret::new("s3cret")));

    let codex = plan_in(
        "config.toml",
        "[mcp_servers.a]\nurl = \"https://a/mcp\"\nscopes = [\"a\"]\noauth_resource = \"https://r\"\n\
         auth = \"chatgpt\"\n[mcp_servers.a.oauth]\nclient_id = \"c\"\ncallback_url = \"http://127.0.0.1/callback\"\n",
    );
    assert_eq!(codex.settings.client_id.as_deref(), Some("c"));
    assert_eq!(codex.settings.scopes, words(&["a"]));
    assert_eq!(codex.settings.resource, ResourceParameter::Given("https://r".to_owned()));
    let back = |host: &str, port, path: &str| CallbackPlan {
        host: Some(host.to_owned()),
        port,
        path: Some(path.to_owned()).filter(|path| !path.is_empty()),
    };
    assert_eq!(codex.callback, back("127.0.0.1", None, "/callback"));

    let gemini = plan(
        r#""oauth": {"enabled": true, "clientId": "c", "clientSecret": "x", "scopes": ["a"],
            "authorizationUrl": "https://as/authorize", "tokenUrl": "https://as/token",
            "redirectUri": "http://localhost:7777/oauth/callback", "tokenParamName": "t", "audiences": []}"#,
    );
    assert_eq!(gemini.settings.endpoints.token.as_deref(), Some("https://as/token"));
    assert_eq!(gemini.settings.endpoints.authorization.as_deref(), Some("https://as/authorize"));
    assert_eq!(gemini.callback, back("localhost", Some(7777), "/oauth/callback"));
    assert_eq!(plan(r#""oauth": {"enabled": false}"#).is_wanted, Some(false));

    let opencode = plan_in(
        "opencode.json",
        r#"{"mcp": {"a": {"type": "remote", "url": "https://a/mcp",
            "oauth": {"clientId": "c", "clientSecret": "{env:S}", "scope": "a b"}}}}"#,
    );
    assert_eq!(opencode.settings.scopes, words(&["a", "b"]));
    assert_eq!(opencode.settings.client_secret, Some(Secret::new("s3cret")));

    let kiro = plan(r#""oauthScopes": ["a"], "oauth": {"redirectUri": "127.0.0.1:7778"}"#);
    assert_eq!(kiro.settings.scopes, words(&["a"]));
    assert_eq!(kiro.callback, back("127.0.0.1", Some(7778), ""));
}

#[test]
fn mistakes_in_the_block_are_told_and_its_secrets_are_not() {
    let told = |block: &str| {
        let file = format!(r#"{{"mcpServers": {{"a": {{"url": "https://a/mcp", {block}}}}}}}"#);
        let problems = parse("m.json", &file).problems;
        let texts: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert!(!texts.concat().contains("s3cret"), "{texts:?}");
        (problems.first().map(|it| it.weight), texts.join("; "))
    };
    for (block, weight, text) in [
        (r#""oauth": "yes""#, Weight::Error, "\"oauth\" is text"),
        (r#""oauth": {"colour": "c"}"#, Weight::Note, "unknown key \"colour\""),
        (r#""oauth": {"clientSecrets": "${S}"}"#, Weight::Error, "unknown key \"clientSecrets\""),
        (r#""oauth": {"clientSecret": 7}"#, Weight::Error, "\"clientSecret\" is a number"),
        (r#""oauth": {"grant": "password"}"#, Weight::Error, "\"grant\" is no grant"),
        (
            r#""oauth": {"grant": "token-exchange", "clientId": "c"}"#,
            Weight::Error,
            "\"token-exchange\" is not complete",
        ),
        (
            r#""oauth": {"grant": "token-exchange", "issuer": "https://i", "clientId": "c", "dpop": true}"#,
            Weight::Error,
            "bound to no key",
        ),
        (r#""oauth": {"callbackPort": 70000}"#, Weight::Error, "\"callbackPort\" is no port"),
        (r#""oauth": {"redirectUri": "http://:x"}"#, Weight::Error, "is no address"),
        (r#""oauth": {"redirectUri": "cursor://a/b"}"#, Weight::Note, "does not lead"),
        (r#""oauth": {"privateKeyFile": "/no/such"}"#, Weight::Error, "cannot read /no/such"),
        (r#""oauth": {"identityProvider": {"clientId": "c"}}"#, Weight::Error, "is not complete"),
    ] {
        let (found, told) = told(block);
        assert_eq!(found, Some(weight), "{block}: {told}");
        assert!(told.contains(text), "{block}: {told}");
    }
    let command = r#"{"mcpServers": {"a": {"command": "c", "oauth": {"grant": "token-exchange", "clientId": "x"}}}}"#;
    let problems = parse("m.json", command).problems;
    assert!(problems.iter().any(|it| it.to_string().contains("a command cannot")), "{problems:?}");
    let exchange = plan(
        r#""oauth": {"grant": "token-exchange", "tokenUrl": "https://i/token", "clientId": "c", "audience": "api"}"#,
    );
    assert_eq!(exchange.settings.grant, GrantType::Exchange { subject: None });
    assert_eq!(exchange.settings.audience.as_deref(), Some("api"));
    let file = r#"{"mcpServers": {"a": {"command": "c", "oauth": {"clientId": "x"}}}}"#;
    let problems = parse("m.json", file).problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].weight, Weight::Note);
}

#[test]
fn keys_and_tokens_are_read_from_their_files() {
    let folder = std::env::temp_dir().join(format!("switchboard-oauth-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("key.pem");
    std::fs::write(&file, "pem").unwrap();
    let path = file.display();
    let batch = plan(&format!(
        r#""oauth": {{"grant": "client-credentials", "clientId": "ci", "privateKeyFile": "{path}"}}"#
    ));
    assert_eq!(batch.settings.grant, GrantType::ClientCredentials);
    assert_eq!(batch.settings.private_key, Some(Secret::new("pem")));
    let workload = plan(&format!(r#""oauth": {{"assertionFile": "{path}"}}"#));
    assert_eq!(workload.settings.grant, GrantType::Workload { assertion: Secret::new("pem") });
    let enterprise = plan(&format!(
        r#""oauth": {{"identityProvider": {{"tokenUrl": "https://idp/token", "clientId": "i", "idTokenFile": "{path}"}}}}"#
    ));
    let GrantType::Enterprise(IdentityProvider::Token(token)) = enterprise.settings.grant else {
        panic!("another grant")
    };
    assert_eq!((token.source.client.client_id.as_str(), token.token.reveal()), ("i", "pem"));
    for block in [
        r#"{"grant": "enterprise", "idp": {"issuer": "https://idp", "clientId": "i"}}"#,
        r#"{"identityProvider": {"clientId": "i", "issuer": "https://idp"}, "grant": "enterprise"}"#,
    ] {
        let (issuer, client_id) = ("https://idp".to_owned(), "i".to_owned());
        let provider = IdentityProvider::SignIn { issuer, client_id, client_secret: None };
        let grant = plan(&format!(r#""oauth": {block}"#)).settings.grant;
        assert_eq!(grant, GrantType::Enterprise(provider));
    }
    std::fs::remove_dir_all(folder).unwrap();
}
