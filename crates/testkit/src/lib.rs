//! What our tests share.
