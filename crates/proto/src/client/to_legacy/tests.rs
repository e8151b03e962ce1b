//! Modern clients of a legacy server.
