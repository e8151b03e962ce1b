//! What visitors of a link see: the form, where they sign in, and how it ended. No page has
//! script, and none says whose the link is.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::SET_COOKIE;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri};
use percent_encoding::percent_decode;
use ring::hmac;
use switchboard_net::auth::callback::CallbackVerdict;
use switchboard_net::http::page::{
    LivePage, PageReply, PageVisit, cookie, escape, html, leave_page,
};
use switchboard_net::upstream::Target;
use tokio::sync::watch;
use tokio::time::Instant;

use super::visitor::Refused;
use super::{
    CALLBACK_PATH, CONNECT_PATH, ConnectLink, FlowEnd, IssuerVisitor, UserConnector, VisitPurpose,
    random_id, unhex,
};
use crate::idp::{Identity, IdpError};
use crate::plan::ServerPlan;
use crate::token::IssuerRule;
use crate::{lock, read};

/// The cookie that tells a browser from others.
struct BrowserCookie {
    name: &'static str,
    attributes: &'static str,
}

/// What users with a key fill in.
const KEY_FIELD: &str = "<input type=\"password\" name=\"key\" required autocomplete=\"off\" \
    aria-label=\"Your key for this gateway\" placeholder=\"Your key for this gateway\">";

impl UserConnector {
    /// A `__Host-` cookie takes https.
    fn cookie(&self) -> BrowserCookie {
        let is_https = read(&self.base).as_ref().is_some_and(|base| base.starts_with("https:"));
        if is_https {
            let attributes = "Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=1200";
            BrowserCookie { name: "__Host-switchboard-connect", attributes }
        } else {
            let attributes = "Path=/; HttpOnly; SameSite=Lax; Max-Age=1200";
            BrowserCookie { name: "switchboard-connect", attributes }
        }
    }

    /// The browser of a visit, if it has been here.
    fn browser(&self, headers: &HeaderMap) -> Option<String> {
        let value = cookie(headers, self.cookie().name)?;
        let is_ours = value.len() == 32 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_ours.then(|| value.to_owned())
    }

    pub(super) async fn visit_link(&self, visit: PageVisit) -> Response<Bytes> {
        let id = visit.path.strip_prefix(CONNECT_PATH).unwrap_or_default().trim_matches('/');
        match visit.method {
            Method::GET | Method::HEAD => self.show_form(&visit, id, None),
            Method::POST => self.take_form(&visit, id).await,
            _ => html(StatusCode::METHOD_NOT_ALLOWED, "This page is to be read", ""),
        }
    }

    /// What is connected, and the form. Whoever looks at it changes nothing: programs look at
    /// links before people do.
    fn show_form(&self, visit: &PageVisit, id: &str, wrong: Option<&str>) -> Response<Bytes> {
        let Some((server, principal)) = self.find_link(id) else { return link_is_over() };
        let known = self.known_browser(&visit.headers);
        let Some((browser, cookie)) = known else { return link_is_over() };
        let challenge = self.accounts.challenge(&server, &principal);
        let scopes = challenge.map(|it| it.scopes()).filter(|scopes| !scopes.is_empty());
        let scopes = scopes.or_else(|| server.oauth.settings.scopes.clone());
        let host = match &server.target {
            Target::Url { url, .. } => url.host().map(ToOwned::to_owned),
            Target::Command(_) => None,
        };
        let rows = rows(&[
            ("Server", Some(server.name.clone())),
            ("Its address", host),
            ("It asks for", scopes.map(|scopes| scopes.join(" "))),
        ]);
        let (field, button) = match self.issuer_of(&principal) {
            Some(rule) => ("", format!("Show who you are at {}", escape(&rule.issuer))),
            None => (KEY_FIELD, "Continue".to_owned()),
        };
        let note = wrong.map(|wrong| format!("<p class=\"note\">{}</p>", escape(wrong)));
        let (note, token) = (note.unwrap_or_default(), self.form_token(&browser, id));
        let main = format!(
            "<p>Your account at this server will be used for calls that you make, and for \
             nobody else's.</p><dl>{rows}</dl>{note}\
             <form method=\"post\"><input type=\"hidden\" name=\"token\" value=\"{token}\">\
             {field}<button class=\"main\">{button}</button></form>\
             <p>Did somebody send you this link? Then close this page: it is for the one who \
             asked for it.</p>"
        );
        let status = if wrong.is_some() { StatusCode::FORBIDDEN } else { StatusCode::OK };
        let mut page = html(status, "Connect your account", &main);
        if let Some(cookie) = cookie {
            page.headers_mut().insert(SET_COOKIE, cookie);
        }
        page
    }

