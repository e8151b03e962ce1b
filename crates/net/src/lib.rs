//! Transports for the Model Context Protocol, and what is built on them.
//!
//! - To use a server: [`client`]. To use many, by name: [`roster`].
//! - To be one: [`server`], served by [`http`] or [`stdio`].
//! - To join a client and a server that speak by different transports: [`bridge`].
//! - Where a server is: [`upstream::Server`]. Below them all: [`face`] and [`inside`].
//!
//! ```
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use switchboard_net::roster::{Roster, RosterOptions, State};
//! use switchboard_net::stdio::child::Command;
//! use switchboard_net::upstream::Server;
//!
//! let roster = Roster::new(RosterOptions::default());
//! roster.add("broken", Server::command(Command::new("/no/such/server"), Vec::new()))?;
//! for late in roster.ready().await {
//!     assert_ne!(late.state, State::Ready);
//!     println!("{}: {}", late.name, late.state);
//! }
//! assert!(roster.tools().is_empty());
//! roster.close().await;
//! # Ok(())
//! # }
//! ```

pub mod bridge;
pub mod client;
mod drive;
pub mod face;
pub mod http;
pub mod inside;
mod park;
pub mod roster;
mod seal;
pub mod server;
pub mod stdio;
pub mod upstream;
