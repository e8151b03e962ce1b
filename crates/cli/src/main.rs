//! The `switchboard` binary: parse, log, run, exit code.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::Parser as _;
use switchboard_net::platform::hide_inherited_files;
use switchboard_net::stdio::child::Command;

use args::Cli;
use compat::CommandLine;
use exit::{CommandError, CommandResult, ExitStatus};

mod args;
mod command;
mod compat;
mod completion;
mod demo;
mod doctor;
mod exit;
mod file_change;
mod header;
mod keyring;
mod log;
mod output;
mod person;
mod progress;
mod serve;
mod sign_in;
mod signal;
mod store;
mod target;

/// Gives memory back when a crowd has gone, which the C library's does not (decision 7).
#[cfg(all(feature = "jemalloc", not(target_env = "msvc")))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    hide_inherited_files();
    // On a build machine (`CI`), `anstream` would paint on this terminal too.
    if std::env::var_os("TERM").is_some_and(|term| term == "dumb") {
        anstream::ColorChoice::Never.write_global();
    }
    if completion::answer() {
        return ExitCode::SUCCESS;
    }
    let status = run().unwrap_or_else(|failure| {
        failure.report();
        failure.status
    });
    ExitCode::from(status as u8)
}

/// Understands the arguments, and does what they ask for.
fn run() -> CommandResult<ExitStatus> {
    // Arguments that are no text name nothing we could use; clap says which.
    let said: Option<Vec<_>> = std::env::args_os().map(|arg| arg.into_string().ok()).collect();
    let line = said.map(|words| compat::understand(words, &target::variable)).transpose();
    let can_run = |word: &str| Command::new(word).check(&target::environment()).is_ok();
    let (words, notes) = match line.map_err(CommandError::of_usage)? {
        Some(CommandLine::Ours(words)) => {
            let dashed = args::with_dashes(words, target::is_named, can_run);
            let (words, notes) = dashed.map_err(CommandError::of_usage)?;
            (Some(words), notes)
        }
        Some(CommandLine::Theirs { words, notes }) => (Some(words), notes),
        Some(CommandLine::Answer(text)) => {
            _ = std::io::stdout().write_all(text.as_bytes());
            return Ok(ExitStatus::Success);
        }
        None => (None, Vec::new()),
    };
    let cli = match words.as_ref().map_or_else(Cli::try_parse, Cli::try_parse_from) {
        Ok(cli) => cli,
        Err(answer) => return not_parsed(&answer, &words.unwrap_or_default()),
    };
    let sink = log::start(&cli.log, cli.command.is_client(), target::variable);
    for note in notes {
        tracing::warn!("{note}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(command::run(cli.command));
    // A thread may still be reading stdin, and nothing would wake it.
    runtime.shutdown_background();
    sink.flush_lines();
    ended
}

/// Arguments that are none, or that ask for help.
fn not_parsed(answer: &clap::Error, words: &[String]) -> CommandResult<ExitStatus> {
    if !std::io::stderr().is_terminal()
        && let Some(failure) = args::failure_of(answer, words)
    {
        return Err(failure);
    }
    // Help and version are answers too; their reader may have closed the stream.
    _ = answer.print();
    Ok(if answer.use_stderr() { ExitStatus::Usage } else { ExitStatus::Success })
}
