//! MCP servers, clients and bridges, over stdio, Streamable HTTP and HTTP+SSE,
//! for every revision of the Model Context Protocol.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use switchboard_net::client::Client;
//! use switchboard_net::server::{Server, Tool};
//!
//! // A client, of a server at a URL or of a command:
//! let client = Client::connect("https://example.com/mcp").await?;
//! let client = Client::spawn("npx -y @modelcontextprotocol/server-everything").await?;
//! println!("{}", client.call_tool("echo", serde_json::json!({"message": "hi"})).await?);
//!
//! // A server, for the client that started it or for all that come:
//! let hello = Tool::new("hello").run(async |_: serde_json::Value, _| "Hello!");
//! let server = Server::builder("greeter", "1.0.0").tool(hello).build()?;
//! server.serve_stdio().await?;
//! server.serve_http("127.0.0.1:8080").await?;
//! # Ok(())
//! # }
//! ```
//!
//! | to | begin with | and for more |
//! |---|---|---|
//! | call a server | [`Client::connect`], [`Client::spawn`] | [`Client::builder`], [`upstream`] |
//! | call a server with types | [`Client::typed`](client::Client::typed) | [`types`] |
//! | offer tools, prompts, resources | [`Server::builder`] | [`server`] |
//! | serve one client on stdio | [`Server::serve_stdio`](server::Server::serve_stdio) | [`stdio`] |
//! | serve many clients by HTTP | [`serve_http`] | [`http::site`], [`http::listen`] |
//! | say who may come | [`access::Guard`], [`access::ApiKey`] | [`access`] |
//! | use many servers as one | [`roster::Roster`] | [`roster`] |
//! | pass everything on | [`bridge::Bridge`] | [`bridge`], [`backend`] |
//! | sign in to a server | [`auth::OauthCredential`] | [`auth`] |
//!
//! # Serve a tool
//!
//! A [`Server`] is made of tools, prompts and resources. Arguments are
//! a type of yours; their schema is made from it, and what does not fit it
//! never reaches you:
//!
//! ```no_run
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use switchboard_net::server::{Context, Server, Tool};
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Add {
//!     a: i64,
//!     b: i64,
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let add = Tool::new("add")
//!         .description("Adds two numbers")
//!         .input::<Add>()
//!         .run(async |args: Add, _: Context| (args.a + args.b).to_string());
//!     let server = Server::builder("adder", "1.0.0").tool(add).build()?;
//!     Ok(server.serve_stdio().await?)
//! }
//! ```
//!
//! The same server speaks with old and new clients, on any transport. [`serve_http`] listens at an
//! address. A [`Site`] says more: who may come, at which paths, with which bounds. It is a `tower`
//! service, and mounts in a router of your own.
//!
//! # Connect a client
//!
//! A [`Client`] finds out which era a server speaks, and calls it. [`Client::builder`] sets time
//! limits and answers the server's questions:
//!
//! ```
//! # use switchboard_net::server::{Server, Tool};
//! # use switchboard_net::http::listen::ListenOptions;
//! # use switchboard_net::http::site::{Site, SiteOptions};
//! use std::time::Duration;
//! use serde_json::json;
//! use switchboard_net::client::Client;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let add = Tool::new("add").run(async |args: serde_json::Value, _| {
//! #     (args["a"].as_i64().unwrap() + args["b"].as_i64().unwrap()).to_string()
//! # });
//! # let server = Server::builder("adder", "1.0.0").tool(add).build()?;
//! # let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! # let url = format!("http://{}/mcp", listener.local_addr()?);
//! # let site = Site::new(server, SiteOptions::default());
//! # tokio::spawn(site.serve(listener, ListenOptions::default(), std::future::pending()));
//! let client = Client::builder()
//!     .timeout(Duration::from_secs(5))
//!     .on_elicitation(async |_| Ok(json!({"action": "decline"})))
//!     .connect(url)
//!     .await?;
//! let result = client.call_tool("add", json!({"a": 2, "b": 3})).await?;
//! assert_eq!(result["content"][0]["text"], "5");
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! A [`ServerTarget`] is a server about which there is more to say: headers, a proxy, a
//! [`Credential`](upstream::Credential) that signs in, which transport to try first.
//!
//! # Speak in types
//!
//! Results are JSON (`serde_json::Value`): what a server says reaches you as it is, whatever
//! revision it speaks. [`types`] has Rust types for all of it, which keep what they do not
//! know. [`Client::typed`](client::Client::typed) has the methods of a client with typed
//! results, and [`Client::call_tool_as`](client::Client::call_tool_as) reads a result as a type
//! of yours. In a tool, [`Context::typed`](server::Context::typed) asks the client with types:
//!
//! ```
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//! use serde_json::{Value, json};
//! use switchboard_net::client::{CallError, Client};
//! use switchboard_net::server::{Context, Elicited, Error, Tool, ToolResult};
//! use switchboard_net::types::ElicitResult;
//!
//! /// The form that a person fills in.
//! #[derive(Deserialize, JsonSchema)]
//! struct Order {
//!     /// How many pizzas?
//!     pizzas: u8,
//! }
//!
//! #[derive(Deserialize, JsonSchema, Serialize)]
//! struct Bill {
//!     euros: u32,
//! }
//!
//! // At the server:
//! let order = Tool::new("order").output::<Bill>().run(async |_: Value, cx: Context| {
//!     Ok::<_, Error>(match cx.typed().elicit::<Order>("Your order, please").await? {
//!         Elicited::Accept(order) => ToolResult::structured(Bill { euros: 9 * u32::from(order.pizzas) }),
//!         Elicited::Decline | Elicited::Cancel => ToolResult::error("nothing was ordered"),
//!     })
//! });
//!
//! // At the client:
//! let options = Client::builder()
//!     .answer_elicitation(async |form| Ok(ElicitResult::accept(json!({"pizzas": 2}))?));
//! async fn hungry(client: &Client) -> Result<u32, CallError> {
//!     let bill: Bill = client.call_tool_as("order", json!({})).await?;
//!     Ok(bill.euros)
//! }
//! ```
//!
//! # Stand around calls
//!
//! A [`server::Middleware`] stands around the calls of all tools of a server: to log, to count,
//! to refuse. Its page has an example of a log and one of permissions.
//!
//! # Keep many
//!
//! A [`Roster`](roster::Roster) has servers by name, connects them side by side, heals
//! what breaks, and offers together what they offer. One that is slow or broken
//! holds up nobody:
//!
//! ```
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use switchboard_net::roster::{Roster, RosterOptions, ServerPhase};
//! use switchboard_net::stdio::child::Command;
//! use switchboard_net::upstream::IntoTarget;
//!
//! let roster = Roster::new(RosterOptions::default());
//! roster.add("broken", Command::new("/no/such/server").into_target()?)?;
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
//! use switchboard_net::upstream::IntoTarget;
//!
//! let command = Command::parse("npx -y @modelcontextprotocol/server-everything")?;
//! let bridge = Bridge::new(command.into_target()?, Children::PerSession, Arc::default());
//! let site = Site::new(bridge, SiteOptions::default());
//! // `site.serve(listener, ..)`; the command runs from the first call on.
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! All are on by default. A tool server on stdio needs `default-features = false, features =
//! ["server", "schema"]`, and compiles far fewer crates.
//!
//! | feature | brings |
//! |---|---|
//! | `server` | [`server`], and [`stdio`] to serve it |
//! | `schema` | schemas made from types: [`input`](server::ToolDraft::input), [`output`](server::ToolDraft::output), [`Context::typed`](server::Context::typed) |
//! | `validate` | arguments, results and answers are checked against their schemas; without it serde alone says what fits |
//! | `http` | [`http`]: sites and listeners; [`access`] |
//! | `client` | [`client`], [`roster`], [`bridge`], [`auth`], and children; includes `http` |
//! | `tls` | https, for clients and servers: [`http::tls`], and [`ListenOptions::tls`](http::listen::ListenOptions::tls); includes `http` |
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
//! Nothing here prints or ends the process. The environment is read where a [`Command`] is made
//! a server without one ([`Client::spawn`], [`IntoTarget`]), and nowhere else. All that can
//! grow has a bound, most of them in [`proto::limits`]. Types of other crates that stand in
//! signatures are in [`reexports`].
//!
//! [`Client`]: client::Client
//! [`Client::builder`]: client::Client::builder
//! [`Client::connect`]: client::Client::connect
//! [`Client::spawn`]: client::Client::spawn
//! [`Command`]: stdio::child::Command
//! [`IntoTarget`]: upstream::IntoTarget
//! [`Server`]: server::Server
//! [`Server::builder`]: server::Server::builder
//! [`ServerTarget`]: upstream::ServerTarget
//! [`Site`]: http::site::Site
//! [`serve_http`]: server::Server::serve_http

#![cfg_attr(
    not(all(feature = "client", feature = "server", feature = "tls")),
    allow(dead_code, unused_imports, reason = "each part has uses that only other parts have")
)]

