//! What stands behind the clients: a bridge, a server, or something of your own.
//!
//! Whatever is served, on stdio or by a site, is an [`Backend`]: it is handed
//! each call of a client, in a form that is the same in both eras, and answers
//! through the [`Call`]. [`crate::server::Server`] is one for those who
//! answer by themselves, [`crate::bridge::Bridge`] for those who pass on.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::HeaderName;
use switchboard_proto::exchange::{Ask, HeaderParams};
use switchboard_proto::failure::Words;
use switchboard_proto::jsonrpc::Message;

use crate::call::Call;
use crate::charge::Charge;
use crate::connection::ClientConnection;
use crate::who::Who;

/// The servers of other gateways that a request came through; kept while it is open.
pub type Through = Arc<[u64]>;

/// Takes the calls of every client that is served.
///
/// Requests and notifications of one client come in order, and the next one waits until
/// the method returns. The work that they lead to is driven by the caller, and may go on
/// for long.
pub trait Backend: Send + Sync + 'static {
    /// A client makes a call. `said` are the headers that repeat its arguments.
    fn open(
        &self,
        client: &Arc<ClientConnection>,
        call: &Call,
        request: Message,
        said: HeaderParams,
    ) -> PendingWork;

    /// A client sends a notification.
    fn note(&self, _client: &Arc<ClientConnection>, _message: Message) -> PendingWork {
        PendingWork::none()
    }

    /// A client cancels a call. The call's holder is told after this.
    fn cancel(&self, _client: &Arc<ClientConnection>, _call: &Call) {}

    /// A client answers a question: the answer for the connection that asked it. None if
    /// the question was the backend's own.
    fn supply(
        &self,
        _client: &Arc<ClientConnection>,
        _ask: Ask,
        answer: Message,
    ) -> Option<Message> {
        Some(answer)
    }

    /// A legacy client on HTTP opens a stream for what belongs to no call.
    fn listen(&self, _client: &Arc<ClientConnection>) {}

    /// A client is gone for good. Not told of modern clients on HTTP, for which
    /// each request is a client of its own: it is over when it is finished or
    /// cancelled. Only their listens are forgotten like sessions.
    fn forget(&self, _client: &Arc<ClientConnection>) {}

    /// How much clients are told of what goes wrong with a server.
    fn words(&self) -> Words {
        Words::Full
    }

    /// Whether the open calls of a modern client may go on: what is granted to whom it
    /// speaks for may be less than when they were made.
    fn keeps(&self, _client: &ClientConnection) -> bool {
        true
    }

    /// The scopes that a request takes and its sender lacks, if more scopes would let them.
    /// `who` made this request; the client may have begun as the same with others.
    fn lacks(
        &self,
        _who: &Who,
        _client: &Arc<ClientConnection>,
        _request: &Message,
    ) -> Option<String> {
        None
    }

    /// Headers of the request that a client begins with, which are kept with it
    /// for whatever stands behind; see [`ClientConnection::carried`].
    fn carries(&self) -> Option<Arc<[HeaderName]>> {
        None
    }

    /// Whether a request of somebody that came through these servers of gateways
    /// would come to one of them again; see [`leads_back`](crate::upstream::leads_back).
    fn leads_back(&self, _who: &Who, _through: &Through) -> bool {
        false
    }
}

type BoxedWork = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Work that a verb led to: mostly none, or one call to a server.
///
/// Awaiting it where the verb came from costs no task and no channel. Dropped
/// before it is done, it goes on by itself: a client that hangs up must not
/// leave a call half made. What must end early is told so by its lane.
#[derive(Default)]
pub struct PendingWork {
    jobs: Vec<BoxedWork>,
    /// The bytes of the request that led to it, until all of it is done.
    charge: Option<Arc<Charge>>,
}

impl PendingWork {
    /// Nothing to wait for.
    pub fn none() -> Self {
        Self::default()
    }

    /// One thing to do.
    pub fn one(job: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { jobs: vec![Box::pin(job)], charge: None }
    }

    /// Both.
    pub fn append(&mut self, mut other: Self) {
        if self.jobs.is_empty() {
            mem::swap(self, &mut other);
        } else if other.charge.is_some() {
            self.jobs.push(Box::pin(other));
        } else {
            self.jobs.append(&mut other.jobs);
        }
    }

    /// The same, keeping `charge` until all of it is done.
    pub(crate) fn holding(mut self, charge: Arc<Charge>) -> Self {
        self.charge = Some(charge).filter(|_| !self.is_done());
        self
    }

    /// Whether all is done.
    pub fn is_done(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Goes on without anybody waiting.
    pub fn detach(self) {
        drop(self);
    }
}

impl Future for PendingWork {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.jobs.retain_mut(|job| job.as_mut().poll(cx).is_pending());
        if !self.jobs.is_empty() {
            return Poll::Pending;
        }
        self.charge = None;
        Poll::Ready(())
    }
}

impl Drop for PendingWork {
    fn drop(&mut self) {
        for job in mem::take(&mut self.jobs) {
            // Without a runtime there is nobody to go on for.
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                let charge = self.charge.clone();
                runtime.spawn(async move {
                    job.await;
                    drop(charge);
                });
            }
        }
    }
}

impl fmt::Debug for PendingWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingWork").field("jobs", &self.jobs.len()).finish_non_exhaustive()
    }
}
