//! `switchboard serve`: many servers behind one address. Follows the files while it runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::json;
use switchboard_gateway::approval::{self, Approvals};
use switchboard_gateway::config::{Problem, Weight};
use switchboard_gateway::connect::UserConnector;
use switchboard_gateway::facade::Facade;
use switchboard_gateway::fleet::{Fleet, FleetOptions};
use switchboard_gateway::gateway::Gateway;
use switchboard_gateway::monitor::CallMonitor;
use switchboard_gateway::plan::{
    IdentityFiles, Plan, PlanChanges, PlanSecret, Reading, ServerPlan,
};
use switchboard_gateway::policy::{Access, KeyHash, MIN_KEY};
use switchboard_gateway::span::Spans;
use switchboard_gateway::watch::Watch;
use switchboard_gateway::{metrics, status};
use switchboard_net::http::fetch::Fetch;
use switchboard_net::http::site::SitePage;
use switchboard_net::private_folder::PrivateFolder;
use switchboard_net::roster::Cache;
use switchboard_net::stdio::child::Command;
use switchboard_net::upstream::Target;
use switchboard_net::{Either, OwnedTask, race};
use switchboard_proto::limits::Limits;
use switchboard_proto::moment;
use tokio::sync::watch;

use crate::args::{GatewayArgs, NetworkArgs, ServeArgs, WebArgs};
use crate::exit::{CommandError, CommandResult, wrong};
use crate::output::write_finding;
use crate::serve::{self, Around, ServedAt, ServedSites, Web};
use crate::sign_in::UserStore;
use crate::signal::StopSignal;
use crate::{command, header, log, sign_in, store, target};
use cluster::JoinedCluster;
use console::ServedConsole;

#[cfg(feature = "redis")]
mod cluster;
#[cfg(not(feature = "redis"))]
#[path = "serve/no_cluster.rs"]
mod cluster;
#[cfg(feature = "console")]
mod console;
#[cfg(not(feature = "console"))]
#[path = "serve/no_console.rs"]
mod console;
mod otel;
mod summary;

/// Serves until a signal, or until the client on our stdio is gone.
pub(crate) async fn run(args: &GatewayArgs) -> CommandResult {
    let args = &with_files(args)?;
    let reading = read(args)?;
    if args.check {
        command::tell_sound(&reading.plan);
        return Ok(());
    }
    log::hide(PlanSecret::collect(&[&reading.plan]));
    // Before the first server is started: how many may be depends on it.
    serve::raise_open_files();
    let stop = StopSignal::on_signals()?;
    let ancestry = serve::gateway_ancestry(&args.config, args.stdio);
    if ancestry.is_loop() {
        return serve::refuse_loop(&ancestry, args.stdio, stop).await;
    }
    let fetch = target::fetch(&NetworkArgs::default())?;
    let (cache, monitor, is_stdio) = (cache(args), start_monitor(&fetch), args.stdio);
    let stderr = console::is_wanted(args, &reading.plan).then(Arc::default);
    let probe = args.probe_every.map(Duration::from_secs);
    let by = Some(fetch.clone());
    let accounts = sign_in::shared_accounts(&args.credentials);
    let connector = Some(UserConnector::new(accounts.clone(), fetch.clone()));
    let cluster = cluster::join(args).await?;
    let options = FleetOptions {
        replica: cluster.as_ref().map(JoinedCluster::replica),
        cache,
        monitor,
        is_stdio,
        probe,
        fetch: by,
        // The demo has no users: that no file was found says nothing about their accounts.
        connector: connector.clone().filter(|_| !is_stdio && !args.config.is_empty()),
        stderr,
        approvals: Approvals::at(gateway_folder(&args.config)),
        ..FleetOptions::default()
    };
    let gateway = Gateway::start(reading.plan.clone(), options, move |server| {
        let server = server.server(target::environment(), fetch.clone(), Some(&accounts));
        server.named_by(&ancestry)
    })?;
    let (stopped, listening) = (stop.clone().asked(), Arc::clone(&gateway));
    tokio::spawn(async move {
        stopped.await;
        // Listens would go on for ever.
        listening.end_listens();
    });
    let follow = Follow::new(args, &gateway, &reading, &stop)?;
    let ended = serve(args, &gateway, connector, (follow, cluster), stop).await;
    gateway.close().await;
    gateway.fleet().monitor().flush().await;
    ended
}

