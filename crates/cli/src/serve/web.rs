//! Serving over HTTP: one server or several, each on paths of its own.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use serde_json::json;
use switchboard_gateway::authenticator::{Authenticator, Entrance, Hearing};
use switchboard_gateway::plan::GatewayBounds;
use switchboard_net::access::ApiKey;
use switchboard_net::access::{Guard, Regex};
use switchboard_net::connection::unread::Unread;
use switchboard_net::http::body::BodyBudget;
use switchboard_net::http::listen::{self, ListenOptions};
use switchboard_net::http::site::SiteRules;
use switchboard_net::http::site::{Site, SiteOptions};
use switchboard_net::http::site::{SitePage, Sites};
use switchboard_proto::limits::Limits;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::{LIGHT_SESSIONS, Offer, bind, max_connections, raise_open_files};
use crate::args::{ServeArgs, Transport, WebArgs};
use crate::exit::CommandError;
use crate::signal::Stop;
use crate::{header, log};

/// Where something is served.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Place {
    Root,
    /// `/servers/NAME`
    Server(String),
    /// `/groups/NAME`
    Group(String),
}

impl Place {
    /// What its paths begin with.
    fn prefix(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Server(name) => format!("/servers/{}", escaped(name)),
            Self::Group(name) => format!("/groups/{}", escaped(name)),
        }
    }

    fn door(&self) -> Entrance {
        match self {
            Self::Root => Entrance::All,
            Self::Server(name) => Entrance::Server(name.clone()),
            Self::Group(name) => Entrance::Group(name.clone()),
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Root => "default",
            Self::Server(name) | Self::Group(name) => name,
        }
    }
}

/// A name as a part of a path.
fn escaped(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            write!(escaped, "%{byte:02X}").expect("a string takes everything");
        }
    }
    escaped
}

/// Serves until a signal.
pub(crate) async fn serve(
    offers: Vec<(Place, Offer)>,
    port: u16,
    args: &ServeArgs,
    web: &WebArgs,
    stop: Stop,
) -> Result<(), CommandError> {
    let places: Vec<_> = offers.iter().map(|(place, _)| place.clone()).collect();
    let around = Around { pages: pages(web, places), ..Around::default() };
    let web = Web::bind(around, port, args, web).await?;
    let sites = offers.into_iter().map(|(place, offer)| {
        let is_light = offer.shared;
        web.mount.site(&place, offer, is_light)
    });
    web.sites.replace(sites.collect());
    web.serve(stop).await;
    Ok(())
}

/// What is around that which is served.
#[derive(Default)]
pub(crate) struct Around {
    pub(crate) pages: Vec<(String, SitePage)>,
    /// Who is at the doors; none for `--api-key` alone, or nobody.
    pub(crate) authenticator: Option<Arc<Authenticator>>,
    pub(crate) bounds: Option<GatewayBounds>,
}

/// A port that is ours, and what is served there.
pub(crate) struct Web {
    pub(crate) sites: Sites,
    pub(crate) mount: Mount,
    pub(crate) options: ListenOptions,
    listener: TcpListener,
    address: SocketAddr,
    end_with_stdin: bool,
    /// When others may come in.
    _hearing: Option<Hearing>,
}

/// How sites are made for a port.
#[derive(Clone)]
pub(crate) struct Mount {
    template: SiteOptions,
    authenticator: Option<Arc<Authenticator>>,
    address: SocketAddr,
    /// Sessions at once, where the user says so.
    sessions: Option<usize>,
}

impl Mount {
    /// A site; a light one starts no process for a client alone.
    pub(crate) fn site(&self, place: &Place, offer: Offer, is_light: bool) -> Site {
        let Offer { backend, shared, limits } = offer;
        let mut options = SiteOptions { limits, shared, ..self.template.clone() };
        options.max_sessions = self.max_sessions(is_light);
        if let Some(authenticator) = &self.authenticator {
            options.authenticator = Some(authenticator.gate(place.door()));
        }
        nest(&mut options, &place.prefix());
        Site::new(backend, options)
    }

    fn max_sessions(&self, is_light: bool) -> usize {
        let usual = if is_light { LIGHT_SESSIONS } else { self.template.max_sessions };
        self.sessions.unwrap_or(usual)
    }

    /// Lets in other names, pages and numbers of sessions from here on.
    pub(crate) fn change(
        &mut self,
        args: &ServeArgs,
        bounds: &GatewayBounds,
    ) -> Result<(), CommandError> {
        self.template.guard = guard(self.address, args, &WebArgs::default())?;
        self.sessions = bounds.sessions;
        let (most, each) = bodies(bounds);
        self.template.bodies.bound(most, each);
        self.template.unread.bound(bounds.unread.unwrap_or(Unread::BYTES));
        Ok(())
    }

