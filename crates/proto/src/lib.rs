//! The Model Context Protocol as pure state machines.

pub mod backoff;
pub mod calls;
pub mod header;
pub mod json;
pub mod jsonrpc;
pub mod limits;
pub mod line;
pub mod patch;
pub mod refusal;
pub mod replay;
pub mod revision;
pub mod sse;