    /// The server and the user of a link.
    fn find_link(&self, id: &str) -> Option<(Arc<ServerPlan>, String)> {
        let mut state = lock(&self.state);
        state.forget_old(Instant::now());
        state.links.get(id).map(|link| (Arc::clone(&link.server), link.principal.clone()))
    }

    async fn take_form(&self, visit: &PageVisit, id: &str) -> Response<Bytes> {
        let mut fields = form_fields(&visit.body);
        let mut field = |name: &str| fields.remove(name).unwrap_or_default();
        let Some(browser) = self.browser(&visit.headers) else { return other_browser() };
        let token = unhex(&field("token")).unwrap_or_default();
        let signed = format!("{browser} {id}");
        if hmac::verify(&self.secret, signed.as_bytes(), &token).is_err() {
            return other_browser();
        }
        if !self.may_guess() {
            let text = "<p>Too many wrong keys were shown. Wait a minute, and try again.</p>";
            return html(StatusCode::TOO_MANY_REQUESTS, "Not now", text);
        }
        let Some((_, principal)) = self.find_link(id) else { return link_is_over() };
        if let Some(rule) = self.issuer_of(&principal) {
            return self.send_to_issuer(id, &browser, &rule).await;
        }
        let key = field("key");
        let shown = self.authenticator.get().and_then(|it| it.owner_of_key(key.trim().as_bytes()));
        match self.take(id, shown.as_deref()) {
            Ok(link) => self.lead_on(link, &browser, id).await,
            Err(Refused::Gone) => link_is_over(),
            Err(Refused::Other) => {
                self.show_form(visit, id, Some("This is not the key that the link is for."))
            }
        }
    }

    /// Has the visitor show who they are, at the issuer of the user.
    async fn send_to_issuer(&self, id: &str, browser: &str, rule: &IssuerRule) -> Response<Bytes> {
        let base = read(&self.base).clone().unwrap_or_default();
        let client = match self.idp_client(rule, Vec::new()) {
            Ok(client) => Arc::new(client),
            Err(why) => return cannot_begin(&why),
        };
        let visit = match client.begin(&format!("{base}{CALLBACK_PATH}")).await {
            Ok(visit) => visit,
            Err(why) => return cannot_begin(&why.to_string()),
        };
        let page = leave_page(visit.url(), "Show who you are");
        let (purpose, browser) = (VisitPurpose::Link(id.to_owned()), browser.to_owned());
        let mut state = lock(&self.state);
        state.visitors.retain(|it| it.purpose != purpose);
        let began = Instant::now();
        state.visitors.push(IssuerVisitor { purpose, browser, client, visit, began });
        page
    }

