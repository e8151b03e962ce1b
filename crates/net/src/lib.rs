//! Transports for the Model Context Protocol.

pub mod bridge;
mod drive;
pub mod face;
pub mod http;
pub mod inside;
pub mod stdio;
pub mod upstream;
