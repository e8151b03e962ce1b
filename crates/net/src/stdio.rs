//! stdio: our own streams as a conversation with the client that started us.
//!
//! stdout carries messages and nothing else. Both eras are spoken at once:
//! each message says which one it belongs to, and a face of either era stands
//! ready. At the end of stdin, or when told to stop, what is in flight gets a
//! while to finish (STD-5).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use switchboard_proto::exchange::{Carrier, Lane};
use switchboard_proto::jsonrpc::{self, Id, Incoming, Message, Refused};
use switchboard_proto::limits::Limits;
use switchboard_proto::line::{self, Decoder};
use switchboard_proto::patch;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::Era;
use switchboard_proto::server::era::classify;
use switchboard_proto::server::{Frame, Half};
use switchboard_proto::{line::TooLong, method};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::drive::{Either, race};
use crate::face::Face;
use crate::inside::{Inside, Works};
use crate::park::Parking;

pub mod child;

/// How long what is in flight may take once the conversation is to end.
const GRACE: Duration = Duration::from_secs(10);

/// Serves the client on our own stdin and stdout.
///
/// Returns at the end of stdin, when the client does not read any more, or
/// after `shutdown`; in-flight calls get a while to finish.
pub async fn serve(
    inside: Arc<dyn Inside>,
    shared: bool,
    limits: Arc<Limits>,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    serve_on(tokio::io::stdin(), tokio::io::stdout(), inside, shared, limits, shutdown).await
}

/// The same over any pair of byte streams (STD-8).
pub async fn serve_on(
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin,
    inside: Arc<dyn Inside>,
    shared: bool,
    limits: Arc<Limits>,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let new = |era| Face::new(era, Carrier::Pipe, Arc::clone(&inside), &limits, shared);
    let parking = Parking::new(&limits);
    let client = Client { legacy: new(Era::Legacy), modern: new(Era::Modern), parking };
    client.modern.park_in(&client.parking);
    let mut writing = std::pin::pin!(write(&client, output));
    let reading = async {
        _ = race(read(&client, input, &limits), shutdown).await;
        client.hear_no_more();
        _ = tokio::time::timeout(GRACE, client.is_quiet()).await;
    };
    let result = match race(reading, &mut writing).await {
        Either::Left(()) => {
            client.end();
            // Whoever does not read what is left does not keep us.
            tokio::time::timeout(GRACE, writing).await.unwrap_or(Ok(()))
        }
        Either::Right(result) => {
            client.end();
            result
        }
    };
    match result {
        // The client went away without a word: that is how it ends for many.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// The client at the other end, in both eras.
struct Client {
    legacy: Arc<Face>,
    modern: Arc<Face>,
    /// Calls of the modern era that wait for input.
    parking: Arc<Parking>,
}

impl Client {
    fn take(&self, line: Result<Bytes, TooLong>) -> Works {
        let parsed = match line {
            Ok(text) => jsonrpc::parse(text),
            Err(TooLong { limit, .. }) => Err(Refusal::TooLarge { limit }.into()),
        };
        let parsed = parsed.and_then(|incoming| match classify(&incoming, None) {
            Ok(era) => Ok((self.face(era, &incoming), incoming)),
            Err(why) => Err(Refused { id: None, why }),
        });
        match parsed {
            Ok((face, incoming)) => self.hand_over(face, incoming),
            Err(refused) => {
                tracing::warn!("refused a line on stdin: {refused}");
                self.legacy.step(|half| half.handle_refused(Lane::MAIN, &refused)).1
            }
        }
    }

    fn hand_over(&self, face: &Arc<Face>, incoming: Incoming) -> Works {
        if let (Era::Modern, Incoming::One(message)) = (face.era(), &incoming) {
            match self.parking.claim(message, face.principal()) {
                Ok(Some((face, key))) => return face.retry(key, Lane::MAIN, message, None),
                Ok(None) => {}
                Err(why) => {
                    let refused = Refused { id: message.id().cloned(), why };
                    return face.step(|half| half.handle_refused(Lane::MAIN, &refused)).1;
                }
            }
        }
        face.step(|half| half.handle_incoming(Lane::MAIN, incoming, None)).1
    }

    /// Whose message it is. A cancellation carries no envelope: it belongs to
    /// whichever era has the call.
    fn face(&self, era: Era, incoming: &Incoming) -> &Arc<Face> {
        let is_modern = match incoming {
            Incoming::One(message) if message.method() == method::CANCELLED => {
                let id = cancelled_id(message);
                id.is_some_and(|id| self.modern.step(|half| knows(half, &id)).0)
            }
            _ => era == Era::Modern,
        };
        if is_modern { &self.modern } else { &self.legacy }
    }

    /// What is asked from here on is not answered.
    fn hear_no_more(&self) {
        for face in [&self.legacy, &self.modern] {
            face.step(Half::handle_silence).1.detach();
        }
    }

    async fn is_quiet(&self) {
        self.legacy.all_answered().await;
        self.modern.all_answered().await;
    }

    fn end(&self) {
        self.legacy.end();
        self.modern.end();
    }
}

fn cancelled_id(message: &Message) -> Option<Id> {
    let id = patch::get(message.payload()?, &["requestId"])?;
    Id::parse(id).ok().flatten()
}

fn knows(half: &mut Half, id: &Id) -> bool {
    matches!(half, Half::Modern(half) if half.knows(id))
}

async fn read(client: &Client, mut input: impl AsyncRead + Unpin, limits: &Limits) {
    let mut decoder = Decoder::new(limits.message);
    loop {
        let more = matches!(input.read_buf(decoder.buffer()).await, Ok(1..));
        let finish = if more { None } else { decoder.finish() };
        let lines = std::iter::from_fn(|| decoder.next_line());
        let lines: Vec<_> = lines.chain(finish).collect();
        for line in lines {
            client.take(line).detach();
            // A client that does not read its answers is not read from.
            client.legacy.room().await;
            client.modern.room().await;
        }
        if !more {
            return;
        }
    }
}

async fn write(client: &Client, mut output: impl AsyncWrite + Unpin) -> io::Result<()> {
    loop {
        let next = race(client.legacy.next_frame(Lane::MAIN), client.modern.next_frame(Lane::MAIN));
        let (Either::Left(frame) | Either::Right(frame)) = next.await;
        let mut buffer = BytesMut::new();
        let mut over = !put(frame, &mut buffer);
        for face in [&client.legacy, &client.modern] {
            while let Some(frame) = face.try_frame(Lane::MAIN) {
                over |= !put(Some(frame), &mut buffer);
            }
        }
        output.write_all(&buffer).await?;
        output.flush().await?;
        if over {
            return Ok(());
        }
    }
}

/// Writes a frame as a line; false if it is the last.
fn put(frame: Option<Frame>, buffer: &mut BytesMut) -> bool {
    match frame {
        Some(Frame::Message { text, .. } | Frame::Answer { text, .. }) => {
            line::encode(&text, buffer);
            true
        }
        Some(Frame::Accepted | Frame::Begin { .. }) => true,
        Some(Frame::End) | None => false,
    }
}
