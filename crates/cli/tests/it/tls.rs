//! TLS: our own listener, with curl as the client, and servers with certificates of their own.

use std::process::Command;

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use serde_json::{Value, json};
use switchboard_testkit::issuer::Issuer;

use crate::named::Home;
use crate::process::{SERVER, Switchboard, greeting, until};

/// Puts a self-signed certificate for `localhost` and its key into a folder, as
/// `openssl req -x509` makes them: it could also sign others.
fn issue(home: &Home) -> [String; 2] {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).unwrap();
    [home.write("cert.pem", &certificate.pem()), home.write("key.pem", &key.serialize_pem())]
}

/// What curl prints, or the status that it ends with.
fn curl(args: &[&str]) -> Result<String, i32> {
    let usual = ["-sS", "--max-time", "30", "--noproxy", "*"];
    let run = Command::new("curl").args(usual).args(args).output().expect("curl is installed");
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    if run.status.success() { Ok(said) } else { Err(run.status.code().unwrap_or_default()) }
}

/// Greets the server at a URL by curl, with the certificate in a file.
fn greet(url: &str, certificate: &str, version: &str) -> Result<String, i32> {
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": greeting()});
    let media = "Content-Type: application/json";
    let accept = "Accept: application/json, text/event-stream";
    let shown = "%{http_version} %{http_code}\n";
    let hello = hello.to_string();
    curl(&[
        version,
        "--cacert",
        certificate,
        "-H",
        media,
        "-H",
        accept,
        "-w",
        shown,
        "-d",
        &hello,
        url,
    ])
}

/// A bridge that speaks TLS, and where it is.
fn serve(certificate: &str, key: &str) -> (Switchboard, String) {
    let args = ["bridge", "--port", "0", "--tls-cert", certificate, "--tls-key", key, "--"];
    let mut bridge = Switchboard::start(&[&args, &SERVER[..]].concat());
    let (port, path) = bridge.place();
    let log = bridge.until_logged("serving https://127.0.0.1");
    assert!(log.contains("and https://"), "{log}");
    (bridge, format!("https://localhost:{port}{path}"))
}

#[test]
fn curl_is_served_over_tls_and_sees_another_certificate_without_a_restart() {
    let (home, old) = (Home::new(), Home::new());
    let [certificate, key] = issue(&home);
    let (mut bridge, url) = serve(&certificate, &key);
    for (version, told) in [("--http1.1", "1.1 200"), ("--http2", "2 200")] {
        let said = greet(&url, &certificate, version).unwrap();
        assert!(said.contains("\"serverInfo\"") && said.contains(told), "{said}");
    }
    let plain = url.replace("https://", "http://");
    assert!(curl(&[&plain]).unwrap().contains("write https:// here"));

    let before = old.write("cert.pem", &std::fs::read_to_string(&certificate).unwrap());
    issue(&home);
    bridge.until_logged("the TLS certificate is replaced");
    assert!(greet(&url, &certificate, "--http2").is_ok());
    // Status 60 of curl: the certificate is not trusted.
    assert_eq!(greet(&url, &before, "--http2"), Err(60));

    let kept = old.write("new.pem", &std::fs::read_to_string(&certificate).unwrap());
    home.write("cert.pem", "-----BEGIN CERTIFICATE-----\n");
    let log = bridge.until_logged("the TLS certificate of before stays in use");
    assert!(log.contains("cert.pem"), "{log}");
    assert!(greet(&url, &kept, "--http2").is_ok());
}