async fn serve(
    args: &GatewayArgs,
    gateway: &Arc<Gateway>,
    connector: Option<Arc<UserConnector>>,
    (mut follow, cluster): (Follow, Option<JoinedCluster>),
    stop: StopSignal,
) -> CommandResult {
    let (plan, web) = (gateway.plan(), WebArgs::default());
    let limits = Arc::new(plan.bounds.limits(&Limits::default()));
    let (places, serve_args) = (gateway.places(), serve_args(args, &plan));
    if args.stdio {
        let _following = follow.run(Vec::new());
        let _summary = summary::tell(gateway, None, None);
        return serve::serve(places, limits, None, &serve_args, &web, stop).await;
    }
    let port = args.port.or(plan.listen.port).unwrap_or(3001);
    let mut pages = pages(gateway.fleet(), follow.loaded.subscribe());
    pages.extend(connector.iter().flat_map(UserConnector::pages));
    // The facade stands before issuers: it does not come while we serve.
    let _facade = if has_facade(&plan) {
        let store = Arc::new(UserStore::new(&args.credentials.store));
        let fetch = target::fetch(&NetworkArgs::default())?;
        let facade = Facade::start(gateway.authenticator(), store, fetch).await?;
        pages.extend(facade.pages());
        Some(facade)
    } else {
        None
    };
    let authenticator = Some(Arc::clone(gateway.authenticator()));
    let console = console::start(args, gateway, &stop);
    // The console is beside the clients, or at a port of its own.
    let apart = console.as_ref().zip(plan.listen.console_port);
    let beside = console.as_ref().filter(|_| apart.is_none());
    pages.extend(beside.into_iter().flat_map(ServedConsole::pages));
    let around = Around {
        pages,
        authenticator: authenticator.clone(),
        bounds: plan.bounds,
        console: beside.map(ServedConsole::entrance),
        is_console_alone: false,
        replica: cluster.as_ref().map(JoinedCluster::replica),
    };
    let (main, sites) = Web::bind(around, Arc::clone(&limits), port, &serve_args, &web).await?;
    let mut all_sites = vec![sites];
    let own_port = match apart {
        Some((console, port)) => {
            let around = Around {
                pages: console.pages(),
                authenticator,
                bounds: plan.bounds,
                console: Some(console.entrance()),
                is_console_alone: true,
                replica: None,
            };
            let host = console_host(args, &plan);
            let own_args = ServeArgs { host, ..self::serve_args(args, &plan) };
            let (web, sites) = Web::bind(around, limits, port, &own_args, &web).await?;
            all_sites.push(sites);
            Some(web)
        }
        None => None,
    };
    follow.found_at = connector.map(|connector| (connector, main.at()));
    follow.set_base(&plan);
    for sites in &mut all_sites {
        sites.show(places.clone());
    }
    let link = console.as_ref().map(|console| console.found_at(&plan, &main, own_port.as_ref()));
    follow.console.clone_from(&console);
    console.iter().try_for_each(|console| console.follow_files(&args.config))?;
    let _following = follow.run(all_sites);
    let _summary = summary::tell(gateway, Some(main.at()), link);
    let _links = console.map(ServedConsole::tell_links);
    serve_ports(main, own_port, cluster, stop).await;
    Ok(())
}

/// Serves the clients, a console that has a port of its own, and the other replicas.
async fn serve_ports(
    main: Web,
    own_port: Option<Web>,
    cluster: Option<JoinedCluster>,
    stop: StopSignal,
) {
    let own_port = async {
        if let Some(web) = own_port {
            web.serve(stop.clone()).await;
        }
    };
    let main = async {
        match cluster {
            Some(cluster) => cluster.serve(main, stop.clone()).await,
            None => main.serve(stop.clone()).await,
        }
    };
    tokio::join!(main, own_port);
}

