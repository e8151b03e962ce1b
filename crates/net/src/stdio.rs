//! stdio: our own streams as a conversation with the client that started us.
//!
//! stdout carries messages and nothing else. Both eras are spoken at once:
//! each message says which one it belongs to, and a client connection of either era stands
//! ready. At the end of stdin, or when told to stop, what is in flight gets a
//! while to finish (STD-5).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use switchboard_proto::client::Sharing;
use switchboard_proto::framing::{self, LineDecoder, LineTooLong};
use switchboard_proto::limits::Limits;
use switchboard_proto::refusal::Refusal;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, stdin, stdout};

use crate::backend::Backend;
use crate::drive::{DEFAULT_GRACE, Either, race};
use crate::pipe::Pipe;
use crate::who::Who;

#[cfg(feature = "client")]
pub mod child;

/// How a client on a pair of streams is served.
#[derive(Clone, Debug)]
#[must_use]
#[non_exhaustive]
pub struct StdioOptions {
    /// Whether other clients share the server with it.
    pub sharing: Sharing,
    /// Bounds of the conversation.
    pub limits: Arc<Limits>,
    /// How long calls in flight go on after the end. What is not answered a moment before
    /// it is over is answered with an error.
    pub grace: Duration,
}

impl Default for StdioOptions {
    fn default() -> Self {
        Self { sharing: Sharing::Alone, limits: Arc::default(), grace: DEFAULT_GRACE }
    }
}

setters! {
    StdioOptions { sharing: Sharing, limits: impl Into<Arc<Limits>>, grace: Duration }
}

/// Serves the client on our own stdin and stdout.
///
/// Returns at the end of stdin, when the client does not read any more, or
/// after `shutdown`.
pub async fn serve(
    backend: Arc<dyn Backend>,
    options: StdioOptions,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    serve_on((stdin(), stdout()), backend, options, shutdown).await
}

/// The same over any pair of byte streams (STD-8).
pub async fn serve_on(
    (input, output): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    backend: Arc<dyn Backend>,
    options: StdioOptions,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let StdioOptions { sharing, limits, grace } = options;
    let pipe = &Pipe::new(&backend, sharing, &limits, &Who::default());
    let mut writing = std::pin::pin!(write(pipe, output));
    let reading = async {
        _ = race(read(pipe, input, &limits), shutdown).await;
        pipe.stop_reading();
        pipe.finish_within(grace).await;
    };
    let written = race(reading, &mut writing).await;
    pipe.end();
    let result = match written {
        // Whoever does not read what is left does not keep us.
        Either::Left(()) => tokio::time::timeout(grace, writing).await.unwrap_or(Ok(())),
        Either::Right(result) => result,
    };
    match result {
        // The client went away without a word: that is how it ends for many.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

async fn read(pipe: &Pipe, mut input: impl AsyncRead + Unpin, limits: &Limits) {
    let mut decoder = LineDecoder::new(limits.message);
    loop {
        let more = matches!(input.read_buf(decoder.buffer()).await, Ok(1..));
        let finish = if more { None } else { decoder.finish() };
        let lines = std::iter::from_fn(|| decoder.next_line());
        let lines: Vec<_> = lines.chain(finish).collect();
        for line in lines {
            let line = line.map_err(|LineTooLong { limit, .. }| Refusal::TooLarge { limit });
            pipe.message_from_client(line, None).detach();
            // A client that does not read its answers is not read from.
            pipe.room().await;
        }
        if !more {
            return;
        }
    }
}

async fn write(pipe: &Pipe, mut output: impl AsyncWrite + Unpin) -> io::Result<()> {
    loop {
        let (messages, over) = pipe.next().await;
        let mut buffer = BytesMut::new();
        for text in &messages {
            framing::encode_line(text, &mut buffer);
        }
        output.write_all(&buffer).await?;
        output.flush().await?;
        if over {
            return Ok(());
        }
    }
}