    /// Somebody comes back from the issuer of a user: they go on if they are that user.
    async fn take_visitor(&self, browser: &str, query: &str) -> Option<Response<Bytes>> {
        let returned = form_fields(query.as_bytes()).remove("state")?;
        let visitor = {
            let mut state = lock(&self.state);
            let is_it =
                |it: &IssuerVisitor| it.browser == browser && it.visit.state().reveal() == returned;
            let at = state.visitors.iter().position(is_it)?;
            state.visitors.swap_remove(at)
        };
        let IssuerVisitor { purpose, client, visit, .. } = visitor;
        let finished = client.finish(visit, query).await;
        let id = match purpose {
            VisitPurpose::Link(id) => id,
            VisitPurpose::Console => return Some(self.lead_to_console(finished)),
        };
        let who = match finished {
            Ok(identity) => format!("{}/{}", identity.issuer, identity.subject),
            Err(error) => return Some(cannot_begin(&error.to_string())),
        };
        Some(match self.take(&id, Some(&who)) {
            Ok(link) => self.lead_on(link, browser, &id).await,
            Err(Refused::Gone) => link_is_over(),
            Err(Refused::Other) => {
                let text = "<p>You are somebody else than the one whom the link is for. \
                            Nothing was connected.</p>";
                html(StatusCode::FORBIDDEN, "This link is not for you", text)
            }
        })
    }

    /// Lets somebody in to the console whose issuer has said who they are.
    fn lead_to_console(&self, finished: Result<Identity, IdpError>) -> Response<Bytes> {
        let door = self.console.get();
        let led = finished.map_err(|error| error.to_string()).and_then(|identity| {
            door.ok_or("There is no console here.".to_owned()).and_then(|door| door(&identity))
        });
        match led {
            Ok(url) => leave_page(&url, "You are signed in"),
            Err(why) => {
                let text = format!("<p>{}</p>", escape(&why));
                html(StatusCode::FORBIDDEN, "You are not signed in", &text)
            }
        }
    }

    /// The browser of a request, and the cookie that makes it known if it has not been here.
    pub(super) fn known_browser(
        &self,
        headers: &HeaderMap,
    ) -> Option<(String, Option<HeaderValue>)> {
        if let Some(browser) = self.browser(headers) {
            return Some((browser, None));
        }
        let browser = random_id()?;
        let BrowserCookie { name, attributes } = self.cookie();
        let cookie = HeaderValue::try_from(format!("{name}={browser}; {attributes}")).ok()?;
        Some((browser, Some(cookie)))
    }

    /// Says where the visitor signs in, and for what, and leads there (OU-4).
    async fn lead_on(&self, link: ConnectLink, browser: &str, id: &str) -> Response<Bytes> {
        let server = link.server.name.clone();
        let url = match self.begin(link, browser, id).await {
            Ok(url) => url,
            Err(why) => return cannot_begin(&why),
        };
        let (address, query) = url.split_once('?').unwrap_or((&url, ""));
        let address = address.parse::<Uri>().ok();
        let host = address.and_then(|it| Some(it.host()?.to_owned())).unwrap_or_default();
        let scopes = form_fields(query.as_bytes()).remove("scope");
        let rows = rows(&[
            ("Server", Some(server)),
            ("You sign in at", Some(host.clone())),
            ("It asks for", scopes),
        ]);
        let main = format!(
            "<dl>{rows}</dl><p><a id=\"go\" href=\"{}\">Continue to {}</a></p>",
            escape(&url),
            escape(&host)
        );
        html(StatusCode::OK, "Sign in", &main)
    }

    /// Somebody comes back from an authorization server.
    pub(super) async fn visit_callback(&self, visit: PageVisit) -> Response<Bytes> {
        if visit.method != Method::GET {
            return html(StatusCode::METHOD_NOT_ALLOWED, "This page is to be read", "");
        }
        let Some(browser) = self.browser(&visit.headers) else { return other_browser() };
        if let Some(page) = self.take_visitor(&browser, &visit.query).await {
            return page;
        }
        let desks: Vec<_> = {
            let mut state = lock(&self.state);
            state.forget_old(Instant::now());
            let own = state.flows.iter().filter(|flow| flow.browser == browser);
            own.map(|flow| (flow.desk.clone(), flow.ended.clone())).collect()
        };
        for (desk, ended) in desks {
            match desk.hand_in(&visit.query).await {
                Some(CallbackVerdict::Accepted) => return page_of_end(ended).await,
                Some(CallbackVerdict::Refused) => {
                    let text = "<p>Nothing was connected. You can close this page.</p>";
                    return html(StatusCode::OK, "You are not signed in", text);
                }
                Some(CallbackVerdict::Other) | None => {}
            }
        }
        other_browser()
    }
}

