//! The checking client: connects once, runs the checks in turn, prints a line for each.

mod asks;
mod calls;
mod checks;
mod lists;
mod notes;

use std::time::Duration;

use clap::Args;
use http::{HeaderMap, Uri};
use serde_json::{Value, json};
use switchboard_net::client::{Client, ClientOptions, Notification};
use switchboard_net::http::fetch::{Fetch, FetchOptions};
use switchboard_net::stdio::child::Command;
use switchboard_net::upstream::{ServerTarget, Strategy};
use tokio::sync::broadcast;

use crate::{Failure, Speech, Transport};

/// What one check has to end in.
const CHECK_TIME: Duration = Duration::from_secs(10);
/// `restart` has two waits: until the call of `die` failed, then until the server is back.
const RESTART_TIME: Duration = Duration::from_secs(25);
/// Notes a check may leave unread before it misses some.
const NOTES_KEPT: usize = 1024;

#[derive(Args)]
pub(crate) struct Options {
    #[arg(long)]
    era: Speech,
    /// Find out the era, and check that it is this one
    #[arg(long)]
    probe: bool,
    #[arg(long)]
    transport: Transport,
    /// Checks to run, in this order
    #[arg(long, value_delimiter = ',', default_values_t = checks::DEFAULT.map(str::to_owned))]
    checks: Vec<String>,
    /// The server, for `http` and `sse`
    #[arg(long)]
    url: Option<Uri>,
    /// The server, for `stdio`
    #[arg(last = true)]
    command: Vec<String>,
}

/// A connection, and what the server says of its own accord.
struct Connection {
    client: Client,
    notes: broadcast::Sender<Notification>,
}

/// Whether every check passed.
pub(crate) async fn run(options: Options) -> Result<bool, Failure> {
    let connecting = Connection::open(&options);
    let opened = tokio::time::timeout(CHECK_TIME, connecting)
        .await
        .unwrap_or_else(|_| Err("connecting took more than 10 s".into()));
    let mut all_ok = true;
    for check in &options.checks {
        let outcome = match &opened {
            Ok(_) if check == "connect" => Ok(()),
            Ok(connection) => one(check, connection).await,
            Err(error) if check == "connect" => Err(error.to_string()),
            Err(_) => Err("not connected".to_owned()),
        };
        all_ok &= outcome.is_ok();
        let line = match outcome {
            Ok(()) => json!({"check": check, "ok": true}),
            Err(detail) => json!({"check": check, "ok": false, "detail": detail}),
        };
        println!("{line}");
    }
    if let Ok(connection) = opened {
        connection.client.close().await;
    }
    Ok(all_ok)
}

async fn one(check: &str, connection: &Connection) -> Result<(), String> {
    let time = if check == "restart" { RESTART_TIME } else { CHECK_TIME };
    tokio::time::timeout(time, checks::run(check, connection))
        .await
        .unwrap_or_else(|_| Err(format!("took more than {} s", time.as_secs()).into()))
        .map_err(|error| error.to_string())
}

impl Connection {
    async fn open(options: &Options) -> Result<Self, Failure> {
        let (notes, _) = broadcast::channel(NOTES_KEPT);
        let told = notes.clone();
        let mut settings = asks::answering(ClientOptions::default()).on_notification(move |note| {
            // An error means that no check waits for notes just now.
            _ = told.send(note);
        });
        let wanted = options.era.era().ok_or("a client speaks one era: legacy or modern")?;
        settings.era = (!options.probe).then_some(wanted);
        let client = settings.connect(server(options)?).await?;
        if client.era() != wanted {
            client.close().await;
            return Err(format!("the server speaks {}, of the other era", client.revision()).into());
        }
        Ok(Self { client, notes })
    }

    /// Every note from here on.
    fn notes(&self) -> broadcast::Receiver<Notification> {
        self.notes.subscribe()
    }

    /// Calls a tool and returns the one text of the result.
    async fn call(&self, tool: &str, arguments: Value) -> Result<String, Failure> {
        only_text(&self.client.call_tool(tool, arguments).await?)
    }
}

fn server(options: &Options) -> Result<ServerTarget, Failure> {
    let strategy = match options.transport {
        Transport::Stdio => {
            let (name, args) =
                options.command.split_first().ok_or("stdio needs a command after --")?;
            let command = Command::new(name).args(args.iter().cloned());
            return Ok(ServerTarget::command(command, std::env::vars_os().collect()));
        }
        Transport::Http => Strategy::HttpOnly,
        Transport::Sse => Strategy::SseOnly,
    };
    let url = options.url.clone().ok_or("http and sse need --url")?;
    let fetch = Fetch::new(FetchOptions::default())?;
    Ok(ServerTarget::url(url, strategy, HeaderMap::new(), fetch))
}

/// The text of a result that is one text item and no error.
fn only_text(result: &Value) -> Result<String, Failure> {
    if result["isError"] == true {
        return Err(format!("the tool failed: {}", result["content"]).into());
    }
    match result["content"].as_array().map(Vec::as_slice) {
        Some([only]) => match only["text"].as_str() {
            Some(text) => Ok(text.to_owned()),
            None => Err("the result is not text".into()),
        },
        _ => Err(format!("the result is not one item: {}", result["content"]).into()),
    }
}
