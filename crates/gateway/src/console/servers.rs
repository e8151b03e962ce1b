//! The servers as somebody may see them, and what needs somebody.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use serde_json::{Map, Value, json};
use switchboard_net::client::Client;
use switchboard_net::roster::{ListKind, ServerState};
use switchboard_net::upstream::Target;
use switchboard_proto::failure::Failure;
use switchboard_proto::{Table, method, moment};

use super::charts::{CallSum, sums_by_server};
use super::masked_text::is_by_name;
use super::sign_in::Viewer;
use super::{ApiError, ApiResult, Console};
use crate::fleet::{Fleet, RunningServer};
use crate::plan::{PlanSecret, ServerPlan};
use crate::status::{era_name, state_word, transport};

/// Tools of one server that are shown with their figures.
const MAX_TOOLS: usize = 200;

/// Characters of what else is said of a failure.
const MAX_HINT: usize = 600;

/// What is known of all servers at one time, as somebody may see it.
pub(super) struct ServersView<'v> {
    fleet: &'v Fleet,
    viewer: &'v Viewer,
    states: BTreeMap<Arc<str>, ServerState>,
    sums: BTreeMap<String, CallSum>,
    /// Tools, prompts and resources of each server.
    lists: Table<Arc<str>, [usize; 3]>,
}

impl<'v> ServersView<'v> {
    pub(super) fn new(fleet: &'v Fleet, viewer: &'v Viewer) -> Self {
        let (grant, is_whole) = (&viewer.principal.grant, viewer.is_whole());
        let sees = |server: &str, tool: &str| {
            is_whole || grant.has_server(server) && grant.has_tool(server, tool)
        };
        Self {
            fleet,
            viewer,
            states: fleet.states().into_iter().collect(),
            sums: sums_by_server(fleet.monitor(), sees),
            lists: count_lists(fleet, is_whole, sees),
        }
    }

    /// The servers that are there for this viewer.
    fn running(&self) -> Vec<(Arc<str>, Arc<RunningServer>)> {
        let all = self.fleet.running_servers();
        let own = all.iter().filter(|(name, _)| self.viewer.has_server(name));
        own.map(|(name, running)| (Arc::clone(name), Arc::clone(running))).collect()
    }

    /// A row for each server, by name.
    pub(super) fn rows(&self, console: &Console) -> Vec<Value> {
        let all = self.running();
        let running = all.iter().map(|(name, running)| self.row(console, name, running).into());
        running.chain(console.stopped_rows(self.viewer)).collect()
    }

    fn row(&self, console: &Console, name: &str, running: &RunningServer) -> Map<String, Value> {
        let (fleet, bridge) = (self.fleet, &running.bridge);
        let state = self.states.get(name);
        let word = state_word(fleet, name, state);
        let state = state.filter(|_| word != "personal");
        let error = state.and_then(|state| state.reason.as_ref());
        let next = state.and_then(|state| state.next_attempt);
        let next = next.map(|at| at.saturating_duration_since(Instant::now()).as_millis());
        let known = fleet.roster.known(name);
        let sum = self.sums.get(name).copied().unwrap_or_default();
        let [tools, prompts, resources] = self.lists.get(name).copied().unwrap_or_default();
        let mut row = json!({
            "name": name,
            "state": word,
            "since": console.history.since(name),
            "error": error.map(Failure::summary),
            "errorKind": error.map(Failure::kind),
            "hint": error.and_then(|why| self.hint(console, why)),
            "nextAttemptMs": next.and_then(|wait| u64::try_from(wait).ok()),
            "era": known.as_ref().map(|client| era_name(client.era())),
            "revision": known.as_ref().map(Client::revision),
            "transport": transport(bridge.server()),
            "calls": sum.calls,
            "errors": sum.errors,
            "p50Ms": sum.quantile(0.5),
            "p95Ms": sum.quantile(0.95),
            "tools": tools,
            "prompts": prompts,
            "resources": resources,
            "people": fleet.ready_people(name),
        });
        if self.viewer.is_whole() {
            let traffic = bridge.server().traffic();
            row["openCalls"] = bridge.calls().into();
            row["queued"] = bridge.queued().into();
            row["children"] = traffic.children().into();
            row["restarts"] = traffic.restarted().into();
        }
        if let Value::Object(row) = row { row } else { Map::new() }
    }

    /// What else the log says of a failure, for those from whom nothing is kept.
    fn hint(&self, console: &Console, why: &Failure) -> Option<String> {
        let whole = why.to_string();
        let is_more = self.viewer.is_whole() && whole != why.summary();
        is_more.then(|| console.veiled(&whole))
    }

