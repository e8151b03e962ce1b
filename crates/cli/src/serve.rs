//! Serves on stdio or HTTP, within the limit on open files: one server or several, each on
//! paths of its own. A process that is a link of a loop of gateways and bridges refuses
//! everything instead.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind::{AddrInUse, PermissionDenied};
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;
use switchboard_gateway::authenticator::{Authenticator, Hearing};
use switchboard_gateway::gateway::{Offered, Place};
use switchboard_gateway::plan::{GatewayBounds, IdentityFiles, PlanChanges};
use switchboard_gateway::policy::{Access, Principal};
use switchboard_gateway::token::IssuerRule;
use switchboard_gateway::watch::IdentityWatch;
use switchboard_net::OwnedTask;
use switchboard_net::access::{ApiKey, Authenticate, Guard, Regex};
use switchboard_net::auth::bounded;
use switchboard_net::backend::{Backend, PendingWork};
use switchboard_net::call::Call;
use switchboard_net::cluster::replica::Replica;
use switchboard_net::connection::ClientConnection;
use switchboard_net::connection::unread::Unread;
use switchboard_net::http::body::BodyBudget;
use switchboard_net::http::fetch::AddressRange;
use switchboard_net::http::listen::ListenOptions;
use switchboard_net::http::site::{Site, SiteOptions, SitePage, SiteRules, Sites};
use switchboard_net::platform;
use switchboard_net::stdio::{self, StdioOptions};
use switchboard_net::upstream::{Ancestry, VARIABLE};
use switchboard_proto::client::Sharing;
use switchboard_proto::exchange::HeaderParams;
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::limits::Limits;
use switchboard_proto::moment;
use switchboard_proto::refusal::Refusal;
use tokio::net::TcpListener;

use crate::args::{NetworkArgs, ServeArgs, ServedTransport, WebArgs};
use crate::exit::{CommandError, CommandResult, wrong};
use crate::header;
use crate::signal::StopSignal;
use crate::target::{self, variable};

async fn bind(host: &str, port: u16) -> CommandResult<(TcpListener, SocketAddr)> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let listener = match TcpListener::bind((host, port)).await {
        // All addresses of a machine that has no IPv6.
        Err(_) if host == "::" => TcpListener::bind(("0.0.0.0", port)).await,
        bound => bound,
    };
    let listener = listener.map_err(|error| {
        let hint = match error.kind() {
            AddrInUse => "stop the program that uses the port, or pick a free one: --port 0",
            PermissionDenied => "ports below 1024 are reserved; use a higher one, or --port 0",
            _ => "--host must be an address or a name of this machine",
        };
        CommandError::new(format!("cannot listen on {host} port {port}: {error}")).hint(hint)
    })?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// A gateway: another one that reads the same files serves the same.
pub(crate) fn gateway_ancestry(files: &[PathBuf], on_stdio: bool) -> Ancestry {
    let real = |file: &PathBuf| fs::canonicalize(file).unwrap_or_else(|_| file.clone());
    let serves: Vec<_> = files.iter().map(real).collect();
    let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
    let source = if names.is_empty() { "the command line".to_owned() } else { names.join(", ") };
    served(Ancestry::gateway(serves, &source, variable(VARIABLE).as_deref()), on_stdio)
}

/// A bridge: another one that is called with the same words does the same.
pub(crate) fn bridge_ancestry(on_stdio: bool) -> Ancestry {
    let serves: (Vec<_>, _) = (std::env::args_os().collect(), std::env::current_dir().ok());
    served(Ancestry::bridge(serves, variable(VARIABLE).as_deref()), on_stdio)
}

/// On stdio the client is the process that started us.
fn served(ancestry: Ancestry, on_stdio: bool) -> Ancestry {
    if on_stdio { ancestry.serving_parent() } else { ancestry }
}

