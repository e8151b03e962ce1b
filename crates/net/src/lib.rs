//! Transports for the Model Context Protocol.

pub mod http;
