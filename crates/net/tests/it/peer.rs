//! A server to test against, on our own accept loop.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Body, Frame, Incoming};
use switchboard_net::http::listen::{ListenOptions, serve};
use switchboard_testkit::within;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::task::JoinHandle;

pub(crate) type Answer = Response<Either<Full<Bytes>, Stuck>>;

/// A closure as a `tower` service.
#[derive(Clone)]
pub(crate) struct App<F>(pub(crate) F);

impl<F, A> tower_service::Service<Request<Incoming>> for App<F>
where
    F: Fn(Request<Incoming>) -> A,
    A: Future<Output = Answer> + Send + 'static,
{
    type Response = Answer;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let answer = (self.0)(request);
        Box::pin(async { Ok(answer.await) })
    }
}

/// A body that says one thing and then never ends. Dropping it is noticed.
pub(crate) struct Stuck {
    first: Option<Bytes>,
    _on_drop: Option<oneshot::Sender<()>>,
}

impl Body for Stuck {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.first.take().map_or(Poll::Pending, |first| Poll::Ready(Some(Ok(Frame::data(first)))))
    }
}

pub(crate) fn text(body: impl Into<Bytes>) -> Answer {
    Response::new(Either::Left(Full::new(body.into())))
}

pub(crate) fn stuck(on_drop: Option<oneshot::Sender<()>>) -> Answer {
    let first = Some(Bytes::from_static(b"first"));
    Response::new(Either::Right(Stuck { first, _on_drop: on_drop }))
}

pub(crate) async fn read<B: Body<Data = Bytes>>(body: B) -> String
where
    B::Error: std::fmt::Debug,
{
    let bytes = within(body.collect()).await.unwrap().to_bytes();
    String::from_utf8(bytes.into()).unwrap()
}

/// A server under test, and the way to stop it.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) stop: oneshot::Sender<()>,
    pub(crate) task: JoinHandle<()>,
}

impl Running {
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) async fn stopped(self) {
        _ = self.stop.send(());
        within(self.task).await.unwrap();
    }
}

pub(crate) async fn start<F, A>(options: ListenOptions, app: F) -> Running
where
    F: Fn(Request<Incoming>) -> A + Clone + Send + 'static,
    A: Future<Output = Answer> + Send + 'static,
{
    start_on(TcpListener::bind("127.0.0.1:0").await.unwrap(), options, app)
}

/// The same on a port that is bound.
pub(crate) fn start_on<F, A>(listener: TcpListener, options: ListenOptions, app: F) -> Running
where
    F: Fn(Request<Incoming>) -> A + Clone + Send + 'static,
    A: Future<Output = Answer> + Send + 'static,
{
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let shutdown = async move { _ = stopped.await };
    let task = tokio::spawn(serve(listener, App(app), options, shutdown));
    Running { address, stop, task }
}

/// Waits until the work for a peer that has closed its socket is dropped. On the wire
/// that is a peer which sends nothing more and reads on. Nothing can be written to find
/// out, so it is waited for for a while, here by a clock that runs faster.
pub(crate) async fn dropped_in_time(mut dropped: oneshot::Receiver<()>) {
    tokio::time::pause();
    for _ in 0..10_000 {
        if dropped.try_recv() == Err(TryRecvError::Closed) {
            break;
        }
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    tokio::time::resume();
    assert!(dropped.is_terminated(), "the work goes on");
}