/// Refuses whatever the process that started us asks for, and starts nothing.
pub(crate) async fn refuse_loop(
    ancestry: &Ancestry,
    on_stdio: bool,
    stop: StopSignal,
) -> CommandResult {
    let failure = CommandError::new("started by a gateway that serves the same configuration")
        .hint("remove the server that starts this command from that configuration")
        .hint(format!("if that is meant, start it without the variable {VARIABLE}"));
    if !on_stdio {
        return Err(failure);
    }
    tracing::error!("{}", failure.line());
    let looping = Arc::new(RefuseLoop { ids: ancestry.above() });
    let options = StdioOptions::default().grace(Duration::ZERO);
    Ok(stdio::serve(looping, options, stop.asked()).await?)
}

/// Answers everything with the reason why nothing is served.
struct RefuseLoop {
    /// The servers that led to this process.
    ids: Vec<u64>,
}

impl Backend for RefuseLoop {
    fn open(
        &self,
        _: &Arc<ClientConnection>,
        call: &Call,
        _: Message,
        _: HeaderParams,
    ) -> PendingWork {
        call.finish(Refusal::Loop { ids: self.ids.clone() });
        PendingWork::none()
    }
}

/// More than the sessions and connections below need. Some programs close every
/// descriptor up to their limit when they start, so it is not raised without end.
const WANTED_OPEN_FILES: u64 = 65_536;

/// Raises the limit. Most systems start a process with 1024 descriptors, which
/// is for programs that cannot count further; a server takes four of ours.
pub(crate) fn raise_open_files() {
    if let Err(error) = platform::raise_open_files_limit(WANTED_OPEN_FILES) {
        tracing::debug!(%error, "the limit on open files stays as it is");
    }
}

/// Connections of clients; a client with a stream has one for as long as it is
/// there, and must not keep others out.
const CONNECTIONS: usize = 8192;

/// Connections that the descriptors suffice for: each may need one more, to a server.
pub(crate) fn max_connections() -> usize {
    let limit = platform::open_files_limit();
    let half = limit.and_then(|limit| usize::try_from(limit / 2).ok()).unwrap_or(CONNECTIONS);
    half.clamp(16, CONNECTIONS)
}

/// Sessions of clients that share a connection to their server: no process is
/// started for one, and it takes some kilobytes.
pub(crate) const LIGHT_SESSIONS: usize = CONNECTIONS;

/// Serves until a signal: all offers at a port, or, without a port, the first one on our
/// stdio until its client is gone.
pub(crate) async fn serve(
    offers: Vec<Offered>,
    limits: Arc<Limits>,
    port: Option<u16>,
    args: &ServeArgs,
    web: &WebArgs,
    stop: StopSignal,
) -> CommandResult {
    let Some(port) = port else {
        let Some(Offered { backend, sharing, .. }) = offers.into_iter().next() else {
            return Ok(());
        };
        let grace = Duration::from_secs(args.grace);
        let options = StdioOptions::default().sharing(sharing).limits(limits).grace(grace);
        return Ok(stdio::serve(backend, options, stop.asked()).await?);
    };
    let places: Vec<_> = offers.iter().map(|offered| offered.place.clone()).collect();
    let authenticator = token_authenticator(web)?;
    let around = Around { pages: pages(web, places), authenticator, ..Around::default() };
    let (at, mut sites) = Web::bind(around, limits, port, args, web).await?;
    sites.show(offers);
    if web.end_with_stdin {
        stop.at_end_of_stdin();
    }
    at.serve(stop).await;
    Ok(())
}

/// Who lets clients in by access token, and by `--api-key` too, if that is wanted.
fn token_authenticator(web: &WebArgs) -> CommandResult<Option<Arc<Authenticator>>> {
    let Some(issuer) = &web.oauth_issuer else { return Ok(None) };
    let mut access = Access::default();
    if let Some(key) = web.api_key.as_deref() {
        access = access.with_key("key", header::filled(key)?.as_bytes());
    }
    let mut access = with_issuer(access, issuer, &web.oauth_audience, web.public_url.as_deref())?;
    trust_proxies(&mut access, &web.trusted_proxy);
    let fetch = target::fetch(&NetworkArgs::default())?;
    Ok(Some(Authenticator::fetching(access, LIGHT_SESSIONS, fetch)))
}

