//! MCP over standard streams: one message a line.
//!
//! [`child`] starts somebody else's server and speaks to it through its
//! stdin and stdout.

pub mod child;
