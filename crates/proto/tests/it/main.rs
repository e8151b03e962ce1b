//! The core from outside: properties of its text and framing, its halves under
//! any sequence of events, and server half against client half.

mod cluster;
mod drive;
mod header;
mod line;
mod pair;
mod property;
mod sse;
mod vectors;