/// Also lets in whoever has a token of this issuer, to everything.
pub(crate) fn with_issuer(
    access: Access,
    issuer: &str,
    audiences: &[String],
    public_url: Option<&str>,
) -> CommandResult<Access> {
    let is_safe = |text: &str| text.parse().is_ok_and(|url| bounded::is_safe_url(&url));
    if !is_safe(issuer) {
        let what = format!("--oauth-issuer {issuer} is no https URL");
        return wrong(what, "give the identifier of the authorization server: iss of its tokens");
    }
    let rule = IssuerRule {
        name: "oauth".to_owned(),
        issuer: issuer.to_owned(),
        audiences: audiences.to_vec(),
        grant: Some(Principal::default()),
        ..IssuerRule::default()
    };
    Ok(access.with_issuer(rule, public_url.map(str::to_owned)))
}

/// Also believes what these proxies say about where clients find us.
pub(crate) fn trust_proxies(access: &mut Access, proxies: &[AddressRange]) {
    if let Some(tokens) = access.tokens.as_mut().filter(|_| !proxies.is_empty()) {
        Arc::make_mut(tokens).trusted_proxies.extend_from_slice(proxies);
    }
}

/// What is around that which is served.
#[derive(Default)]
pub(crate) struct Around {
    pub(crate) pages: Vec<(String, SitePage)>,
    /// Who is at the doors; none for `--api-key` alone, or nobody.
    pub(crate) authenticator: Option<Arc<Authenticator>>,
    pub(crate) bounds: GatewayBounds,
    pub(crate) console: Option<ConsoleEntrance>,
    /// Whether nothing but the console is there.
    pub(crate) is_console_alone: bool,
    /// Which replica this is, if there are several.
    pub(crate) replica: Option<Arc<Replica>>,
}

/// Another way in to all servers together, and to each: for the page of the console.
pub(crate) struct ConsoleEntrance {
    /// What stands before the paths.
    pub(crate) prefix: &'static str,
    /// Added to every answer.
    pub(crate) headers: HeaderMap,
    pub(crate) gate: Box<dyn Fn(Place) -> Arc<dyn Authenticate> + Send + Sync>,
}

/// What the paths of the console begin with.
const CONSOLE_PREFIX: &str = "/console/";

/// The component `web` in log lines.
const WEB: &str = "switchboard::serve::web";

/// A port that is ours, and what is served there.
pub(crate) struct Web {
    sites: Sites,
    options: ListenOptions,
    listener: TcpListener,
    at: ServedAt,
    /// The files of what is shown over TLS.
    identity: Option<IdentityWatch>,
    /// When others may come in.
    _hearing: Option<Hearing>,
}

/// Where something is served, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServedAt {
    pub(crate) address: SocketAddr,
    pub(crate) is_secure: bool,
}

impl ServedAt {
    /// `http` or `https`.
    pub(crate) fn scheme(self) -> &'static str {
        if self.is_secure { "https" } else { "http" }
    }
}

/// What of a name is escaped in a path.
pub(crate) const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The sites at a port, by place, and how they are made.
pub(crate) struct ServedSites {
    sites: Sites,
    template: SiteOptions,
    authenticator: Option<Arc<Authenticator>>,
    address: SocketAddr,
    /// Sessions at once, where the user says so.
    sessions: Option<usize>,
    console: Option<ConsoleEntrance>,
    is_console_alone: bool,
    /// Each with whether its clients share a server, which it cannot unlearn.
    there: BTreeMap<SiteKey, (Site, Sharing)>,
}

