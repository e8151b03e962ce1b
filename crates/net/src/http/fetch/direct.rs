//! Connections for plain HTTP/1.1, driven by whoever uses them.
//!
//! A client of hyper's has a task for each connection: a request goes there, and its answer
//! comes back piece by piece. Here the future of a request polls the connection, and then
//! the body of the answer does. So a call stays in the task that it came by.
//!
//! ```text
//!   take ──▶ the request polls it ──▶ the body polls it ──▶ dropped: back, if it can be used again
//!     └── none: connect                  └── the call is dropped: the connection is closed
//! ```
//!
//! Nothing polls an unused connection. Whether the server has closed it shows when the next
//! request is sent: hyper then gives the request back, and it takes another connection.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use http::header::HOST;
use http::{Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, Connection, SendRequest};
use switchboard_proto::Table;
use switchboard_proto::auth::origin_of;
use tokio::runtime::Handle;
use tower_service::Service;

use super::connect::Connector;
use super::fetch_error::{Cause, FetchError};
use super::{Fetch, MAX_IDLE, host_header};
use crate::connection::{lock, now};

type PlainStream = <Connector as Service<Uri>>::Response;

/// A connection that nobody uses, and since when.
type IdleConnection = (Instant, Box<DirectConnection>);

/// The connections that nobody uses at present, by server.
#[derive(Debug)]
pub(super) struct IdleConnections {
    by_server: Mutex<Table<Arc<str>, Vec<IdleConnection>>>,
    timeout: Duration,
}

impl IdleConnections {
    pub(super) fn new(timeout: Duration) -> Arc<Self> {
        Arc::new(Self { by_server: Mutex::default(), timeout })
    }

    /// The one that was used last.
    fn take(&self, server: &str) -> Option<Box<DirectConnection>> {
        let (since, connection) = lock(&self.by_server).get_mut(server)?.pop()?;
        (since + self.timeout > now()).then_some(connection)
    }

    fn put(self: Arc<Self>, connection: Box<DirectConnection>) {
        let mut by_server = lock(&self.by_server);
        if by_server.is_empty() {
            // Without a runtime no request could use it.
            let Ok(runtime) = Handle::try_current() else { return };
            runtime.spawn(close_unused(Arc::downgrade(&self), self.timeout));
        }
        let unused = by_server.entry(Arc::clone(&connection.server)).or_default();
        if unused.len() < MAX_IDLE {
            unused.push((now(), connection));
        }
    }
}

/// Closes what is unused for too long, until nothing is left.
async fn close_unused(idle: Weak<IdleConnections>, timeout: Duration) {
    loop {
        tokio::time::sleep(timeout).await;
        let Some(idle) = idle.upgrade() else { return };
        let mut by_server = lock(&idle.by_server);
        by_server.retain(|_, unused| {
            unused.retain(|(since, _)| *since + timeout > now());
            !unused.is_empty()
        });
        if by_server.is_empty() {
            return;
        }
    }
}

/// A connection to a server.
struct DirectConnection {
    server: Arc<str>,
    sender: SendRequest<Full<Bytes>>,
    /// None when it is over: what waits for it hears of that when it is dropped.
    connection: Option<Connection<PlainStream, Full<Bytes>>>,
    outer: Arc<OuterWaker>,
    /// The same.
    waker: Waker,
    idle: Weak<IdleConnections>,
}

impl fmt::Debug for DirectConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectConnection").field("server", &self.server).finish_non_exhaustive()
    }
}

/// Steps that one poll makes at most: tokio tells a task that runs for long to pause, by a
/// wake that comes at once.
const MOST_STEPS: usize = 8;

impl DirectConnection {
    /// Drives the connection until `step` is ready.
    fn poll_until<T>(
        &mut self,
        cx: &Context<'_>,
        mut step: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.outer.task.register(cx.waker());
        if self.outer.state.load(Ordering::SeqCst) == WAITING {
            // The task was woken for another reason.
            return Poll::Pending;
        }
        for _ in 0..MOST_STEPS {
            self.outer.state.store(POLLED, Ordering::SeqCst);
            let mut inner = Context::from_waker(&self.waker);
            let done = step(&mut inner);
            if done.is_ready() {
                return done;
            }
            drive(&mut self.connection, &mut inner);
            if self.outer.is_left_alone() {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// It is not used any more: the next request may use it.
    fn give_back(mut self: Box<Self>) {
        // Nobody waits for it from here on, and the next user looks in any case.
        self.outer.state.store(POLLED, Ordering::SeqCst);
        if !self.sender.is_ready() {
            drive(&mut self.connection, &mut Context::from_waker(&self.waker));
        }
        if let Some(idle) = self.idle.upgrade().filter(|_| self.sender.is_ready()) {
            idle.put(self);
        }
    }
}

/// Polls a connection, and drops it when it is over.
fn drive(connection: &mut Option<Connection<PlainStream, Full<Bytes>>>, cx: &mut Context<'_>) {
    connection.take_if(|connection| Pin::new(connection).poll(cx).is_ready());
}

/// Wakes the task that uses a connection, unless that polls it: what hyper's two ends of a
/// connection tell each other concerns nobody else.
#[derive(Default)]
struct OuterWaker {
    task: AtomicWaker,
    state: AtomicU8,
}

/// A poll is going on, or is to come.
const POLLED: u8 = 0;
/// Nothing has happened since the last poll: a wake goes to the task.
const WAITING: u8 = 1;
/// Something has happened since.
const WOKEN: u8 = 2;

impl OuterWaker {
    /// Whether nothing has happened since the poll began: from here on the task is woken.
    fn is_left_alone(&self) -> bool {
        let left = self.state.compare_exchange(POLLED, WAITING, Ordering::SeqCst, Ordering::SeqCst);
        left.is_ok()
    }
}

impl Wake for OuterWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, Ordering::SeqCst) == WAITING {
            self.task.wake();
        }
    }
}

