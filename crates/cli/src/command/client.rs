//! The commands that call a server: connect, ask, show, hang up.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use serde_json::{Map, Value};
use switchboard_gateway::config::Timeouts;
use switchboard_net::client::{CallError, CallOptions, Client, ClientOptions, ConnectError};
use switchboard_net::upstream::ServerTarget;
use switchboard_proto::failure::Failure;

use crate::args::{ClientArgs, ReachArgs};
use crate::exit::{CommandError, ExitStatus};
use crate::output::{Output, Ticker};
use crate::signal::StopSignal;
use crate::target::{self, NamedServer};

pub(super) use requests::{
    call, complete, discover, listen, ping, prompt, prompts, read, resources, tools,
};

mod requests;
mod terminal;

/// What the user wants, and of which server.
pub(super) struct Asked {
    server: ServerTarget,
    options: ClientOptions,
    /// Set once it is connected, so that a signal can close the connection.
    client: Arc<OnceLock<Client>>,
    /// What the command is about, after the server.
    operands: Vec<String>,
    json: Option<String>,
    output: Output,
    ticker: Ticker,
}

/// Runs a command, which connects when it knows what to ask, and hangs up,
/// whatever came of it. A signal does the same early: what is open is cancelled.
pub(super) async fn with<A, R>(args: &ClientArgs, command: A) -> Result<(), CommandError>
where
    A: FnOnce(Asked) -> R,
    R: Future<Output = Result<(), CommandError>>,
{
    let stop = StopSignal::on_signals().map_err(other)?;
    let (found, operands) = find(&args.reach, &args.operands).map_err(usage)?;
    let options = terminal::answering(options(&args.reach, found.timeouts));
    let server = found.server().map_err(usage)?;
    let client = Arc::new(OnceLock::new());
    let asked = Asked {
        server,
        options,
        client: Arc::clone(&client),
        operands,
        json: args.json.clone(),
        output: Output { form: args.output },
        ticker: Ticker::new(),
    };
    let ended = until(&stop, command(asked)).await;
    if let Some(client) = client.get() {
        client.close().await;
    }
    ended.unwrap_or_else(|| Err(interrupted()))
}

/// Runs `work` until it is done or a signal comes.
pub(crate) async fn until<T>(stop: &StopSignal, work: impl Future<Output = T>) -> Option<T> {
    let mut asked = pin!(stop.clone().asked());
    let mut work = pin!(work);
    poll_fn(|cx| match asked.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(None),
        Poll::Pending => work.as_mut().poll(cx).map(Some),
    })
    .await
}

/// The server that the user named, and what follows its name.
pub(crate) fn find(
    args: &ReachArgs,
    operands: &[String],
) -> Result<(NamedServer, Vec<String>), CommandError> {
    if args.is_local() {
        let found = target::local(args.stdio.as_deref(), &args.words, &args.local())?;
        return Ok((found, operands.to_vec()));
    }
    let Some((name, rest)) = operands.split_first() else {
        return Err(CommandError::new("no server is named")
            .hint("give its URL, its name in a configuration file, or its command after --"));
    };
    let found = target::remote(name, &args.config, &args.remote(), &args.local())?;
    Ok((found, rest.to_vec()))
}

fn options(args: &ReachArgs, timeouts: Timeouts) -> ClientOptions {
    let options = ClientOptions::default();
    let said = args.timeout.map(Duration::from_secs);
    ClientOptions {
        name: "switchboard-cli".to_owned(),
        timeout: said.or(timeouts.call).unwrap_or(options.timeout),
        era: args.era.era(),
        ..options
    }
}

impl Asked {
    /// Connects. Whatever is wrong with the operands should be known before.
    async fn connect(&self) -> Result<&Client, CommandError> {
        let client = Client::connect(self.server.clone(), self.options.clone()).await;
        let client = client.map_err(|error| not_connected(&error))?;
        Ok(self.client.get_or_init(|| client))
    }

    /// The operand at `at`, which is `what`.
    fn operand(&self, at: usize, what: &str) -> Result<&str, CommandError> {
        let operand = self.operands.get(at).map(String::as_str);
        operand.ok_or_else(|| usage(CommandError::new(format!("{what} is missing"))))
    }

    /// Fails if there is more than the command has use for.
    fn no_more_than(&self, count: usize) -> Result<(), CommandError> {
        match self.operands.get(count) {
            Some(more) => Err(usage(CommandError::new(format!("{more:?} is one too many")))),
            None => self.no_arguments(),
        }
    }

