//! Keys and grants: who may use what, a new key that is shown once, and the console as another
//! key sees it.

use http::StatusCode;
use serde_json::{Value, json};
use switchboard_proto::moment;

use super::sign_in::Viewer;
use super::{ApiError, ApiResult, Console, read_body};
use crate::config::EditError;
use crate::config::key_entry::{has_key, hashes_of, with_hashes, with_key, without_key};
use crate::policy::{self, Grant, KeyHash, Principal};
use crate::status::is_hidden;

/// Characters of a name.
const MAX_NAME: usize = 64;

impl Console {
    /// Everybody who has a key.
    pub(super) fn keys(&self, viewer: &Viewer) -> ApiResult {
        if !viewer.is_whole() {
            return Err(ApiError::not_granted());
        }
        let (plan, calls) = (self.gateway.plan(), self.gateway.fleet().monitor().calls().after(0));
        let row = |principal: &std::sync::Arc<Principal>| {
            let Principal { name, grant, keys, .. } = &**principal;
            let last = calls.iter().find(|call| call.principal().as_ref() == Some(name));
            json!({
                "name": name,
                "grants": grants(grant),
                "isWhole": grant.is_open(),
                "keys": keys.len(),
                "lastUsedAt": last.map(|call| moment::text(call.at())),
            })
        };
        let rows: Vec<_> = plan.access.principals.iter().map(row).collect();
        Ok(json!({"rows": rows}))
    }

    /// The same viewer with the eyes of another key: what it sees is made by the code that
    /// decides on its calls.
    pub(super) fn seen_as(&self, viewer: &Viewer, name: &str) -> ApiResult<Viewer> {
        if !viewer.is_whole() {
            return Err(ApiError::not_granted());
        }
        let authenticator = self.gateway.authenticator();
        let unknown = || ApiError::not_found(format!("there is no key {name:?}"));
        let principal = authenticator.principal(name).ok_or_else(unknown)?;
        let key = principal.keys.first().ok_or_else(unknown)?;
        let who = authenticator.enter_by_key(name, key).ok_or_else(unknown)?;
        Ok(Viewer { who, principal, ..viewer.clone() })
    }

    /// Makes a key, or one more for somebody who has one: both count until one is removed.
    pub(super) fn make_key(&self, viewer: &Viewer, name: &str, body: &[u8]) -> ApiResult {
        self.may_change(viewer)?;
        let is_name = !name.is_empty()
            && name.chars().count() <= MAX_NAME
            && !name.chars().any(|it| is_hidden(it) || it == '/');
        if !is_name {
            return Err(ApiError::bad_request("a key has a name of up to 64 letters, without /"));
        }
        let wanted = read_body(body)?;
        let failed = || {
            let message = "the system has no random numbers";
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
        };
        let key = policy::new_key().ok_or_else(failed)?;
        let hash = KeyHash::compute(key.as_bytes()).to_string();
        let (file, old) = self.config_text(viewer)?;
        let text = if has_key(&file, &old, name).map_err(|error| unusual(&error))? {
            // Those of the file: the gateway may not have read the last one yet.
            let had = hashes_of(&file, &old, name).map_err(|error| unusual(&error))?;
            let all: Vec<_> = had.into_iter().chain([hash]).collect();
            with_hashes(&file, &old, name, &all)
        } else {
            let names = |member: &str| wanted[member].as_array().into_iter().flatten();
            let grants = ["servers", "groups"].map(|member| {
                (member, names(member).filter_map(Value::as_str).collect::<Vec<_>>())
            });
            let grants: Vec<_> =
                grants.into_iter().filter(|(_, names)| !names.is_empty()).collect();
            with_key(&file, &old, (name, &hash), &grants)
        };
        let text = text.map_err(|error| unusual(&error))?;
        let mut done = self.put_config(viewer, None, (old, text))?;
        done["did"] = format!("made a key for {name}; it counts in a moment").into();
        done["key"] = key.into();
        Ok(done)
    }

    /// Removes somebody with all their keys.
    pub(super) fn remove_key(&self, viewer: &Viewer, name: &str) -> ApiResult {
        self.may_change(viewer)?;
        let (file, old) = self.config_text(viewer)?;
        if !has_key(&file, &old, name).map_err(|error| unusual(&error))? {
            return Err(ApiError::not_found(format!("the file has no key {name:?}")));
        }
        let text = without_key(&file, &old, name).map_err(|error| unusual(&error))?;
        let mut done = self.put_config(viewer, None, (old, text))?;
        done["did"] = format!("removed the key {name}; it counts no more in a moment").into();
        Ok(done)
    }
}

fn grants(grant: &Grant) -> Value {
    let Grant { servers, groups, tools, .. } = grant;
    json!({
        "servers": servers,
        "groups": groups,
        "tools": tools.only,
        "excludeTools": tools.never,
    })
}

/// The file is not one that keys could be put into.
fn unusual(error: &EditError) -> ApiError {
    ApiError::bad_request(format!("{error}; {}", error.instead()))
}
