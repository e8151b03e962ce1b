//! Questions that a legacy client has open, and where its progress on each goes.
//!
//! Servers choose the tokens of progress, and two may choose the same. So the client gets
//! another token for a question if it has that one already.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use serde_json::Value;
use switchboard_net::bridge::Bridge;
use switchboard_proto::exchange::Ask;
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::limits::MAX_ID;
use switchboard_proto::method::meta;
use switchboard_proto::patch;

use super::lock;

/// Questions with a token; as many as a client may be asked at once.
#[derive(Default)]
pub(super) struct Questions(Mutex<BTreeMap<Ask, Question>>);

struct Question {
    /// The token that the client knows.
    shown: Value,
    /// The server's own, as it wrote it.
    token: Box<[u8]>,
    asked_by: Weak<Bridge>,
}

impl Questions {
    /// A server asks: the question as the client is to get it, if it is another.
    pub(super) fn add(&self, by: &Arc<Bridge>, ask: Ask, request: &Message) -> Option<Message> {
        let params = request.payload().unwrap_or_default();
        let token = patch::get(params, &["_meta", meta::PROGRESS_TOKEN])?;
        // Progress on a question with a token of any length would have to be remembered.
        let token = Some(token).filter(|token| token.len() <= MAX_ID)?;
        let own: Value = serde_json::from_slice(token).ok()?;
        let mut all = lock(&self.0);
        let is_free = |token: &Value| !all.values().any(|it| it.shown == *token);
        let others = (0..).map(|number| Value::from(format!("{}-{number}", ask.0)));
        let shown = std::iter::once(own.clone()).chain(others).find(is_free)?;
        let renamed = (shown != own).then(|| shown.to_string());
        let question = Question { shown, token: token.into(), asked_by: Arc::downgrade(by) };
        all.insert(ask, question);
        let path = ["_meta", meta::PROGRESS_TOKEN];
        let params = patch::replace(params, &path, renamed?.as_bytes())?;
        Some(request.with_payload(&params))
    }

    /// A question is answered, or not asked any more.
    pub(super) fn remove(&self, ask: Ask) {
        lock(&self.0).remove(&ask);
    }

    /// Who asked what this progress is about, and the progress in their words.
    pub(super) fn find(&self, progress: &Message) -> Option<(Arc<Bridge>, Message)> {
        let params = progress.payload()?;
        let token = patch::get(params, &[meta::PROGRESS_TOKEN])?;
        let token: Value = serde_json::from_slice(token).ok()?;
        let all = lock(&self.0);
        let question = all.values().find(|it| it.shown == token)?;
        let params = patch::replace(params, &[meta::PROGRESS_TOKEN], &question.token)?;
        Some((question.asked_by.upgrade()?, progress.with_payload(&params)))
    }
}