    /// The rules of a site that is there, as it would be made by now.
    pub(crate) fn rules(&self, limits: &Arc<Limits>, is_light: bool) -> SiteRules {
        let (guard, max_sessions) = (self.template.guard.clone(), self.max_sessions(is_light));
        SiteRules { guard, limits: Arc::clone(limits), max_sessions }
    }

    /// Who may look at the pages.
    pub(crate) fn guard(&self) -> Guard {
        self.template.guard.clone()
    }
}

impl Web {
    /// Takes the port; nothing but pages is served there yet.
    pub(crate) async fn bind(
        around: Around,
        port: u16,
        args: &ServeArgs,
        web: &WebArgs,
    ) -> Result<Self, CommandError> {
        raise_open_files();
        let Around { pages, authenticator, bounds } = around;
        let template = options(args, web)?;
        let (listener, address) = bind(&args.host, port).await?;
        let is_open = authenticator
            .as_ref()
            .map_or(template.authenticator.is_none(), |authenticator| authenticator.is_open());
        if !address.ip().is_loopback() && is_open {
            tracing::warn!(
                "{address} can be reached from other machines, and there is no authentication"
            );
        }
        let guard = guard(address, args, web)?;
        let gate = authenticator.as_ref().map(|authenticator| authenticator.gate(Entrance::Pages));
        let open = pages.iter().filter(|(_, page)| page.is_open());
        let reserve_paths: Vec<_> = open.map(|(path, _)| path.clone()).collect();
        let sites = Sites::behind(gate, guard.clone(), Vec::new(), pages);
        let hearing = authenticator.as_ref().map(|authenticator| {
            let sites = sites.clone();
            authenticator.on_replace(move || sites.recheck())
        });
        let sessions = bounds.and_then(|bounds| bounds.sessions);
        let (most, each) = bodies(&bounds.unwrap_or_default());
        template.bodies.bound(most, each);
        let unread = bounds.and_then(|bounds| bounds.unread);
        template.unread.bound(unread.unwrap_or(Unread::BYTES));
        let template = SiteOptions { guard, ..template };
        let mount = Mount { template, authenticator, address, sessions };
        let mut options = ListenOptions {
            max_connections: max_connections(),
            reserve_paths,
            ..ListenOptions::default()
        };
        if let Some(bounds) = bounds {
            options.max_connections = bounds.connections.unwrap_or(options.max_connections);
            options.max_per_address = bounds.connections_each;
            options.max_head = bounds.head.unwrap_or(options.max_head);
        }
        options.grace = Duration::from_secs(args.grace);
        let idle = web.idle_connection.unwrap_or(args.request_timeout);
        options.head_timeout = Duration::from_secs(idle);
        let end_with_stdin = web.end_with_stdin;
        Ok(Self { sites, mount, options, listener, address, end_with_stdin, _hearing: hearing })
    }

    /// Serves until a signal.
    pub(crate) async fn serve(self, stop: Stop) {
        announce(self.address, &self.sites);
        if self.end_with_stdin {
            stop.at_end_of_stdin();
        }
        let (sites, grace) = (self.sites.clone(), self.options.grace);
        let (tell, served) = oneshot::channel::<()>();
        let serving = async {
            listen::serve(self.listener, self.sites, self.options, stop.clone().asked()).await;
            drop(tell);
        };
        let stopping = async {
            stop.clone().asked().await;
            let served = async { _ = served.await };
            sites.stop(grace, served).await;
        };
        tokio::join!(serving, stopping);
    }
}

/// The bytes of requests that all and each may have in flight: never less than
/// one message has.
fn bodies(bounds: &GatewayBounds) -> (usize, usize) {
    let message = bounds.limits(&Limits::default()).message;
    let each = bounds.bodies_each.unwrap_or(BodyBudget::BYTES_EACH).max(message);
    (bounds.bodies.unwrap_or(BodyBudget::BYTES).max(message), each)
}