#[macro_use]
mod setters;

#[cfg(feature = "http")]
pub mod access;
#[cfg(feature = "client")]
pub mod auth;
pub mod backend;
#[cfg(feature = "client")]
pub mod bridge;
pub mod call;
pub mod charge;
#[cfg(feature = "client")]
pub mod client;
pub mod cluster;
pub mod connection;
mod drive;
#[cfg(feature = "http")]
pub mod http;
pub mod parked_calls;
mod pipe;
#[cfg(feature = "client")]
#[doc(hidden)]
pub mod platform;
#[cfg(feature = "client")]
#[doc(hidden)]
pub mod private_folder;
#[cfg(feature = "client")]
pub mod roster;
mod seal;
pub mod secret;
#[cfg(feature = "server")]
pub mod server;
pub mod stdio;
#[cfg(feature = "client")]
pub mod upstream;
pub mod who;

pub use drive::{Either, OwnedTask, now, race};
pub use switchboard_proto as proto;
pub use switchboard_proto::types;

/// The crates whose types stand in signatures here, in the versions that fit.
pub mod reexports {
    #[cfg(feature = "schema")]
    pub use schemars;
    pub use {::http, bytes, serde, serde_json, tokio};
    #[cfg(feature = "http")]
    pub use {http_body, hyper, regex, tower_service};
}

/// The Rust of these pages is compiled and run with the examples above.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/recipes.md")]
#[doc = include_str!("../../../docs/library.md")]
struct Recipes;