    /// Fails if there are arguments for a command that takes none.
    fn no_arguments(&self) -> Result<(), CommandError> {
        let needless = CommandError::new("--json has the arguments of call, prompt and complete");
        let needless = needless.hint("for results as JSON, write --output json");
        self.json.as_ref().map_or(Ok(()), |_| Err(usage(needless)))
    }

    /// The arguments from the operand at `from` on, and from `--json`.
    fn arguments(&self, from: usize) -> Result<Value, CommandError> {
        let words = self.operands.get(from..).unwrap_or_default();
        read_arguments(self.json.as_deref(), words).map_err(usage)
    }

    /// Options for a call whose progress is shown.
    fn shown(&self) -> CallOptions {
        let ticker = self.ticker;
        CallOptions::default().on_progress(move |step| ticker.tick(&step))
    }
}

pub(crate) fn usage(failure: CommandError) -> CommandError {
    failure.for_scripts(ExitStatus::Failure, "usage")
}

pub(crate) fn other(error: impl Into<CommandError>) -> CommandError {
    error.into().for_scripts(ExitStatus::Failure, "other")
}

pub(crate) fn interrupted() -> CommandError {
    CommandError::new("interrupted").for_scripts(ExitStatus::Interrupted, "interrupted")
}

fn not_connected(error: &ConnectError) -> CommandError {
    match error {
        ConnectError::Failed(CallError::Failed(Failure::Timeout { .. })) => {
            CommandError::new(error.to_string()).for_scripts(ExitStatus::Unreachable, "unreachable")
        }
        ConnectError::Failed(error) => failed(error),
        error => CommandError::new(error.to_string()).for_scripts(ExitStatus::Failure, "protocol"),
    }
}

/// What a call that failed looks like from outside.
fn failed(error: &CallError) -> CommandError {
    let failure = CommandError::new(error.to_string());
    match error {
        CallError::Failed(Failure::Timeout { .. }) => {
            failure.for_scripts(ExitStatus::Failure, "timeout")
        }
        CallError::Failed(why) => match why.status() {
            Some(status @ (401 | 403)) => failure
                .hint("send a token: --header 'Authorization: Bearer ${TOKEN}'")
                .for_scripts(ExitStatus::Auth, "auth")
                .with("status", status),
            Some(status) => {
                failure.for_scripts(ExitStatus::Unreachable, "unreachable").with("status", status)
            }
            None => failure.for_scripts(ExitStatus::Unreachable, "unreachable"),
        },
        CallError::Server { code, data, .. } => {
            let failure = failure.for_scripts(ExitStatus::Failure, "server").with("code", *code);
            match data {
                Some(data) => failure.with("data", data.clone()),
                None => failure,
            }
        }
        _ => failure.for_scripts(ExitStatus::Failure, "other"),
    }
}

/// The arguments of a call: `json` first, then each word.
fn read_arguments(json: Option<&str>, words: &[String]) -> Result<Value, CommandError> {
    let mut arguments = match json.map(serde_json::from_str) {
        None => Map::new(),
        Some(Ok(Value::Object(given))) => given,
        Some(Ok(_)) => return Err(CommandError::new("--json wants an object")),
        Some(Err(error)) => return Err(CommandError::new(format!("--json is not JSON: {error}"))),
    };
    for word in words {
        let (name, value) = read_argument(word)?;
        arguments.insert(name, value);
    }
    Ok(arguments.into())
}

fn read_argument(word: &str) -> Result<(String, Value), CommandError> {
    let Some((name, value)) = word.split_once('=') else {
        return Err(CommandError::new(format!("{word:?} is no argument"))
            .hint("write k=v for text, k:=json for anything else"));
    };
    match name.strip_suffix(':') {
        None => Ok((name.to_owned(), value.into())),
        Some(name) => {
            let value = serde_json::from_str(value).map_err(|error| {
                CommandError::new(format!("{name} is not JSON: {error}"))
                    .hint(format!("for text, write {name}={value}"))
            })?;
            Ok((name.to_owned(), value))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_are_text_or_json_and_come_last() {
        let words = ["a=1", "b:=[1,2]", "c=x=y", "d="].map(str::to_owned);
        let arguments = read_arguments(Some(r#"{"a":0,"z":true}"#), &words).unwrap();
        assert_eq!(arguments, json!({"a": "1", "b": [1, 2], "c": "x=y", "d": "", "z": true}));
    }

    #[test]
    fn what_is_no_argument_is_refused() {
        for (json, word) in [(None, "a"), (None, "a:=x"), (Some("[]"), "a=1"), (Some("{"), "a=1")] {
            assert!(read_arguments(json, &[word.to_owned()]).is_err(), "{json:?} {word}");
        }
    }
}
