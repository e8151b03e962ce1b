//! One file for each command.

mod bridge;
mod client;
mod completion;
mod config;
mod demo;
mod doctor;
mod import;
mod key;
mod serve;
mod status;

use crate::args::Command;
use crate::exit::{CommandError, ExitStatus};

/// Does what the user asked for, until it is over.
pub(crate) async fn run(command: Command) -> Result<ExitStatus, CommandError> {
    match command {
        Command::Doctor(args) => return Box::pin(doctor::run(&args)).await,
        Command::Config(args) => return config::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Key(args) => key::run(&args),
        Command::Bridge(args) => bridge::run(&args).await,
        Command::Tools(args) => client::with(&args, client::tools).await,
        Command::Call(args) => client::with(&args, client::call).await,
        Command::Prompts(args) => client::with(&args, client::prompts).await,
        Command::Prompt(args) => client::with(&args, client::prompt).await,
        Command::Resources(args) => client::with(&args, client::resources).await,
        Command::Read(args) => client::with(&args, client::read).await,
        Command::Complete(args) => client::with(&args, client::complete).await,
        Command::Discover(args) => client::with(&args, client::discover).await,
        Command::Listen(args) => client::with(&args, client::listen).await,
        Command::Ping(args) => client::with(&args, client::ping).await,
        Command::Completion(args) => {
            completion::run(&args);
            Ok(())
        }
        Command::Demo(args) => demo::run(&args).await,
        Command::Status(args) => status::run(&args).await,
        Command::Serve(args) => Box::pin(serve::run(&args)).await,
    }?;
    Ok(ExitStatus::Success)
}
