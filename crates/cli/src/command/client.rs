//! The commands that call a server: connect, ask, show, hang up. At the end of the file, what
//! each command asks the server, and how it shows the answer.

use std::collections::HashMap;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use switchboard_gateway::config::ServerOptions;
use switchboard_gateway::status::era_name;
use switchboard_net::auth::Authorizer;
use switchboard_net::client::{CallError, Client, ClientOptions, ConnectError, ListenFilter};
use switchboard_net::http::fetch::Fetch;
use switchboard_net::roster::ListKind;
use switchboard_net::upstream::ServerTarget;
use switchboard_net::{Either, race};
use switchboard_proto::auth::AuthError;
use switchboard_proto::failure::Failure;

use super::account;
use crate::args::{ClientArgs, Form, LoginChoice, NetworkArgs, OauthArgs, ReachArgs};
use crate::exit::{CommandError, CommandResult, ExitStatus, wrong};
use crate::output::{cell, contents_with, plain, write_line};
use crate::progress::waiting;
use crate::sign_in::{self, AskUser};
use crate::signal::StopSignal;
use crate::target::{self, NamedServer};

mod listing;
mod media;
mod sixel;
mod terminal;
mod tool_call;
mod tool_schema;

use listing::ServerListing;
pub(super) use listing::{prompts, resources, tools};
pub(super) use tool_call::call;
use tool_schema::{ToolArguments, quoted};

/// What the user wants, and of which server.
pub(super) struct ClientRequest {
    server: ServerTarget,
    /// Who is asked if the server wants somebody to sign in.
    asking: Option<(NamedServer, Fetch, Authorizer)>,
    options: ClientOptions,
    /// Set once it is connected, so that a signal can close the connection.
    client: OnceLock<Client>,
    /// What the command is about, after the server.
    operands: Vec<String>,
    json: Option<String>,
    form: Form,
    /// What the user wrote for the server: before what the command is about, and after it.
    named_by: [String; 2],
    /// How long servers behind a gateway may take to start, if the user says so.
    start_wait: Option<Duration>,
    /// Where pictures and sound go.
    save: Option<PathBuf>,
}

/// Runs a command, which connects when it knows what to ask, and hangs up,
/// whatever came of it. A signal does the same early: what is open is cancelled.
pub(super) async fn with(
    args: &ClientArgs,
    command: impl AsyncFnOnce(&ClientRequest) -> CommandResult,
) -> CommandResult {
    let stop = StopSignal::on_signals().map_err(other)?;
    let (found, operands) = find(&args.reach, &args.operands).map_err(usage)?;
    let options = terminal::answering(options(&args.reach, found.options));
    found.checked()?;
    let (server, asking) = with_tokens(found, &args.reach)?;
    let client = OnceLock::new();
    let (json, form, save) = (args.json.clone(), args.output, args.save.clone());
    let start_wait = args.reach.timeout.map(Duration::from_secs);
    let named_by = named_by(&args.reach, &args.operands);
    let request = ClientRequest {
        server,
        asking,
        options,
        client,
        operands,
        json,
        form,
        named_by,
        start_wait,
        save,
    };
    let ended = until(&stop, Box::pin(command(&request))).await;
    if let Some(client) = request.client.get() {
        client.close().await;
    }
    ended.unwrap_or_else(|| Err(interrupted()))
}

/// The items of a list, and what follows the server on the line; for completion.
///
/// Nobody has pressed Enter yet. So only a URL that was typed is asked, without the user's
/// accounts: no command is started, no variable is sent where a file of the folder says, and
/// no token is renewed by what may be cut off.
pub(crate) async fn listed_items(
    args: &ClientArgs,
    kind: ListKind,
) -> Option<(Vec<Value>, Vec<String>)> {
    let is_url = |it: &String| it.starts_with("http://") || it.starts_with("https://");
    if args.reach.stdio.is_some() || !args.operands.first().is_some_and(is_url) {
        return None;
    }
    let (found, operands) = find(&args.reach, &args.operands).ok()?;
    let options = options(&args.reach, found.options);
    let client = options.connect(found.server).await.ok()?;
    let listing = ServerListing::read(&client, kind).await;
    Some((listing.ok()?.items, operands))
}

