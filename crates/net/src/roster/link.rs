//! One connection to a server, from the attempt to its end, as others see it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use switchboard_proto::failure::Failure;

use tokio::sync::Notify;

use super::berth::Berth;
use super::definition::Kind;
use super::inner::Inner;
use super::state::CallError;
use crate::client::{self, ClientOptions};
use crate::drive::Stop;
use crate::face::lock;

/// What is known of a connection outside the task that keeps it.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) attempt: u64,
    /// It is not wanted any more.
    pub(super) stop: Stop,
    /// It was made, so its end is one.
    is_up: AtomicBool,
    /// Why it broke.
    why: Mutex<Option<Failure>>,
    /// Lists that have changed.
    changed: Mutex<BTreeSet<Kind>>,
    /// Whether the server is still there must be found out.
    is_doubted: AtomicBool,
    woken: Notify,
}

impl Link {
    pub(super) fn new(attempt: u64) -> Self {
        Self {
            attempt,
            stop: Stop::new(),
            is_up: AtomicBool::new(false),
            why: Mutex::default(),
            changed: Mutex::default(),
            is_doubted: AtomicBool::new(false),
            woken: Notify::new(),
        }
    }

    /// It was made: from here on its end matters.
    pub(super) fn up(&self) {
        self.is_up.store(true, Ordering::SeqCst);
    }

    /// Whether it ever was.
    pub(super) fn was_up(&self) -> bool {
        self.is_up.load(Ordering::SeqCst)
    }

    /// These lists have changed.
    pub(super) fn changed(&self, kinds: impl IntoIterator<Item = Kind>) {
        lock(&self.changed).extend(kinds);
        self.woken.notify_one();
    }

    /// Something failed as if the server were gone.
    pub(super) fn doubt(&self) {
        self.is_doubted.store(true, Ordering::SeqCst);
        self.woken.notify_one();
    }

    /// What a call came to; one that broke may mean that the server is gone.
    pub(super) fn noting<T>(&self, called: Result<T, client::CallError>) -> Result<T, CallError> {
        if called.as_ref().is_err_and(client::CallError::is_broken) {
            self.doubt();
        }
        Ok(called?)
    }

    /// Waits until there is something to look after.
    pub(super) async fn woken(&self) {
        self.woken.notified().await;
    }

    pub(super) fn take_doubt(&self) -> bool {
        self.is_doubted.swap(false, Ordering::SeqCst)
    }

    pub(super) fn take_changed(&self) -> BTreeSet<Kind> {
        std::mem::take(&mut *lock(&self.changed))
    }

    pub(super) fn has_changed(&self) -> bool {
        !lock(&self.changed).is_empty()
    }

    /// Why it broke, as far as was told.
    pub(super) fn why(&self) -> Failure {
        lock(&self.why).clone().unwrap_or(Failure::CLOSED)
    }

    /// The options of the server, with an ear of ours before those of its user.
    pub(super) fn listening(
        self: &Arc<Self>,
        inner: &Weak<Inner>,
        berth: &Arc<Berth>,
    ) -> ClientOptions {
        let mut options = berth.options.clone();
        options.remembered = *lock(&berth.remembered);
        let theirs = options.callbacks.clone();
        let (link, told) = (Arc::clone(self), theirs.on_error);
        options = options.on_error(move |why| {
            *lock(&link.why) = Some(why.clone());
            if let Some(told) = &told {
                told(why);
            }
        });
        let (link, told) = (Arc::clone(self), theirs.on_notification);
        options = options.on_notification(move |note| {
            let kinds: BTreeSet<_> = Kind::changed_by(&note.method).collect();
            if !kinds.is_empty() {
                link.changed(kinds);
            }
            if let Some(told) = &told {
                told(note);
            }
        });
        let (link, told, inner) = (Arc::clone(self), theirs.on_close, Weak::clone(inner));
        let berth = Arc::downgrade(berth);
        options.on_close(move || {
            // A child that was only asked for its era may end without harm.
            if link.is_up.load(Ordering::SeqCst)
                && let (Some(inner), Some(berth)) = (inner.upgrade(), berth.upgrade())
            {
                inner.broken(&berth, link.attempt, link.why());
            }
            if let Some(told) = &told {
                told(());
            }
        })
    }
}
