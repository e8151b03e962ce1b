//! How many servers introduce themselves as one.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use switchboard_net::call::Call;
use switchboard_net::client::Client;
use switchboard_net::face::Face;
use switchboard_net::inside::Works;
use switchboard_net::roster::Hints;
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::method::meta;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::{Era, Revision};

use super::session::Session;
use super::{Front, id, lock};
use crate::merge;

/// Who we are, as JSON.
pub(super) fn identity() -> Bytes {
    const TEXT: &str =
        concat!(r#"{"name":"switchboard","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);
    Bytes::from_static(TEXT.as_bytes())
}

fn whoami() -> Value {
    json!({"name": "switchboard", "version": env!("CARGO_PKG_VERSION")})
}

/// A result of ours as a modern client wants it, and how long it may be kept.
pub(super) fn dressed(mut result: Value, hints: Hints) -> Value {
    result["ttlMs"] = hints.ttl_ms.into();
    result["cacheScope"] = hints.scope().into();
    sign(&mut result);
    result
}

/// Says that a result is whole, and whose it is.
pub(super) fn sign(result: &mut Value) {
    result["resultType"] = "complete".into();
    result["_meta"][meta::SERVER] = whoami();
}

impl Front {
    /// `initialize`: answered here, and repeated to each server that is called (GW-41).
    pub(super) fn initialize(&self, face: &Arc<Face>, call: &Call, request: &Message) -> Works {
        if request.protocol_version().is_none() {
            let what = "params.protocolVersion must be a string".to_owned();
            let why = Refusal::BadParams { what };
            call.finish(why);
            return Works::none();
        }
        // What changed before is no news to it.
        self.refresh();
        let session = Session::new(face, request.clone(), self.at());
        let revision = session.revision;
        lock(&self.sessions).insert(face.number(), session);
        let (call, request) = (call.clone(), request.clone());
        self.once_settled(move |front| {
            let mut result = json!({
                "protocolVersion": revision.as_str(),
                "capabilities": front.capabilities(Era::Legacy),
                "serverInfo": whoami(),
            });
            if let Some(object) = result["capabilities"].as_object_mut()
                && !revision.rules().core_tasks
            {
                object.remove("tasks");
            }
            front.instruct(&mut result);
            call.finish(Message::result(id(&request), result.to_string().as_bytes()));
        })
    }

    /// `server/discover`.
    pub(super) fn discover(&self, call: &Call, request: &Message) -> Works {
        let (call, request) = (call.clone(), request.clone());
        self.once_settled(move |front| {
            let result = json!({
                "supportedVersions": Revision::names(Era::Modern),
                "capabilities": front.capabilities(Era::Modern),
            });
            // Nobody keeps it, for servers come and go.
            let mut result = dressed(result, Hints::default());
            front.instruct(&mut result);
            call.finish(Message::result(id(&request), result.to_string().as_bytes()));
        })
    }

    /// Says something once every server is known or has had its moment.
    pub(super) fn once_settled(&self, say: impl FnOnce(&Self) + Send + 'static) -> Works {
        if !self.is_settling() {
            say(self);
            return Works::none();
        }
        let Some(front) = self.this.upgrade() else { return Works::none() };
        Works::one(async move {
            front.settled().await;
            front.refresh();
            say(&front);
        })
    }

    /// Whether a server of which nothing is known may be there in a moment.
    fn is_settling(&self) -> bool {
        let members = self.members();
        let late = |name| members.contains::<Arc<str>>(name);
        let deferred = self.deferred();
        deferred.iter().any(|it| late(&it.name) && !it.is_cached && it.state.is_pending())
    }

    /// What any server has; one that is not there may have anything.
    pub(super) fn capabilities(&self, era: Era) -> Value {
        let members = self.members();
        let clients: Vec<_> = members.iter().map(|name| self.known_server(name)).collect();
        let declared = clients.iter().map(|client| client.as_ref().map(Client::capabilities));
        merge::capabilities(members.iter().map(|name| &**name).zip(declared), era)
    }

    fn instruct(&self, result: &mut Value) {
        let members = self.members();
        let said = members.iter().filter_map(|name| {
            // What it tells people is the same, most likely; they come but once.
            let client = self.known_server(name).or_else(|| self.fleet.roster.known(name))?;
            let text = client.welcome()["instructions"].as_str()?.to_owned();
            Some((name.to_string(), text))
        });
        if let Some(text) = merge::instructions(&said.collect::<BTreeMap<_, _>>()) {
            result["instructions"] = text.into();
        }
    }
}
