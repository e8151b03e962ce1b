//! The checking client: connects once, runs the checks in turn, prints a line for each.

mod answers;
mod checks;
mod connection;

use std::time::Duration;

use clap::Args;
use serde_json::json;

use self::connection::Connection;
use crate::era::{Era, Failure, Transport};

/// What one check has to end in.
const CHECK_TIME: Duration = Duration::from_secs(10);
/// `restart` has two waits: until the call of `die` failed, then until the server is back.
const RESTART_TIME: Duration = Duration::from_secs(25);

#[derive(Args)]
pub(crate) struct Options {
    #[arg(long)]
    era: Era,
    #[arg(long)]
    transport: Transport,
    /// Checks to run, in this order
    #[arg(long, value_delimiter = ',', default_values_t = checks::DEFAULT.map(str::to_owned))]
    checks: Vec<String>,
    /// The server, for `http`
    #[arg(long)]
    url: Option<String>,
    /// The server, for `stdio`
    #[arg(last = true)]
    command: Vec<String>,
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
        print(check, outcome);
    }
    if let Ok(connection) = opened {
        connection.close().await;
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

fn print(check: &str, outcome: Result<(), String>) {
    let line = match outcome {
        Ok(()) => json!({ "check": check, "ok": true }),
        Err(detail) => json!({ "check": check, "ok": false, "detail": detail }),
    };
    println!("{line}");
}
