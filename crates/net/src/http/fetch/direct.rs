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
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
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
use super::{Fetch, MAX_IDLE, check_target, host_header};
use crate::connection::lock;
use crate::drive::{TaskPart, now};

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
    /// What hyper's two ends of it tell each other concerns nobody else.
    part: TaskPart,
    idle: Weak<IdleConnections>,
}

impl fmt::Debug for DirectConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectConnection").field("server", &self.server).finish_non_exhaustive()
    }
}

impl DirectConnection {
    /// Drives the connection until `step` is ready.
    fn poll_until<T>(
        &mut self,
        cx: &Context<'_>,
        mut step: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let connection = &mut self.connection;
        self.part.poll(cx, |cx| {
            let done = step(cx);
            if done.is_pending() {
                drive(connection, cx);
            }
            done
        })
    }

    /// It is not used any more: the next request may use it.
    fn give_back(mut self: Box<Self>) {
        // Nobody waits for it from here on, and the next user looks in any case.
        self.part.look_again();
        if !self.sender.is_ready() {
            drive(&mut self.connection, &mut Context::from_waker(Waker::noop()));
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

impl Fetch {
    /// Sends what `request` makes to `target`, which is plain HTTP and behind no proxy.
    pub(super) async fn send_directly(
        &self,
        target: &Uri,
        request: &impl Fn() -> Request<Bytes>,
    ) -> Result<Response<FetchBody>, FetchError> {
        let server = target.authority().ok_or(FetchError::BadUrl)?.as_str();
        loop {
            let unused = self.idle.take(server);
            let is_reused = unused.is_some();
            let mut connection = match unused {
                Some(connection) => connection,
                None => Box::pin(self.connect(server, target)).await?,
            };
            let mut sending = pin!(connection.sender.try_send_request(towards(target, request())));
            let sent =
                poll_fn(|cx| connection.poll_until(cx, |cx| sending.as_mut().poll(cx))).await;
            match sent {
                Ok(response) => {
                    return Ok(response.map(|body| {
                        let connection = Some(connection);
                        FetchBody { incoming: Some(body), connection }
                    }));
                }
                Err(mut error) => {
                    let is_unsent = error.take_message().is_some();
                    if !(is_unsent && is_reused) {
                        return Err(lost(&error.into_error(), target));
                    }
                }
            }
        }
    }

    async fn connect(
        &self,
        server: &str,
        target: &Uri,
    ) -> Result<Box<DirectConnection>, FetchError> {
        check_target(target)?;
        let stream = self.connector.clone().call(target.clone()).await;
        let stream = stream.map_err(|error| {
            FetchError::from_connector(error.as_ref(), target, self.options.connect_timeout, false)
        })?;
        let shaken = http1::handshake(stream).await;
        let (sender, connection) = shaken.map_err(|error| lost(&error, target))?;
        Ok(Box::new(DirectConnection {
            server: server.into(),
            sender,
            connection: Some(connection),
            part: TaskPart::new(),
            idle: Arc::downgrade(&self.idle),
        }))
    }
}

/// A request as it is sent on a connection to the server of `target`.
fn towards(target: &Uri, request: Request<Bytes>) -> Request<Full<Bytes>> {
    let mut request = request.map(Full::new);
    *request.uri_mut() = target.path_and_query().cloned().map(Uri::from).unwrap_or_default();
    if !request.headers().contains_key(HOST)
        && let Some(host) = host_header(target)
    {
        request.headers_mut().insert(HOST, host);
    }
    request
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
