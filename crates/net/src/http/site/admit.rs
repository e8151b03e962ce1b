//! Who may ask something of a site, and what browsers hear before they do.

use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use switchboard_proto::refusal::Refusal;

use super::{Site, SiteOptions, plain};
use crate::http::body::Body;
use crate::http::endpoint::{self, Reply};
use crate::http::gate;
use crate::http::guard::{Grant, Guard};
use crate::upstream;
use crate::who::Who;

impl Site {
    /// Turns strangers away, and answers preflights.
    pub(super) fn admit(&self, parts: &Parts) -> Result<Admitted<'_>, Box<Response<Body>>> {
        let rules = self.inner.rules();
        let guard = &rules.guard;
        if let Err(refused) = guard.check(parts) {
            return Err(Box::new(plain(refused.status(), format!("{refused}\n"))));
        }
        let SiteOptions { gate, headers: more, .. } = &self.inner.options;
        let admitted = gate::admit(gate.as_ref(), &parts.headers);
        if parts.method == Method::OPTIONS {
            if admitted.is_err() {
                return Err(Box::new(preflight_of_stranger(guard, parts)));
            }
            // What is passed on must be sent first.
            let carried = self.inner.inside.carries();
            let carried = carried.iter().flat_map(|names| names.iter());
            let guard = carried.fold(guard.clone(), Guard::allow_header);
            return Err(Box::new(preflight(&guard, parts)));
        }
        let grant = guard.grant(&parts.headers);
        match admitted {
            Ok(who) => {
                let who = gate::told_apart(&who, &parts.headers);
                let through = upstream::through(&parts.headers);
                let is_loop = !through.is_empty() && self.inner.inside.leads_back(&who, &through);
                let admitted = Admitted { who, grant, more };
                if is_loop {
                    return Err(Box::new(admitted.answer(Err(Refusal::Loop))));
                }
                Ok(admitted)
            }
            Err(turned) => {
                let admitted = Admitted { who: Who::default(), grant, more };
                Err(Box::new(admitted.answer(Ok(turned.response()))))
            }
        }
    }
}

/// A request that may be answered, whose it is, and who may read the answer.
pub(super) struct Admitted<'a> {
    pub(super) who: Who,
    grant: Option<Grant>,
    more: &'a HeaderMap,
}

impl Admitted<'_> {
    /// The answer, marked for the browsers that may read it.
    pub(super) fn answer(self, reply: Reply) -> Response<Body> {
        let mut response = reply.unwrap_or_else(|refusal| endpoint::refused(None, &refusal));
        for (name, value) in self.more {
            response.headers_mut().insert(name, value.clone());
        }
        if let Some(grant) = self.grant {
            grant.apply(response.headers_mut());
        }
        response
    }
}

/// A preflight carries no key. It may ask to send any header: the answer is the
/// same on every path, so it does not tell which servers exist or what they pass on.
pub(in crate::http) fn preflight_of_stranger(guard: &Guard, parts: &Parts) -> Response<Body> {
    let asked = parts.headers.get_all(header::ACCESS_CONTROL_REQUEST_HEADERS).iter();
    let asked = asked.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    let asked = asked.filter_map(|name| name.trim().parse::<HeaderName>().ok());
    let guard = asked.fold(guard.clone(), |guard, name| guard.allow_header(&name));
    preflight(&guard, parts)
}

fn preflight(guard: &Guard, parts: &Parts) -> Response<Body> {
    let mut response = endpoint::empty(StatusCode::NO_CONTENT);
    let allow = (header::ALLOW, HeaderValue::from_static(endpoint::METHODS));
    let headers = guard.preflight(parts).unwrap_or_else(|| HeaderMap::from_iter([allow]));
    *response.headers_mut() = headers;
    response
}
