//! A server put to work in one line: on our stdio, or at an address.

use std::future::pending;
use std::io;
use std::sync::Arc;

#[cfg(feature = "http")]
use tokio::net::{TcpListener, ToSocketAddrs};

use super::Server;
#[cfg(feature = "http")]
use crate::http::{
    listen::ListenOptions,
    site::{Site, SiteOptions},
};
use crate::stdio::{self, StdioOptions};

impl Server {
    /// Serves the client that started this process, on stdin and stdout, until it is gone.
    ///
    /// [`stdio::serve`] has more to say about it: bounds, other streams, an end before the
    /// client's.
    pub async fn serve_stdio(self: &Arc<Self>) -> io::Result<()> {
        stdio::serve(Arc::<Self>::clone(self), StdioOptions::default(), pending()).await
    }

    /// Serves all clients that come to `http://ADDRESS/mcp`, and those of the first revision
    /// at `/sse`, for as long as the future is polled:
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use switchboard_net::server::{Server, Tool};
    ///
    /// let hello = Tool::new("hello").run(async |_: serde_json::Value, _| "hello");
    /// Server::builder("greeter", "1.0.0").tool(hello).build()?.serve_http("127.0.0.1:8080").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Clients must name this machine in their `Host` header, as `localhost` or by an address
    /// of loopback. A [`Site`] has more to say about it: who may come, other paths, an
    /// end that lets calls finish ([`Site::serve`]), TLS ([`ListenOptions`]).
    #[cfg(feature = "http")]
    pub async fn serve_http(self: &Arc<Self>, address: impl ToSocketAddrs) -> io::Result<()> {
        let listener = TcpListener::bind(address).await?;
        let site = Site::new(Arc::<Self>::clone(self), SiteOptions::default());
        site.serve(listener, ListenOptions::default(), pending()).await;
        Ok(())
    }
}
