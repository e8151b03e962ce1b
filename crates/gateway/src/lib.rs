//! Many MCP servers as one, and the files that name them.
//!
//! [`config`] reads the configuration files that people already have for their
//! clients, and says what is wrong with them, where, and what to write instead.

pub mod config;
