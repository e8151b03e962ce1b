//! Signing in to servers: runs the machine of [`switchboard_proto::auth`].

pub mod browser;
pub mod callback;
pub mod person;
pub mod store;
