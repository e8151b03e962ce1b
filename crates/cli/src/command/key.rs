//! `switchboard key`: keys for clients, and their hashes for files.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use switchboard_gateway::policy::KeyHash;

use crate::args::{KeyArgs, KeyCommand};
use crate::exit::CommandError;
use crate::output::write_line;

/// What keys of ours start with, so that people and scanners know one when they see it.
const MARK: &str = "sb_";

/// Bytes of a key that is read; none is longer.
const MAX: u64 = 4096;

/// Does what was asked.
pub(crate) fn run(args: &KeyArgs) -> Result<(), CommandError> {
    match args.command {
        KeyCommand::New => {
            let key = new()?;
            write_line(&key);
            write_line(&KeyHash::of(key.as_bytes()).to_string());
        }
        KeyCommand::Hash => {
            let mut key = String::new();
            let read = std::io::stdin().lock().take(MAX).read_to_string(&mut key);
            read.map_err(|error| CommandError::of(&error))?;
            let key = key.trim();
            if key.is_empty() {
                return Err(CommandError::new("there is no key on stdin")
                    .hint("make one with: switchboard key new"));
            }
            write_line(&KeyHash::of(key.as_bytes()).to_string());
        }
    }
    Ok(())
}

/// 256 bits of the system's randomness.
fn new() -> Result<String, CommandError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| CommandError::new(error.to_string()))?;
    Ok(format!("{MARK}{}", URL_SAFE_NO_PAD.encode(bytes)))
}
