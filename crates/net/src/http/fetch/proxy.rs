//! Which proxy a request goes through, by the variables that users know.
//!
//! `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, in either case; lower
//! case wins, as with curl. Credentials live in the URL of the proxy, and are
//! shown nowhere.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;

use http::Uri;
use http::uri::Scheme;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};

use super::fetch_error::SetupError;

/// The user's proxies, as written.
#[derive(Clone, Default)]
pub struct ProxySettings {
    http: String,
    https: String,
    all: String,
    no: String,
    loopback: bool,
}

impl ProxySettings {
    /// Picks the proxy variables out of `vars`, the environment of the caller.
    pub fn from_vars(vars: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut vars: HashMap<_, _> = vars.into_iter().collect();
        if vars.contains_key("REQUEST_METHOD") {
            // In a CGI program it is the `Proxy` header of somebody's request.
            vars.remove("HTTP_PROXY");
        }
        let pick = |name: &str| {
            let upper = name.to_ascii_uppercase();
            let mut values = [name, &upper].into_iter().filter_map(|name| vars.get(name));
            values.find_map(|value| Some(value.trim()).filter(|value| !value.is_empty()))
        };
        let [http, https, all, no] = ["http_proxy", "https_proxy", "all_proxy", "no_proxy"]
            .map(|name| pick(name).unwrap_or_default().to_owned());
        Self { http, https, all, no, loopback: false }
    }

    /// Sends requests to loopback addresses through the proxies too.
    #[must_use]
    pub fn including_loopback(mut self) -> Self {
        self.loopback = true;
        self
    }

    pub(super) fn compile(&self) -> Result<Proxies, SetupError> {
        let given =
            [("HTTP_PROXY", &self.http), ("HTTPS_PROXY", &self.https), ("ALL_PROXY", &self.all)];
        for (variable, value) in given {
            if !value.is_empty() && !is_usable(value) {
                return Err(SetupError::BadProxy { variable });
            }
        }
        // Users write `*.example.com` for what the matcher knows as `.example.com`.
        let no = self.no.split(',').map(|entry| {
            let entry = entry.trim();
            entry.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(entry)
        });
        let matcher = Matcher::builder()
            .http(&self.http)
            .https(&self.https)
            .all(&self.all)
            .no(no.collect::<Vec<_>>().join(","));
        let is_empty = given.iter().all(|(_, value)| value.is_empty());
        Ok(Proxies { matcher: matcher.build(), is_empty, loopback: self.loopback })
    }
}

/// Whether a value of a variable names a proxy that we can talk to.
fn is_usable(value: &str) -> bool {
    let matcher = Matcher::builder().all(value).build();
    let proxy = matcher.intercept(&Uri::from_static("http://example.com"));
    proxy.is_some_and(|proxy| {
        let is_old_socks = proxy.uri().scheme_str().is_some_and(|it| it.starts_with("socks4"));
        proxy.uri().host().is_some() && !is_old_socks
    })
}

impl fmt::Debug for ProxySettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxySettings")
            .field("http", &without_credentials(&self.http))
            .field("https", &without_credentials(&self.https))
            .field("all", &without_credentials(&self.all))
            .field("no", &self.no)
            .field("loopback", &self.loopback)
            .finish()
    }
}

fn without_credentials(url: &str) -> &str {
    url.rsplit_once('@').map_or(url, |(_, rest)| rest)
}

/// The user's proxies, ready to be asked.
#[derive(Debug)]
pub(super) struct Proxies {
    matcher: Matcher,
    is_empty: bool,
    loopback: bool,
}

impl Proxies {
    /// The proxy that a connection to `target` goes through.
    pub(super) fn towards(&self, target: &Uri) -> Option<Intercept> {
        if self.is_empty || (!self.loopback && is_loopback(target)) {
            return None;
        }
        self.matcher.intercept(target)
    }

    /// The proxy that reads requests to `target`, rather than pass bytes along.
    pub(super) fn reading(&self, target: &Uri) -> Option<Intercept> {
        if self.is_empty || target.scheme() != Some(&Scheme::HTTP) {
            return None;
        }
        self.towards(target).filter(|proxy| !is_socks(proxy.uri()))
    }
}

/// Whether bytes for the target are passed along after a SOCKS handshake.
pub(super) fn is_socks(proxy: &Uri) -> bool {
    proxy.scheme_str().is_some_and(|scheme| scheme.starts_with("socks"))
}

fn is_loopback(target: &Uri) -> bool {
    let Some(host) = target.host() else { return false };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests;
