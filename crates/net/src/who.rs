//! Somebody who came in: their name, and what they may have open.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use switchboard_proto::jsonrpc::{Incoming, Kind, Message};
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;

use crate::drive::now;

/// Somebody, by name; the default is nobody in particular.
#[derive(Clone, Debug, Default)]
pub struct Who {
    pub(crate) name: Arc<str>,
    /// What tells one from another of the same name.
    mark: Option<Arc<str>>,
    standing: Option<Arc<dyn Standing>>,
}

/// What somebody may have open, asked as long as they are here.
///
/// Every method has a default that allows everything.
pub trait Standing: fmt::Debug + Send + Sync + 'static {
    /// A call wants its turn. If it gets one, [`Standing::end_call`] follows.
    fn begin_call(&self, _now: Instant) -> Result<(), Refusal> {
        Ok(())
    }

    /// A call is over.
    fn end_call(&self) {}

    /// A notification has come. It counts for how often somebody may call, and is
    /// never open.
    fn count_notification(&self, _now: Instant) -> Result<(), Refusal> {
        Ok(())
    }

    /// A session, or a listen, wants to begin. If it may, [`Standing::end_session`] follows.
    fn begin_session(&self) -> Result<(), Refusal> {
        Ok(())
    }

    /// A session is over.
    fn end_session(&self) {}

    /// Whether what they showed would still let them in.
    fn is_current(&self) -> bool {
        true
    }

    /// Whether they may still come in, if perhaps by showing something else.
    fn is_known(&self) -> bool {
        true
    }

    /// They have shown something else in a later request of the same session.
    fn renew(&self, _newer: &dyn Standing) {}

    /// Itself, for the authenticator that made it.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}

/// What asks no work of a server: greetings, signs of life, cancelling, and
/// listens, which are counted as sessions are.
const FREE: [&str; 6] = [
    method::CANCELLED,
    method::DISCOVER,
    method::INITIALIZE,
    method::INITIALIZED,
    method::LISTEN,
    method::PING,
];

impl Who {
    /// Somebody who may do everything.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Somebody who may do what `standing` lets them.
    pub fn with(name: impl Into<Arc<str>>, standing: Arc<dyn Standing>) -> Self {
        Self { standing: Some(standing), ..Self::new(name) }
    }

    /// What they are called; empty for nobody in particular.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same, told from others of that name by a mark.
    #[must_use]
    pub fn marked(self, mark: impl Into<Arc<str>>) -> Self {
        Self { mark: Some(mark.into()), ..self }
    }

    /// Whether what they showed would still let them in.
    pub fn is_current(&self) -> bool {
        self.standing.as_ref().is_none_or(|standing| standing.is_current())
    }

    /// Whether they may still come in, if perhaps by showing something else.
    pub(crate) fn is_known(&self) -> bool {
        self.standing.as_ref().is_none_or(|standing| standing.is_known())
    }

    /// What lets them in, if it is of that kind.
    pub fn standing<S: Standing>(&self) -> Option<&S> {
        self.standing.as_ref()?.as_any()?.downcast_ref()
    }

    /// The same person has made another request, which may show more or less.
    pub(crate) fn renew(&self, newer: &Self) {
        if let (Some(standing), Some(newer)) = (&self.standing, &newer.standing) {
            standing.renew(&**newer);
        }
    }

    /// Whether both may use one session. Whoever has no name may show another token
    /// in each request.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.name == other.name && (self.name.is_empty() || self.mark == other.mark)
    }

    /// What is theirs belongs to this: the mark, else the name.
    pub fn identity(&self) -> &[u8] {
        self.mark.as_ref().unwrap_or(&self.name).as_bytes()
    }

    /// The same, to keep.
    pub fn shared_identity(&self) -> Arc<str> {
        Arc::clone(self.mark.as_ref().unwrap_or(&self.name))
    }

    /// A turn for a call of which nothing is known yet.
    pub(crate) fn reserve(&self) -> Result<Turns, Refusal> {
        let mut turns = Turns { standing: self.standing.clone(), calls: 0 };
        turns.begin()?;
        Ok(turns)
    }

    /// Turns for the calls in a message, if all of them get one; `reserved` are
    /// those that it has already.
    pub(crate) fn enter(&self, incoming: &Incoming, reserved: Turns) -> Result<Turns, Refusal> {
        let mut turns = Turns { standing: self.standing.clone(), calls: 0 };
        turns.take(reserved);
        let Some(standing) = &self.standing else { return Ok(turns) };
        let calls = counted(incoming, Kind::Request);
        let notifications = counted(incoming, Kind::Notification);
        // What was reserved for a call counts for what came in its place.
        for _ in turns.calls.saturating_sub(calls)..notifications {
            standing.count_notification(now())?;
        }
        turns.keep(calls);
        while turns.calls < calls {
            turns.begin()?;
        }
        Ok(turns)
    }

    /// Room for a session, as long as what is returned lives.
    pub(crate) fn stay(&self) -> Result<SessionPermit, Refusal> {
        if let Some(standing) = &self.standing {
            standing.begin_session()?;
        }
        Ok(SessionPermit { standing: self.standing.clone() })
    }
}

/// How many messages of a kind there are that count.
fn counted(incoming: &Incoming, kind: Kind) -> usize {
    let counts = |message: &Message| message.kind() == kind && !FREE.contains(&message.method());
    match incoming {
        Incoming::One(message) => usize::from(counts(message)),
        Incoming::Batch(elements) => {
            elements.iter().flatten().filter(|message| counts(message)).count()
        }
    }
}

/// Calls that have their turn; those left are over when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    standing: Option<Arc<dyn Standing>>,
    calls: usize,
}

impl Turns {
    fn begin(&mut self) -> Result<(), Refusal> {
        if let Some(standing) = &self.standing {
            standing.begin_call(now())?;
            self.calls += 1;
        }
        Ok(())
    }

    /// Takes over the turns of others of the same standing.
    pub(crate) fn take(&mut self, mut other: Self) {
        self.calls += std::mem::take(&mut other.calls);
        if let Some(standing) = other.standing.take() {
            self.standing = Some(standing);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.calls == 0
    }

    /// All but so many are over.
    pub(crate) fn keep(&mut self, open: usize) {
        while self.calls > open {
            self.calls -= 1;
            if let Some(standing) = &self.standing {
                standing.end_call();
            }
        }
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        self.keep(0);
    }
}

/// A session of somebody, which is over when it is dropped.
#[derive(Debug)]
pub(crate) struct SessionPermit {
    standing: Option<Arc<dyn Standing>>,
}

impl Drop for SessionPermit {
    fn drop(&mut self) {
        if let Some(standing) = &self.standing {
            standing.end_session();
        }
    }
}