/// A place, and whether it is for the page of the console.
type SiteKey = (Place, bool);

impl ServedSites {
    /// Serves what is offered. What is there stays, with its sessions; sessions of what is
    /// not there any more end with their last answer.
    pub(crate) fn show(&mut self, offers: Vec<Offered>) {
        let mut before = std::mem::take(&mut self.there);
        let mut sites = Vec::new();
        let is_for_page = |offered: &&Offered| {
            self.console.is_some() && !matches!(offered.place, Place::Group(_))
        };
        let for_page: Vec<_> = offers.iter().filter(is_for_page).cloned().collect();
        let offers = offers.into_iter().filter(|_| !self.is_console_alone);
        let offers = offers.map(|offered| (offered, false));
        for (offered, is_console) in offers.chain(for_page.into_iter().map(|it| (it, true))) {
            let (key, sharing) = ((offered.place.clone(), is_console), offered.sharing);
            let site = match before.remove(&key) {
                Some((site, same)) if same == sharing => {
                    let SiteOptions { guard, limits, .. } = self.template.clone();
                    let max_sessions = self.max_sessions(offered.light);
                    site.adjust(SiteRules { guard, limits, max_sessions });
                    site
                }
                other => {
                    other.inspect(|(site, _)| site.close());
                    self.site(offered, is_console)
                }
            };
            sites.push(site.clone());
            self.there.insert(key, (site, sharing));
        }
        self.sites.replace(sites);
        for (site, _) in before.into_values() {
            site.close();
        }
    }

    fn site(&self, offered: Offered, is_console: bool) -> Site {
        let Offered { place, backend, sharing, light } = offered;
        let max_sessions = self.max_sessions(light);
        let mut options = self.template.clone().sharing(sharing).max_sessions(max_sessions);
        let escaped = |name| utf8_percent_encode(name, ESCAPED);
        let prefix = match &place {
            Place::All => String::new(),
            Place::Server(name) => format!("/servers/{}", escaped(name)),
            Place::Group(name) => format!("/groups/{}", escaped(name)),
        };
        if let Some(console) = self.console.as_ref().filter(|_| is_console) {
            let path = format!("{}{prefix}/mcp", console.prefix);
            let (headers, gate) = (console.headers.clone(), Some((console.gate)(place)));
            let alone = options.path(path).sse_path("").message_path("").ws_path("");
            return Site::new(backend, alone.headers(headers).authenticator(gate));
        }
        let SiteOptions { path, sse_path, message_path, ws_path, .. } = &mut options;
        for path in [path, sse_path, message_path, ws_path] {
            if !path.is_empty() {
                path.insert_str(0, &prefix);
            }
        }
        if let Some(authenticator) = &self.authenticator {
            let SiteOptions { path, sse_path, ws_path, .. } = &options;
            let paths = [path, sse_path, ws_path].into_iter().filter(|path| !path.is_empty());
            let paths = paths.cloned().collect();
            options.authenticator = Some(authenticator.gate_at(Some(place), paths));
        }
        Site::new(backend, options)
    }

    fn max_sessions(&self, is_light: bool) -> usize {
        let usual = if is_light { LIGHT_SESSIONS } else { self.template.max_sessions };
        self.sessions.unwrap_or(usual)
    }

    /// Keeps to what the arguments and a plan say about names, pages and bounds.
    pub(crate) fn adjust(&mut self, args: &ServeArgs, bounds: &GatewayBounds) -> CommandResult {
        self.template.guard = guard(self.address, args, &WebArgs::default())?;
        self.template.limits = Arc::new(bounds.limits(&Limits::default()));
        bound(&mut self.template, bounds);
        self.sessions = bounds.sessions;
        self.sites.guard(self.template.guard.clone());
        Ok(())
    }

