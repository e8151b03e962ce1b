//! What a request says of itself besides its call: what its client can do, and
//! what it wants to hear on the way.
//!
//! Each request speaks for itself (META-3), a retry too: from then on its call is
//! served by what the retry says.

use super::super::era::envelope_version;
use super::Call;
use crate::jsonrpc::Message;
use crate::method::{self, meta};
use crate::patch;
use crate::project;
use crate::refusal::Refusal;

/// What a retry says of itself.
#[derive(Debug)]
pub(super) struct Envelope {
    capabilities: Box<[u8]>,
    /// What progress goes by, if it is wanted.
    token: Option<Box<[u8]>>,
    /// The least grave log records that are wanted, if any are (LOG-1).
    level: Option<usize>,
}

impl Envelope {
    pub(super) fn of(retry: &Message) -> Self {
        let params = retry.payload().unwrap_or_default();
        let token = patch::get(params, &["_meta", meta::PROGRESS_TOKEN]);
        Self {
            capabilities: capabilities(retry).into(),
            token: token.map(Into::into),
            level: method::wanted_severity(params),
        }
    }
}

impl Call {
    /// Whether the last request of its client declares that it can answer this.
    pub(super) fn permits(&self, question: &Message) -> bool {
        let declared = match &self.retry {
            Some(retry) => &retry.capabilities,
            None => capabilities(&self.request),
        };
        let params = question.payload().unwrap_or_default();
        project::permits(declared, question.method(), params)
    }

    /// A notification as the last request of its client wants it: progress under the
    /// token it brought, or not at all (GW-55); log records of the level it named
    /// (LOG-1). Whoever answers has seen the first request, and a retry of it not.
    pub(super) fn in_its_words(&self, message: &Message) -> Option<Message> {
        let Some(retry) = &self.retry else { return Some(message.clone()) };
        let params = message.payload().unwrap_or_default();
        match message.method() {
            method::PROGRESS => {
                let token = retry.token.as_deref()?;
                let params = patch::replace(params, &[meta::PROGRESS_TOKEN], token)?;
                Some(message.with_payload(&params))
            }
            method::LOG if !method::is_grave(params, retry.level?) => None,
            _ => Some(message.clone()),
        }
    }
}

fn capabilities(request: &Message) -> &[u8] {
    let params = request.payload().unwrap_or_default();
    patch::get(params, &["_meta", meta::CAPABILITIES]).unwrap_or_default()
}

/// Both required members of the envelope, each of its type (META-1).
pub(super) fn check_envelope(request: &Message) -> Result<String, Refusal> {
    let broken = |what: &str| Refusal::BadEnvelope { what: format!("params._meta: {what}") };
    let version = envelope_version(request)
        .ok_or_else(|| broken(&format!("{} is missing", meta::VERSION)))?;
    let version = patch::as_string(version)
        .ok_or_else(|| broken(&format!("{} must be a string", meta::VERSION)))?;
    let params = request.payload().unwrap_or_default();
    match patch::get(params, &["_meta", meta::CAPABILITIES]) {
        None => Err(broken(&format!("{} is missing", meta::CAPABILITIES))),
        Some(value) if !value.starts_with(b"{") => {
            Err(broken(&format!("{} must be an object", meta::CAPABILITIES)))
        }
        Some(_) => Ok(version.into_owned()),
    }
}