fn options(args: &ServeArgs, web: &WebArgs) -> Result<SiteOptions, CommandError> {
    let variable = |name: &str| std::env::var(name).ok();
    let key = web.api_key.as_deref().map(|key| header::filled(key, variable)).transpose()?;
    if key.as_deref().is_some_and(|key| key.trim().is_empty()) {
        let hint = "give a key that is hard to guess, or none: then anybody is let in";
        return Err(CommandError::new("the API key is empty").hint(hint));
    }
    let headers = header::for_answers(&web.response_header, variable)
        .map_err(|error| CommandError::of(&error).hint(error.hint()))?;
    let place = |transport, path: &Option<String>, usual: &str| match path {
        _ if !web.serves(transport) => String::new(),
        Some(path) => format!("/{}", path.trim_start_matches('/')),
        None => usual.to_owned(),
    };
    Ok(SiteOptions {
        keep_alive: Duration::from_secs(args.keep_alive),
        hang_up: args.hang_up_after,
        body_pause: Duration::from_secs(args.request_timeout),
        session_idle: Duration::from_secs(args.session_timeout),
        base: web.base_url.as_deref().unwrap_or_default().trim_end_matches('/').to_owned(),
        path: place(Transport::Http, &web.path, "/mcp"),
        sse_path: place(Transport::Sse, &web.sse_path, "/sse"),
        message_path: place(Transport::Sse, &web.message_path, "/message"),
        ws_path: place(Transport::Ws, &web.ws_path, "/ws"),
        authenticator: key.map(|key| Arc::new(ApiKey::new(&key)) as _),
        headers,
        stateless: web.stateless,
        modern: !web.legacy_only,
        ..SiteOptions::default()
    })
}

/// Moves a site's paths below its place.
fn nest(options: &mut SiteOptions, prefix: &str) {
    let SiteOptions { path, sse_path, message_path, ws_path, .. } = options;
    for path in [path, sse_path, message_path, ws_path] {
        if !path.is_empty() {
            *path = format!("{prefix}{path}");
        }
    }
}

/// Who may talk to us at this address.
pub(crate) fn guard(
    address: SocketAddr,
    args: &ServeArgs,
    web: &WebArgs,
) -> Result<Guard, CommandError> {
    let guard = Guard::bound_to(address);
    let mut guard = args.allow_host.iter().fold(guard, |guard, host| guard.allow_host(host));
    for origin in &args.allow_origin {
        let pattern = origin.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
        guard = match pattern {
            Some(pattern) => {
                let pattern = Regex::new(pattern).map_err(|error| {
                    CommandError::of(&error).hint("--allow-origin takes /REGEX/ between slashes")
                })?;
                guard.allow_origins_like(pattern)
            }
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

fn header_name(text: &str) -> Result<HeaderName, CommandError> {
    text.trim().parse().map_err(|_| CommandError::new(format!("{text:?} is no name of a header")))
}

fn pages(web: &WebArgs, places: Vec<Place>) -> Vec<(String, SitePage)> {
    let mut pages = Vec::new();
    for page in &web.health {
        let (path, word) = page.split_once('=').unwrap_or((page, "ok"));
        let path = format!("/{}", path.trim_start_matches('/'));
        pages.push((path, SitePage::Text(word.to_owned())));
    }
    if let Some(path) = &web.status {
        let path = format!("/{}", path.trim_start_matches('/'));
        let page = move |sites: &Sites| status(sites, &places);
        pages.push((path, SitePage::Json(Box::new(page))));
    }
    pages
}

/// In the words of mcp-proxy, whose page people already watch.
fn status(sites: &Sites, places: &[Place]) -> String {
    let streams: usize = sites.each().iter().map(Site::old_sessions).sum();
    let servers: serde_json::Map<_, _> =
        places.iter().map(|place| (place.name().to_owned(), "configured".into())).collect();
    let status = json!({
        "api_last_activity": log::timestamp_of(sites.last_used()),
        "active_sse_connections": streams,
        "server_instances": servers,
    });
    status.to_string()
}

/// A line on stdout for each server, so that a script that used port 0 learns the URL.
fn announce(address: SocketAddr, sites: &Sites) {
    let mut stdout = io::stdout().lock();
    for site in sites.each().iter() {
        let SiteOptions { path, sse_path, ws_path, .. } = site.options();
        let places = [("http", path), ("http", sse_path), ("ws", ws_path)];
        let places = places.into_iter().filter(|(_, path)| !path.is_empty());
        let urls: Vec<_> =
            places.map(|(scheme, path)| format!("{scheme}://{address}{path}")).collect();
        let first = urls.first().map_or("", String::as_str);
        let told = writeln!(stdout, "{first}").and_then(|()| stdout.flush());
        if let Err(error) = told {
            // The server is of use all the same.
            tracing::debug!(%error, "nobody reads stdout");
        }
        tracing::info!("serving {}", urls.join(" and "));
    }
}
