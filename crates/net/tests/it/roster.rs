//! The roster with real servers: some slow, some broken, some that change.

mod cached;
mod heal;
mod lists;
mod start;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use switchboard_net::roster::{Change, Changes, Roster, RosterOptions, ServerState};
use switchboard_testkit::within;

static FOLDERS: AtomicU64 = AtomicU64::new(1);

/// Patient enough for a busy machine.
fn patient() -> RosterOptions {
    RosterOptions::default().patience(Duration::from_secs(30))
}

/// Waits until a server stands so.
async fn until(
    changes: &mut Changes,
    name: &str,
    is_it: impl Fn(&ServerState) -> bool,
) -> ServerState {
    within(async {
        loop {
            match changes.next().await.expect("the roster is there") {
                Change::State { server, state } if *server == *name && is_it(&state) => {
                    return state;
                }
                _ => {}
            }
        }
    })
    .await
}

fn state(roster: &Roster, name: &str) -> ServerState {
    let servers = roster.servers();
    let found = servers.into_iter().find(|(found, _)| **found == *name);
    found.expect("it was added").1
}

/// `server/tool` of every tool; in brackets if it is of an earlier time.
fn tools(roster: &Roster) -> Vec<String> {
    let show = |tool: switchboard_net::roster::Definition| {
        let shown = format!("{}/{}", tool.server, tool.name());
        if tool.is_cached { format!("({shown})") } else { shown }
    };
    roster.tools().into_iter().map(show).collect()
}

fn names(deferred: &[switchboard_net::roster::Deferred]) -> Vec<Arc<str>> {
    deferred.iter().map(|server| Arc::clone(&server.name)).collect()
}

/// A folder for a cache, gone when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("switchboard-roster-{}-{number}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It may never have been made.
        _ = std::fs::remove_dir_all(&self.0);
    }
}