    /// One server, with all that there is to say of it.
    fn whole(&self, console: &Console, name: &str, running: &RunningServer) -> Value {
        let mut server = self.row(console, name, running);
        let known = self.fleet.roster.known(name);
        let welcome = known.as_ref().map(|client| client.welcome()["instructions"].clone());
        let plan = &running.plan;
        server.insert("info".into(), known.as_ref().map(Client::server).cloned().into());
        server.insert("instructions".into(), welcome.into());
        let capabilities = known.as_ref().map(Client::capabilities).cloned();
        server.insert("capabilities".into(), capabilities.into());
        server.insert(
            "description".into(),
            plan.description.as_ref().map(|it| console.veiled(it)).into(),
        );
        server.insert("paths".into(), json!({"mcp": format!("/servers/{name}/mcp")}));
        let prefix = plan.prefix.as_deref().unwrap_or(&plan.name);
        server.insert("prefix".into(), prefix.into());
        server.insert("history".into(), console.history.of(name).into());
        server.insert("byTool".into(), self.by_tool(name).into());
        let is_whole = self.viewer.is_whole();
        server.insert("actions".into(), console.actions(self.viewer, false).into());
        if is_whole {
            let secrets = PlanSecret::collect(&[&console.gateway.plan()]);
            server.insert("entry".into(), entry(plan, &secrets));
        }
        server.into()
    }

    fn by_tool(&self, name: &str) -> Vec<Value> {
        let (grant, mut rows) = (&self.viewer.principal.grant, Vec::new());
        self.fleet.monitor().counts().each_tool(|labels, series| {
            let [(_, server), (_, tool)] = labels else { return };
            if *server == name && (self.viewer.is_whole() || grant.has_tool(server, tool)) {
                rows.push(((*tool).to_owned(), CallSum::of_series(series)));
            }
        });
        rows.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.calls));
        rows.truncate(MAX_TOOLS);
        let row = |(tool, sum): (String, CallSum)| {
            let (p50, p95) = (sum.quantile(0.5), sum.quantile(0.95));
            json!({"tool": tool, "calls": sum.calls, "errors": sum.errors, "p50Ms": p50, "p95Ms": p95})
        };
        rows.into_iter().map(row).collect()
    }

    /// What needs somebody, the worst first.
    fn needs(&self, console: &Console) -> Vec<Value> {
        let mut needs = Vec::new();
        for (name, _) in self.running() {
            let Some(state) = self.states.get(&name) else { continue };
            let Some(reason) = &state.reason else { continue };
            let (rank, kind) = match state_word(self.fleet, &name, Some(state)) {
                _ if reason.is_sign_in() => (1, "sign_in_needed"),
                "failed" => (0, "server_failed"),
                "retrying" => (2, "server_retrying"),
                _ => continue,
            };
            let wait = state.next_attempt.map(|at| at.saturating_duration_since(Instant::now()));
            let wait = wait.and_then(|wait| u64::try_from(wait.as_millis()).ok());
            let need = json!({
                "kind": kind,
                "server": &*name,
                "text": reason.summary(),
                "errorKind": reason.kind(),
                "hint": self.hint(console, reason),
                "nextAttemptMs": wait,
            });
            needs.push((rank, need));
        }
        needs.sort_by_key(|(rank, _)| *rank);
        needs.into_iter().map(|(_, need)| need).collect()
    }

    /// How many servers there are, how many of them are ready, and their tools.
    fn counts(&self) -> (usize, usize, usize) {
        let running = self.running();
        let is_up = |name: &Arc<str>| {
            let state = self.states.get(name);
            matches!(state_word(self.fleet, name, state), "ready" | "asleep" | "personal")
        };
        let ready = running.iter().filter(|(name, _)| is_up(name)).count();
        let tools = running.iter().filter_map(|(name, _)| self.lists.get(name)).map(|it| it[0]);
        (running.len(), ready, tools.sum())
    }
}

/// How many tools, prompts and resources each server shows to somebody who sees all tools, or
/// `sees` some.
fn count_lists(
    fleet: &Fleet,
    sees_all: bool,
    sees: impl Fn(&str, &str) -> bool,
) -> Table<Arc<str>, [usize; 3]> {
    let mut lists: Table<Arc<str>, [usize; 3]> = Table::default();
    let kinds = [ListKind::Tools, ListKind::Prompts, ListKind::Resources];
    let running = fleet.running_servers();
    for (at, kind) in kinds.into_iter().enumerate() {
        for definition in fleet.roster.definitions(kind) {
            let Some(server) = running.get(&definition.server) else { continue };
            let filter = server.plan.filter(kind);
            // Most servers show all that they have: then no name is read.
            let is_shown = (filter.is_open() || filter.lets(&definition.name()))
                && (at > 0 || sees_all || sees(&definition.server, &definition.name()));
            if is_shown {
                lists.entry(definition.server).or_default()[at] += 1;
            }
        }
    }
    lists
}

