//! Calls seen from beginning to end.
