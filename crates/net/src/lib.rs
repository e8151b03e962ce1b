//! Transports for the Model Context Protocol.

pub mod http;
pub mod stdio;