impl Fetch {
    /// Sends a request to `target`, which is plain HTTP and behind no proxy.
    pub(super) async fn send_directly(
        &self,
        request: Request<Bytes>,
        target: &Uri,
    ) -> Result<Response<FetchBody>, FetchError> {
        let mut request = request.map(Full::new);
        *request.uri_mut() = target.path_and_query().cloned().map(Uri::from).unwrap_or_default();
        if !request.headers().contains_key(HOST)
            && let Some(host) = host_header(target)
        {
            request.headers_mut().insert(HOST, host);
        }
        loop {
            let server = target.authority().ok_or(FetchError::BadUrl)?.as_str();
            let unused = self.idle.take(server);
            let is_reused = unused.is_some();
            let mut connection = match unused {
                Some(connection) => connection,
                None => Box::pin(self.connect(server, target)).await?,
            };
            let mut sending = pin!(connection.sender.try_send_request(request));
            let sent =
                poll_fn(|cx| connection.poll_until(cx, |cx| sending.as_mut().poll(cx))).await;
            match sent {
                Ok(response) => {
                    return Ok(response.map(|body| {
                        let connection = Some(connection);
                        FetchBody { incoming: Some(body), connection }
                    }));
                }
                Err(mut error) => match error.take_message().filter(|_| is_reused) {
                    Some(unsent) => request = unsent,
                    None => return Err(lost(&error.into_error(), target)),
                },
            }
        }
    }

    async fn connect(
        &self,
        server: &str,
        target: &Uri,
    ) -> Result<Box<DirectConnection>, FetchError> {
        let stream = self.connector.clone().call(target.clone()).await;
        let stream = stream.map_err(|error| {
            FetchError::from_connector(error.as_ref(), target, self.options.connect_timeout)
        })?;
        let shaken = http1::handshake(stream).await;
        let (sender, connection) = shaken.map_err(|error| lost(&error, target))?;
        let outer = Arc::new(OuterWaker::default());
        Ok(Box::new(DirectConnection {
            server: server.into(),
            sender,
            connection: Some(connection),
            waker: Waker::from(Arc::clone(&outer)),
            outer,
            idle: Arc::downgrade(&self.idle),
        }))
    }
}

fn lost(error: &hyper::Error, target: &Uri) -> FetchError {
    FetchError::Lost { origin: origin_of(target), source: Cause::of(error) }
}

/// The body of an answer. Dropped before its end, it takes the request off the wire.
#[derive(Debug)]
pub struct FetchBody {
    /// None when it is dropped: the connection is looked at after that.
    incoming: Option<Incoming>,
    /// What has to be polled for it, if no task does.
    connection: Option<Box<DirectConnection>>,
}

impl From<Incoming> for FetchBody {
    fn from(incoming: Incoming) -> Self {
        Self { incoming: Some(incoming), connection: None }
    }
}

impl Body for FetchBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Self { incoming: Some(incoming), connection } = &mut *self else {
            return Poll::Ready(None);
        };
        match connection {
            Some(connection) => {
                connection.poll_until(cx, |cx| Pin::new(&mut *incoming).poll_frame(cx))
            }
            None => Pin::new(incoming).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}

impl Drop for FetchBody {
    fn drop(&mut self) {
        self.incoming = None;
        if let Some(connection) = self.connection.take() {
            connection.give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct CountingWaker(AtomicU8);

    impl Wake for CountingWaker {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_task_is_woken_once_and_only_for_what_happens_after_its_poll() {
        let task = Arc::new(CountingWaker(AtomicU8::new(0)));
        let outer = Arc::new(OuterWaker::default());
        let woken = || task.0.load(Ordering::SeqCst);
        outer.task.register(&Waker::from(Arc::clone(&task)));
        outer.wake_by_ref();
        assert!(!outer.is_left_alone(), "the poller has to look again");
        outer.state.store(POLLED, Ordering::SeqCst);
        assert!(outer.is_left_alone());
        assert_eq!(woken(), 0);
        outer.wake_by_ref();
        outer.wake_by_ref();
        assert_eq!(woken(), 1);
        assert!(!outer.is_left_alone(), "it is polled again");
    }
}
