//! `switchboard serve`: many servers behind one address.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use switchboard_gateway::config::{Problem, Weight};
use switchboard_gateway::fleet::FleetOptions;
use switchboard_gateway::gateway::Gateway;
use switchboard_gateway::plan::{Plan, Reading, Secret, ServerPlan};
use switchboard_net::roster::Cache;
use switchboard_net::stdio::child::Command;
use switchboard_net::upstream::Target;
use switchboard_proto::limits::Limits;

use super::config;
use crate::args::{GatewayArgs, ServeArgs, WebArgs};
use crate::chain;
use crate::exit::CommandError;
use crate::limit;
use crate::log;
use crate::output::write_finding;
use crate::serve::Offer;
use crate::serve::web::{self, Around, Web};
use crate::signal::Stop;
use crate::target;
use access::Reach;
use place::Stands;
use reload::Follow;

mod access;
mod otel;
mod place;
mod reload;
mod seeing;

/// Serves until a signal, or until the client on our stdio is gone.
pub(crate) async fn run(args: &GatewayArgs) -> Result<(), CommandError> {
    let reading = read(args)?;
    if args.check {
        config::tell_sound(&reading.plan);
        return Ok(());
    }
    log::hide(Secret::of(&[&reading.plan]));
    // Before the first server is started: how many may be depends on it.
    limit::raise();
    let stop = Stop::on_signals().map_err(|error| CommandError::of(&error))?;
    let ancestry = chain::gateway(&args.config, args.stdio);
    if ancestry.is_loop() {
        return chain::refuse(&ancestry, args.stdio, stop).await;
    }
    let limits = Arc::new(reading.plan.bounds.limits(&Limits::default()));
    let fetch = target::fetch_as_usual()?;
    let tap = seeing::tap(&fetch);
    let probe = args.probe_every.map(Duration::from_secs);
    let options = FleetOptions { cache: cache(args), tap, probe, ..FleetOptions::default() };
    let gateway = Gateway::start(reading.plan.clone(), options, move |server| {
        let server = server.server(target::environment(), fetch.clone(), &HeaderMap::new());
        server.named_by(&ancestry)
    });
    let gateway = gateway.map_err(|error| CommandError::of(&error))?;
    let (stopped, listening) = (stop.clone().asked(), Arc::clone(&gateway));
    tokio::spawn(async move {
        stopped.await;
        // Listens would go on for ever.
        listening.end_listens();
    });
    let follow = Follow::new(args, &gateway, &reading, &stop)?;
    let ended = serve(args, &gateway, follow, limits, stop).await;
    gateway.close().await;
    gateway.fleet().tap().flush().await;
    ended
}

async fn serve(
    args: &GatewayArgs,
    gateway: &Arc<Gateway>,
    follow: Follow,
    limits: Arc<Limits>,
    stop: Stop,
) -> Result<(), CommandError> {
    let plan = gateway.plan();
    if args.stdio {
        let Some(all) = gateway.places().into_iter().next() else { return Ok(()) };
        let _following = follow.run(None);
        let inside = seeing::tapped(gateway.fleet(), &all.place, all.inside, true);
        let offer = Offer { inside, shared: all.shared, limits };
        return offer.serve(&serve_args(args, &plan), None, stop).await;
    }
    let port = args.port.or(plan.listen.port).unwrap_or(3001);
    let pages = seeing::pages(gateway.fleet(), follow.loaded());
    let porter = Some(Arc::clone(gateway.porter()));
    let around = Around { pages, porter, bounds: Some(plan.bounds) };
    let web = Web::bind(around, port, &serve_args(args, &plan), &WebArgs::default()).await?;
    let mut stands = Stands::new(&web, limits);
    stands.follow(gateway);
    let _following = follow.run(Some(stands));
    web.serve(stop).await;
    Ok(())
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
        grace: args.grace,
    }
}

fn host(args: &GatewayArgs, plan: &Plan) -> String {
    let host = args.host.clone().or_else(|| plan.listen.host.clone());
    host.unwrap_or_else(|| "127.0.0.1".to_owned())
}

const MISTAKES: &str = "the configuration has mistakes";

/// What the files mean; the built-in server if there are none.
fn read(args: &GatewayArgs) -> Result<Reading, CommandError> {
    if args.config.is_empty() {
        let program = std::env::current_exe().map_err(|error| CommandError::of(&error))?;
        let command = Command::new(program.to_string_lossy()).args(&["demo".to_owned()]);
        let demo = ServerPlan::new("demo", Target::Command(command));
        let servers = [("demo".to_owned(), demo)].into();
        let mut plan = Plan { servers, ..Plan::default() };
        access::settle(args, &mut plan)?;
        Reach::of(args, &plan).check(&plan.access)?;
        return Ok(Reading { plan, ..Reading::default() });
    }
    let mut reading = Reading::of(&args.config, &target::surroundings()?);
    if args.check {
        reading.lines().iter().for_each(|line| write_finding(line));
        if !reading.unread.is_empty() {
            return Err(CommandError::new(MISTAKES));
        }
    } else if let Some(error) = reading.unread.first() {
        return Err(CommandError::of(error).hint(error.instead()));
    } else {
        tell(&reading.problems);
    }
    // Without the server that a mistake is in the others can be served. A mistake
    // in what is said about the gateway may be about who must not come in.
    let stops = |problem: &Problem| args.check || problem.server.is_none();
    if reading.errors().any(stops) {
        return Err(CommandError::new(MISTAKES));
    }
    let reach = Reach::of(args, &reading.plan);
    check_plan(args, &mut reading.plan, &reach)?;
    Ok(reading)
}

/// Adds what the command line says; what makes a plan one that cannot be followed,
/// although its files are right.
fn check_plan(args: &GatewayArgs, plan: &mut Plan, reach: &Reach) -> Result<(), CommandError> {
    access::settle(args, plan)?;
    reach.check(&plan.access)?;
    // One address is as good as another to see whether it can be made.
    web::guard(([127, 0, 0, 1], 0).into(), &serve_args(args, plan), &WebArgs::default())?;
    if plan.servers.is_empty() {
        let files: Vec<_> = args.config.iter().map(|file| file.display().to_string()).collect();
        let hint = format!("name one in {} that is enabled and has no mistakes", files.join(", "));
        return Err(CommandError::new("there is no server to serve").hint(hint));
    }
    Ok(())
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
