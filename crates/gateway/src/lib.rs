//! Many MCP servers as one, and the files that name them.
//!
//! [`config`] reads the configuration files that people already have for their
//! clients, and says what is wrong with them, where, and what to write instead.
//! [`plan`] is what they mean for a gateway, [`gateway`] is one that runs, [`policy`]
//! says who may do what, [`search`] finds tools by plain words, and [`watch`] hears
//! when files change.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::path::Path;
//!
//! use switchboard_gateway::config::{Config, Surroundings};
//! use switchboard_net::client::{Client, ClientOptions};
//! use switchboard_net::http::fetch::{Fetch, FetchOptions};
//!
//! let around = Surroundings::new(std::env::vars(), std::env::current_dir()?);
//! let config = Config::read(Path::new(".mcp.json"), &around)?;
//! for problem in &config.problems {
//!     eprintln!("{problem}; {}", problem.instead);
//! }
//! let fetch = Fetch::new(FetchOptions::default())?;
//! for entry in &config.servers {
//!     let server = entry.plan.server(std::env::vars_os().collect(), fetch.clone(), None);
//!     let client = Client::connect(server).await?;
//!     println!("{} has {} tools", entry.plan.name, client.tools().await?.len());
//! }
//! # Ok(())
//! # }
//! ```

#![cfg_attr(not(feature = "console"), expect(dead_code, reason = "the console reads it"))]

pub mod account;
pub mod approval;
pub mod authenticator;
pub mod catalog;
pub mod config;
pub mod connect;
#[cfg(feature = "console")]
pub mod console;
pub mod credential;
pub mod facade;
pub mod fleet;
pub mod gateway;
pub mod glob;
pub mod hidden;
pub mod idp;
pub mod issuer;
pub mod merge;
pub mod metrics;
pub mod monitor;
pub mod plan;
pub mod policy;
pub mod proxy;
#[cfg(feature = "redis")]
pub mod redis_store;
pub mod search;
pub mod span;
pub mod status;
pub mod stderr_logs;
pub mod token;
mod uri;
mod view;
pub mod watch;

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

// What a panic left behind a lock is still consistent here.

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read<T: ?Sized>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T: ?Sized>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
