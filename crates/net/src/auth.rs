//! OAuth: signing in to servers, and keeping what came of it.

pub mod mcp_remote;
pub mod store;
