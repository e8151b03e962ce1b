//! How a server introduces itself, in either era.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::{Era, Revision};

use super::Server;
use super::catalog::Catalog;
use super::error::Error;
use super::handler::Request;
use super::session::Session;
use super::task;
use crate::face::Face;

/// Who we are and what else we say about ourselves.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) info: Map<String, Value>,
    /// The same as text.
    pub(super) text: Bytes,
    pub(super) instructions: Option<String>,
    pub(super) logging: bool,
    pub(super) capabilities: Map<String, Value>,
    pub(super) extensions: Map<String, Value>,
    /// What is spoken; the newest first.
    pub(super) speaks: Vec<Revision>,
}

impl Server {
    /// `initialize`: settles on a revision, and remembers who this is (LIF-1).
    pub(super) fn initialize(&self, face: &Arc<Face>, call: &Request) -> Result<Bytes, Error> {
        let params = call.value()?;
        let asked = params["protocolVersion"].as_str();
        let asked = asked
            .ok_or_else(|| Error::invalid_params("params.protocolVersion must be a string"))?;
        let revision = self.settle_on(asked)?;
        let offered = self.capabilities(&self.catalog(), revision);
        let session = Session::new(face, revision, &params, offered.clone());
        self.sessions.greet(face.number(), session);
        let mut result = json!({
            "protocolVersion": revision.as_str(),
            "capabilities": offered,
            "serverInfo": self.identity.info,
        });
        if let Some(instructions) = &self.identity.instructions {
            result["instructions"] = instructions.as_str().into();
        }
        Ok(result.to_string().into())
    }

    /// The revision that was asked for, else our newest with a handshake (NEG-11).
    fn settle_on(&self, asked: &str) -> Result<Revision, Error> {
        let legacy = |revision: &Revision| revision.era() == Era::Legacy;
        let speaks = || self.identity.speaks.iter().copied().filter(legacy);
        let same = speaks().find(|revision| revision.as_str() == asked);
        same.or_else(|| speaks().max()).ok_or_else(|| {
            let asked = asked.to_owned();
            Refusal::WrongEra { asked, serves: "modern" }.into()
        })
    }

    /// Whether a client of that era is served at all.
    pub(super) fn speaks(&self, era: Era) -> bool {
        self.identity.speaks.iter().any(|revision| revision.era() == era)
    }

    /// Whether clients are told that we log to them (LIF-3).
    pub(super) fn logs(&self) -> bool {
        self.identity.logging || self.identity.capabilities.contains_key("logging")
    }

    /// `server/discover` (DISC-1, DISC-2).
    pub(super) fn discover(&self) -> Bytes {
        let revision = Revision::NEWEST_MODERN;
        let mut result = json!({
            "supportedVersions": Revision::names(Era::Modern),
            "capabilities": self.capabilities(&self.catalog(), revision),
        });
        if let Some(instructions) = &self.identity.instructions {
            result["instructions"] = instructions.as_str().into();
        }
        result.to_string().into()
    }

    /// What is offered, derived from what is there (META-6).
    pub(super) fn capabilities(&self, catalog: &Catalog, revision: Revision) -> Value {
        let mut all = Map::new();
        let shelves = [("tools", catalog.tools.offered), ("prompts", catalog.prompts.offered)];
        for (name, _) in shelves.into_iter().filter(|(_, offered)| *offered) {
            all.insert(name.to_owned(), json!({"listChanged": true}));
        }
        if catalog.resources.offered || catalog.templates.offered {
            let resources = json!({"subscribe": true, "listChanged": true});
            all.insert("resources".to_owned(), resources);
        }
        if catalog.completion.is_some() {
            all.insert("completions".to_owned(), json!({}));
        }
        if self.identity.logging {
            all.insert("logging".to_owned(), json!({}));
        }
        let tasks = catalog.tools.iter().any(|tool| tool.support != task::Support::Forbidden);
        if tasks && revision.rules().core_tasks {
            let requests = json!({"tools": {"call": {}}});
            let tasks = json!({"list": {}, "cancel": {}, "requests": requests});
            all.insert("tasks".to_owned(), tasks);
        }
        if revision.era() == Era::Modern {
            let mut extensions = self.identity.extensions.clone();
            if tasks {
                extensions.insert(task::EXTENSION.to_owned(), json!({}));
            }
            if !extensions.is_empty() {
                all.insert("extensions".to_owned(), extensions.into());
            }
        }
        all.extend(self.identity.capabilities.clone());
        all.into()
    }
}
