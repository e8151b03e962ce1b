//! This library as a peer of other people's SDKs: a fixture server on the
//! server library, and a client on the client library that checks such
//! servers. `peers/README.md` is the contract.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it talks to the runner")]

mod client;
mod server;

use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use switchboard_proto::revision::{Era, Revision};

/// Anything that stops a peer before its work is done.
type Failure = Box<dyn std::error::Error + Send + Sync>;

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

#[derive(Clone, Copy, ValueEnum)]
enum Transport {
    Stdio,
    Http,
    Sse,
}

/// What a server is to speak, and a client is to find.
#[derive(Clone, Copy, ValueEnum)]
enum Speech {
    Legacy,
    Modern,
    Both,
}

impl Speech {
    /// The era, if it is one.
    fn era(self) -> Option<Era> {
        match self {
            Self::Legacy => Some(Era::Legacy),
            Self::Modern => Some(Era::Modern),
            Self::Both => None,
        }
    }

    fn revisions(self) -> Vec<Revision> {
        let wanted = |revision: &Revision| self.era().is_none_or(|era| revision.era() == era);
        Revision::ALL.into_iter().filter(wanted).collect()
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match Arguments::parse().role {
        Role::Server(options) => server::run(&options).await.map(|()| true),
        Role::Client(options) => client::run(options).await,
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("switchboard-peer: {error}");
            ExitCode::FAILURE
        }
    }
}
