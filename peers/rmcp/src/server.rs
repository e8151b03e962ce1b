//! The fixture server on stdio or Streamable HTTP, until end-of-file or SIGTERM.

mod ask;
mod fixture;
mod shared;
mod tools;

use std::sync::Arc;

use clap::Args;
use rmcp::{
    ServiceExt,
    service::ServerInitializeError,
    transport::{
        StreamableHttpServerConfig, StreamableHttpService, stdio,
        streamable_http_server::session::local::LocalSessionManager,
    },
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

use self::{fixture::Fixture, shared::Shared};
use crate::era::{Era, Failure, NO_SSE, Transport};

#[derive(Args)]
pub(crate) struct Options {
    #[arg(long)]
    transport: Transport,
    #[arg(long)]
    era: Era,
    /// Port on 127.0.0.1; 0 picks a free one
    #[arg(long, default_value_t = 0)]
    port: u16,
}

pub(crate) async fn run(options: &Options) -> Result<(), Failure> {
    let shared = Arc::new(Shared::new(options.era));
    let mut term = signal(SignalKind::terminate())?;
    tokio::select! {
        served = serve(options, shared) => served,
        _ = term.recv() => Ok(()),
    }
}

async fn serve(options: &Options, shared: Arc<Shared>) -> Result<(), Failure> {
    match options.transport {
        Transport::Stdio => {
            match Fixture::new(shared).serve(stdio()).await {
                Ok(running) => running.waiting().await.map(|_| ()).map_err(Into::into),
                // End-of-file before anything was said is an end like any other.
                Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
                Err(error) => Err(error.into()),
            }
        }
        Transport::Http => http(options, shared).await,
        Transport::Sse => Err(NO_SSE.into()),
    }
}

async fn http(options: &Options, shared: Arc<Shared>) -> Result<(), Failure> {
    // Sessions exist only in the legacy era; without them `initialize` reaches the version check
    // of a modern-only fixture and is refused there.
    let config =
        StreamableHttpServerConfig::default().with_legacy_session_mode(options.era != Era::Modern);
    let service = StreamableHttpService::new(
        move || Ok(Fixture::new(Arc::clone(&shared))),
        Arc::new(LocalSessionManager::default()),
        config,
    );
    let listener = TcpListener::bind(("127.0.0.1", options.port)).await?;
    eprintln!("listening http://{}/mcp", listener.local_addr()?);
    axum::serve(listener, axum::Router::new().route_service("/mcp", service)).await?;
    Ok(())
}