/// Where a console listens that has a port of its own: where the clients come in if they need
/// keys, else at this machine alone.
fn console_host(args: &GatewayArgs, plan: &Plan) -> String {
    let is_own = plan.listen.console_port.is_some() && plan.access.is_open();
    if is_own { "127.0.0.1".to_owned() } else { host(args, plan) }
}

/// Where people find us: where the file says, or at this machine.
fn base_url(plan: &Plan, at: ServedAt) -> Option<String> {
    let is_local = at.address.ip().is_loopback();
    let own = is_local.then(|| format!("{}://{}", at.scheme(), at.address));
    plan.public_url.clone().or(own)
}

fn has_facade(plan: &Plan) -> bool {
    plan.access.tokens.as_ref().is_some_and(|tokens| tokens.facade.is_some())
}

/// Leaves a facade out for which there are no pages, and says whether there was one.
fn leave_out_facade(plan: &mut Plan) -> bool {
    let is_there = has_facade(plan);
    if let Some(tokens) = plan.access.tokens.as_mut().filter(|_| is_there) {
        Arc::make_mut(tokens).facade = None;
    }
    is_there
}

fn serve_args(args: &GatewayArgs, plan: &Plan) -> ServeArgs {
    let files = identity_files(args, plan);
    ServeArgs {
        port: args.port,
        host: host(args, plan),
        tls_cert: files.as_ref().map(|files| files.certificate.clone()),
        tls_key: files.map(|files| files.key),
        allow_host: [args.allow_host.as_slice(), &plan.listen.hosts].concat(),
        allow_origin: [args.allow_origin.as_slice(), &plan.listen.origins].concat(),
        session_timeout: args.session_timeout,
        keep_alive: 15,
        request_timeout: 30,
        hang_up_after: Duration::ZERO,
        grace: args.grace,
    }
}

/// What clients are shown over TLS, by the command line or the file.
fn identity_files(args: &GatewayArgs, plan: &Plan) -> Option<IdentityFiles> {
    let said = args.tls_cert.clone().map(|certificate| {
        let key = args.tls_key.clone().unwrap_or_else(|| certificate.clone());
        IdentityFiles { certificate, key }
    });
    said.or_else(|| plan.listen.tls.clone())
}

fn host(args: &GatewayArgs, plan: &Plan) -> String {
    let host = args.host.clone().or_else(|| plan.listen.host.clone());
    host.unwrap_or_else(|| "127.0.0.1".to_owned())
}

/// The arguments with the files that are served if none is named: those of the working folder,
/// and ours.
fn with_files(args: &GatewayArgs) -> CommandResult<GatewayArgs> {
    let mut args = args.clone();
    if !args.config.is_empty() {
        return Ok(args);
    }
    let around = target::surroundings()?;
    args.config = target::nearby_files(&around);
    if args.check {
        return Ok(args);
    }
    let names: Vec<_> = args.config.iter().map(|file| target::short(file, &around)).collect();
    if !names.is_empty() {
        tracing::info!("serving the servers of {}", names.join(", "));
    } else if let Some(file) = target::client_file(&around) {
        let file = target::short(&file, &around);
        tracing::info!("serving the built-in demo server; for your servers: --config {file}");
    } else {
        tracing::info!("serving the built-in demo server; for your servers: --config FILE");
    }
    Ok(args)
}

const MISTAKES: &str = "the configuration has mistakes";

