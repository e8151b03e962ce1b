//! Questions that a legacy client has open, and where its progress on each goes.
//!
//! Servers choose the tokens of progress, and two may choose the same. So the client gets
//! another token for a question if it has that one already.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use serde_json::Value;
use switchboard_net::call::Asker;
use switchboard_proto::exchange::Ask;
use switchboard_proto::jsonrpc::{Member, Message};
use switchboard_proto::limits::MAX_ID;

use super::lock;

/// Questions with a token; as many as a client may be asked at once.
#[derive(Default)]
pub(super) struct Questions(Mutex<BTreeMap<Ask, Question>>);

struct Question {
    /// The token that the client knows.
    shown: Value,
    /// The server's own, as it wrote it.
    token: Bytes,
    asker: Weak<dyn Asker>,
}

impl Questions {
    /// A server asks: the question as the client is to get it.
    pub(super) fn put<'m>(
        &self,
        asker: &Weak<dyn Asker>,
        ask: Ask,
        request: Cow<'m, Message>,
    ) -> Cow<'m, Message> {
        self.renamed(asker, ask, &request).map_or(request, Cow::Owned)
    }

    /// Remembers a question; with another token, if the client has the same one already.
    fn renamed(&self, asker: &Weak<dyn Asker>, ask: Ask, request: &Message) -> Option<Message> {
        // Progress on a question with a token of any length would have to be remembered.
        let token = request.get(Member::MetaProgressToken).filter(|it| it.len() <= MAX_ID)?;
        let own = request.value(Member::MetaProgressToken)?;
        let mut all = lock(&self.0);
        let is_free = |token: &Value| !all.values().any(|it| it.shown == *token);
        let others = (0..).map(|number| Value::from(format!("{}-{number}", ask.0)));
        let shown = std::iter::once(own.clone()).chain(others).find(is_free)?;
        let renamed = (shown != own).then(|| shown.to_string());
        let token = Bytes::copy_from_slice(token);
        all.insert(ask, Question { shown, token, asker: Weak::clone(asker) });
        Some(request.with(Member::MetaProgressToken, renamed?))
    }

    /// A question is answered, or not asked any more.
    pub(super) fn remove(&self, ask: Ask) {
        lock(&self.0).remove(&ask);
    }

    /// Who asked what this progress is about, and the progress in their words.
    pub(super) fn find(&self, progress: &Message) -> Option<(Arc<dyn Asker>, Message)> {
        let token = progress.value(Member::ProgressToken)?;
        let all = lock(&self.0);
        let question = all.values().find(|it| it.shown == token)?;
        let progress = progress.with(Member::ProgressToken, question.token.clone());
        Some((question.asker.upgrade()?, progress))
    }
}
