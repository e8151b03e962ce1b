//! One official SDK, `rmcp`, as a peer of the bridge: a fixture server and a
//! client that checks such servers. `peers/README.md` is the contract.

#![allow(
    deprecated,
    reason = "the fixture exercises sampling, roots and logging, which the SDK marks as deprecated"
)]

mod client;
mod era;
mod server;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about, version)]
struct Arguments {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Offer the fixture on stdio or HTTP
    Server(server::Options),
    /// Run the checks against a server and print one JSON line for each
    Client(client::Options),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    // One thread, on purpose: rmcp runs every notification in a task of its own, and only a
    // scheduler with a single queue keeps them in the order of the wire.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let outcome = runtime.block_on(async {
        match arguments.role {
            Role::Server(options) => server::run(&options).await.map(|()| true),
            Role::Client(options) => client::run(options).await,
        }
    });
    // Not a plain drop: that would wait for the thread that sits in a read of stdin.
    runtime.shutdown_background();
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => failed(&*error),
    }
}

fn failed(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("rmcp-peer: {error}");
    ExitCode::FAILURE
}
