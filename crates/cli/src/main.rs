//! The `switchboard` binary: parse, log, run, exit code.

mod args;
mod command;
mod demo;
mod doctor;
mod exit;
mod header;
mod log;
mod output;
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
            let command = std::env::args_os().nth(1).and_then(|word| word.into_string().ok());
            return args::status_of(&answer, command.as_deref()).into();
        }
    };
    let quiet = cli.command.is_client();
    let sink = log::start(&cli.log, quiet, |name| std::env::var(name).ok());
    let ended = run(cli.command);
    sink.flush_lines();
    match ended {
        Ok(status) => status.into(),
        Err(failure) => {
            failure.report();
            failure.status.into()
        }
    }
}

fn run(command: args::Command) -> Result<ExitStatus, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::of(&error))?;
    let ended = runtime.block_on(command::run(command));
    // A thread may still be reading stdin, and nothing would wake it.
    runtime.shutdown_background();
    ended
}
