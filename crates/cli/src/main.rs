//! The `switchboard` binary: parse, log, run, exit code.

mod args;
mod command;
mod exit;
mod header;
mod log;
mod signal;
mod target;

use std::process::ExitCode;

use clap::Parser as _;

use args::Cli;
use exit::{ExitStatus, Failure};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(answer) => {
            // Help and version are answers too, and nobody may be there to read them.
            _ = answer.print();
            let wrong = answer.use_stderr();
            return if wrong { ExitStatus::Usage } else { ExitStatus::Success }.into();
        }
    };
    let sink = log::start(&cli.log, |name| std::env::var(name).ok());
    let ended = run(cli.command);
    sink.flush_lines();
    match ended {
        Ok(()) => ExitStatus::Success.into(),
        Err(failure) => {
            failure.report();
            ExitStatus::Failure.into()
        }
    }
}

fn run(command: args::Command) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::of(&error))?;
    let ended = runtime.block_on(command::run(command));
    // A thread may still be reading stdin, and nothing would wake it.
    runtime.shutdown_background();
    ended
}
