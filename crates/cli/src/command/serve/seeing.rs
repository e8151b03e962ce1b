//! What there is to see of a running gateway: pages, metrics, traces.

use std::sync::Arc;

use switchboard_gateway::fleet::Fleet;
use switchboard_gateway::gateway::Place;
use switchboard_gateway::span::Spans;
use switchboard_gateway::tap::{Tap, Tapped};
use switchboard_gateway::{metrics, status};
use switchboard_net::http::fetch::Fetch;
use switchboard_net::http::sites::SitePage;
use switchboard_net::inside::Inside;

use super::otel;
use super::reload::Loaded;

/// Sees all calls; sends spans if the environment says where to.
pub(super) fn tap(fetch: &Fetch) -> Arc<Tap> {
    let tap = Arc::new(Tap::default());
    let wanted = otel::wanted(|name| std::env::var(name).ok());
    for complaint in wanted.complaints {
        tracing::warn!("{complaint}");
    }
    if let Some((options, sampler)) = wanted.spans {
        let host = options.endpoint.host().unwrap_or_default();
        tracing::info!("traces are sent to {host}");
        tap.trace_to(Spans::start(options, fetch.clone()), sampler);
    }
    tap
}

/// What is at a place, with its calls seen.
pub(super) fn tapped(
    fleet: &Fleet,
    place: &Place,
    inside: Arc<dyn Inside>,
    is_stdio: bool,
) -> Arc<dyn Inside> {
    let tapped = match place {
        Place::Server(name) => Tapped::one(fleet.tap(), &Arc::from(name.as_str()), inside),
        Place::All | Place::Group(_) => Tapped::many(fleet.tap(), inside),
    };
    Arc::new(if is_stdio { tapped.on_stdio() } else { tapped })
}

/// Whether we are well, whether a server is there, how everything stands, and what was counted.
pub(super) fn pages(fleet: &Arc<Fleet>, loaded: Arc<Loaded>) -> Vec<(String, SitePage)> {
    let (ready, all, counted) = (Arc::clone(fleet), Arc::clone(fleet), Arc::clone(fleet));
    let is_ready = move || {
        let states = ready.states();
        states.iter().any(|(name, state)| state.is_up() || ready.is_open_to_people(name, state))
    };
    let status = move |sites: &_| {
        let mut status = status::status(&all, sites);
        status["config"] = loaded.status();
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
