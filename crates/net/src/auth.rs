//! Signing in to servers that want an access token: runs the machine of
//! [`switchboard_proto::auth`] with sockets, a browser and a store.
//!
//! ```text
//!   upstream ──401──▶ OauthCredential ──▶ Authorizer ──▶ SignIn (pure)
//!                                          │  store: one login for all processes
//!                                          │  fetch: bounded, and only where it may go
//!                                          └─ person: a browser, and a port to come back to
//! ```

pub mod bounded;
pub mod browser;
pub mod callback;
mod credential;
mod fetch;
pub mod jws;
pub mod mcp_remote;
pub mod person;
mod sign_in;
pub mod store;
mod tools;

pub use credential::{OauthCredential, shown_token};
pub use fetch::{AuthFetch, DocumentCache, ReachPolicy};
pub use sign_in::{Account, Authorizer, Discovery, LoginMode, MetadataRead, SignInOptions};
pub use tools::SystemTools;
