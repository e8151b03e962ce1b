//! MCP inside a web application of your own: an axum router with a page, and
//! beside it a server that shares the application's state.

use std::error::Error;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::routing::get;
use rmcp::{
    ServerHandler,
    handler::server::router::tool::ToolRouter,
    model::{Implementation, ServerCapabilities, ServerConfig},
    tool, tool_handler, tool_router,
    transport::{
        StreamableHttpServerConfig, StreamableHttpService,
        streamable_http_server::session::local::LocalSessionManager,
    },
};
use tokio::net::TcpListener;

#[derive(Clone)]
struct Visitors {
    visits: Arc<AtomicUsize>,
    tool_router: ToolRouter<Self>,
}

#[tool_router]
impl Visitors {
    #[tool(description = "Counts you")]
    async fn visit(&self) -> String {
        let before = self.visits.fetch_add(1, Ordering::Relaxed);
        format!("You are visitor {}", before + 1)
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Visitors {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("visitors", env!("CARGO_PKG_VERSION")))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let visits = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&visits);
    let service = StreamableHttpService::new(
        move || {
            let visits = Arc::clone(&counted);
            Ok(Visitors { visits, tool_router: Visitors::tool_router() })
        },
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    let page = move || ready(format!("{} so far", visits.load(Ordering::Relaxed)));
    let router = Router::new().route("/visits", get(page)).route_service("/mcp", service);

    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("http://{}/mcp", listener.local_addr()?);
    axum::serve(listener, router).await?;
    Ok(())
}