/// Each argument of a tool as a word begins with it, and its type.
pub(crate) fn tool_arguments(tool: &Value) -> Vec<(String, String)> {
    let arguments = ToolArguments::new(&tool["inputSchema"]);
    arguments.rows().map(|row| (format!("{}=", row[0]), row[1].clone())).collect()
}

/// Runs `work` until it is done or a signal comes.
pub(crate) async fn until<T>(stop: &StopSignal, work: impl Future<Output = T>) -> Option<T> {
    match race(stop.clone().asked(), work).await {
        Either::Left(()) => None,
        Either::Right(done) => Some(done),
    }
}

/// The server that the user named, and what follows its name.
pub(crate) fn find(
    args: &ReachArgs,
    operands: &[String],
) -> CommandResult<(NamedServer, Vec<String>)> {
    if args.stdio.is_some() || !args.words.is_empty() {
        let found = target::local(args.stdio.as_deref(), &args.words, &args.local)?;
        return Ok((found, operands.to_vec()));
    }
    let Some((name, rest)) = operands.split_first() else {
        let hint = "give its URL, its name in a configuration file, or its command after --";
        return wrong("no server is named", hint);
    };
    let network = NetworkArgs::default();
    let found = target::remote(name, &args.config, &args.remote, &network, &args.local)?;
    Ok((found, rest.to_vec()))
}

/// How the user named the server, as words of a command line.
fn named_by(args: &ReachArgs, operands: &[String]) -> [String; 2] {
    let words = args.words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    let files = args.config.iter().map(|file| quoted(&file.to_string_lossy()));
    let files = files.flat_map(|file| [" --config ".to_owned(), file]).collect::<String>();
    match (&args.stdio, args.words.is_empty(), operands.first()) {
        (Some(line), ..) => [format!(" --stdio {}", quoted(line)), String::new()],
        (None, false, _) => [String::new(), format!(" -- {words}")],
        (None, true, server) => {
            let server = server.map(|it| format!(" {}", quoted(it))).unwrap_or_default();
            [server, files]
        }
    }
}

/// The server with the token of its account, and who is asked for another one: nobody while
/// the connection is made, for its times are not those of people.
fn with_tokens(found: NamedServer, args: &ReachArgs) -> CommandResult<AskingServer> {
    let Some(fetch) = found.server.fetch().cloned() else { return Ok((found.server, None)) };
    let oauth = OauthArgs { credentials: args.credentials.clone(), ..OauthArgs::default() };
    let never = AskUser { login: LoginChoice::Never, owns_stdin: false };
    let with = sign_in::with_tokens(&found, &oauth, never);
    let (server, authorizer) = with.map_err(usage)?;
    let may_ask = match args.login.as_deref() {
        // A script would wait for a person who is not there.
        None => std::io::stderr().is_terminal(),
        Some(login) => login == "wait",
    };
    if authorizer.is_none() || !may_ask {
        return Ok((server, None));
    }
    let wait = AskUser { login: LoginChoice::Wait, owns_stdin: false };
    let authorizer = sign_in::authorizer(&found, &oauth, wait, fetch.clone()).map_err(usage)?;
    Ok((server, Some((found, fetch, authorizer))))
}

type AskingServer = (ServerTarget, Option<(NamedServer, Fetch, Authorizer)>);

fn options(args: &ReachArgs, said: ServerOptions) -> ClientOptions {
    let options = ClientOptions::default();
    let timeout = args.timeout.map(Duration::from_secs).or(said.call);
    let timeout = timeout.unwrap_or(options.timeout);
    options.name("switchboard-cli").timeout(timeout).era(args.era.0)
}

impl ClientRequest {
    /// Connects for a command that has use for so many operands, and for no arguments.
    async fn connect_with(&self, operands: usize) -> CommandResult<&Client> {
        self.takes(operands)?;
        self.saves_nothing()?;
        self.connect().await
    }

    /// Fails if something is to be saved of what holds no media.
    fn saves_nothing(&self) -> CommandResult {
        if self.save.is_none() {
            return Ok(());
        }
        let hint = "leave it out: there is nothing to save here";
        wrong("--save is for call, prompt and read", hint).map_err(usage)
    }

