//! The TLS handshake with a client, before a listener serves it.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::peer::PeerStream;
use super::slots::ConnectionSlot;
use super::{ListenPhase, reached};
use crate::drive::{Either, race};

/// How long a TLS handshake may take: some round trips, and a slow machine.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// Bytes of a client of plain HTTP that are read on a port that speaks TLS.
const MOST_UNREAD: u64 = 64 << 10;

/// What it is told there.
const PLAIN_REFUSAL: &[u8] = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\
    content-type: text/plain\r\ncontent-length: 44\r\n\r\n\
    this port speaks HTTPS: write https:// here\n";

/// The TLS handshake with a client. It has the time that the head of a request has, and counts
/// as a connection.
pub(super) async fn greet(
    acceptor: TlsAcceptor,
    mut stream: TcpStream,
    slot: ConnectionSlot,
    patience: Duration,
    mut phase: watch::Receiver<ListenPhase>,
) -> Option<PeerStream> {
    let patience = patience.min(HANDSHAKE_TIME);
    let greeting = tokio::time::timeout(patience, async {
        let mut first = [0];
        // What a client of plain HTTP sends first is a letter.
        if stream.peek(&mut first).await? > 0 && first[0].is_ascii_alphabetic() {
            stream.write_all(PLAIN_REFUSAL).await?;
            stream.shutdown().await?;
            // A connection that is closed with bytes unread is reset, and the answer is lost.
            tokio::io::copy(&mut stream.take(MOST_UNREAD), &mut tokio::io::sink()).await?;
            return Ok(None);
        }
        acceptor.accept(stream).await.map(Some)
    });
    let greeted = match race(greeting, reached(&mut phase, ListenPhase::Draining)).await {
        Either::Left(Ok(greeted)) => greeted,
        Either::Left(Err(_)) => {
            tracing::debug!("peer did not finish the TLS handshake in time");
            return None;
        }
        Either::Right(()) => return None,
    };
    let greeted = greeted.inspect_err(|error| tracing::debug!(%error, "TLS handshake failed"));
    greeted.ok().flatten().map(|stream| PeerStream::secure(stream, slot))
}
