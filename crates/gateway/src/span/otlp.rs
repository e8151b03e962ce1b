//! Spans as OTLP has them in JSON.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::{Kind, Span};

/// One request to a collector.
pub(super) fn request(resource: &[(String, String)], spans: &[Span]) -> Value {
    let resource: Vec<_> =
        resource.iter().map(|(key, text)| attribute(key, &text[..].into())).collect();
    let spans: Vec<_> = spans.iter().map(written).collect();
    let scope = json!({"name": "switchboard", "version": env!("CARGO_PKG_VERSION")});
    json!({
        "resourceSpans": [{
            "resource": {"attributes": resource},
            "scopeSpans": [{"scope": scope, "spans": spans}],
        }],
    })
}

fn written(span: &Span) -> Value {
    let attributes: Vec<_> =
        span.attributes.iter().map(|(key, value)| attribute(key, value)).collect();
    let kind = match span.kind {
        Kind::Server => 2,
        Kind::Client => 3,
    };
    let mut json = json!({
        "traceId": format!("{:032x}", span.trace),
        "spanId": format!("{:016x}", span.id),
        "name": span.name,
        "kind": kind,
        "startTimeUnixNano": nanos(span.from),
        "endTimeUnixNano": nanos(span.until),
        "attributes": attributes,
    });
    if let Some(parent) = span.parent {
        json["parentSpanId"] = format!("{parent:016x}").into();
    }
    if let Some(state) = &span.state {
        json["traceState"] = (&**state).into();
    }
    if span.is_error {
        json["status"] = json!({"code": 2});
    }
    json
}

fn attribute(key: &str, value: &Value) -> Value {
    let value = match value {
        Value::String(text) => json!({"stringValue": text}),
        // Numbers of 64 bits are text in JSON.
        Value::Number(number) => json!({"intValue": number.to_string()}),
        Value::Bool(flag) => json!({"boolValue": flag}),
        other => json!({"stringValue": other.to_string()}),
    };
    json!({"key": key, "value": value})
}

fn nanos(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}
