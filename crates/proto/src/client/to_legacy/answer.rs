//! What a legacy server answers, in the words of a modern client.

use bytes::Bytes;
use serde_json::{Value, json};

use super::ToLegacy;
use crate::client::Ticket;
use crate::client::across::{TASKS as EXTENSION, identity};
use crate::exchange::Said;
use crate::failure::{Failure, Outcome};
use crate::jsonrpc::{Kind, Member, Message};
use crate::limits::MAX_SERVER_INFO;
use crate::method;
use crate::project::{self, Cache};
use crate::refusal::Refusal;
use crate::revision::{Era, Revision};

impl<T: Ticket> ToLegacy<T> {
    /// Why the headers of a call do not fit its arguments, if they do not (GW-44).
    pub(super) fn mismatch(&self, request: &Message, said: &Said) -> Option<Refusal> {
        let said = said.as_deref()?;
        let mismatch = self.tools.headers(request, Some(said)).err()?;
        Some(Refusal::HeaderMismatch { what: mismatch.to_string() })
    }

    /// An answer of a legacy server in the words of a modern client (GW-44, GW-58).
    pub(super) fn newer_answer(&self, answer: &Message, method: &str) -> Outcome {
        if answer.kind() == Kind::Error {
            return project::error_for_modern(answer).into();
        }
        let server = self.inner.welcome().and_then(|it| it.get(Member::ServerInfo));
        let server = server.filter(|it| it.len() <= MAX_SERVER_INFO);
        let own = answer.without_meta(&[Member::MetaRelatedTask]);
        let own = project::without_dropped(own.payload_bytes(), method);
        match project::modern(&own, method, server, Cache::default()) {
            Ok(result) => answer.with_payload(&result).into(),
            Err(error) => Failure::translation(error.to_string()).into(),
        }
    }

    /// What a legacy server said of itself, as a modern one says it (GW-40).
    pub(super) fn discovery(&self, welcome: &Message) -> Bytes {
        let mut capabilities = welcome.value(Member::Capabilities).unwrap_or_else(|| json!({}));
        if let Some(all) = capabilities.as_object_mut() {
            let takes_tasks =
                all.remove("tasks").is_some_and(|it| !it["requests"]["tools"]["call"].is_null());
            if takes_tasks && self.offers_tasks() {
                all.insert("extensions".to_owned(), json!({EXTENSION: {}}));
            }
        }
        let mut result = json!({
            "supportedVersions": Revision::names(Era::Modern),
            "capabilities": capabilities,
        });
        for member in [Member::Instructions, Member::Meta] {
            if let Some(value) = welcome.value(member).filter(|value| !value.is_null()) {
                result[member.key()] = value;
            }
        }
        let server = welcome.value(Member::ServerInfo).filter(Value::is_object);
        let server = server.unwrap_or_else(identity).to_string();
        let text = result.to_string();
        let dressed = project::modern(
            text.as_bytes(),
            method::DISCOVER,
            Some(server.as_bytes()),
            Cache::default(),
        );
        dressed.unwrap_or_else(|_| text.into())
    }
}
