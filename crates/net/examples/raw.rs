//! A raw handler: methods and bytes in, bytes out, for those who forward or
//! who have a protocol of their own behind them.
//!
//! It counts the calls of each method, and answers `x/calls` with the figures.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde_json::json;
use switchboard_net::server::{self, Call, Context, Handler, Server};
use switchboard_net::stdio;
use switchboard_proto::limits::Limits;

/// At most so many methods are told apart.
const MOST: usize = 100;

#[derive(Default)]
struct Counter {
    calls: Mutex<BTreeMap<String, u64>>,
}

impl Handler for Counter {
    async fn call(&self, call: Call, _: Context) -> Result<Bytes, server::Error> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.len() < MOST || calls.contains_key(call.method()) {
            *calls.entry(call.method().to_owned()).or_default() += 1;
        }
        match call.method() {
            "tools/list" => Ok(Bytes::from_static(br#"{"tools":[]}"#)),
            "x/calls" => Ok(json!({"calls": *calls}).to_string().into()),
            other => Err(server::Error::unknown_method(other)),
        }
    }
}

/// The server, for whatever it is to be served on.
pub(crate) fn server() -> Result<Arc<Server>, Box<dyn Error>> {
    Ok(Server::builder("counter", env!("CARGO_PKG_VERSION"))
        .capability("tools", json!({}))
        .handler(Counter::default())
        .build()?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let shutdown = async { _ = tokio::signal::ctrl_c().await };
    stdio::serve(server()?, false, Arc::new(Limits::default()), shutdown).await?;
    Ok(())
}
