//! MCP servers, clients and bridges, over stdio, Streamable HTTP and HTTP+SSE,
//! for every revision of the Model Context Protocol.
//!
//! # Serve a tool
//!
//! A [`server::Server`] is made of tools, prompts and resources. Arguments are
//! a type of yours; their schema is made from it, and what does not fit it
//! never reaches you:
//!
//! ```
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use switchboard_net::server::{BuildError, Context, Server, Tool};
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Add {
//!     a: i64,
//!     b: i64,
//! }
//!
//! fn adder() -> Result<std::sync::Arc<Server>, BuildError> {
//!     let add = Tool::new("add")
//!         .description("Adds two numbers")
//!         .input::<Add>()
//!         .run(async |args: Add, _: Context| (args.a + args.b).to_string());
//!     Server::builder("adder", "1.0.0").tool(add).build()
//! }
//! # adder().unwrap();
//! ```
//!
//! The same server speaks with old and new clients, on any transport:
//! [`stdio::serve`] is for the client that started us, and a [`Site`] for all
//! that come by HTTP. [`listen::serve`] is the accept loop around it; the site
//! is a `tower` service as well, and mounts in a router of your own.
//!
//! # Connect a client
//!
//! A [`client::Client`] finds out which era a server speaks, and calls it. An
//! [`upstream::ServerTarget`] says where it is: a command, or a URL.
//!
//! ```
//! # use switchboard_net::server::{Server, Tool};
//! use http::HeaderMap;
//! use serde_json::json;
//! use switchboard_net::client::{Client, ClientOptions};
//! use switchboard_net::http::fetch::{Fetch, FetchOptions};
//! use switchboard_net::http::listen::{self, ListenOptions};
//! use switchboard_net::http::site::{Site, SiteOptions};
//! use switchboard_net::upstream::{ServerTarget, Strategy};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let add = Tool::new("add").run(async |args: serde_json::Value, _| {
//! #     (args["a"].as_i64().unwrap() + args["b"].as_i64().unwrap()).to_string()
//! # });
//! # let adder = || Server::builder("adder", "1.0.0").tool(add).build();
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! let url = format!("http://{}/mcp", listener.local_addr()?);
//! let site = Site::new(adder()?, SiteOptions::default());
//! tokio::spawn(listen::serve(listener, site, ListenOptions::default(), std::future::pending()));
//!
//! let fetch = Fetch::new(FetchOptions::default())?;
//! let server = ServerTarget::url(url.parse()?, Strategy::default(), HeaderMap::new(), fetch);
//! let client = Client::connect(server, ClientOptions::default()).await?;
//! let result = client.call_tool("add", json!({"a": 2, "b": 3})).await?;
//! assert_eq!(result["content"][0]["text"], "5");
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Keep many
//!
//! A [`roster::Roster`] has servers by name, connects them side by side, heals
//! what breaks, and offers together what they offer. One that is slow or broken
//! holds up nobody:
//!
//! ```
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use switchboard_net::roster::{Roster, RosterOptions, ServerPhase};
//! use switchboard_net::stdio::child::Command;
//! use switchboard_net::upstream::ServerTarget;
//!
//! let roster = Roster::new(RosterOptions::default());
//! roster.add("broken", ServerTarget::command(Command::new("/no/such/server"), Vec::new()))?;
//! for late in roster.ready().await {
//!     assert_ne!(late.state.phase, ServerPhase::Ready);
//!     println!("{}: {}", late.name, late.state);
//! }
//! assert!(roster.tools().is_empty());
//! roster.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Join the two
//!
//! A [`bridge::Bridge`] stands where a server of yours would, and passes all
//! that it hears to a server somewhere else. So a command becomes a URL, and a
//! URL a command:
//!
//! ```
//! use std::sync::Arc;
//! use switchboard_net::bridge::{Bridge, Children};
//! use switchboard_net::http::site::{Site, SiteOptions};
//! use switchboard_net::stdio::child::Command;
//! use switchboard_net::upstream::ServerTarget;
//!
//! let command = Command::parse("npx -y @modelcontextprotocol/server-everything")?;
//! let server = ServerTarget::command(command, std::env::vars_os().collect());
//! let bridge = Bridge::new(server, Children::PerSession, Arc::default());
//! let site = Site::new(bridge, SiteOptions::default());
//! // `listen::serve(listener, site, ..)`, as above; the command runs from the first call on.
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it works
//!
//! A [`backend::Backend`] answers clients: a server of yours, or a bridge. A
//! [`connection::ClientConnection`] is one client, a [`call::Call`] is one request of it,
//! and an [`upstream::Upstream`] is a connection to one server. They speak in the verbs of
//! [`switchboard_proto::exchange`]. The halves of [`switchboard_proto`] translate these
//! verbs into messages of either era. If the parts above are not enough, write a
//! `Backend` of your own.
//!
//! Nothing here prints, reads the environment or ends the process. All that can
//! grow has a bound, most of them in [`switchboard_proto::limits`].
//!
//! [`Site`]: http::site::Site
//! [`listen::serve`]: http::listen::serve

pub mod access;
pub mod auth;
pub mod backend;
pub mod bridge;
pub mod call;
pub mod client;
pub mod connection;
mod drive;
pub mod http;
pub mod parked_calls;
mod pipe;
#[doc(hidden)]
pub mod platform;
pub mod roster;
mod seal;
pub mod secret;
pub mod server;
pub mod stdio;
pub mod upstream;

pub use drive::{Either, OwnedTask, now, race};

/// The recipes' Rust is compiled and run with the examples above.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/recipes.md")]
struct Recipes;
