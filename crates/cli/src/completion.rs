//! Completion in shells. A script of ours asks this program at each press of Tab, so that it can
//! offer what only files and servers know: names of servers, tools, prompts, resources and
//! arguments.

use std::ffi::OsStr;
use std::time::Duration;

use clap::builder::StyledStr;
use clap::{CommandFactory as _, Parser as _};
use clap_complete::env::Shells;
use clap_complete::{CompleteEnv, CompletionCandidate, Shell};
use switchboard_net::roster::ListKind;

use crate::args::{Cli, ClientArgs, Command};
use crate::command::client::{listed_items, tool_arguments};
use crate::target;

/// Says that a script asks, and for which shell.
const VARIABLE: &str = "SWITCHBOARD_COMPLETE";

/// How long a server may take: somebody waits at the prompt of their shell.
const PATIENCE: Duration = Duration::from_secs(3);

/// zsh may load the script from a folder of functions, at the first press of Tab: then the script
/// is called itself, and must complete.
const ZSH_LOADED: &str = "\
if [[ ${funcstack[1]} = _switchboard ]]; then
    _clap_dynamic_completer_switchboard \"$@\"
fi
";

/// Bash cuts words at `:` and `=`, and takes what replaces the piece at the cursor. Here the words
/// are whole again, as the user wrote them, and of each candidate that piece is offered.
const BASH_WHOLE_WORDS: &str = r#"
_switchboard() {
    local words=() word='' rest=$COMP_LINE kept='' i
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $i -gt 0 && -n $word && $rest == "$word"* ]]; then
            kept=${words[${#words[@]}-1]}
            words[${#words[@]}-1]+=$word
        else
            kept=''
            words+=("$word")
        fi
        rest=${rest#*"$word"}
    done
    # Right behind a colon or an equals sign, all of it is kept.
    if [[ -z $2 && $word != *[!:=]* ]]; then
        kept+=$word
    fi
    words[${#words[@]}-1]=$kept$2
    local COMP_WORDS=("${words[@]}") COMP_CWORD=$((${#words[@]} - 1))
    _clap_complete_switchboard "$1" "$kept$2" "$3"
    if [[ -n $kept && -n ${COMPREPLY-} ]]; then
        COMPREPLY=("${COMPREPLY[@]#"$kept"}")
    fi
}
_switchboard_spec=$(complete -p switchboard)
eval "${_switchboard_spec/_clap_complete_switchboard/_switchboard}"
unset _switchboard_spec
"#;

/// Answers a script that asks for candidates; whether one did.
pub(crate) fn answer() -> bool {
    let folder = std::env::current_dir().ok();
    let complete = CompleteEnv::with_factory(Cli::command).var(VARIABLE);
    // What cannot be completed has no candidates.
    complete.try_complete(std::env::args_os(), folder.as_deref()).unwrap_or(true)
}

/// The script for a shell.
pub(crate) fn script(shell: Shell) -> std::io::Result<String> {
    let mut script = Vec::new();
    let name = "switchboard";
    if let Some(completer) = Shells::builtins().completer(&shell.to_string()) {
        completer.write_registration(VARIABLE, name, name, name, &mut script)?;
    }
    script.extend_from_slice(match shell {
        Shell::Bash => BASH_WHOLE_WORDS.as_bytes(),
        Shell::Zsh => ZSH_LOADED.as_bytes(),
        _ => b"",
    });
    Ok(String::from_utf8_lossy(&script).into_owned())
}

/// Servers of configuration files whose names begin like this.
pub(crate) fn servers(current: &OsStr) -> Vec<CompletionCandidate> {
    let names = target::names(&[]).into_iter().map(|name| (name, String::new()));
    candidates(&current.to_string_lossy(), names)
}

/// What may stand here, for a command that calls a server: the server, what the command is about,
/// or its arguments.
pub(crate) fn operands(current: &OsStr) -> Vec<CompletionCandidate> {
    let word = current.to_string_lossy();
    // A flag or a value: no server knows more.
    if word.starts_with('-') || word.contains('=') {
        return Vec::new();
    }
    let mut before = words_to_complete();
    before.pop();
    let Ok(cli) = Cli::try_parse_from(before) else { return Vec::new() };
    let (args, kind) = match &cli.command {
        Command::Tools(args) | Command::Call(args) => (args, ListKind::Tools),
        Command::Prompt(args) => (args, ListKind::Prompts),
        Command::Read(args) => (args, ListKind::Resources),
        _ => return servers(current),
    };
    if args.operands.is_empty() && args.reach.stdio.is_none() {
        let names = target::names(&args.reach.config).into_iter();
        return candidates(&word, names.map(|name| (name, String::new())));
    }
    let is_call = matches!(cli.command, Command::Call(_));
    // Only a call has something behind its name.
    if args.operands.len() > 1 && !is_call {
        return Vec::new();
    }
    candidates(&word, ask(args, kind, is_call).unwrap_or_default().into_iter())
}

/// Asks the server, with a runtime of its own: nothing else runs yet.
fn ask(args: &ClientArgs, kind: ListKind, is_call: bool) -> Option<Vec<(String, String)>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let asking = async {
        let (items, about) = listed_items(args, kind).await?;
        let key = kind.key();
        Some(match about.first() {
            None => {
                let text = |item: &serde_json::Value, key: &str| {
                    item[key].as_str().unwrap_or_default().to_owned()
                };
                items.iter().map(|item| (text(item, key), text(item, "description"))).collect()
            }
            Some(name) if is_call => tool_arguments(items.iter().find(|it| it["name"] == **name)?),
            Some(_) => Vec::new(),
        })
    };
    let asking = async { tokio::time::timeout(PATIENCE, Box::pin(asking)).await.ok()? };
    let found = runtime.block_on(asking);
    // A lookup of an address cannot be cut off; nobody waits for it.
    runtime.shutdown_background();
    found
}

fn candidates(word: &str, all: impl Iterator<Item = (String, String)>) -> Vec<CompletionCandidate> {
    // Shells put them into the line as they are: what one could take for more than a word, or
    // we for a flag, is left out. Servers choose these names.
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:=@%+,".contains(c);
    let is_word = |value: &str| !value.starts_with('-') && value.chars().all(is_plain);
    let fitting = all.filter(|(value, _)| value.starts_with(word) && !value.is_empty());
    let fitting = fitting.filter(|(value, _)| is_word(value));
    let candidate = |(value, help): (String, String)| {
        let help = help.lines().next().filter(|line| !line.is_empty());
        let help = help.map(|line| StyledStr::from(crate::output::plain(line)));
        CompletionCandidate::new(value).help(help)
    };
    fitting.map(candidate).collect()
}

/// The words of the line up to the one that is completed, and it too.
fn words_to_complete() -> Vec<String> {
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    let words: Vec<_> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    // Some shells say which one it is; with the others it is the last.
    let index = target::variable("_CLAP_COMPLETE_INDEX").and_then(|index| index.parse().ok());
    let count = index.map_or(words.len(), |index: usize| index + 1).min(words.len());
    words[..count].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_shell_could_take_for_more_than_a_word_are_not_offered() {
        let names =
            ["add", "add;curl x|sh", "add&b", "add\nb", "add$(x)", "add*", "add b", "--stdio=x"];
        let all = names.map(|name| (name.to_owned(), String::new()));
        let offered = candidates("", all.into_iter());
        let offered: Vec<_> = offered.iter().map(CompletionCandidate::get_value).collect();
        assert_eq!(offered, ["add"]);
    }
}
