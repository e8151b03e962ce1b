//! Properties of the public API, one file per module.

mod header;
mod line;
mod sse;
