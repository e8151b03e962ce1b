//! Legacy clients of a modern server.
