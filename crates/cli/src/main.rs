//! The `switchboard` binary: parse, log, run, exit code.

mod args;
mod command;
mod demo;
mod exit;
mod header;
mod log;
mod serve;
mod signal;
mod target;

use std::process::ExitCode;

use clap::Parser as _;
use switchboard_net::stdio::child::Command;

use args::Cli;
use exit::{ExitStatus, Failure};

fn main() -> ExitCode {
    let environment: Vec<_> = std::env::vars_os().collect();
    let can_run = |word: &str| Command::new(word).check(&environment).is_ok();
    // Arguments that are no text name nothing we could use; clap says which.
    let said: Option<Vec<_>> = std::env::args_os().map(|arg| arg.into_string().ok()).collect();
    let parsed = match said {
        Some(words) => Cli::try_parse_from(args::with_dashes(words, can_run)),
        None => Cli::try_parse(),
    };
    let cli = match parsed {
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