    /// Ends listens at servers that are others now, or of which something else is
    /// seen, by all or by those who listen.
    pub(crate) fn end_listens(&self, changes: &PlanChanges) {
        let PlanChanges { changed, adjusted, regranted, .. } = changes;
        for ((place, _), (site, _)) in &self.there {
            let Place::Server(server) = place else { continue };
            let is_other = changed.contains(server) || adjusted.contains(server);
            let is_meant = |who: &str| is_other || regranted.iter().any(|name| name == who);
            site.end_listens_of(|who| is_meant(who.name()));
        }
    }
}

/// Requests in flight may have as many bytes as one message, at least.
fn bound(template: &mut SiteOptions, bounds: &GatewayBounds) {
    let message = template.limits.message;
    let most = bounds.bodies.unwrap_or(BodyBudget::BYTES).max(message);
    let each = bounds.bodies_each.unwrap_or(BodyBudget::BYTES_EACH).max(message);
    template.bodies.bound(most, each);
    template.unread.bound(bounds.unread.unwrap_or(Unread::BYTES));
}

impl Web {
    /// Takes the port; nothing but pages is served there yet.
    pub(crate) async fn bind(
        around: Around,
        limits: Arc<Limits>,
        port: u16,
        args: &ServeArgs,
        web: &WebArgs,
    ) -> CommandResult<(Self, ServedSites)> {
        raise_open_files();
        let Around { pages, authenticator, bounds, console, is_console_alone, replica } = around;
        let mut template = options(args, web)?.replica(replica);
        let identity = args.identity_files().map(watch_identity).transpose()?;
        let (listener, address) = bind(&args.host, port).await?;
        let by_keys = authenticator.as_ref().map(|authenticator| authenticator.is_open());
        let is_open = by_keys.unwrap_or(template.authenticator.is_none());
        if !address.ip().is_loopback() && is_open {
            tracing::warn!(
                target: WEB,
                "{address} can be reached from other machines, and there is no authentication"
            );
        }
        (template.guard, template.limits) = (guard(address, args, web)?, limits);
        let gate = authenticator.as_ref().map(|authenticator| authenticator.gate(None));
        let open = pages.iter().filter(|(_, page)| page.is_open());
        let reserve_paths: Vec<_> = open.map(|(path, _)| path.clone()).collect();
        let sites = Sites::behind(gate, template.guard.clone(), Vec::new(), pages);
        let hearing = authenticator.as_ref().map(|authenticator| {
            let sites = sites.clone();
            authenticator.on_replace(move || sites.recheck())
        });
        let usual = ListenOptions::default();
        let head = bounds.head.unwrap_or(usual.max_head);
        let idle = web.idle_connection.unwrap_or(args.request_timeout);
        let options = usual
            .max_connections(bounds.connections.unwrap_or_else(max_connections))
            .max_per_address(bounds.connections_each)
            .max_head(head)
            .head_timeout(Duration::from_secs(idle))
            .grace(Duration::from_secs(args.grace))
            .reserve_paths(reserve_paths)
            .tls(identity.as_ref().map(IdentityWatch::tls));
        bound(&mut template, &bounds);
        let at = ServedAt { address, is_secure: identity.is_some() };
        let web = Self { sites: sites.clone(), options, listener, at, identity, _hearing: hearing };
        let (sessions, there) = (bounds.sessions, BTreeMap::new());
        let sites = ServedSites {
            sites,
            template,
            authenticator,
            address,
            sessions,
            console,
            is_console_alone,
            there,
        };
        Ok((web, sites))
    }

    /// Where it listens.
    pub(crate) fn at(&self) -> ServedAt {
        self.at
    }

    /// What it serves.
    #[cfg(any(feature = "console", feature = "redis"))]
    pub(crate) fn sites(&self) -> Sites {
        self.sites.clone()
    }

    /// Serves until a signal.
    pub(crate) async fn serve(self, stop: StopSignal) {
        announce(self.at, &self.sites);
        let _following = self.identity.map(|identity| follow_identity(identity, &stop));
        self.sites.serve(self.listener, self.options, stop.asked()).await;
    }
}

