//! The Model Context Protocol as pure state machines.
//!
//! No I/O, no clock, no randomness. The owner of a machine tells it what happened and
//! when (`handle_*`), says what our side wants (bare verbs), and then drains what is to
//! be done (`poll_*`). One mutation, then drain.
//!
//! Most people want `switchboard-net`, which has the sockets and the processes
//! around this. Here is what it does with one line from a client on stdio:
//!
//! ```
//! use switchboard_proto::exchange::{Carrier, ClientEvent, Lane};
//! use switchboard_proto::jsonrpc::{Incoming, Message, parse};
//! use switchboard_proto::limits::Limits;
//! use switchboard_proto::framing::LineDecoder;
//! use switchboard_proto::server::{Frame, modern::ModernServerHalf};
//!
//! let limits = Limits::default();
//! let mut lines = LineDecoder::new(limits.message);
//! let mut half = ModernServerHalf::new(Carrier::Pipe, &limits);
//!
//! // Bytes arrive, and are a message.
//! lines.push(br#"{"jsonrpc":"2.0","id":"a","method":"tools/list","params":{"_meta":{"#);
//! lines.push(br#""io.modelcontextprotocol/protocolVersion":"2026-07-28","#);
//! lines.push(br#""io.modelcontextprotocol/clientCapabilities":{}}}}"#);
//! lines.push(b"\n");
//! let line = lines.next_line().expect("a whole line").expect("a short one");
//! let Ok(Incoming::One(message)) = parse(line) else { panic!("no message") };
//!
//! // The half says what the client wants, free of its era.
//! half.handle_message(Lane::MAIN, message, None);
//! let Some(ClientEvent::Open { exchange, request, .. }) = half.poll_to_server() else { panic!("no call") };
//! assert_eq!(request.method(), "tools/list");
//!
//! // The server answers, and the half says what goes where, under the client's own id.
//! half.finish(exchange, &Message::result(&0.into(), br#"{"tools":[]}"#));
//! let Some((lane, Frame::Message { text, .. })) = half.poll_transmit() else { panic!("no answer") };
//! assert_eq!(lane, Lane::MAIN);
//! assert_eq!(&text[..], br#"{"jsonrpc":"2.0","id":"a","result":{"tools":[]}}"#);
//! ```
//!
//! # Where things are
//!
//! - Text: [`json`], [`jsonrpc`], [`patch`]; [`framing`]; [`header`]s, [`moment`]s.
//! - What messages say, as Rust types: [`types`].
//! - Facts: [`revision`], [`method`], [`refusal`], [`failure`], [`limits`].
//! - What one revision knows and another does not: [`project`]; which trace a call is part of: [`trace`].
//! - The conversation: [`exchange`], and a half for each side, [`server`] and [`client`].
//! - Signing in: [`auth`]. Several replicas as one gateway: [`cluster`].
//! - Parts of the halves: [`replay`], [`backoff`].

pub mod auth;
pub mod backoff;
pub mod client;
pub mod cluster;
pub mod exchange;
pub mod failure;
pub mod framing;
pub mod header;
pub mod json;
pub mod jsonrpc;
pub mod limits;
pub mod method;
pub mod moment;
pub mod patch;
pub mod pattern;
pub mod project;
pub mod refusal;
pub mod replay;
pub mod revision;
pub mod server;
pub mod trace;
pub mod types;
mod watch;

/// A hash map for the tables that every call passes. Its hash is a tenth of the work of
/// the standard one, and seeded at random; its keys are ours, or of one connection alone.
pub type Table<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;

#[cfg(test)]
mod tests;
