//! One file for each command.

mod bridge;
mod demo;

use crate::args::Command;
use crate::exit::Failure;

/// Does what the user asked for, until it is over.
pub(crate) async fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Bridge(args) => bridge::run(&args).await,
        Command::Demo(args) => demo::run(&args).await,
    }
}
