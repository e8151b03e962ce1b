//! OAuth, as far as it is pure: what came and when is handed in.

pub mod claims;