/// What the files mean; the built-in server if there are none.
fn read(args: &GatewayArgs) -> CommandResult<Reading> {
    let mut reading = if args.config.is_empty() {
        let program = std::env::current_exe()?;
        let command = Command::new(program.to_string_lossy()).args(&["demo".to_owned()]);
        let demo = ServerPlan::new("demo", Target::Command(command));
        let servers = [("demo".to_owned(), demo)].into();
        Reading { plan: Plan { servers, ..Plan::default() }, ..Reading::default() }
    } else {
        Reading::read(&args.config, &target::surroundings()?)
    };
    if args.check {
        reading.lines().iter().for_each(|line| write_finding(line));
        if !reading.unread.is_empty() {
            return Err(CommandError::new(MISTAKES));
        }
    } else if let Some(error) = reading.unread.first() {
        return Err(target::not_read(error));
    } else {
        tell(&reading.problems);
    }
    // Without the server that a mistake is in the others can be served. A mistake
    // in what is said about the gateway may be about who must not come in.
    let stops = |problem: &Problem| args.check || problem.server.is_none();
    if reading.errors().any(stops) {
        return Err(CommandError::new(MISTAKES));
    }
    let exposed = exposed_host(args, &reading.plan);
    check_plan(args, &mut reading.plan, exposed.as_deref())?;
    if let Some(files) = identity_files(args, &reading.plan).filter(|_| args.check) {
        serve::watch_identity(files)?;
    }
    Ok(reading)
}

/// Adds what the command line says; what makes a plan one that cannot be followed,
/// although its files are right. `exposed` is the host where other machines come in.
fn check_plan(args: &GatewayArgs, plan: &mut Plan, exposed: Option<&str>) -> CommandResult {
    if args.stdio {
        plan.access = Access::default();
    } else if let Some(key) = &args.api_key {
        let key = header::filled(key)?;
        // As good as what a file has for a key.
        if KeyHash::is_weak(&key) {
            let what = format!("--api-key has fewer than {MIN_KEY} characters");
            return wrong(what, "make one with: switchboard key new")
                .map_err(CommandError::of_usage);
        }
        plan.access = std::mem::take(&mut plan.access).with_key(API_KEY, key.as_bytes());
    }
    if let Some(issuer) = args.oauth_issuer.as_ref().filter(|_| !args.stdio) {
        let access = std::mem::take(&mut plan.access);
        let public_url = args.public_url.as_deref();
        plan.access = serve::with_issuer(access, issuer, &args.oauth_audience, public_url)?;
    } else if let (Some(url), Some(tokens)) = (&args.public_url, &mut plan.access.tokens) {
        Arc::make_mut(tokens).public_url = Some(url.clone());
    }
    let facade = plan.access.tokens.as_ref().filter(|tokens| tokens.facade.is_some());
    if facade.is_some_and(|tokens| tokens.public_url.is_none()) {
        let hint =
            "add \"publicUrl\": \"https://…\", or --public-url: it is the issuer of its tokens";
        return wrong("the facade needs to know where clients find it", hint);
    }
    if let Some(url) = &args.public_url {
        plan.public_url = Some(url.clone());
    }
    serve::trust_proxies(&mut plan.access, &args.trusted_proxy);
    // Other machines come in only if they show who they are, or the user insists.
    if let Some(host) = exposed.filter(|_| plan.access.is_open()) {
        return Err(CommandError::new(format!(
            "on {host} any client that reaches this machine could connect without a key"
        ))
        .hint("require a key: --api-key '${KEY}', or \"keys\" in the file")
        .hint("or allow clients without a key: --allow-unauthenticated"));
    }
    // One address is as good as another to see whether it can be made.
    _ = serve::guard(([127, 0, 0, 1], 0).into(), &serve_args(args, plan), &WebArgs::default())?;
    if plan.servers.is_empty() {
        let files: Vec<_> = args.config.iter().map(|file| file.display().to_string()).collect();
        let hint = format!("name one in {} that is enabled and has no mistakes", files.join(", "));
        return wrong("there is no server to serve", hint);
    }
    Ok(())
}

