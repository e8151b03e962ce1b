//! What clients say without wanting an answer: changed roots, progress of what
//! they were asked for, notifications of their own.
//!
//! Two are not among them, for they are about something that is known already:
//! the end of the handshake, and a cancelled call, which learns of it by
//! [`Context::cancelled`](super::Context::cancelled).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use switchboard_proto::jsonrpc::{Message, Part};
use switchboard_proto::method;
use switchboard_proto::revision::{Era, Revision};

use super::Server;
use super::handler::{Caught, Job};
use super::session::Caller;
use crate::face::Face;
use crate::inside::Works;

/// Notifications that are being heard at once, over all clients. A client that
/// says more than anybody can listen to must not make us keep it all.
const MOST: usize = 1024;

/// A notification of a client.
#[derive(Clone)]
pub struct Notice {
    message: Message,
    caller: Caller,
    server: Arc<Server>,
}

impl Notice {
    /// Its method, such as `notifications/roots/list_changed`.
    pub fn method(&self) -> &str {
        self.message.method()
    }

    /// The parameters as they were written; an empty object if there were none.
    pub fn params(&self) -> &[u8] {
        self.message.payload().unwrap_or(b"{}")
    }

    /// One member of the parameters as it was written; a path names members from the outside in.
    pub fn param(&self, path: &[&str]) -> Option<&[u8]> {
        self.message.body().get(path).map(Part::text)
    }

    /// What the client calls itself. Never to be trusted (MOD-7).
    pub fn client_info(&self) -> Option<Value> {
        self.caller.client()
    }

    /// The era that the client speaks.
    pub fn era(&self) -> Era {
        self.caller.era()
    }

    /// The revision that the client speaks.
    pub fn revision(&self) -> Revision {
        self.caller.revision()
    }

    /// The server that was told.
    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }
}

impl fmt::Debug for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notice").field("method", &self.method()).finish_non_exhaustive()
    }
}

/// Who hears notifications besides the raw handler.
pub(super) type Hear = dyn Fn(Notice) -> Job<()> + Send + Sync;

/// How many are being heard.
#[derive(Debug, Default)]
pub(super) struct Hearing {
    now: Arc<AtomicUsize>,
}

/// One that is being heard, until it is dropped.
struct Heard(Arc<AtomicUsize>);

impl Hearing {
    fn begin(&self) -> Option<Heard> {
        let heard = Heard(Arc::clone(&self.now));
        (self.now.fetch_add(1, Ordering::Relaxed) < MOST).then_some(heard)
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Server {
    /// Passes on what a client said. Who hears it begins in the order it was said.
    pub(super) fn hear(&self, face: &Arc<Face>, message: Message) -> Works {
        let nobody = self.raw.is_none() && self.heard.is_none();
        if nobody || message.method() == method::INITIALIZED {
            return Works::none();
        }
        let caller = match face.era() {
            Era::Modern => Some(Caller::Request(message.clone())),
            Era::Legacy => self.sessions.get(face.number()).map(Caller::Session),
        };
        let (Some(caller), Some(server)) = (caller, self.this.upgrade()) else {
            return Works::none();
        };
        let Some(heard) = self.hearing.begin() else {
            tracing::warn!(
                method = message.method(),
                "too much is said at once; this was not heard"
            );
            return Works::none();
        };
        let notice = Notice { message, caller, server };
        let raw = self.raw.clone().map(|handler| handler.notified(notice.clone()));
        let own = self.heard.as_ref().map(|hear| hear(notice));
        Works::one(async move {
            for hearing in raw.into_iter().chain(own) {
                // A panic has been logged, and there is nobody to tell it.
                let hearing = async move {
                    hearing.await;
                    Ok(())
                };
                _ = Caught(Box::pin(hearing)).await;
            }
            drop(heard);
        })
    }
}
