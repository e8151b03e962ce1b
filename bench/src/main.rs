//! What a request costs through Switchboard, beside the least that the same
//! work can cost and beside other people's proxies.
//!
//! `bench run` is the benchmark; the other commands are the parts it starts, a
//! process each, so that the CPU time of one is the cost of one.

mod bare;
mod bars;
mod echo;
mod load;
mod measure;
mod ours;
mod plot;
mod process;
mod report;
mod rmcp;
mod run;
mod sections;
mod target;
mod wire;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The allocator of the `switchboard` binary, so that bare programs, rmcp and the library have it too.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Any failure ends the benchmark: a wrong answer has no cost worth knowing.
type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Parser)]
#[command(about, version)]
struct Arguments {
    /// Run on this core
    #[arg(long)]
    core: Option<usize>,
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    /// Measure, and write the report
    Run(run::Options),
    /// An echo server on stdio: one line in, one line out
    EchoStdio(echo::Options),
    /// The same echo at /mcp on a free port
    EchoHttp(echo::Options),
    /// The same echo, built with the library
    Ours,
    /// The same echo, built with rmcp
    RmcpServer {
        /// Without sessions, each answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// A bare handler in front of a stdio server: an id changed, nothing else
    BareBridge {
        /// The server's command
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// A bare proxy in front of an HTTP server: bytes in, bytes out
    BareProxy {
        /// The server's URL
        url: String,
    },
    /// The least proxy that can be written with rmcp
    RmcpProxy {
        /// The server's URL, unless a command is given
        url: Option<String>,
        /// The server's command
        #[arg(last = true)]
        command: Vec<String>,
    },
}

fn main() -> ExitCode {
    let Arguments { core, part } = Arguments::parse();
    let core = core.or_else(|| matches!(part, Part::Run(_)).then_some(process::OTHERS));
    match start(core, part) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start(core: Option<usize>, part: Part) -> Result<(), Failure> {
    // Before there are threads: they inherit it.
    if let Some(core) = core {
        process::pin(core)?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        match part {
            Part::Run(options) => run::run(options).await,
            Part::EchoStdio(options) => echo::stdio(options).await,
            Part::EchoHttp(options) => echo::http(options).await,
            Part::Ours => ours::serve().await,
            Part::RmcpServer { json } => rmcp::serve_echo(json).await,
            Part::BareBridge { command } => bare::bridge(command).await,
            Part::BareProxy { url } => bare::proxy(&url).await,
            Part::RmcpProxy { url, command } => rmcp::serve_proxy(url, command).await,
        }
    });
    runtime.shutdown_background();
    ended
}