/// The entry of a server, with the name of each secret in its place (C-36).
pub(super) fn entry(plan: &ServerPlan, secrets: &[PlanSecret]) -> Value {
    // What a variable stands for is not told, however short it is.
    let filled = plan.filled_in.iter().filter(|(_, value)| !value.is_empty());
    let filled: Vec<_> = filled.map(|(name, value)| (format!("${{{name}}}"), value)).collect();
    let veil = |text: &str| {
        let text = PlanSecret::veil(text, secrets).into_owned();
        let is_given = filled.iter().find(|(name, value)| text.contains(*value) && text != *name);
        is_given.map_or(text, |(name, _)| name.clone())
    };
    let mask = |name: &str, value: &str| {
        let is_shown = is_by_name(value);
        let shown = if is_shown { value.to_owned() } else { format!("${{{name}}}") };
        (name.to_owned(), Value::from(shown))
    };
    match &plan.target {
        Target::Command(command) => {
            let env: Map<_, _> = command.env.iter().map(|(name, it)| mask(name, it)).collect();
            let args: Vec<_> = command.args.iter().map(|arg| veil(arg)).collect();
            let mut entry = json!({"command": veil(&command.program), "args": args, "env": env});
            if let Some(cwd) = &command.cwd {
                entry["cwd"] = veil(&cwd.display().to_string()).into();
            }
            entry
        }
        Target::Url { url, headers, .. } => {
            let headers = headers.iter().map(|(name, value)| {
                mask(name.as_str(), &String::from_utf8_lossy(value.as_bytes()))
            });
            let headers: Map<_, _> = headers.collect();
            let host = url.authority().map_or("", |it| it.as_str());
            let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
            let scheme = url.scheme_str().unwrap_or("http");
            let names = url.query().map(|query| {
                let name = |pair: &str| pair.split('=').next().unwrap_or_default().to_owned();
                let masked = query.split('&').map(|pair| format!("{0}=${{{0}}}", name(pair)));
                format!("?{}", masked.collect::<Vec<_>>().join("&"))
            });
            let place = format!("{scheme}://{host}{}", veil(url.path()));
            json!({"url": format!("{place}{}", names.unwrap_or_default()), "headers": headers})
        }
    }
}

impl Console {
    /// A text in which secrets of the configuration are shown by name, and which is short.
    pub(super) fn veiled(&self, text: &str) -> String {
        let secrets = PlanSecret::collect(&[&self.gateway.plan()]);
        PlanSecret::veil(text, &secrets).chars().take(MAX_HINT).collect()
    }

    pub(super) fn servers(&self, viewer: &Viewer) -> Value {
        let view = ServersView::new(self.gateway.fleet(), viewer);
        json!({"rows": view.rows(self)})
    }

    pub(super) fn server(&self, viewer: &Viewer, name: &str) -> ApiResult {
        let view = ServersView::new(self.gateway.fleet(), viewer);
        if let Some(stopped) = self.stopped_server(viewer, name) {
            return Ok(stopped);
        }
        let running = self.running(viewer, name)?;
        Ok(view.whole(self, name, &running))
    }

    /// A server that is there for this viewer.
    pub(super) fn running(&self, viewer: &Viewer, name: &str) -> ApiResult<Arc<RunningServer>> {
        let running = self.gateway.fleet().running(name).filter(|_| viewer.has_server(name));
        let unknown = || ApiError::not_found(format!("there is no server {name:?}"));
        running.ok_or_else(unknown)
    }

    pub(super) fn overview(&self, viewer: &Viewer) -> Value {
        let fleet = self.gateway.fleet();
        let view = ServersView::new(fleet, viewer);
        json!({
            "at": moment::text(SystemTime::now()),
            "version": env!("CARGO_PKG_VERSION"),
            "uptimeSeconds": fleet.began.elapsed().as_secs(),
            "needs": self.needs(&view),
            "totals": self.totals(&view),
            "charts": self.charts.shown(viewer, fleet, None),
        })
    }

    /// What needs somebody: servers, and the configuration file.
    pub(super) fn needs(&self, view: &ServersView<'_>) -> Vec<Value> {
        let mut needs = view.needs(self);
        needs.extend(self.safety_needs(view.viewer));
        needs.extend(self.config_need().filter(|_| view.viewer.is_whole()));
        needs
    }

    /// The figures of the last minute.
    pub(super) fn totals(&self, view: &ServersView<'_>) -> Value {
        let (servers, ready, tools) = view.counts();
        let monitor = view.fleet.monitor();
        let (mut sum, now) = (CallSum::default(), SystemTime::now());
        let is_recent = |at: SystemTime| now.duration_since(at).is_ok_and(|age| age.as_secs() < 60);
        // Calls are kept in the order in which they ended.
        for call in monitor.calls().after(0) {
            // As the page of a server counts them.
            if call.server.is_some()
                && call.method() == method::CALL_TOOL
                && is_recent(call.at() + call.took())
                && view.viewer.sees(&call)
            {
                sum.add_call(&call);
            }
        }
        let (sessions, open) = self.open_sessions(view.viewer);
        let open_calls = if view.viewer.is_whole() { monitor.open_calls() } else { open };
        json!({
            "servers": servers,
            "ready": ready,
            "tools": tools,
            "sessions": sessions,
            "openCalls": open_calls,
            "callsPerMinute": sum.calls,
            "errorsPerMinute": sum.errors,
            "p50Ms": sum.quantile(0.5),
            "p95Ms": sum.quantile(0.95),
        })
    }
}