#[test]
fn a_self_signed_certificate_is_trusted_by_its_file_and_errors_say_so() {
    let home = Home::new();
    let [certificate, key] = issue(&home);
    let (_bridge, url) = serve(&certificate, &key);
    let trusted = home.run(&["tools", &url, "--ca-file", &certificate]);
    assert!(trusted.code == Some(0) && trusted.stdout.contains("echo"), "{}", trusted.stderr);
    let refused = home.run(&["tools", &url]);
    assert_eq!(refused.code, Some(4), "{}", refused.stderr);
    assert!(refused.stderr.contains("--ca-file"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("CaUsed") && !refused.stderr.contains("OtherError"));
    let address = url.replace("localhost", "127.0.0.1");
    let misnamed = home.run(&["tools", &address, "--ca-file", &certificate]).stderr;
    assert!(misnamed.contains("is for localhost, not for 127.0.0.1"), "{misnamed}");
    let insecure = home.run(&["tools", &address, "--insecure"]);
    assert!(insecure.code == Some(0), "{}", insecure.stderr);
    assert!(insecure.stderr.contains("is not verified"), "{}", insecure.stderr);
    // What a file says is told as well, also by commands that log little.
    home.write(
        ".config/switchboard/config.json",
        &json!({"mcpServers": {"loose": {"url": address, "insecure": true}}}).to_string(),
    );
    let loose = home.run(&["tools", "loose"]);
    assert!(loose.code == Some(0), "{}", loose.stderr);
    assert!(loose.stderr.contains("is not verified"), "{}", loose.stderr);
    let doctor = home.run(&["doctor", "--json", &address, "--insecure"]);
    let report: Value = serde_json::from_str(&doctor.stdout).unwrap();
    let ids: Vec<_> = report["findings"].as_array().unwrap().iter().map(|it| &it["id"]).collect();
    assert!(ids.contains(&&json!("connect.insecure")), "{ids:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_serves_tls_and_reaches_servers_by_the_files_beside_its_own() {
    let (home, servers) = (Home::new(), Home::new());
    let [certificate, key] = issue(&servers);
    let (_bridge, url) = serve(&certificate, &key);
    home.write("their.pem", &std::fs::read_to_string(&certificate).unwrap());
    let [own, _] = issue(&home);
    let issuer = Issuer::start().await;
    let address = url.replace("localhost", "127.0.0.1");
    let file = json!({
        "mcpServers": {
            "pinned": {"url": url, "caFile": "their.pem"},
            "loose": {"url": address, "insecure": true},
            "strict": {"url": address, "caFile": "their.pem"},
        },
        "switchboard": {
            "tlsCert": "cert.pem", "tlsKey": "key.pem", "anonymous": true,
            "oauth": {"issuers": {"corp": {"issuer": issuer.url, "grant": {}}}},
        },
    });
    let file = home.write("servers.json", &file.to_string());
    let mut gateway =
        Switchboard::start(&["serve", "--config", &file, "--port", "0", "--no-cache"]);
    let port = gateway.port();
    let log = gateway.until_logged("certificate of server \"loose\" is not verified");
    assert!(log.contains("WARN"), "{log}");
    let base = format!("https://localhost:{port}");
    let status = || home.run(&["status", &base, "--json", "--ca-file", &own]);
    until("the servers are ready, and one is not", || {
        let status: Value = serde_json::from_str(&status().stdout).unwrap_or_default();
        let state = |name: &str| status["servers"][name]["state"].clone();
        state("pinned") == "ready" && state("loose") == "ready" && state("strict") != "starting"
    });
    let shown: Value = serde_json::from_str(&status().stdout).unwrap();
    let shown = &shown["servers"];
    assert_eq!(
        (&shown["loose"]["insecure"], &shown["pinned"]["insecure"]),
        (&json!(true), &Value::Null)
    );
    assert_ne!(shown["strict"]["state"], "ready");
    let text = home.run(&["status", &base, "--ca-file", &own]).stdout;
    assert!(text.contains("WARNING: loose: its certificate is not verified"), "{text}");
    let log = gateway.until_logged("is for localhost, not for 127.0.0.1");
    assert!(log.contains("strict"), "{log}");
    let metadata = format!("{base}/.well-known/oauth-protected-resource/mcp");
    let metadata: Value =
        serde_json::from_str(&curl(&["--cacert", &own, &metadata]).unwrap()).unwrap();
    assert_eq!(metadata["resource"], format!("{base}/mcp"));
}

#[test]
fn mistakes_about_certificates_are_told_with_their_place() {
    let home = Home::new();
    issue(&home);
    let url = "https://a.example/mcp";
    let file = json!({
        "mcpServers": {
            "gone": {"url": url, "caFile": "no.pem"},
            "empty": {"url": url, "caFile": "key.pem"},
            "halved": {"url": url, "clientKey": "key.pem"},
            "swapped": {"url": url, "clientCert": "key.pem", "clientKey": "cert.pem"},
            "plain": {"url": "http://127.0.0.1/mcp", "insecure": true},
            "sound": {"url": url, "clientCert": "cert.pem", "clientKey": "key.pem"},
        },
        "switchboard": {"tlsKey": "key.pem"},
    });
    let file = home.write("servers.json", &file.to_string());
    let run = home.run(&["serve", "--check", "--config", &file]);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    let said = format!("{}{}", run.stdout, run.stderr);
    for told in [
        "cannot read",
        "no certificate in the file",
        "\"clientKey\" has no effect without \"clientCert\"",
        "no certificate in PEM form",
        "the URL is http://",
        "\"tlsKey\" is there without \"tlsCert\"",
    ] {
        assert!(said.contains(told), "{told}: {said}");
    }
    assert!(!said.contains("sound"), "{said}");
    let no_key = home.run(&["demo", "--http", "--port", "0", "--tls-cert", "/no/such.pem"]);
    assert!(no_key.code == Some(1) && no_key.stderr.contains("/no/such.pem"), "{}", no_key.stderr);
}
