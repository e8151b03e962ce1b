//! What the user said to a command that calls a server.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum, ValueHint};
use switchboard_net::upstream::Strategy;
use switchboard_proto::revision::Era;

use super::{Assignment, CommandArgs, NetworkArgs, RemoteArgs};

pub(crate) mod help;

/// The same for every command; which operands make sense is its own business.
#[derive(Args, Debug)]
pub(crate) struct ClientArgs {
    /// The server's URL or its name in a configuration file, unless a command follows --;
    /// then what the command is about
    #[arg(value_name = "TARGET")]
    pub(crate) operands: Vec<String>,
    /// All arguments as one JSON object; k=v and k:=json are added to it (call, prompt, complete)
    #[arg(long, value_name = "OBJECT")]
    pub(crate) json: Option<String>,
    /// Tables for people, or the whole results as JSON
    #[arg(long, short, value_enum, value_name = "FORM", default_value = "text")]
    pub(crate) output: Form,
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

/// How to get to the server that a command calls.
#[derive(Args, Debug)]
pub(crate) struct ReachArgs {
    /// The server's command in one string, quoted as for a shell; no shell is run
    #[arg(long, value_name = "CMD", conflicts_with = "words")]
    pub(crate) stdio: Option<String>,
    /// The server's command and its arguments, after --
    #[arg(last = true, value_name = "CMD")]
    pub(crate) words: Vec<String>,
    /// Look for the server's name in this file, not in the usual places (repeatable)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Vec<PathBuf>,
    /// Seconds that the server may be silent on a call [default: 30]
    #[arg(long, value_name = "SECONDS")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) timeout: Option<u64>,
    /// Which era of the protocol to speak; auto asks the server
    #[arg(long, value_enum, value_name = "ERA", default_value = "auto")]
    pub(crate) era: Spoken,
    /// Send this header, "Name: value", with ${VAR} from the environment (repeatable)
    #[arg(long, short = 'H', value_name = "HEADER")]
    pub(crate) header: Vec<String>,
    /// Which transport to try: http-first, sse-first, http-only or sse-only [default: http-first]
    #[arg(long, value_name = "STRATEGY", value_parser = Strategy::from_str)]
    pub(crate) transport: Option<Strategy>,
    /// Trust the certificates in this PEM file beside the system's
    #[arg(long, value_name = "PEM", value_hint = ValueHint::FilePath)]
    pub(crate) ca_file: Option<PathBuf>,
    /// Set a variable for the server's command (repeatable)
    #[arg(long, short, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<Assignment>,
    /// Run the server's command in this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) cwd: Option<PathBuf>,
    /// Give the server's command our whole environment
    #[arg(long)]
    pub(crate) pass_environment: bool,
}

/// How results are shown.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Form {
    Text,
    Json,
}

/// Which era is spoken.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Spoken {
    Auto,
    Legacy,
    Modern,
}

impl Spoken {
    /// The era that was asked for; none if the server is to be asked.
    pub(crate) fn era(self) -> Option<Era> {
        match self {
            Self::Auto => None,
            Self::Legacy => Some(Era::Legacy),
            Self::Modern => Some(Era::Modern),
        }
    }
}

impl ReachArgs {
    /// Whether the server is a command.
    pub(crate) fn is_local(&self) -> bool {
        self.stdio.is_some() || !self.words.is_empty()
    }

    pub(crate) fn remote(&self) -> RemoteArgs {
        RemoteArgs {
            header: self.header.clone(),
            transport: self.transport,
            ca_file: self.ca_file.clone(),
            network: NetworkArgs::default(),
        }
    }

    pub(crate) fn local(&self) -> CommandArgs {
        CommandArgs {
            env: self.env.clone(),
            cwd: self.cwd.clone(),
            pass_environment: self.pass_environment,
        }
    }
}
