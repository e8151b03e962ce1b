//! Whether there is anybody to talk to.

use switchboard_net::http::fetch::FetchError;

use crate::doctor::evidence::{Evidence, ExchangeResult, Unreached};
use crate::doctor::report::Finding;

pub(super) fn starts(evidence: &Evidence) -> Vec<Finding> {
    let Some(Unreached::Spawn { text }) = &evidence.unreached else { return Vec::new() };
    let finding = Finding::error("command.start", format!("the command does not start: {text}"));
    vec![finding.remedy("run it by itself in a terminal; what works there has to be written here")]
}

pub(super) fn connects(evidence: &Evidence) -> Vec<Finding> {
    let lost = match &evidence.unreached {
        Some(Unreached::Fetch(error)) => Some(error),
        _ => evidence.exchanges.iter().find_map(|exchange| match &exchange.outcome {
            ExchangeResult::Lost(error) => Some(error),
            _ => None,
        }),
    };
    lost.map(unreached).into_iter().collect()
}

fn unreached(error: &FetchError) -> Finding {
    let cause = std::error::Error::source(error);
    let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
    let what = format!("{error}{cause}");
    match error {
        FetchError::Unresolved { .. } => Finding::error("connect.dns", what)
            .remedy("check the name of the host; inside a container or a VPN it may have another"),
        FetchError::Refused { .. } => Finding::error("connect.refused", what).remedy(
            "start the server, or check the port; in a container it must listen on 0.0.0.0",
        ),
        FetchError::TimedOut { .. } => Finding::error("connect.timeout", what)
            .remedy("a firewall or a wrong address; can the host be reached from here at all?"),
        FetchError::Tls { .. } => tls(what),
        FetchError::ProxyRefused { .. } => Finding::error("connect.proxy", what)
            .remedy("check HTTPS_PROXY and its credentials, or name the host in NO_PROXY"),
        FetchError::Lost { .. } => Finding::error("connect.lost", what)
            .remedy("the server hangs up on requests; look into its log, or is it https://?"),
        FetchError::RedirectRefused { .. } | FetchError::TooManyRedirects { .. } => {
            Finding::error("http.redirect", what).rule("MH-18").remedy("use the URL it leads to")
        }
        _ => Finding::error("connect.failed", what).remedy("check the URL and the network"),
    }
}

fn tls(what: String) -> Finding {
    let remedy =
        "trust its authority with --ca-file PEM; check its date and name; or is it http://?";
    Finding::error("connect.tls", what).remedy(remedy)
}

pub(super) fn is_at_another_path(evidence: &Evidence) -> Vec<Finding> {
    let found = evidence.siblings.iter().map(|url| {
        Finding::note("http.sibling", format!("a server answers at {url}"))
            .remedy("if that is the one you mean, use this URL")
    });
    found.collect()
}

pub(super) fn has_moved(evidence: &Evidence) -> Vec<Finding> {
    let moved = evidence.moved.as_deref().map(|url| {
        let url = url.split(['?', '#']).next().unwrap_or_default();
        Finding::warning("http.moved", format!("the server redirects to {url}"))
            .rule("MH-18")
            .remedy("use that URL: not every client follows, and each call takes twice as long")
    });
    let elsewhere = evidence.exchanges.iter().rev().find_map(|exchange| {
        let facts = exchange.outcome.facts()?;
        let is_redirect = matches!(facts.status, 301 | 302 | 303 | 307 | 308);
        is_redirect.then_some(facts)
    });
    let elsewhere = elsewhere.filter(|_| !evidence.was_greeted()).map(|facts| {
        let to = facts.location.as_deref().unwrap_or("nowhere");
        let to = to.split(['?', '#']).next().unwrap_or_default();
        let what = format!("the server redirects (HTTP {}) to {to}", facts.status);
        Finding::error("http.redirect", what).rule("MH-18").remedy(
            "use that URL if you trust it; a redirect to a login page means that it wants a token",
        )
    });
    moved.into_iter().chain(elsewhere).collect()
}
