//! What flags and files say about signing in.

use clap::Parser as _;
use switchboard_gateway::config::{CallbackPlan, ServerOptions};

use super::*;
use crate::args::{Cli, Command};
use crate::target;

/// What a line of `bridge` says about signing in.
fn args(line: &str) -> OauthArgs {
    let line = format!("switchboard bridge https://a.example/mcp {line}");
    let words = line.split(' ').map(|word| word.replace('+', " ")).filter(|word| !word.is_empty());
    match Cli::try_parse_from(words).unwrap().command {
        Command::Bridge(args) => args.oauth,
        other => panic!("{other:?}"),
    }
}

fn plan() -> OauthPlan {
    let settings = OauthSettings {
        client_id: Some("file".to_owned()),
        client_secret: Some(Secret::new("file-secret")),
        scopes: Some(vec!["file".to_owned()]),
        ..OauthSettings::default()
    };
    let callback = CallbackPlan { port: Some(1), path: Some("/file".to_owned()), host: None };
    OauthPlan { is_wanted: Some(true), settings, callback, ..OauthPlan::default() }
}

#[test]
fn flags_are_stronger_than_files() {
    assert_eq!(settings(&plan(), &args("")).unwrap(), plan().settings);
    let said = settings(
        &plan(),
        &args(
            "--oauth-client-id id --oauth-client-secret secret --oauth-scope a+b --oauth-scope c \
             --oauth-resource false --authorize-param k=v=w --client-metadata-url https://me/c.json \
             --token-endpoint https://as/token --use-id-token --device-code",
        ),
    );
    let expected = OauthSettings {
        grant: GrantType::Device,
        client_id: Some("id".to_owned()),
        client_secret: Some(Secret::new("secret")),
        scopes: Some(split("a b c")),
        resource: ResourceParameter::LeftOut,
        authorize_params: vec![("k".to_owned(), "v=w".to_owned())],
        client_metadata_url: Some("https://me/c.json".to_owned()),
        endpoints: switchboard_proto::auth::Endpoints {
            authorization: None,
            token: Some("https://as/token".to_owned()),
        },
        use_id_token: true,
        ..OauthSettings::default()
    };
    assert_eq!(said.unwrap(), expected);
    let given = settings(&plan(), &args("--oauth-resource https://r")).unwrap().resource;
    assert_eq!(given, ResourceParameter::Given("https://r".to_owned()));
}

#[test]
fn a_client_may_be_described_in_json() {
    let info = r#"--oauth-client-info={"client_id":"j","client_secret":"s"}"#;
    let metadata = r#"--oauth-client-metadata={"scope":"x+y","client_uri":"u"}"#;
    let said = settings(&plan(), &args(&format!("{info} {metadata}"))).unwrap();
    assert_eq!(said.client_id.as_deref(), Some("j"));
    assert_eq!(said.client_secret, Some(Secret::new("s")));
    assert_eq!(said.scopes, Some(split("x y")));
    assert_eq!(said.client_metadata["client_uri"], "u");
    for bad in
        ["--oauth-client-info=s3cret", "--oauth-client-info={}", "--oauth-client-info=@/no/such"]
    {
        let error = settings(&plan(), &args(bad)).unwrap_err().to_string();
        assert!(!error.contains("s3cret"), "{error}");
    }
    let none = OauthPlan::default();
    assert!(settings(&none, &args("--client-credentials")).is_err(), "it has no secret");
    let said = settings(&plan(), &args("--client-credentials")).unwrap();
    assert_eq!(said.grant, GrantType::ClientCredentials);
}

#[test]
fn people_come_back_to_where_flags_or_files_say() {
    let of = |line: &str| {
        let it = options(&plan(), &args(line), LoginChoice::Wait);
        (it.callback_host, it.callback_port, it.callback_path, it.success_url, it.wait.as_secs())
    };
    let text = str::to_owned;
    assert_eq!(of(""), (text("127.0.0.1"), Some(1), text("/file"), None, 600));
    let line = "--callback-host localhost --callback-port 9 --callback-path /cb \
                --auth-success-url https://me/ok --auth-timeout 30";
    let success = Some(text("https://me/ok"));
    assert_eq!(of(line), (text("localhost"), Some(9), text("/cb"), success, 30));
    let plain = options(&OauthPlan::default(), &args(""), LoginChoice::Never);
    assert_eq!((plain.callback_path.as_str(), plain.callback_port), ("/oauth/callback", None));
    assert_eq!(plain.mode, LoginMode::Never);
}

#[test]
fn an_account_is_named_by_the_url_without_a_slash_that_nobody_wrote() {
    // wire: OC-31, OT-1
    let named = |url: &str| {
        let fetch = target::fetch(&crate::args::NetworkArgs::default()).unwrap();
        let url = url.parse().unwrap();
        let server = ServerTarget::url(
            url,
            switchboard_net::upstream::Strategy::default(),
            HeaderMap::new(),
            fetch,
        );
        let (options, oauth) = (ServerOptions::default(), OauthPlan::default());
        account(&NamedServer { server, options, oauth }, &CredentialArgs::default(), None)
            .unwrap()
            .server
    };
    assert_eq!(named("https://a.example"), "https://a.example");
    assert_eq!(named("https://a.example/mcp/"), "https://a.example/mcp/");
    assert_eq!(named("https://a.example/?x=1"), "https://a.example/?x=1");
}
