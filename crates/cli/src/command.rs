//! Runs the command that the user asked for. Larger commands have a file of their own.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use clap_mangen::Man;
use switchboard_gateway::config::schema;
use switchboard_gateway::facade::rotate_keys;
use switchboard_gateway::plan::{Plan, Reading};
use switchboard_gateway::policy::{KeyHash, new_key};

use crate::args::{Cli, Command, ConfigCommand, KeyCommand};
use crate::completion;
use crate::exit::{CommandError, CommandResult, ExitStatus, wrong};
use crate::output::{counted, write_line};
use crate::sign_in::UserStore;
use crate::target::surroundings;

mod account;
mod approve;
mod bridge;
pub(crate) mod client;
mod import;
mod install;
mod serve;
mod status;

/// Does what the user asked for, until it is over.
pub(crate) async fn run(command: Command) -> CommandResult<ExitStatus> {
    match command {
        Command::Login(args) => account::login(&args).await?,
        Command::Logout(args) => account::logout(&args.account).await?,
        Command::Whoami(args) => account::whoami(&args.account).await?,
        Command::Approve(args) => approve::run(&args)?,
        Command::Auth(command) => account::run(&command).await?,
        Command::Doctor(args) => return Box::pin(crate::doctor::run(&args)).await,
        Command::Config(ConfigCommand::Check { files }) => return check_files(&files),
        Command::Config(ConfigCommand::Schema) => write_line(&format!("{:#}", schema())),
        Command::Import(args) => import::run(&args)?,
        Command::Install(args) => install::run(&args)?,
        Command::Key(command) => run_key(&command).await?,
        Command::Bridge(args) => bridge::run(&args).await?,
        Command::Tools(args) => client::with(&args, client::tools).await?,
        Command::Call(args) => client::with(&args, client::call).await?,
        Command::Prompts(args) => client::with(&args, client::prompts).await?,
        Command::Prompt(args) => client::with(&args, client::prompt).await?,
        Command::Resources(args) => client::with(&args, client::resources).await?,
        Command::Read(args) => client::with(&args, client::read).await?,
        Command::Complete(args) => client::with(&args, client::complete).await?,
        Command::Discover(args) => client::with(&args, client::discover).await?,
        Command::Listen(args) => client::with(&args, client::listen).await?,
        Command::Ping(args) => client::with(&args, client::ping).await?,
        Command::Completion { shell } => write_line(&completion::script(shell)?),
        Command::Man { folder } => write_manual(&folder)?,
        Command::Demo(args) => crate::demo::run(&args).await?,
        Command::Status(args) => status::run(&args).await?,
        Command::Serve(args) => Box::pin(serve::run(&args)).await?,
    }
    Ok(ExitStatus::Success)
}

/// A manual page for each command, made of the help texts.
fn write_manual(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut command = Cli::command();
    command.build();
    write_page(&command, folder)
}

fn write_page(command: &clap::Command, folder: &Path) -> io::Result<()> {
    for part in command.get_subcommands() {
        write_page(part, folder)?;
    }
    let page = Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let text = text.replace(".SH EXTRA\nExamples:\n", ".SH EXAMPLES\n");
    std::fs::write(folder.join(page.get_filename()), text)
}

/// All that is wrong, a line each, or that nothing is.
fn check_files(files: &[PathBuf]) -> CommandResult<ExitStatus> {
    let reading = Reading::read(files, &surroundings()?);
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
fn tell_sound(plan: &Plan) {
    write_line(&format!(
        "no mistakes: {}, {}, {}",
        counted(plan.servers.len(), "server"),
        counted(plan.groups.len(), "group"),
        counted(plan.access.principals.len(), "key")
    ));
}

/// Bytes of a key that is read; none is longer.
const MAX_KEY: u64 = 4096;

async fn run_key(command: &KeyCommand) -> CommandResult {
    let key = match command {
        KeyCommand::New => {
            let none = || CommandError::new("the system has no random numbers");
            let key = new_key().ok_or_else(none)?;
            write_line(&key);
            key
        }
        KeyCommand::Rotate(args) => {
            rotate_keys(&UserStore::new(args)).await?;
            write_line("a running gateway signs with the new key within a minute");
            return Ok(());
        }
        KeyCommand::Hash => {
            let mut key = String::new();
            io::stdin().lock().take(MAX_KEY).read_to_string(&mut key)?;
            if key.trim().is_empty() {
                return wrong("there is no key on stdin", "make one with: switchboard key new")
                    .map_err(CommandError::of_usage);
            }
            key
        }
    };
    write_line(&KeyHash::compute(key.trim().as_bytes()).to_string());
    Ok(())
}
