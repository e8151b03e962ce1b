//! Bytes of messages that have not ended, charged to the budget for requests.
//!
//! A message on a `WebSocket` may come in many frames, and a frame in many pieces. All
//! of them are kept until the last one is there, so they are charged as they are read.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use switchboard_proto::refusal::Refusal;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::face::lock;
use crate::http::budget::{BodyBudget, Charge, charged};
use crate::who::Who;

/// Counts what one socket has read since its last whole message.
#[derive(Debug)]
pub(super) struct Meter {
    budget: Arc<BodyBudget>,
    who: Who,
    unfinished: Mutex<Unfinished>,
}

#[derive(Debug)]
struct Unfinished {
    charge: Charge,
    bytes: usize,
    is_refused: bool,
}

impl Meter {
    pub(super) fn new(budget: &Arc<BodyBudget>, who: &Who) -> Arc<Self> {
        let unfinished = Unfinished { charge: budget.charge(who), bytes: 0, is_refused: false };
        let (budget, who) = (Arc::clone(budget), who.clone());
        Arc::new(Self { budget, who, unfinished: Mutex::new(unfinished) })
    }

    /// A message has ended: what it holds is charged for as long as it lives.
    pub(super) fn finish(&self, text: Bytes) -> Result<(Bytes, Arc<Charge>), Refusal> {
        let mut unfinished = lock(&self.unfinished);
        unfinished.charge = self.budget.charge(&self.who);
        unfinished.bytes = 0;
        drop(unfinished);
        let mut charge = self.budget.charge(&self.who);
        charge.grow_to(text.len())?;
        let charge = Arc::new(charge);
        Ok((charged(text, &charge), charge))
    }

    /// A control frame with so much in it is no part of a message.
    pub(super) fn forgive(&self, payload: usize) {
        let mut unfinished = lock(&self.unfinished);
        // Its head and its mask have six bytes.
        unfinished.bytes = unfinished.bytes.saturating_sub(payload + 6);
    }

    /// Whether there was no room for what came.
    pub(super) fn is_refused(&self) -> bool {
        lock(&self.unfinished).is_refused
    }

    fn add(&self, bytes: usize) -> Result<(), Refusal> {
        let mut unfinished = lock(&self.unfinished);
        unfinished.bytes += bytes;
        let all = unfinished.bytes;
        let charged = unfinished.charge.grow_to(all);
        unfinished.is_refused = charged.is_err();
        charged
    }
}

/// A connection whose bytes are counted as they are read. Once they are refused,
/// further ones are read and dropped: a peer that still sends would not hear why.
pub(super) struct Metered<T> {
    stream: T,
    meter: Arc<Meter>,
}

impl<T> Metered<T> {
    pub(super) fn new(stream: T, meter: &Arc<Meter>) -> Self {
        Self { stream, meter: Arc::clone(meter) }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Metered<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let is_refused = self.meter.is_refused();
        loop {
            ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
            let read = buffer.filled().len() - before;
            if read == 0 {
                return Poll::Ready(Ok(()));
            }
            if !is_refused {
                return Poll::Ready(self.meter.add(read).map_err(io::Error::other));
            }
            buffer.set_filled(before);
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Metered<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
