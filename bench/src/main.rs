//! What a request costs through Switchboard, beside the least that the same
//! work can cost and beside other people's proxies.
//!
//! `bench run` is the benchmark; the other commands are the parts it starts, a
//! process each, so that the CPU time of one is the cost of one.

mod bare;
mod echo;
mod load;
mod measure;
mod process;
mod report;
mod rmcp_proxy;
mod run;
mod target;
mod wire;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Any failure ends the benchmark: a wrong answer has no cost worth knowing.
type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Parser)]
#[command(about, version)]
struct Arguments {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    /// Measure everything that is installed, and write the report
    Run(run::Options),
    /// An echo server on stdio: one line in, one line out
    EchoStdio,
    /// The same echo at /mcp on a free port
    EchoHttp,
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
        /// Send answers at once, which the examples of rmcp do not ask for
        #[arg(long)]
        nodelay: bool,
        /// The server's URL, unless a command is given
        url: Option<String>,
        /// The server's command
        #[arg(last = true)]
        command: Vec<String>,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.into()),
    };
    let ended = runtime.block_on(async {
        match arguments.part {
            Part::Run(options) => run::run(options).await,
            Part::EchoStdio => echo::stdio().await,
            Part::EchoHttp => echo::http().await,
            Part::BareBridge { command } => bare::bridge(command).await,
            Part::BareProxy { url } => bare::proxy(&url).await,
            Part::RmcpProxy { nodelay, url, command } => {
                rmcp_proxy::serve(nodelay, url, command).await
            }
        }
    });
    runtime.shutdown_background();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &Failure) -> ExitCode {
    eprintln!("bench: {error}");
    ExitCode::FAILURE
}