/// The host of a gateway that is started by this plan, if other machines reach it and the
/// user does not insist that anybody may come in.
fn exposed_host(args: &GatewayArgs, plan: &Plan) -> Option<String> {
    let host = host(args, plan);
    // On our own stdio there is only who started us.
    let is_meant = args.allow_unauthenticated || plan.listen.unauthenticated || args.stdio;
    (!serve::is_local(&host) && !is_meant).then_some(host)
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

/// Where a gateway of these files keeps what it remembers.
pub(super) fn gateway_folder(files: &[PathBuf]) -> Option<PrivateFolder> {
    approval::gateway_folder(&store::state(&target::variable)?, files)
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

/// The name in logs and metrics of clients that send the key of `--api-key`.
const API_KEY: &str = "--api-key";

/// Sees all calls; sends spans if the environment says where to.
fn start_monitor(fetch: &Fetch) -> Arc<CallMonitor> {
    let monitor = Arc::new(CallMonitor::default());
    let (spans, complaints) = otel::wanted(target::variable);
    for complaint in complaints {
        tracing::warn!("{complaint}");
    }
    if let Some((options, sampler)) = spans {
        let host = options.endpoint.host().unwrap_or_default();
        tracing::info!("traces are sent to {host}");
        monitor.trace_to(Spans::start(options, fetch.clone()), sampler);
    }
    monitor
}

/// Whether we are well, whether a server is there, how everything stands, and what was counted.
fn pages(fleet: &Arc<Fleet>, loaded: watch::Receiver<Loaded>) -> Vec<(String, SitePage)> {
    let (ready, all, counted) = (Arc::clone(fleet), Arc::clone(fleet), Arc::clone(fleet));
    let is_ready = move || {
        let states = ready.states();
        states.iter().any(|(name, state)| state.is_up() || ready.is_open_to_people(name, state))
    };
    let status = move |sites: &_| {
        let mut status = status::status(&all, sites);
        let loaded = loaded.borrow();
        // The log has the rest: files are not for everybody to know.
        status["config"] = json!({
            "loaded": moment::text(loaded.at),
            "problems": loaded.problems,
            "isCurrent": loaded.is_current,
        });
        status.to_string()
    };
    let metrics = move |sites: &_| metrics::page(&counted, sites);
    vec![
        ("/healthz".to_owned(), SitePage::Text("ok".to_owned())),
        ("/readyz".to_owned(), SitePage::Check(Box::new(is_ready))),
        ("/status".to_owned(), SitePage::Json(Box::new(status))),
        ("/metrics".to_owned(), SitePage::Metrics(Box::new(metrics))),
    ]
}

/// The component `reload` in log lines.
const RELOAD: &str = "switchboard::command::serve::reload";

/// Has the gateway do what the files say.
struct Follow {
    args: GatewayArgs,
    /// The host that is bound, if other machines reach it; whatever the files say now.
    exposed: Option<String>,
    /// Whether there are pages of a facade.
    has_facade: bool,
    gateway: Arc<Gateway>,
    watch: Watch,
    loaded: watch::Sender<Loaded>,
    /// Who must know where people find us, and where we listen.
    found_at: Option<(Arc<UserConnector>, ServedAt)>,
    /// Where people look at what became of the files.
    console: Option<ServedConsole>,
}

/// Which configuration is in force, for the page `/status`.
struct Loaded {
    at: SystemTime,
    /// Mistakes for which what the files say is not in force.
    problems: usize,
    /// Whether the files were read, but for the servers that have mistakes. If not, they have
    /// changed since, and what they said before is in force.
    is_current: bool,
}

impl Follow {
    /// Listens from now on, for changes of files and SIGHUP.
    fn new(
        args: &GatewayArgs,
        gateway: &Arc<Gateway>,
        reading: &Reading,
        stop: &StopSignal,
    ) -> CommandResult<Self> {
        let mut watch = Watch::new(args.config.clone(), target::surroundings()?, reading);
        if !args.config.is_empty() {
            stop.reload_on_hangup(watch.reload(), "the configuration")?;
            if let Err(error) = watch.listen() {
                let line = CommandError::of(&error).line();
                tracing::warn!(target: RELOAD, "{line}; send SIGHUP after a change");
            }
        }
        let problems = reading.errors().count();
        let loaded = Loaded { at: SystemTime::now(), problems, is_current: true };
        let (plan, loaded) = (gateway.plan(), watch::Sender::new(loaded));
        let (exposed, has_facade) = (exposed_host(args, &plan), has_facade(&plan));
        let args = GatewayArgs { host: Some(host(args, &plan)), ..args.clone() };
        let gateway = Arc::clone(gateway);
        let (found_at, console) = (None, None);
        Ok(Self { args, exposed, has_facade, gateway, watch, loaded, found_at, console })
    }

    /// Tells where people find us, by this plan.
    fn set_base(&self, plan: &Plan) {
        if let Some((connector, at)) = &self.found_at {
            connector.set_base(base_url(plan, *at));
        }
    }

    /// Follows until what it returns is dropped; `sites` is what is served over HTTP, by port.
    fn run(mut self, mut sites: Vec<ServedSites>) -> OwnedTask {
        OwnedTask::spawn(async move {
            loop {
                let reading = match race(self.watch.changed(), self.gateway.switched()).await {
                    Either::Left(reading) => reading,
                    Either::Right(()) => {
                        for sites in &mut sites {
                            sites.show(self.gateway.places());
                        }
                        continue;
                    }
                };
                let problems = self.apply(reading, &mut sites);
                self.console.iter().for_each(|console| console.tell_config(problems));
                self.loaded.send_modify(|loaded| {
                    let is_current = problems == 0;
                    let at = if is_current { SystemTime::now() } else { loaded.at };
                    *loaded = Loaded { at, problems, is_current };
                });
            }
        })
    }

    /// Follows what was read; the number of mistakes because of which it is not followed.
    fn apply(&self, mut reading: Reading, sites: &mut [ServedSites]) -> usize {
        for error in &reading.unread {
            tracing::error!(target: RELOAD, "{}", error.line());
        }
        tell(&reading.problems);
        if !reading.is_sound() {
            tracing::error!(target: RELOAD, "{MISTAKES}; what was in force stays in force");
            return reading.unread.len() + reading.errors().count();
        }
        // The servers of before may still speak.
        log::hide(PlanSecret::collect(&[&self.gateway.plan(), &reading.plan]));
        let checked = check_plan(&self.args, &mut reading.plan, self.exposed.as_deref());
        if !self.has_facade && leave_out_facade(&mut reading.plan) {
            tracing::warn!(target: RELOAD, "a facade that was added holds from the next start on");
        }
        let was_open = self.gateway.plan().access.is_open();
        let applied = checked.and_then(|()| Ok(self.gateway.apply(reading.plan)?));
        match applied {
            Ok(changes) => {
                self.set_base(&self.gateway.plan());
                let plan = self.gateway.plan();
                for sites in sites {
                    if let Err(failure) = sites.adjust(&serve_args(&self.args, &plan), &plan.bounds)
                    {
                        // A plan with such a mistake is not followed.
                        tracing::error!(target: RELOAD, "{}", failure.line());
                    }
                    sites.show(self.gateway.places());
                    sites.end_listens(&changes);
                }
                tell_changes(&changes);
                if !was_open && self.gateway.plan().access.is_open() {
                    tracing::warn!(target: RELOAD, "no key is needed any more: any client may connect");
                }
                0
            }
            Err(failure) => {
                tracing::error!(target: RELOAD, "{}; what was in force stays in force", failure.line());
                1
            }
        }
    }
}

fn tell_changes(changes: &PlanChanges) {
    let PlanChanges { added, removed, changed, adjusted, .. } = changes;
    let what = "configuration is in force";
    tracing::info!(target: RELOAD, ?added, ?removed, restarted = ?changed, ?adjusted, "{what}");
    if changes.listen {
        tracing::warn!(
            target: RELOAD,
            "host, port, the port of the console, tlsCert, tlsKey, allowUnauthenticated, maxConnections and maxHeaderBytes hold from the next start on"
        );
    }
}
