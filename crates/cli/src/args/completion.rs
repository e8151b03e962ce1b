//! What the user said to `completion`.

use clap::Args;
use clap_complete::Shell;

/// Print a script that teaches a shell to complete our commands and options.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  bash, in ~/.bashrc:
    source <(switchboard completion bash)

  zsh, in a folder of $fpath:
    switchboard completion zsh > ~/.zfunc/_switchboard

  fish:
    switchboard completion fish > ~/.config/fish/completions/switchboard.fish";
