//! The sessions of legacy clients, by the id they carry in a header.
//!
//! A session ends when its client deletes it, or when nothing is in flight, no
//! stream is attached and nothing has come for a while. Never otherwise: an
//! idle timer that cuts a long call is worse than none.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::time::Duration;

use http::HeaderValue;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::server::legacy::Phase;

use crate::drive::OwnedTask;
use crate::face::{Face, now};
use crate::who::{Stay, Who};

/// All sessions of one endpoint.
#[derive(Debug)]
pub(crate) struct Sessions {
    most: AtomicUsize,
    idle: Duration,
    /// Every request of a legacy client looks here, so looking must not exclude looking.
    table: RwLock<Table>,
}

#[derive(Debug, Default)]
struct Table {
    by_id: HashMap<SessionId, Open>,
    /// The task that looks for idle sessions, once there was one.
    reaping: Option<OwnedTask>,
    closed: bool,
}

/// A session, and its place among those that its owner may have.
#[derive(Debug)]
struct Open {
    face: Arc<Face>,
    _stay: Stay,
}

/// Ends a session when it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    sessions: Arc<Sessions>,
    id: SessionId,
    face: Arc<Face>,
    told: bool,
    /// Whether the client may have been gone when it was told.
    doubted: bool,
}

impl Held {
    pub(crate) fn id(&self) -> &SessionId {
        &self.id
    }

    /// The client gets to know the id: the session lives on, unless its greeting fails.
    /// If it is doubted that the client is there, its session ends with the stream of
    /// a greeting that is not answered.
    pub(crate) fn tell(&mut self, doubted: bool) -> HeaderValue {
        (self.told, self.doubted) = (true, doubted);
        self.id.to_header()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let phase = self.face.phase();
        let is_lost = self.doubted && phase == Some(Phase::Greeting);
        if !self.told || is_lost || phase == Some(Phase::Fresh) {
            self.sessions.close(&self.id);
        }
    }
}

/// An unguessable name, in visible ASCII (HTTP-20).
#[derive(Clone, Eq, Hash, PartialEq)]
pub(crate) struct SessionId(Box<str>);

impl SessionId {
    fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Self(format!("{:032x}", u128::from_ne_bytes(bytes)).into()))
    }

    /// As it was sent to us.
    pub(crate) fn from_text(text: &str) -> Self {
        Self(text.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn to_header(&self) -> HeaderValue {
        HeaderValue::from_str(&self.0).expect("a session id is hexadecimal")
    }
}

impl fmt::Debug for SessionId {
    /// Whoever has the id has the session, so logs show only its beginning.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}…", self.0.get(..6).unwrap_or_default())
    }
}

impl Sessions {
    pub(crate) fn new(most: usize, idle: Duration) -> Arc<Self> {
        Arc::new(Self { most: AtomicUsize::new(most), idle, table: RwLock::default() })
    }

    /// Takes so many from here on; those that are there stay.
    pub(crate) fn bound(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// A new session for `face`; it ends with what is returned.
    pub(crate) fn open(self: &Arc<Self>, face: &Arc<Face>) -> Result<Held, Refusal> {
        let stay = face.who().stay()?;
        let id = SessionId::random().map_err(|_| Refusal::TooManySessions)?;
        let mut table = self.write();
        if table.closed || table.by_id.len() >= self.most.load(Ordering::Relaxed) {
            return Err(Refusal::TooManySessions);
        }
        face.mark(id.as_str());
        table.by_id.insert(id.clone(), Open { face: Arc::clone(face), _stay: stay });
        let reap = || OwnedTask::spawn(reap(Arc::downgrade(self), self.idle));
        table.reaping.get_or_insert_with(reap);
        let (sessions, face) = (Arc::clone(self), Arc::clone(face));
        Ok(Held { sessions, id, face, told: false, doubted: false })
    }

    /// The session of this id, if it is theirs. Others learn nothing of it.
    pub(crate) fn find(&self, id: &SessionId, who: &Who) -> Result<Arc<Face>, Refusal> {
        let table = self.read();
        let face = table.by_id.get(id).map(|open| Arc::clone(&open.face));
        drop(table);
        let face = face.filter(|face| face.who().is_same(who));
        let face = face.ok_or(Refusal::SessionOver)?;
        if face.is_over() {
            // The inside ended it, for instance because its client reads too slowly.
            self.write().by_id.remove(id);
            return Err(Refusal::SessionOver);
        }
        Ok(face)
    }

    /// Ends a session, if it is there.
    pub(crate) fn close(&self, id: &SessionId) -> bool {
        let open = self.write().by_id.remove(id);
        open.inspect(|open| open.face.end()).is_some()
    }

    /// Ends the sessions of everybody who may not stay.
    pub(crate) fn close_unless(&self, stays: impl Fn(&Who) -> bool) {
        let table = self.read();
        let gone = table.by_id.iter().filter(|(_, open)| !stays(open.face.who()));
        let gone: Vec<_> = gone.map(|(id, _)| id.clone()).collect();
        drop(table);
        for id in gone {
            self.close(&id);
        }
    }

    /// Takes no new sessions, and ends each as soon as it waits for no answer.
    pub(crate) fn close_all(self: &Arc<Self>) {
        let mut table = self.write();
        table.closed = true;
        let open = table.by_id.iter().map(|(id, open)| (id.clone(), Arc::clone(&open.face)));
        let open: Vec<_> = open.collect();
        drop(table);
        for (id, face) in open {
            if face.is_answered() {
                self.close(&id);
                continue;
            }
            let sessions = Arc::clone(self);
            tokio::spawn(async move {
                face.all_answered().await;
                sessions.close(&id);
            });
        }
    }

    pub(crate) fn faces(&self) -> Vec<Arc<Face>> {
        self.read().by_id.values().map(|open| Arc::clone(&open.face)).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.read().by_id.len()
    }

    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn close_idle(&self) {
        let deadline = now().checked_sub(self.idle);
        let is_idle = |face: &Face| face.idle_since().is_some_and(|since| Some(since) <= deadline);
        let mut table = self.write();
        let idle = table.by_id.iter().filter(|(_, open)| is_idle(&open.face));
        let idle: Vec<_> = idle.map(|(id, _)| id.clone()).collect();
        let gone: Vec<_> = idle.iter().filter_map(|id| table.by_id.remove(id)).collect();
        drop(table);
        for (id, open) in idle.iter().zip(&gone) {
            tracing::debug!(session = ?id, "idle for too long, closed");
            open.face.end();
        }
    }
}

/// A look that comes so late tells that the process was stopped, or the machine.
const LATE: Duration = Duration::from_secs(2);

/// Looks for idle sessions as long as the endpoint is there.
async fn reap(sessions: Weak<Sessions>, idle: Duration) {
    let pace = (idle / 4).clamp(Duration::from_millis(50), Duration::from_secs(30));
    let mut looked = now();
    loop {
        tokio::time::sleep(pace).await;
        let Some(sessions) = sessions.upgrade() else { return };
        let since = now().saturating_duration_since(std::mem::replace(&mut looked, now()));
        // After a stop of the process its clients have a moment: what they sent
        // meanwhile is not read yet.
        if since < LATE.max(2 * pace) {
            sessions.close_idle();
        }
    }
}
