//! Transports for the Model Context Protocol.

pub mod bridge;
pub mod client;
mod drive;
pub mod face;
pub mod http;
pub mod inside;
mod park;
mod pipe;
mod seal;
pub mod server;
pub mod stdio;
pub mod upstream;
