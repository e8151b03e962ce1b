//! The fixture on the server library, until end-of-file or SIGTERM.

mod tools;

use std::sync::Arc;

use clap::Args;
use switchboard_net::http::listen::ListenOptions;
use switchboard_net::http::site::{Site, SiteOptions};
use switchboard_net::server::{Builder, Prompt, PromptArguments, PromptResult, Resource, Server};
use switchboard_net::stdio::{self, StdioOptions};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{Failure, Speech, Transport};

const PAGE: usize = 3;

#[derive(Args)]
pub(crate) struct Options {
    #[arg(long)]
    transport: Transport,
    #[arg(long)]
    era: Speech,
    /// Port on 127.0.0.1; 0 picks a free one
    #[arg(long, default_value_t = 0)]
    port: u16,
}

pub(crate) async fn run(options: &Options) -> Result<(), Failure> {
    let term = signal(SignalKind::terminate())?;
    let server = fixture(options.era)?;
    match options.transport {
        Transport::Stdio => Ok(stdio::serve(server, StdioOptions::default(), ended(term)).await?),
        Transport::Http => serve(server, options.port, "/mcp", term).await,
        Transport::Sse => serve(server, options.port, "/sse", term).await,
    }
}

async fn ended(mut term: Signal) {
    term.recv().await;
}

async fn serve(server: Arc<Server>, port: u16, path: &str, term: Signal) -> Result<(), Failure> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let site = Site::new(Arc::clone(&server) as _, SiteOptions::default());
    eprintln!("listening http://{}{path}", listener.local_addr()?);
    let shutdown = async move {
        ended(term).await;
        server.close();
    };
    site.serve(listener, ListenOptions::default(), shutdown).await;
    Ok(())
}

fn fixture(era: Speech) -> Result<Arc<Server>, Failure> {
    let greet = Prompt::new("greet").description("Greets somebody.").argument("name", "whom").run(
        async |arguments: PromptArguments, _| {
            Ok(PromptResult::new().user(format!("Hello, {}!", arguments["name"])))
        },
    );
    let resource = |name: &str| {
        let uri = format!("peer://{name}");
        Resource::text(&uri, name, "text/plain", name)
    };
    let builder = Server::builder("peer-fixture", "1.0.0").only(&era.revisions()).page_size(PAGE);
    let builder = tools::all().into_iter().fold(builder, Builder::tool);
    let builder = builder.resource(resource("watched")).resource(resource("static"));
    Ok(builder.prompt(greet).build()?)
}
