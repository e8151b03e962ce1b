//! The few messages of the benchmark, in both eras.

use serde::Deserialize;
use serde_json::{json, value::RawValue};

/// How a client of this run speaks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Era {
    /// A handshake, then a session.
    Legacy,
    /// Each request alone.
    Modern,
}

pub const LEGACY: &str = "2025-11-25";
pub const MODERN: &str = "2026-07-28";

/// As much of a message as a bare server looks at.
#[derive(Deserialize)]
pub struct Envelope<'a> {
    #[serde(borrow)]
    pub id: Option<&'a RawValue>,
    pub method: Option<&'a str>,
    #[serde(borrow)]
    pub params: Option<&'a RawValue>,
}

/// As much of the parameters of a call as the echo looks at.
#[derive(Deserialize)]
pub struct Call<'a> {
    #[serde(borrow)]
    pub arguments: Arguments<'a>,
}

/// What the echo gives back, in quotes as it came.
#[derive(Deserialize)]
pub struct Arguments<'a> {
    #[serde(borrow)]
    pub text: &'a RawValue,
}

/// A call of the echo tool under `id`.
pub fn call(era: Era, id: u64, text: &str) -> String {
    let mut params = json!({ "name": "echo", "arguments": { "text": text } });
    if era == Era::Modern {
        params["_meta"] = meta();
    }
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string()
}

/// The handshake of a legacy client.
pub fn initialize() -> String {
    let params = json!({
        "protocolVersion": LEGACY,
        "capabilities": {},
        "clientInfo": { "name": "bench", "version": "1" },
    });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }).to_string()
}

/// What ends the handshake.
pub const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

fn meta() -> serde_json::Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "bench", "version": "1" },
    })
}
