//! The Model Context Protocol as pure state machines.
//!
//! No I/O, no clock, no randomness: whoever owns a machine tells it what
//! happened and when (`handle_*`), says what our side wants (bare verbs), and
//! then drains what is to be done (`poll_*`). One mutation, then drain.
//!
//! - Text: [`json`], [`jsonrpc`], [`patch`]; framing: [`mod@line`], [`sse`]; [`header`]s.
//! - Facts: [`revision`], [`method`], [`refusal`], [`limits`].
//! - What one revision knows and another does not: [`project`].
//! - The conversation: [`exchange`], and a half for each side, [`server`] and [`client`].
//! - Parts of the halves: [`calls`], [`replay`], [`backoff`].

pub mod backoff;
pub mod calls;
pub mod client;
pub mod exchange;
pub mod header;
pub mod json;
pub mod jsonrpc;
pub mod limits;
pub mod line;
pub mod method;
pub mod patch;
pub mod project;
pub mod refusal;
pub mod replay;
pub mod revision;
pub mod server;
pub mod sse;

#[cfg(test)]
mod shorthand;
