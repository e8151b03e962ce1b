//! `switchboard config`: what is wrong with files, and a schema for editors.

use std::path::PathBuf;

use switchboard_gateway::config::schema;
use switchboard_gateway::plan::{Plan, Reading};

use crate::args::{ConfigArgs, ConfigCommand};
use crate::exit::{CommandError, ExitStatus};
use crate::output::{counted, write_line};
use crate::target::surroundings;

/// Does what was asked.
pub(crate) fn run(args: &ConfigArgs) -> Result<ExitStatus, CommandError> {
    match &args.command {
        ConfigCommand::Check { files } => check(files),
        ConfigCommand::Schema => {
            write_line(&format!("{:#}", schema()));
            Ok(ExitStatus::Success)
        }
    }
}

/// All that is wrong, a line each, or that nothing is.
fn check(files: &[PathBuf]) -> Result<ExitStatus, CommandError> {
    let reading = Reading::of(files, &surroundings()?);
    for line in reading.lines() {
        write_line(&line);
    }
    if !reading.is_sound() {
        return Ok(ExitStatus::Failure);
    }
    tell_sound(&reading.plan);
    Ok(ExitStatus::Success)
}

/// Says that nothing is wrong, and with how much.
pub(super) fn tell_sound(plan: &Plan) {
    write_line(&format!(
        "no mistakes: {}, {}, {}",
        counted(plan.servers.len(), "server"),
        counted(plan.groups.len(), "group"),
        counted(plan.access.principals.len(), "key")
    ));
}