    /// Saves what the blocks hold besides text, if the user wants that; a line for each that
    /// says where, by the position of the block.
    fn save_media(&self, name: &str, blocks: &Value) -> CommandResult<HashMap<usize, String>> {
        let saved = self.save.as_ref().map(|folder| media::save_media(folder, name, blocks));
        saved.unwrap_or_else(|| Ok(HashMap::new()))
    }

    /// Fails if there are more operands, or arguments.
    fn takes(&self, operands: usize) -> CommandResult {
        if let Some(more) = self.operands.get(operands) {
            return Err(usage(CommandError::new(format!("{more:?} is one too many"))));
        }
        self.no_arguments()
    }

    /// Connects. Whatever is wrong with the operands should be known before.
    async fn connect(&self) -> CommandResult<&Client> {
        let connect = || {
            let connecting = self.options.clone().connect(self.server.clone());
            Box::pin(waiting(format!("connecting to {}", self.server.name()), connecting))
        };
        let client = match (connect().await, &self.asking) {
            (Err(error), Some((found, fetch, authorizer))) if wants_sign_in(&error) => {
                let challenge = Box::pin(account::read_challenge(found, fetch)).await;
                match authorizer.sign_in(challenge).await {
                    Ok(_) => connect().await,
                    // The server's own words say more.
                    Err(AuthError::NoOauth) => Err(error),
                    Err(error) => return Err(account::refused(error)),
                }
            }
            (connected, _) => connected,
        };
        let client = client.map_err(not_connected)?;
        Ok(self.client.get_or_init(|| client))
    }

    /// The operand at `at`, which is `what`.
    fn operand(&self, at: usize, what: &str) -> CommandResult<&str> {
        let operand = self.operands.get(at).map(String::as_str);
        operand.ok_or_else(|| usage(CommandError::new(format!("{what} is missing"))))
    }

    /// Fails if there are arguments for a command that takes none.
    fn no_arguments(&self) -> CommandResult {
        if self.json.is_none() {
            return Ok(());
        }
        let needless = "--json has the arguments of call, prompt and complete";
        wrong(needless, "for results as JSON, write --output json").map_err(usage)
    }

    /// The arguments from the operand at `from` on, and from `--json`.
    fn arguments(&self, from: usize) -> CommandResult<Map<String, Value>> {
        read_arguments(self.json.as_deref(), self.words_from(from)).map_err(usage)
    }

    fn words_from(&self, from: usize) -> &[String] {
        self.operands.get(from..).unwrap_or_default()
    }
}

pub(crate) fn usage(failure: CommandError) -> CommandError {
    failure.of_usage()
}

pub(crate) fn other(error: impl Into<CommandError>) -> CommandError {
    error.into()
}

pub(crate) fn interrupted() -> CommandError {
    CommandError::new("interrupted").for_scripts(ExitStatus::Interrupted, "interrupted")
}

/// Whether a server wants to know who asks.
fn wants_sign_in(error: &ConnectError) -> bool {
    let ConnectError::Failed(CallError::Failed(why)) = error else { return false };
    matches!(why, Failure::NotSignedIn { .. }) || why.status() == Some(401)
}

fn not_connected(error: ConnectError) -> CommandError {
    let failure = CommandError::new(error.to_string());
    match error {
        ConnectError::Failed(CallError::Failed(Failure::Timeout { .. })) => {
            failure.hint(MORE_TIME).for_scripts(ExitStatus::Unreachable, "unreachable")
        }
        ConnectError::Failed(error) => failed(error),
        _ => failure.for_scripts(ExitStatus::Failure, "protocol"),
    }
}

/// What to do if the time was too short.
const MORE_TIME: &str = "give the server more time: --timeout SECONDS";

