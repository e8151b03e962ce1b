//! `switchboard serve`: many servers behind one address.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use switchboard_gateway::config::{Config, Problem, Weight};
use switchboard_gateway::fleet::{Fleet, FleetOptions};
use switchboard_gateway::front::Front;
use switchboard_gateway::plan::{Bounds, Plan, Process, ServerPlan, Sleep, ToolSearch};
use switchboard_net::roster::Cache;
use switchboard_net::stdio::child::Command;
use switchboard_net::upstream::Target;
use switchboard_proto::limits::Limits;

use crate::args::{GatewayArgs, ServeArgs, WebArgs};
use crate::exit::Failure;
use crate::serve::Offer;
use crate::serve::web::{self, Place};
use crate::signal::Stop;
use crate::target;

mod otel;
mod seeing;

/// Serves until a signal, or until the client on our stdio is gone.
pub(crate) async fn run(args: &GatewayArgs) -> Result<(), Failure> {
    let plan = plan(args)?;
    if args.check {
        return Ok(());
    }
    check_reach(args, &plan)?;
    let stop = Stop::on_signals().map_err(|error| Failure::of(&error))?;
    let limits = Limits::default();
    let fetch = target::fetch_as_usual()?;
    let tap = seeing::tap(&plan, &fetch);
    let options = FleetOptions { limits: limits.clone(), cache: cache(args), tap };
    let fleet = Fleet::start(&plan, options, |server| {
        server.server(target::environment(), fetch.clone(), &HeaderMap::new())
    });
    let fleet = fleet.map_err(|error| Failure::of(&error))?;
    let fronts = fronts(&fleet, &plan);
    let stopped = stop.clone().asked();
    let listening: Vec<_> = fronts.iter().map(|(_, front)| Arc::clone(front)).collect();
    tokio::spawn(async move {
        stopped.await;
        // Listens would go on for ever.
        for front in listening {
            front.close();
        }
    });
    let ended = serve(args, &plan, &fleet, fronts, Arc::new(limits), stop).await;
    fleet.close().await;
    fleet.tap().flush().await;
    ended
}

/// All servers together, and each group.
fn fronts(fleet: &Arc<Fleet>, plan: &Plan) -> Vec<(Place, Arc<Front>)> {
    let mut fronts = vec![(Place::Root, Front::new(fleet, fleet.names().cloned()))];
    for (name, members) in &plan.groups {
        let members = members.iter().map(|member| Arc::from(member.as_str()));
        fronts.push((Place::Group(name.clone()), Front::new(fleet, members)));
    }
    fronts
}

async fn serve(
    args: &GatewayArgs,
    plan: &Plan,
    fleet: &Arc<Fleet>,
    fronts: Vec<(Place, Arc<Front>)>,
    limits: Arc<Limits>,
    stop: Stop,
) -> Result<(), Failure> {
    let shared = plan.servers.values().any(|server| server.process == Process::Shared);
    let mut offers: Vec<_> = fronts
        .into_iter()
        .map(|(place, front)| {
            let inside = seeing::many(fleet, front, args.stdio);
            let limits = Arc::clone(&limits);
            (place, Offer { inside, shared, limits })
        })
        .collect();
    if args.stdio {
        offers.truncate(1);
        let Some((_, all)) = offers.pop() else { return Ok(()) };
        return all.serve(&serve_args(args, plan), None, stop).await;
    }
    for name in fleet.names() {
        if let Some((inside, shared)) = fleet.alone(name) {
            let (inside, limits) = (seeing::one(fleet, name, inside), Arc::clone(&limits));
            offers.push((Place::Server(name.to_string()), Offer { inside, shared, limits }));
        }
    }
    let web = WebArgs { api_key: args.api_key.clone(), ..WebArgs::default() };
    let port = args.port.or(plan.listen.port).unwrap_or(3001);
    let pages = seeing::pages(fleet);
    web::serve_with(offers, pages, port, &serve_args(args, plan), &web, stop).await
}

