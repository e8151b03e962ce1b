//! What the doctor says of servers that want a token: each breaks one rule of OAuth discovery.

use serde_json::{Value, json};

use crate::doctor::{findings, report};
use crate::doctor_http::{Asked, Fault, Response, Site, respond, status};
use crate::process::{Run, run};

const JSON: &str = "content-type: application/json\r\n";
const RESOURCE: &str = "/.well-known/oauth-protected-resource/mcp";
const SERVER: &str = "/.well-known/oauth-authorization-server/as";

/// A server that asks for a token as the rules say; its own origin issues them, at `/as`.
fn guarded(asked: &Asked) -> Response {
    let origin = &asked.origin;
    match asked.path.as_str() {
        "/mcp" => challenge(asked, &format!("{origin}{RESOURCE}")),
        RESOURCE => respond(200, JSON, resource(origin).to_string()),
        SERVER => respond(200, JSON, server(origin).to_string()),
        // Whoever comes here wants to change something.
        "/as/register" => respond(500, "", "the doctor must not register"),
        _ => status(404),
    }
}

fn challenge(_: &Asked, metadata: &str) -> Response {
    let challenge = format!("www-authenticate: Bearer resource_metadata=\"{metadata}\"\r\n{JSON}");
    respond(401, &challenge, json!({"error": "invalid_token"}).to_string())
}

fn resource(origin: &str) -> Value {
    json!({"resource": format!("{origin}/mcp"), "authorization_servers": [format!("{origin}/as")]})
}

fn server(origin: &str) -> Value {
    json!({
        "issuer": format!("{origin}/as"),
        "authorization_endpoint": format!("{origin}/as/authorize"),
        "token_endpoint": format!("{origin}/as/token"),
        "registration_endpoint": format!("{origin}/as/register"),
        "code_challenge_methods_supported": ["S256"],
    })
}

/// A document with other members.
fn but(mut document: Value, changes: &Value) -> Response {
    for (name, value) in changes.as_object().unwrap() {
        document[name] = value.clone();
    }
    respond(200, JSON, document.to_string())
}

/// Runs the doctor with a folder of its own for credentials, where none are.
fn look(url: &str, more: &[&str]) -> Run {
    let name = format!("switchboard-doctor-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    let vars = [("SWITCHBOARD_STATE_DIR", folder.to_str().unwrap())];
    let run = run(&[&["doctor", "--timeout", "2", url][..], more].concat(), &vars);
    assert!(!folder.exists(), "nothing is kept");
    run
}

/// A bad server: what it is like, what it does, and what is found: how bad, which, and the rule.
struct BadServer {
    like: &'static str,
    fault: Fault,
    findings: &'static [&'static str],
    rules: &'static [&'static str],
    /// What a person must be told.
    says: &'static str,
}

