//! OAuth, as far as it takes cryptography, sockets or files.

pub mod bounded;
pub mod jws;