/// Reads a certificate and its key.
pub(crate) fn watch_identity(files: IdentityFiles) -> CommandResult<IdentityWatch> {
    IdentityWatch::new(files).map_err(|error| {
        CommandError::of(&error)
            .hint("--tls-cert and --tls-key (\"tlsCert\" and \"tlsKey\" in a file) take PEM files")
    })
}

/// Shows a new certificate when its files change, or on SIGHUP.
fn follow_identity(mut identity: IdentityWatch, stop: &StopSignal) -> OwnedTask {
    if let Err(error) = identity.listen() {
        let line = CommandError::of(&error).line();
        tracing::warn!(target: WEB, "{line}; send SIGHUP after a change");
    }
    if let Err(error) = stop.reload_on_hangup(identity.reload(), "the TLS certificate") {
        tracing::debug!(target: WEB, %error, "SIGHUP is not heard");
    }
    identity.follow()
}

fn options(args: &ServeArgs, web: &WebArgs) -> CommandResult<SiteOptions> {
    let key = web.api_key.as_deref().map(header::filled).transpose()?;
    if key.as_deref().is_some_and(|key| key.trim().is_empty()) {
        let hint = "give a key that is hard to guess, or none: then anybody is let in";
        return Err(CommandError::new("the API key is empty").hint(hint).of_usage());
    }
    let headers = header::for_answers(&web.response_header)?;
    let usual: &[_] = &[ServedTransport::Http, ServedTransport::Sse];
    let served = if web.serve.is_empty() { usual } else { &web.serve };
    let place = |transport, path: &Option<String>, usual: &str| match path {
        _ if !served.contains(&transport) => String::new(),
        Some(path) => absolute(path),
        None => usual.to_owned(),
    };
    let options = SiteOptions::default()
        .keep_alive(Duration::from_secs(args.keep_alive))
        .hang_up(args.hang_up_after)
        .body_pause(Duration::from_secs(args.request_timeout))
        .session_idle(Duration::from_secs(args.session_timeout))
        .base(web.base_url.as_deref().unwrap_or_default().trim_end_matches('/'))
        .path(place(ServedTransport::Http, &web.path, "/mcp"))
        .sse_path(place(ServedTransport::Sse, &web.sse_path, "/sse"))
        .message_path(place(ServedTransport::Sse, &web.message_path, "/message"))
        .ws_path(place(ServedTransport::Ws, &web.ws_path, "/ws"))
        .authenticator(key.map(|key| Arc::new(ApiKey::new(&key)) as _))
        .headers(headers)
        .stateless(web.stateless);
    Ok(if web.legacy_only { options.without_modern() } else { options })
}