const BAD_SERVERS: &[BadServer] = &[
    BadServer {
        like: "no challenge, and nothing at the well-known places",
        fault: |asked| Some(status(if asked.path == "/mcp" { 401 } else { 404 })),
        findings: &["error oauth.no-challenge"],
        rules: &["OC-2"],
        says: "WWW-Authenticate: Bearer resource_metadata",
    },
    BadServer {
        like: "no challenge, but metadata",
        fault: |asked| (asked.path == "/mcp").then(|| status(401)),
        findings: &["error http.401", "warning oauth.no-challenge"],
        rules: &["AUTH-1", "OC-2"],
        says: "switchboard login",
    },
    BadServer {
        like: "a challenge without metadata",
        fault: |asked| match asked.path.as_str() {
            "/mcp" => Some(respond(401, "www-authenticate: Bearer realm=\"x\"\r\n", "key?")),
            _ => Some(status(404)),
        },
        findings: &["error oauth.no-metadata"],
        rules: &["OC-3"],
        says: "--header 'Authorization: Bearer ${TOKEN}'",
    },
    BadServer {
        like: "a challenge with a dead metadata URL",
        fault: |asked| match asked.path.as_str() {
            "/mcp" => Some(challenge(asked, &format!("{}/gone", asked.origin))),
            _ => Some(status(404)),
        },
        findings: &["error oauth.dead-link"],
        rules: &["OC-3"],
        says: "/gone, and there is no document there (404)",
    },
    BadServer {
        like: "a page in the place of metadata",
        fault: |asked| {
            let page = || respond(200, "content-type: text/html\r\n", "<!doctype html>");
            (asked.path != "/mcp").then(page)
        },
        findings: &["error oauth.dead-link"],
        rules: &["OC-3"],
        says: "200, but no JSON object",
    },
    BadServer {
        like: "metadata that fail",
        fault: |asked| (asked.path == RESOURCE).then(|| status(500)),
        findings: &["error oauth.resource-metadata"],
        rules: &["OC-3"],
        says: "answers with HTTP 500",
    },
    BadServer {
        like: "metadata of another origin",
        fault: |asked| {
            let other = json!({"resource": "https://other.example/mcp"});
            (asked.path == RESOURCE).then(|| but(resource(&asked.origin), &other))
        },
        findings: &["error oauth.resource"],
        rules: &["OC-4"],
        says: "https://other.example/mcp",
    },
    BadServer {
        like: "no authorization server",
        fault: |asked| {
            let none = json!({"authorization_servers": []});
            (asked.path == RESOURCE).then(|| but(resource(&asked.origin), &none))
        },
        findings: &["error oauth.no-issuer"],
        rules: &["OC-5"],
        says: "authorization_servers",
    },
    BadServer {
        like: "an authorization server without metadata",
        fault: |asked| (asked.path == SERVER).then(|| status(404)),
        findings: &["error oauth.server-metadata"],
        rules: &["OC-6"],
        says: "/as/.well-known/openid-configuration",
    },
    BadServer {
        like: "metadata of another issuer",
        fault: |asked| {
            let other = json!({"issuer": "https://other.example"});
            (asked.path == SERVER).then(|| but(server(&asked.origin), &other))
        },
        findings: &["error oauth.issuer"],
        rules: &["OC-7"],
        says: "oauth.trustedIssuer",
    },
    BadServer {
        like: "no PKCE",
        fault: |asked| {
            let none = json!({"code_challenge_methods_supported": ["plain"]});
            (asked.path == SERVER).then(|| but(server(&asked.origin), &none))
        },
        findings: &["error oauth.pkce"],
        rules: &["OC-8"],
        says: "oauth.assumePkce",
    },
    BadServer {
        like: "a page to sign in at that is a script",
        fault: |asked| {
            let script = json!({"authorization_endpoint": "javascript:alert(1)"});
            (asked.path == SERVER).then(|| but(server(&asked.origin), &script))
        },
        findings: &["error oauth.endpoint"],
        rules: &["OC-11"],
        says: "javascript:alert(1)",
    },
    BadServer {
        like: "no registration",
        fault: |asked| {
            let none = json!({"registration_endpoint": null});
            (asked.path == SERVER).then(|| but(server(&asked.origin), &none))
        },
        findings: &["error oauth.registration"],
        rules: &["OC-20"],
        says: "with the redirect URI http://127.0.0.1:",
    },
    BadServer {
        like: "three faults at once",
        fault: |asked| {
            let bad = json!({"issuer": "https://other.example", "registration_endpoint": null,
                             "code_challenge_methods_supported": []});
            (asked.path == SERVER).then(|| but(server(&asked.origin), &bad))
        },
        findings: &["error oauth.issuer", "error oauth.registration", "error oauth.pkce"],
        rules: &["OC-7", "OC-20", "OC-8"],
        says: "oauth.clientId",
    },
];

// wire: OC-2, OC-3, OC-4, OC-5, OC-6, OC-7, OC-8, OC-9, OC-11, OC-20, AUTH-1
#[test]
fn each_bad_server_breaks_the_rule_that_the_doctor_names() {
    for BadServer { like, fault, findings: expected, rules, says } in BAD_SERVERS {
        let fault = *fault;
        let site = Site::start_with(move |asked| fault(asked).unwrap_or_else(|| guarded(asked)));
        let run = look(&site.url, &["--json"]);
        let report = report(&run);
        assert_eq!(findings(&report), *expected, "{like}: {report}");
        let list = report["findings"].as_array().unwrap();
        let named: Vec<_> = list.iter().map(|it| it["rule"].as_str().unwrap()).collect();
        assert_eq!(named, *rules, "{like}");
        assert!(report["findings"].to_string().contains(says), "{like}: {report}");
        assert_eq!(run.code, Some(1), "{like}");
        let steps = report["oauth"].as_array().unwrap();
        assert!(steps[0]["came"].as_str().unwrap().starts_with("401"), "{like}: {steps:?}");
        let broken = steps.iter().any(|step| step["rule"].is_string());
        assert!(broken || *rules == ["OC-3"], "{like}: {steps:?}");
    }
}

// wire: AUTH-1, OC-1
#[test]
fn a_server_that_says_how_to_sign_in_is_told_to_be_signed_in_to() {
    let site = Site::start_with(guarded);
    let run = look(&site.url, &["--json"]);
    let told = report(&run);
    assert_eq!(findings(&told), ["error http.401"], "{told}");
    let shown = told["findings"].to_string();
    assert!(shown.contains(&format!("switchboard login {}", site.url)), "{shown}");
    let asked = told["oauth"].as_array().unwrap().iter();
    let asked: Vec<_> = asked.map(|step| step["asked"].as_str().unwrap()).collect();
    let origin = site.url.trim_end_matches("/mcp");
    let expected = [
        "server/discover".to_owned(),
        format!("GET {origin}{RESOURCE}"),
        format!("GET {origin}{SERVER}"),
    ];
    assert_eq!(asked, expected);
    let text = look(&site.url, &[]).stdout;
    assert!(text.contains("TO SIGN IN") && text.contains(&expected[2]), "{text}");
    // A token that the server does not take is another matter.
    let header = "Authorization: Bearer s3cret";
    let run = look(&site.url, &["--json", "--header", header]);
    let told = report(&run);
    assert_eq!(findings(&told), ["error http.401"], "{told}");
    assert!(!run.stdout.contains("s3cret") && told["oauth"] == json!([]), "{}", run.stdout);
}
