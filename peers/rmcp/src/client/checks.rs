//! The checks by name. Each takes the shared connection and leaves it usable.

mod asks;
mod calls;
mod changes;
mod lists;
mod notes;

use self::{
    asks::{elicit, roots, sample, sample_tools, visit},
    calls::{big, cancel, echo, parallel, restart, unicode, unknown_tool},
    changes::{list_changed, subscribe},
    lists::list,
    notes::{log, progress},
};
use super::connection::Connection;
use crate::era::Failure;

/// What runs when nothing is asked for; `restart` needs a bridge that starts servers again.
pub(crate) const DEFAULT: [&str; 17] = [
    "connect",
    "list",
    "echo",
    "unicode",
    "big",
    "progress",
    "cancel",
    "elicit",
    "visit",
    "sample",
    "sample_tools",
    "roots",
    "log",
    "subscribe",
    "list_changed",
    "parallel",
    "unknown_tool",
];

pub(crate) async fn run(check: &str, connection: &Connection) -> Result<(), Failure> {
    match check {
        "list" => list(connection).await,
        "echo" => echo(connection).await,
        "unicode" => unicode(connection).await,
        "big" => big(connection).await,
        "progress" => progress(connection).await,
        "cancel" => cancel(connection).await,
        "elicit" => elicit(connection).await,
        "visit" => visit(connection).await,
        "sample" => sample(connection).await,
        "sample_tools" => sample_tools(connection).await,
        "roots" => roots(connection).await,
        "log" => log(connection).await,
        "subscribe" => subscribe(connection).await,
        "list_changed" => list_changed(connection).await,
        "parallel" => parallel(connection).await,
        "unknown_tool" => unknown_tool(connection).await,
        "restart" => restart(connection).await,
        _ => Err("no such check".into()),
    }
}

/// Fails unless both are the same, and shows them.
fn same<T: PartialEq + std::fmt::Debug>(found: &T, expected: &T) -> Result<(), Failure> {
    if found == expected {
        return Ok(());
    }
    Err(format!("expected {expected:?}, found {found:?}").into())
}
