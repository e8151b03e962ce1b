//! Lines about calls, and secrets that are in none of them.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Gateway, Session, mirror};
use crate::serve::demo;
use crate::web::send;

#[test]
fn a_call_is_a_line_that_says_whose_it_was_and_how_it_went() {
    let config = json!({"mcpServers": {"mirror": mirror()}});
    let mut gateway = Gateway::told(&config, &["--log-format", "json"], &[("LOG_LEVEL", "debug")]);
    gateway.until_ready(&["mirror"]);
    let session = Session::open(gateway.port, "/mcp", &[]);
    session.call(&json!({"name": "mirror__mirror"}), &[]);
    session.call(&json!({"name": "mirror__broken"}), &[]);
    session.call(&json!({"name": "mirror__gone"}), &[]);
    let mut line = |tool: &str| -> Value {
        let line = gateway.process.until_logged(&format!("\"tool\":\"{tool}\""));
        serde_json::from_str(&line).unwrap()
    };
    let well = line("mirror__mirror");
    assert_eq!((&well["level"], &well["component"]), (&json!("DEBUG"), &json!("mirror")));
    let fields = &well["fields"];
    assert_eq!(fields["method"], "tools/call", "{well}");
    assert_eq!((&fields["request"], &fields["outcome"]), (&json!("7"), &json!("ok")), "{well}");
    let shown = fields["session"].as_str().unwrap();
    assert!(session.id.starts_with(shown) && shown.len() < 10, "{well}");
    assert!(fields["ms"].is_f64() && fields["trace"].as_str().unwrap().len() == 32, "{well}");
    let failed = line("mirror__broken");
    assert_eq!(
        (&failed["level"], &failed["fields"]["outcome"]),
        (&json!("INFO"), &json!("tool_error"))
    );
    let refused = line("mirror__gone");
    assert_eq!((&refused["level"], &refused["fields"]["code"]), (&json!("INFO"), &json!(-32602)));
    gateway.process.signal(Signal::TERM);
    assert_eq!(gateway.process.exit_code(), Some(0));
    assert!(!gateway.process.whole_log().contains(&session.id));
}

/// Wherever a secret comes in, it comes out nowhere but where it belongs.
#[test]
fn no_secret_is_told_at_any_level() {
    let mut mirrored = mirror();
    mirrored["env"] = json!({"TOKEN": "s3cret-env", "FROM": "${S3CRET}"});
    let config = json!({"mcpServers": {
        "mirror": mirrored,
        "demo": demo(&[]),
        "far": {
            "url": "http://127.0.0.1:1/mcp?token=s3cret-query",
            "headers": {"Authorization": "Bearer s3cret-header", "X-Key": "${S3CRET}"},
        },
    }});
    let vars = [
        ("S3CRET", "s3cret-variable"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1/s3cret-path"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=s3cret-otlp"),
        ("OTEL_BSP_SCHEDULE_DELAY", "10"),
    ];
    for format in ["text", "json"] {
        let args = ["--log-level", "trace", "--log-format", format];
        let mut gateway = Gateway::told(&config, &args, &vars);
        gateway.until_ready(&["mirror", "demo"]);
        gateway.until_error("far");
        let key = [("Authorization", "Bearer s3cret-bearer"), ("X-API-Key", "s3cret-key")];
        for path in ["/mcp?token=s3cret-url", "/servers/mirror/mcp"] {
            let session = Session::open(gateway.port, path, &key);
            let name = if path.starts_with("/mcp") { "mirror__mirror" } else { "mirror" };
            let arguments = json!({"password": "s3cret-argument"});
            session.call(&json!({"name": name, "arguments": arguments}), &key);
            session.call(&json!({"name": "nobody", "arguments": arguments}), &key);
            let uri = "postgres://me:s3cret-uri@host/a?b=s3cret-uri";
            let read = json!({"jsonrpc": "2.0", "id": 9, "method": "resources/read", "params": {"uri": uri}});
            session.send(&read, &key);
        }
        let mut pages = gateway.metrics();
        pages += &gateway.status().to_string();
        pages += &String::from_utf8_lossy(&send(gateway.port, "GET /s3cret", &[], b"").body);
        gateway.process.until_logged("traces are not taken");
        gateway.process.signal(Signal::TERM);
        assert_eq!(gateway.process.exit_code(), Some(0));
        let log = gateway.process.whole_log();
        assert!(log.contains("mirror") && log.contains("tools/call"), "{log}");
        for text in [&log, &pages] {
            let told = text.lines().find(|line| line.contains("s3cret"));
            assert_eq!(told, None, "{format}");
        }
    }
}
