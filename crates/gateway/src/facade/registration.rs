//! Which client asks: it registers, or has a metadata document that is read.

use std::net::IpAddr;

use bytes::Bytes;
use http::Response;
use serde_json::{Map, Value};
use switchboard_net::auth::bounded;
use switchboard_net::http::fetch::Fetch;
use switchboard_net::http::page::PageVisit;

use super::client::{self, BadClient, FacadeClient};
use super::state::{FacadeError, MOST_DOCUMENTS, MOST_REGISTRATIONS};
use super::{Current, Facade, error, json_reply, random_hex, unavailable};

/// Bytes of a client metadata document.
const MAX_DOCUMENT: usize = 5 << 10;
/// How long such a document is kept, at least and at most, in seconds.
const DOCUMENT_LIFE: std::ops::RangeInclusive<u64> = 300..=86_400;

impl Facade {
    /// Registers a client (RFC 7591).
    pub(super) async fn register(&self, current: &Current, visit: &PageVisit) -> Response<Bytes> {
        if !current.rule.registration {
            return error(403, "access_denied", "clients do not register here");
        }
        if !self.state.may_act(visit.address, MOST_REGISTRATIONS, current.now) {
            return error(429, "temporarily_unavailable", "too many registrations; wait a minute");
        }
        let Ok(about) = serde_json::from_slice::<Map<String, Value>>(&visit.body) else {
            return error(400, "invalid_client_metadata", "the body is no JSON object");
        };
        let id = format!("sbc_{}", random_hex(16));
        let client = match client::read_client(&about, id, current.now, &current.rule) {
            Ok(client) => client,
            Err(BadClient(code, why)) => return error(400, code, &why),
        };
        match self.state.add_client(&client).await {
            Ok(()) => {
                tracing::info!(client = client.id, name = client.name, "a client has registered");
                json_reply(201, &client.describe())
            }
            Err(failed) => unavailable(&failed),
        }
    }

    /// The client of an id: registered, or described by a document at its id.
    pub(super) async fn find_client(
        &self,
        current: &Current,
        id: &str,
        address: Option<IpAddr>,
    ) -> Result<Option<FacadeClient>, FacadeError> {
        if id.starts_with("sbc_") {
            return self.state.client(id).await;
        }
        if !client::is_document_url(id, &current.rule.metadata_hosts) {
            return Ok(None);
        }
        if let Some(known) = self.state.document(id, current.now) {
            return Ok(Some(known));
        }
        // Anybody can have us ask anybody: not often, and not for many at a time.
        let permit = self.readers.try_acquire();
        if permit.is_err() || !self.state.may_act(address, MOST_DOCUMENTS, current.now) {
            return Err(FacadeError::Full("metadata documents of clients to read"));
        }
        Ok(self.read_document(current, &self.careful, id, id).await)
    }

    /// Reads the document of a client at `url`, which is its id but in tests. `fetch` reaches
    /// public addresses alone, but in tests.
    pub(super) async fn read_document(
        &self,
        current: &Current,
        fetch: &Fetch,
        id: &str,
        url: &str,
    ) -> Option<FacadeClient> {
        let mut found = bounded::get(fetch, url, MAX_DOCUMENT).await;
        if let Ok(found) = &mut found
            && let Some(uri) = found.object.get("jwks_uri").and_then(Value::as_str)
            && client::is_document_url(uri, &[])
            && let Ok(keys) = bounded::get(fetch, uri, MAX_DOCUMENT).await
        {
            found.object.insert("jwks".to_owned(), keys.object.into());
            // Keys change more often than names.
            found.max_age = None;
        }
        let found = found.map_err(|failed| failed.to_string()).and_then(|found| {
            let client = client::read_document(id, &found.object, current.now, &current.rule);
            client.map(|client| (client, found.max_age)).map_err(|bad| bad.to_string())
        });
        match found {
            Ok((client, max_age)) => {
                let life = max_age.map_or(*DOCUMENT_LIFE.start(), |age| age.as_secs());
                let life = life.clamp(*DOCUMENT_LIFE.start(), *DOCUMENT_LIFE.end());
                self.state.keep_document(&client, current.now + life, current.now);
                Some(client)
            }
            Err(why) => {
                tracing::info!(client = id, "its metadata document is not used: {why}");
                None
            }
        }
    }
}
