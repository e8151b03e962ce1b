//! On whose behalf a client speaks, and what they may have.
//!
//! A [`Who`] is made by a [`Gate`](crate::http::gate::Gate) and stays with the
//! client's face. Its identity is what sessions, tasks, parked calls and connections
//! are bound to: the name, or what the gate tells apart under one name. What was
//! shown to prove it is not kept.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use switchboard_proto::jsonrpc::{Incoming, Kind, Message};
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;

use crate::face::now;

/// Somebody, by name; the default is nobody in particular.
#[derive(Clone, Debug, Default)]
pub struct Who {
    name: Arc<str>,
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
}

/// What asks no work of a server: greetings, signs of life, and listens, which
/// are counted as sessions are.
const FREE: [&str; 4] = [method::INITIALIZE, method::PING, method::DISCOVER, method::LISTEN];

impl Who {
    /// Somebody who may do everything.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Somebody who may do what `standing` lets them.
    pub fn with(name: impl Into<Arc<str>>, standing: Arc<dyn Standing>) -> Self {
        Self { name: name.into(), mark: None, standing: Some(standing) }
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

    /// Whether both may use one session. Whoever has no name may show another token
    /// in each request.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.name == other.name && (self.name.is_empty() || self.mark == other.mark)
    }

    /// What is theirs belongs to this: the mark, else the name.
    pub fn identity(&self) -> &[u8] {
        self.mark.as_ref().unwrap_or(&self.name).as_bytes()
    }

    /// Turns for the calls in a message, if all of them get one.
    pub(crate) fn enter(&self, incoming: &Incoming) -> Result<Turns, Refusal> {
        let mut turns = Turns { standing: self.standing.clone(), calls: 0 };
        if let Some(standing) = &self.standing {
            for _ in 0..counted(incoming) {
                standing.begin_call(now())?;
                turns.calls += 1;
            }
        }
        Ok(turns)
    }

    /// Room for a session, as long as what is returned lives.
    pub(crate) fn stay(&self) -> Result<Stay, Refusal> {
        if let Some(standing) = &self.standing {
            standing.begin_session()?;
        }
        Ok(Stay { standing: self.standing.clone() })
    }
}

/// How many calls a message makes.
fn counted(incoming: &Incoming) -> usize {
    let counts =
        |message: &Message| message.kind() == Kind::Request && !FREE.contains(&message.method());
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
pub(crate) struct Stay {
    standing: Option<Arc<dyn Standing>>,
}

impl Drop for Stay {
    fn drop(&mut self) {
        if let Some(standing) = &self.standing {
            standing.end_session();
        }
    }
}
