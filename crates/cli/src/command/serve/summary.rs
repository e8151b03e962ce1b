//! What `serve` says once its servers are ready or could not be reached: how the start went, and
//! how to connect a client.
//!
//! ```text
//! 2 of 3 servers are ready: 55 tools, 2 prompts
//!   search is down (command not found); next try in 60 s
//! ```

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use switchboard_gateway::config::{GATEWAY_NAME as NAME, USUAL_GATEWAY as USUAL};
use switchboard_gateway::gateway::Gateway;
use switchboard_gateway::plan::Plan;
use switchboard_net::roster::{Deferred, ListCounts};
use switchboard_net::{OwnedTask, now};
use switchboard_proto::failure::down_text;

use super::base_url;
use crate::log::PLAIN;
use crate::serve::ServedAt;

/// How long servers may take before the summary names them as starting: longer than a program
/// takes that is installed, shorter than anybody waits for one that is not.
const PATIENCE: Duration = Duration::from_secs(10);

/// Waits for the servers and tells how the start went; a gateway that listens also tells how
/// to connect clients, and the link to its console. Ends with what is returned.
pub(super) fn tell(
    gateway: &Arc<Gateway>,
    at: Option<ServedAt>,
    console: Option<String>,
) -> OwnedTask {
    let gateway = Arc::clone(gateway);
    OwnedTask::spawn(async move {
        let fleet = gateway.fleet();
        let late = fleet.ready_within(PATIENCE).await;
        let mut lines = started(fleet.names().len(), &late, fleet.counts());
        if let Some(at) = at {
            let plan = gateway.plan();
            let program = std::env::current_exe().unwrap_or_else(|_| NAME.into());
            let program = program.to_string_lossy();
            lines.extend(connecting(&client_base(&plan, at), wants_key(&plan), &program));
        }
        // Last, where people look first.
        lines.extend(console.map(|link| format!("Open the console: {link}")));
        tracing::info!(target: PLAIN, "{}", lines.join("\n"));
    })
}

/// How the start of so many servers went.
fn started(all: usize, late: &[Deferred], counts: ListCounts) -> Vec<String> {
    let ready = all.saturating_sub(late.len());
    let are = if all == 1 { "server is" } else { "servers are" };
    let mut lines = vec![format!("{ready} of {all} {are} ready: {counts}")];
    lines.extend(late.iter().map(|Deferred { name, state, .. }| {
        let next = state.next_attempt.map(|at| at.saturating_duration_since(now()));
        match &state.reason {
            Some(reason) => format!("  {name} {}", down_text(&reason.summary(), next)),
            None => format!("  {name} is still starting"),
        }
    }));
    lines
}

/// Where clients find the gateway, without a path. If it listens on all addresses of this
/// machine, a client on this machine is meant.
pub(super) fn client_base(plan: &Plan, at: ServedAt) -> String {
    base_url(plan, at).unwrap_or_else(|| local_base(at))
}

/// Where something is found at this machine, without a path.
pub(super) fn local_base(at: ServedAt) -> String {
    let (address, scheme) = (at.address, at.scheme());
    let is_any = address.ip().is_unspecified();
    match is_any.then(|| address.port()) {
        Some(port) => format!("{scheme}://localhost:{port}"),
        None => format!("{scheme}://{address}"),
    }
}

fn wants_key(plan: &Plan) -> bool {
    !plan.access.is_open() && !plan.access.principals.is_empty()
}

/// What to paste into which client. `program` is the file of this one: programs with windows
/// are often started without the user's `PATH`.
fn connecting(base: &str, wants_key: bool, program: &str) -> Vec<String> {
    let url = format!("{base}/mcp");
    let (mut args, mut flag, mut headers) = (vec!["bridge", &url], "", "");
    if wants_key {
        args.extend(["--header", "Authorization: Bearer KEY"]);
        flag = " --header \"Authorization: Bearer KEY\"";
        headers = r#","headers":{"Authorization":"Bearer KEY"}"#;
    }
    let args = Value::from(args);
    let program = Value::from(program);
    let is_usual = base == USUAL;
    let status = if is_usual { String::new() } else { format!(" {base}") };
    let elsewhere = if is_usual { String::new() } else { format!(" --url {url}") };
    vec![
        String::new(),
        format!("Connect a client to {url}:"),
        format!("  Claude Code     claude mcp add --transport http {NAME} {url}{flag}"),
        format!(
            r#"  Claude Desktop  in claude_desktop_config.json, "mcpServers": "{NAME}":{{"command":{program},"args":{args}}}"#
        ),
        format!(
            r#"  Cursor          in ~/.cursor/mcp.json, "mcpServers": "{NAME}":{{"url":"{url}"{headers}}}"#
        ),
        format!(
            r#"  VS Code         code --add-mcp '{{"name":"{NAME}","type":"http","url":"{url}"{headers}}}'"#
        ),
        format!(
            "Write the entry into the file of any client: {NAME} install --client NAME{elsewhere}{flag}"
        ),
        format!("See how the gateway stands: {NAME} status{status}"),
    ]
}

#[cfg(test)]
mod tests {
    use switchboard_net::roster::{ServerPhase, ServerState};
    use switchboard_proto::failure::Failure;

    use super::*;

    #[test]
    fn servers_that_are_not_ready_are_named_with_the_reason() {
        let late = |name: &str, state| Deferred { name: name.into(), state, is_cached: false };
        let refused = Failure::HttpStatus { status: 401, text: "s3cret".into(), challenge: None };
        let lines = started(
            3,
            &[
                late("a", ServerState::down(ServerPhase::Failed, refused, None)),
                late("b", ServerState::new(ServerPhase::Starting)),
            ],
            ListCounts([2, 1, 0, 0]),
        );
        let expected = [
            "1 of 3 servers are ready: 2 tools, 1 prompt",
            "  a is down (HTTP 401: Unauthorized); restart it, or call it again later",
            "  b is still starting",
        ];
        assert_eq!(lines, expected);
        assert_eq!(started(1, &[], ListCounts::default()), ["1 of 1 server is ready: no tools"]);
    }

    #[test]
    fn each_client_has_a_line_that_can_be_pasted() {
        for (wants_key, keys) in [(false, 0), (true, 5)] {
            let lines = connecting(USUAL, wants_key, "/bin/switchboard");
            let text = lines.join("\n");
            assert_eq!(text.matches("Bearer KEY").count(), keys, "{text}");
            for line in &lines {
                let Some(at) = line.find('{') else { continue };
                let entry: Value = serde_json::from_str(line[at..].trim_end_matches('\'')).unwrap();
                let place = entry["url"].as_str().or(entry["args"][1].as_str());
                assert_eq!(place, Some("http://127.0.0.1:3001/mcp"), "{line}");
            }
            assert!(text.ends_with("switchboard status"), "{text}");
        }
        let elsewhere = connecting("http://127.0.0.1:9", false, "").join("\n");
        let install = "switchboard install --client NAME --url http://127.0.0.1:9/mcp\n";
        assert!(elsewhere.contains(install), "{elsewhere}");
        assert!(elsewhere.ends_with("switchboard status http://127.0.0.1:9"), "{elsewhere}");
    }
}
