//! What our tests share.

pub mod seeds;
pub mod source;
pub mod tidy;
pub mod wire;
