//! What a request says of itself besides its call: what its client can do, and
//! what it wants to hear on the way.
//!
//! Each request speaks for itself (META-3), a retry too: from then on its call is
//! served by what the retry says.

use bytes::Bytes;

use super::Call;
use crate::jsonrpc::{Member, Message};
use crate::method::{self, meta};
use crate::project;
use crate::refusal::Refusal;

/// What a retry says of itself.
#[derive(Debug)]
pub(super) struct Envelope {
    capabilities: Box<[u8]>,
    /// What progress goes by, if it is wanted.
    token: Option<Bytes>,
    /// The least grave log records that are wanted, if any are (LOG-1).
    level: Option<usize>,
}

impl Envelope {
    pub(super) fn of(retry: &Message) -> Self {
        Self {
            capabilities: retry.declared_capabilities().into(),
            token: retry.get(Member::MetaProgressToken).map(Bytes::copy_from_slice),
            level: method::wanted_severity(retry),
        }
    }
}

impl Call {
    /// Whether the last request of its client declares that it can answer this.
    pub(super) fn permits(&self, question: &Message) -> bool {
        let declared = match &self.retry {
            Some(retry) => &retry.capabilities,
            None => self.request.declared_capabilities(),
        };
        let params = question.payload().unwrap_or_default();
        project::permits(declared, question.method(), params)
    }

    /// A notification as the last request of its client wants it: progress under the
    /// token it brought, or not at all (GW-55); log records of the level it named
    /// (LOG-1). Whoever answers has seen the first request, and a retry of it not.
    pub(super) fn in_its_words(&self, message: &Message) -> Option<Message> {
        let Some(retry) = &self.retry else { return Some(message.clone()) };
        match message.method() {
            method::PROGRESS if !message.has(Member::ProgressToken) => None,
            method::PROGRESS => Some(message.with(Member::ProgressToken, retry.token.clone()?)),
            method::LOG if !method::is_grave(message, retry.level?) => None,
            _ => Some(message.clone()),
        }
    }
}

/// Both required members of the envelope, each of its type (META-1).
pub(super) fn check_envelope(request: &Message) -> Result<String, Refusal> {
    let broken = |what: &str| Refusal::BadEnvelope { what: format!("params._meta: {what}") };
    if !request.has(Member::MetaVersion) {
        return Err(broken(&format!("{} is missing", meta::VERSION)));
    }
    let version = request
        .string(Member::MetaVersion)
        .ok_or_else(|| broken(&format!("{} must be a string", meta::VERSION)))?;
    match request.part(Member::MetaCapabilities) {
        None => Err(broken(&format!("{} is missing", meta::CAPABILITIES))),
        Some(value) if !value.is_object() => {
            Err(broken(&format!("{} must be an object", meta::CAPABILITIES)))
        }
        Some(_) => Ok(version.into_owned()),
    }
}