pub(super) struct ConnectPage(pub(super) Arc<UserConnector>);

impl LivePage for ConnectPage {
    fn visit(&self, visit: PageVisit) -> PageReply<'_> {
        Box::pin(self.0.visit_link(visit))
    }
}

pub(super) struct ReturnPage(pub(super) Arc<UserConnector>);

impl LivePage for ReturnPage {
    fn visit(&self, visit: PageVisit) -> PageReply<'_> {
        Box::pin(self.0.visit_callback(visit))
    }
}

pub(super) struct DocumentPage(pub(super) Arc<UserConnector>);

impl LivePage for DocumentPage {
    fn visit(&self, visit: PageVisit) -> PageReply<'_> {
        Box::pin(async move { self.0.visit_document(&visit).await })
    }
}

/// How long a page waits for the token.
const EXCHANGING: Duration = Duration::from_secs(20);

/// What came of a sign-in, once it is known.
pub(super) async fn page_of_end(mut ended: watch::Receiver<Option<FlowEnd>>) -> Response<Bytes> {
    let waiting = ended.wait_for(Option::is_some);
    let end = match tokio::time::timeout(EXCHANGING, waiting).await {
        Ok(Ok(end)) => end.clone(),
        Ok(Err(_)) => Some(Err("Another sign-in has begun meanwhile.".to_owned())),
        Err(_) => None,
    };
    let (title, why) = match &end {
        Some(Ok(())) => ("You are signed in", ""),
        Some(Err(why)) => ("You are not signed in", &**why),
        None => {
            ("The sign-in takes long", "The server has not said yet whether you are signed in.")
        }
    };
    let text = format!(
        "<p>{}</p><p>Go back to your program, and call the server again. You can close this \
         page.</p>",
        escape(why)
    );
    html(StatusCode::OK, title, &text)
}

/// Names and values, as HTML.
fn rows(rows: &[(&str, Option<String>)]) -> String {
    let said = rows.iter().filter_map(|(label, value)| Some((label, value.as_deref()?)));
    said.fold(String::new(), |text, (label, value)| {
        format!("{text}<dt>{label}</dt><dd>{}</dd>", escape(value))
    })
}

fn cannot_begin(why: &str) -> Response<Bytes> {
    let text = format!(
        "<p>{}</p><p>Go back to your program, and call the server again for another link.</p>",
        escape(why)
    );
    html(StatusCode::BAD_GATEWAY, "The sign-in cannot begin", &text)
}

fn link_is_over() -> Response<Bytes> {
    let text = "<p>A link can be used once, for ten minutes. Call the server again in your \
                program for another one.</p>";
    html(StatusCode::NOT_FOUND, "This link is over", text)
}

fn other_browser() -> Response<Bytes> {
    let text = "<p>Open the link in one browser, and stay in it until the end. It must keep \
                cookies.</p>";
    html(StatusCode::BAD_REQUEST, "This is not the sign-in that was begun", text)
}

/// The fields of a form, or of a query; of two with one name the last.
pub(crate) fn form_fields(form: &[u8]) -> HashMap<String, String> {
    let decode = |text: &[u8]| {
        let plus = |byte: &u8| if *byte == b'+' { b' ' } else { *byte };
        let text: Vec<_> = text.iter().map(plus).collect();
        percent_decode(&text).decode_utf8_lossy().into_owned()
    };
    let pairs = form.split(|byte| *byte == b'&').take(64).map(|pair| {
        let at = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        (decode(&pair[..at]), decode(pair.get(at + 1..).unwrap_or_default()))
    });
    pairs.collect()
}