/// Whether a host is this machine, and no other reaches it.
pub(crate) fn is_local(host: &str) -> bool {
    let bare = host.trim_matches(['[', ']']);
    bare.eq_ignore_ascii_case("localhost")
        || bare.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Who may talk to us at this address.
pub(crate) fn guard(address: SocketAddr, args: &ServeArgs, web: &WebArgs) -> CommandResult<Guard> {
    let guard = Guard::bound_to(address);
    let mut guard = args.allow_host.iter().fold(guard, |guard, host| guard.allow_host(host));
    for origin in &args.allow_origin {
        let pattern = origin.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
        let pattern = pattern.map(Regex::new).transpose().map_err(|error| {
            CommandError::of(&error).hint("--allow-origin takes /REGEX/ between slashes")
        })?;
        guard = match pattern {
            Some(pattern) => guard.allow_origins_like(pattern),
            None => guard.allow_origin(origin),
        };
    }
    for text in &web.allow_header {
        guard = guard.allow_header(&header_name(text)?);
    }
    for text in &web.expose_header {
        guard = guard.expose_header(&header_name(text)?);
    }
    Ok(guard)
}

fn header_name(text: &str) -> CommandResult<HeaderName> {
    text.trim().parse().map_err(|_| CommandError::new(format!("{text:?} is no name of a header")))
}

fn absolute(path: &str) -> String {
    format!("/{}", path.trim_start_matches('/'))
}

fn pages(web: &WebArgs, places: Vec<Place>) -> Vec<(String, SitePage)> {
    let health = web.health.iter().map(|page| {
        let (path, word) = page.split_once('=').unwrap_or((page, "ok"));
        (absolute(path), SitePage::Text(word.to_owned()))
    });
    let status = web.status.as_ref().map(|path| {
        let page = move |sites: &Sites| status(sites, &places);
        (absolute(path), SitePage::Json(Box::new(page)))
    });
    health.chain(status).collect()
}

/// In the words of mcp-proxy, whose page people already watch.
fn status(sites: &Sites, places: &[Place]) -> String {
    let streams: usize = sites.each().iter().map(Site::old_sessions).sum();
    let name = |place: &Place| match place {
        Place::All => "default".to_owned(),
        Place::Server(name) | Place::Group(name) => name.clone(),
    };
    let servers: serde_json::Map<_, _> =
        places.iter().map(|place| (name(place), "configured".into())).collect();
    let status = json!({
        "api_last_activity": moment::text(sites.last_used()),
        "active_sse_connections": streams,
        "server_instances": servers,
    });
    status.to_string()
}

/// A line on stdout for each server, so that a script that used port 0 learns the URL. The log
/// has one line for the first of them, and one for the others.
fn announce(at: ServedAt, sites: &Sites) {
    let (address, web) = (at.address, at.scheme());
    let socket = if at.is_secure { "wss" } else { "ws" };
    let mut stdout = io::stdout().lock();
    // What is for the page of the console is for no client.
    let is_for_clients = |site: &&Site| !site.options().path.starts_with(CONSOLE_PREFIX);
    let all = sites.each();
    let sites: Vec<_> = all.iter().filter(is_for_clients).collect();
    for (number, site) in sites.iter().enumerate() {
        let SiteOptions { path, sse_path, ws_path, .. } = site.options();
        let places = [(web, path), (web, sse_path), (socket, ws_path)];
        let places = places.into_iter().filter(|(_, path)| !path.is_empty());
        let urls: Vec<_> =
            places.map(|(scheme, path)| format!("{scheme}://{address}{path}")).collect();
        let first = urls.first().map_or("", String::as_str);
        let first = first.replacen(&address.to_string(), &reachable(address), 1);
        let told = writeln!(stdout, "{first}").and_then(|()| stdout.flush());
        if let Err(error) = told {
            // The server is of use all the same.
            tracing::debug!(target: WEB, %error, "nobody reads stdout");
        }
        if number == 0 {
            tracing::info!(target: WEB, "serving {}", urls.join(" and "));
        }
    }
    if let Some(other) = sites.get(1) {
        let more = sites.len().saturating_sub(2);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        tracing::info!(target: WEB, "also serving {}{more}", first_path(other.options()));
    }
}

fn first_path(options: &SiteOptions) -> &str {
    let SiteOptions { path, sse_path, ws_path, .. } = options;
    [path, sse_path, ws_path].into_iter().find(|path| !path.is_empty()).map_or("", |path| path)
}

/// An address that a client on this machine can use; all addresses of a machine are none.
fn reachable(address: SocketAddr) -> String {
    match address.ip() {
        IpAddr::V4(all) if all.is_unspecified() => format!("127.0.0.1:{}", address.port()),
        IpAddr::V6(all) if all.is_unspecified() => format!("localhost:{}", address.port()),
        _ => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_addresses_of_a_machine_are_told_as_one_that_can_be_used() {
        for (bound, told) in [
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("[::]:80", "localhost:80"),
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(reachable(bound.parse().unwrap()), told);
        }
    }
}