/// What a call that failed looks like from outside.
fn failed(error: CallError) -> CommandError {
    let failure = CommandError::new(error.to_string());
    match error {
        CallError::Failed(Failure::Timeout { .. }) => {
            failure.hint(MORE_TIME).for_scripts(ExitStatus::Failure, "timeout")
        }
        CallError::Failed(Failure::NotSignedIn { .. }) => failure
            .hint("sign in with: switchboard login TARGET")
            .for_scripts(ExitStatus::Auth, "auth"),
        CallError::Failed(why) => match why.status() {
            status @ Some(401 | 403) => failure
                .hint("sign in with: switchboard login TARGET")
                .hint("or send a token: --header 'Authorization: Bearer ${TOKEN}'")
                .for_scripts(ExitStatus::Auth, "auth")
                .with("status", status),
            status => failure
                .hint("find out why with: switchboard doctor TARGET")
                .for_scripts(ExitStatus::Unreachable, "unreachable")
                .with("status", status),
        },
        CallError::Server { code, data, .. } => {
            let failure = failure.for_scripts(ExitStatus::Failure, "server");
            failure.with("code", Some(code)).with("data", data)
        }
        _ => failure.for_scripts(ExitStatus::Failure, "other"),
    }
}

/// The arguments of a call: `json` first, then each word.
fn read_arguments(json: Option<&str>, words: &[String]) -> CommandResult<Map<String, Value>> {
    let mut arguments = match json.map(serde_json::from_str) {
        None => Map::new(),
        Some(Ok(Value::Object(given))) => given,
        Some(Ok(_)) => return Err(CommandError::new("--json wants an object")),
        Some(Err(error)) => return Err(CommandError::new(format!("--json is not JSON: {error}"))),
    };
    for word in words {
        let Some((name, text)) = word.split_once('=') else {
            let hint = "write k=v for text, k:=json for anything else";
            return wrong(format!("{word:?} is no argument"), hint);
        };
        let (name, value) = match name.strip_suffix(':') {
            Some(name) => (name, serde_json::from_str(text)),
            None => (name, Ok(text.into())),
        };
        let value = value.map_err(|error| {
            CommandError::new(format!("{name} is not JSON: {error}"))
                .hint(format!("for text, write {name}={text}"))
        })?;
        arguments.insert(name.to_owned(), value);
    }
    Ok(arguments)
}

pub(super) async fn prompt(request: &ClientRequest) -> CommandResult {
    let name = request.operand(0, "the name of the prompt")?;
    let arguments = request.arguments(1)?;
    let arguments = if arguments.is_empty() { Value::Null } else { arguments.into() };
    let client = request.connect().await?;
    let getting = client.prompt(name, arguments);
    let got = waiting(format!("waiting for {name}"), getting).await.map_err(failed)?;
    let messages = || got["messages"].as_array().into_iter().flatten();
    let blocks = messages().map(|message| message["content"].clone()).collect();
    let saved = request.save_media(name, &blocks)?;
    request.form.show(&got, |_| {
        let lines = messages().enumerate().map(|(at, message)| {
            let role = plain(message["role"].as_str().unwrap_or_default());
            let said = contents_with(&json!([message["content"]]), |_, _| saved.get(&at).cloned());
            format!("{role}: {said}")
        });
        lines.collect::<Vec<_>>().join("\n")
    });
    Ok(())
}

pub(super) async fn read(request: &ClientRequest) -> CommandResult {
    let uri = request.operand(0, "the URI of the resource")?;
    request.takes(1)?;
    let client = request.connect().await?;
    let read = waiting(format!("waiting for {uri}"), client.read(uri)).await.map_err(failed)?;
    let parts = read["contents"].as_array().into_iter().flatten();
    let blocks: Value = parts.map(|part| json!({"type": "resource", "resource": part})).collect();
    let saved = request.save_media("resource", &blocks)?;
    request.form.show(&read, |_| contents_with(&blocks, |at, _| saved.get(&at).cloned()));
    Ok(())
}

pub(super) async fn complete(request: &ClientRequest) -> CommandResult {
    let of = request.operand(0, "prompt:NAME or the template")?;
    let name = request.operand(1, "the name of the argument")?;
    let of = match of.strip_prefix("prompt:") {
        Some(prompt) => json!({"type": "ref/prompt", "name": prompt}),
        None => json!({"type": "ref/resource", "uri": of}),
    };
    let value = request.operands.get(2).map_or("", String::as_str);
    let context = request.arguments(3)?;
    request.saves_nothing()?;
    let client = request.connect().await?;
    let done = client.complete(of, name, value, context).await.map_err(failed)?;
    request.form.show(&done, |done| {
        let values = done["completion"]["values"].as_array().into_iter().flatten();
        values.map(|value| plain(value.as_str().unwrap_or_default())).collect::<Vec<_>>().join("\n")
    });
    Ok(())
}

