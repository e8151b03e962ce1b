//! The `switchboard` binary: parse, log, run, exit code.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::Parser as _;
use switchboard_net::stdio::child::Command;

use args::Cli;
use compat::CommandLine;
use exit::{CommandResult, ExitStatus};

mod args;
mod command;
mod compat;
mod demo;
mod doctor;
mod exit;
mod header;
mod log;
mod output;
mod serve;
mod signal;
mod target;

/// Gives memory back when a crowd has gone, which the C library's does not (decision 7).
#[cfg(not(target_env = "msvc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The first descriptor that is not one of the three standard streams.
const FIRST_INHERITED: i32 = 3;

fn main() -> ExitCode {
    // What we were started with is for us alone: servers and their guards must not get it.
    close_fds::set_fds_cloexec(FIRST_INHERITED, &[]);
    let environment: Vec<_> = std::env::vars_os().collect();
    let can_run = |word: &str| Command::new(word).check(&environment).is_ok();
    // Arguments that are no text name nothing we could use; clap says which.
    let said: Option<Vec<_>> = std::env::args_os().map(|arg| arg.into_string().ok()).collect();
    let mut notes = Vec::new();
    let words = match said.map(|words| compat::understand(words, &|name| std::env::var(name).ok()))
    {
        Some(CommandLine::Ours(words)) => Some(args::with_dashes(words, can_run)),
        Some(CommandLine::Theirs { words, notes: told }) => {
            notes = told;
            Some(words)
        }
        Some(CommandLine::Answer(text)) => {
            _ = std::io::stdout().write_all(text.as_bytes());
            return ExitStatus::Success.into();
        }
        Some(CommandLine::Wrong(failure)) => {
            failure.report();
            return ExitStatus::Usage.into();
        }
        None => None,
    };
    let parsed = words.as_ref().map_or_else(Cli::try_parse, Cli::try_parse_from);
    let cli = match parsed {
        Ok(cli) => cli,
        Err(answer) => return not_parsed(&answer, &words.unwrap_or_default()),
    };
    let quiet = cli.command.is_client();
    let sink = log::start(&cli.log, quiet, |name| std::env::var(name).ok());
    for note in notes {
        tracing::warn!("{note}");
    }
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

/// Arguments that are none, or that ask for help.
fn not_parsed(answer: &clap::Error, words: &[String]) -> ExitCode {
    let failure = args::failure_of(answer, words);
    let for_script = failure.as_ref().filter(|_| !std::io::stderr().is_terminal());
    match for_script {
        Some(failure) => failure.report(),
        // Help and version are answers too; their reader may have closed the stream.
        None => _ = answer.print(),
    }
    match failure {
        Some(failure) => failure.status.into(),
        None if answer.use_stderr() => ExitStatus::Usage.into(),
        None => ExitStatus::Success.into(),
    }
}

fn run(command: args::Command) -> CommandResult<ExitStatus> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(command::run(command));
    // A thread may still be reading stdin, and nothing would wake it.
    runtime.shutdown_background();
    ended
}
