//! A front before a real child.

use switchboard_net::roster::Change;
use switchboard_net::stdio::child::Command;
use switchboard_net::upstream::{Server, Target};

use super::*;
use crate::fleet::FleetOptions;
use crate::plan::{Plan, ServerPlan};

/// A server with one tool, in a few lines of shell.
pub(crate) const SERVER: &str = r#"while read -r line; do
  id=${line#*'"id":'}; id=${id%%[,\}]*}
  case $line in
    *'"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}';;
    *'"tools/list"'*) result='{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}';;
    *'"id"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id"; continue;;
    *) continue;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done"#;

/// However far behind the task is that tells clients of changes.
#[tokio::test]
async fn who_hears_that_a_server_offers_something_finds_it_at_once() {
    let command = Command::new("sh").args(&["-c".to_owned(), SERVER.to_owned()]);
    let server = ServerPlan::new("s", Target::Command(command.clone()));
    let plan = Plan { servers: [("s".to_owned(), server)].into(), ..Plan::default() };
    let path = std::env::var_os("PATH").map(|path| ("PATH".into(), path));
    let environment: Vec<_> = path.into_iter().collect();
    let fleet = Fleet::start(&plan, FleetOptions::default(), move |_| {
        Server::command(command.clone(), environment.clone())
    });
    let fleet = fleet.unwrap();
    let mut changes = fleet.roster.changes();
    let front = Front::unwatched(&fleet, fleet.names(), Grant::default(), None, None);
    let is_tools = |change| matches!(change, Change::Definitions { kind: Kind::Tools, .. });
    while !is_tools(changes.next().await.unwrap()) {}
    assert!(front.catalog().tool("s__t").is_some());
    fleet.close().await;
}