pub(super) async fn discover(request: &ClientRequest) -> CommandResult {
    let client = request.connect_with(0).await?;
    let era = era_name(client.era());
    let found = json!({
        "era": era,
        "protocolVersion": client.revision(),
        "serverInfo": client.server(),
        "capabilities": client.capabilities(),
        "instructions": client.welcome()["instructions"],
        "supportedVersions": client.welcome()["supportedVersions"],
    });
    request.form.show(&found, |found| {
        let can = found["capabilities"].as_object().into_iter().flatten();
        let can = can.map(|(name, _)| plain(name)).collect::<Vec<_>>().join(", ");
        let server = &found["serverInfo"];
        let mut rows = vec![
            ("server", format!("{} {}", cell(&server["name"]), cell(&server["version"]))),
            ("protocol", format!("{} ({era})", cell(&found["protocolVersion"]))),
            ("can do", can),
        ];
        rows.extend(found["instructions"].as_str().map(|text| ("says", plain(text))));
        let lines = rows.iter().map(|(what, text)| format!("{what:8}  {}", text.trim()));
        lines.collect::<Vec<_>>().join("\n")
    });
    Ok(())
}

pub(super) async fn ping(request: &ClientRequest) -> CommandResult {
    let client = request.connect_with(0).await?;
    let sent = Instant::now();
    client.ping().await.map_err(failed)?;
    let millis = sent.elapsed().as_secs_f64() * 1000.0;
    request
        .form
        .show(&json!({ "milliseconds": millis }), |_| format!("answered in {millis:.1} ms"));
    Ok(())
}

/// Prints until the server ends it or a signal comes.
pub(super) async fn listen(request: &ClientRequest) -> CommandResult {
    let filter = filter(&request.operands)?;
    request.no_arguments()?;
    request.saves_nothing()?;
    let client = request.connect().await?;
    let mut listening = client.listen(filter).await.map_err(failed)?;
    let honoured = listening.honoured();
    tracing::info!(target: "switchboard::command::client::requests", "listening for {honoured}");
    while let Some(note) = listening.next().await {
        let line = match request.form {
            Form::Json => json!({"method": note.method, "params": note.params}).to_string(),
            Form::Text => format!("{} {}", plain(&note.method), cell(&note.params["uri"])),
        };
        write_line(line.trim_end());
    }
    if client.is_connected() {
        return Ok(());
    }
    Err(CommandError::new("Transport closed").for_scripts(ExitStatus::Unreachable, "unreachable"))
}

/// All lists, unless something is named.
fn filter(words: &[String]) -> CommandResult<ListenFilter> {
    let lists = ["tools", "prompts", "resources"];
    let strange = words.iter().find(|word| !word.contains(':') && !lists.contains(&word.as_str()));
    if let Some(strange) = strange {
        let hint = "name tools, prompts, resources, or the URI of a resource";
        return wrong(format!("{strange:?} is nothing to listen for"), hint).map_err(usage);
    }
    let has = |name: &str| words.is_empty() || words.iter().any(|word| word == name);
    let uris = words.iter().filter(|word| word.contains(':')).cloned().collect();
    let [tools, prompts, resources] = lists.map(has);
    Ok(ListenFilter { tools, prompts, resources, uris })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_text_or_json_and_come_last() {
        let words = ["a=1", "b:=[1,2]", "c=x=y", "d="].map(str::to_owned);
        let arguments = read_arguments(Some(r#"{"a":0,"z":true}"#), &words).unwrap();
        assert_eq!(
            Value::from(arguments),
            json!({"a": "1", "b": [1, 2], "c": "x=y", "d": "", "z": true})
        );
    }

    #[test]
    fn what_is_no_argument_is_refused() {
        for (json, word) in [(None, "a"), (None, "a:=x"), (Some("[]"), "a=1"), (Some("{"), "a=1")] {
            assert!(read_arguments(json, &[word.to_owned()]).is_err(), "{json:?} {word}");
        }
    }
}
