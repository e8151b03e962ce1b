//! What our tests share.

pub mod source;
pub mod tidy;
pub mod wire;