fn serve_args(args: &GatewayArgs, plan: &Plan) -> ServeArgs {
    ServeArgs {
        port: args.port,
        host: host(args, plan),
        allow_host: [args.allow_host.as_slice(), &plan.listen.hosts].concat(),
        allow_origin: [args.allow_origin.as_slice(), &plan.listen.origins].concat(),
        session_timeout: args.session_timeout,
        keep_alive: 15,
        request_timeout: 30,
        hang_up_after: Duration::ZERO,
    }
}

fn host(args: &GatewayArgs, plan: &Plan) -> String {
    let host = args.host.clone().or_else(|| plan.listen.host.clone());
    host.unwrap_or_else(|| "127.0.0.1".to_owned())
}

/// Other machines come in only if they show who they are, or the user insists.
fn check_reach(args: &GatewayArgs, plan: &Plan) -> Result<(), Failure> {
    let host = host(args, plan);
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_here = bare == "localhost"
        || bare.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback());
    let is_meant = args.allow_unauthenticated || plan.listen.unauthenticated;
    if args.stdio || is_here || args.api_key.is_some() || is_meant {
        return Ok(());
    }
    Err(Failure::new(format!("on {host} anybody who reaches this machine could use every server"))
        .hint("let in only who has a key: --api-key '${KEY}'")
        .hint("or say that anybody may come in: --allow-unauthenticated"))
}

/// What the files mean; the built-in server if there are none.
fn plan(args: &GatewayArgs) -> Result<Plan, Failure> {
    if args.config.is_empty() {
        let program = std::env::current_exe().map_err(|error| Failure::of(&error))?;
        let command = Command::new(program.to_string_lossy()).args(&["demo".to_owned()]);
        let demo = ServerPlan::new("demo", Target::Command(command));
        let servers = [("demo".to_owned(), demo)].into();
        return Ok(Plan { servers, ..Plan::default() });
    }
    let around = target::surroundings()?;
    let mut files = Vec::new();
    for file in &args.config {
        let read = Config::read(file, &around);
        files.push(read.map_err(|error| Failure::of(&error).hint(error.instead()))?);
    }
    let (plan, problems) = Plan::build(&files);
    tell(&problems);
    if args.check && problems.iter().any(|problem| problem.weight == Weight::Error) {
        return Err(Failure::new("the configuration has mistakes"));
    }
    check_support(&plan)?;
    if plan.servers.is_empty() {
        return Err(Failure::new("there is no server to serve")
            .hint("name one that is enabled and has no mistakes"));
    }
    Ok(plan)
}

fn tell(problems: &[Problem]) {
    for problem in problems {
        if problem.weight == Weight::Error {
            tracing::error!("{problem}; {}", problem.instead);
        } else {
            tracing::warn!("{problem}; {}", problem.instead);
        }
    }
}

/// What a plan may say and this gateway does not do must not look done.
fn check_support(plan: &Plan) -> Result<(), Failure> {
    if !plan.access.principals.is_empty() || !plan.access.is_open() {
        return Err(Failure::new("keys of a configuration file are not enforced")
            .hint("take them out, and use --api-key"));
    }
    for (name, server) in &plan.servers {
        if !server.credentials.is_static() {
            return Err(Failure::new(format!(
                "server {name:?} has headers from files, commands or clients, which are not sent"
            ))
            .hint("write them as headers, with ${VAR} for what is secret"));
        }
        if matches!(server.process, Process::PerUser | Process::Pool(_)) {
            tracing::warn!(server = name, "has a process for each session: nothing else is known");
        }
        if server.sleep != Sleep::Never {
            tracing::warn!(server = name, "is not put to sleep");
        }
        if server.calls != ServerPlan::CALLS {
            tracing::warn!(server = name, "has no bound on calls of its own");
        }
    }
    if plan.bounds != Bounds::default() {
        tracing::warn!("the bounds of the configuration file are not kept; ours hold");
    }
    if plan.search != ToolSearch::Never {
        tracing::warn!("tools are listed, not searched");
    }
    Ok(())
}

fn cache(args: &GatewayArgs) -> Option<Cache> {
    if args.no_cache {
        return None;
    }
    let folder = args.cache_dir.clone().or_else(|| {
        let set = |name| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
        let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
        Some(cache.join("switchboard").join("lists"))
    });
    folder.map(Cache::at)
}
