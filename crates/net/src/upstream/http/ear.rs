//! The stream that listens for what belongs to no call.
//!
//! ```text
//!   GET ──▶ 200 ──▶ heard until it breaks ──▶ a while later the same again
//!      ├──▶ 405, or any 4xx if nothing was ever heard ──▶ there is no listening
//!      ├──▶ 404, later ──▶ the session is over: greeted again, if somebody waits to hear
//!      └──▶ any other ───▶ a while later the same again
//! ```
//!
//! Each session has one. After too many attempts in a row it is lost, until the
//! server answers a call, somebody begins to listen, or half a minute has passed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::StatusCode;
use switchboard_proto::backoff::Reconnect;
use switchboard_proto::client::ClientHalf;
use switchboard_proto::exchange::Lane;
use switchboard_proto::jsonrpc::Message;

use super::link::{Link, Session};
use super::stream::{ATTEMPTS, Course};
use crate::connection::lock;
use crate::drive::{Either, race};
use crate::upstream::{Transport, Upstream};

/// Whether we listen for what belongs to no call.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Ear {
    /// The handshake is not over.
    #[default]
    NotYet,
    /// It is not over, and no call waits for it any more.
    Late,
    /// The server has not said yet whether we may.
    Asking,
    Listening,
    /// The stream kept breaking; worth another try when the server is seen to answer.
    Lost,
    /// The server does not offer it.
    Refused,
}

impl Ear {
    fn is_settled(self) -> bool {
        !matches!(self, Self::NotYet | Self::Asking)
    }
}

/// How long calls wait for the client to end its handshake.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(1);

/// How long calls wait until the server has let us listen. Some do not say so
/// before they have something else to say; but a call that is sent this much later
/// does not overtake the request to listen. Clients may wait for the first sign of
/// life no longer than a few hundred milliseconds.
const HEAR_WAIT: Duration = Duration::from_millis(250);

/// How long a server is left alone that was tried too often, while somebody
/// waits to hear of it.
const SELDOM: Duration = Duration::from_secs(30);

impl Link {
    /// It turned out whether we may listen.
    fn heard(&self) {
        self.change_ear(Ear::Asking, Ear::Listening);
    }

    fn change_ear(&self, from: Ear, to: Ear) {
        self.ear.send_if_modified(|ear| {
            let changes = *ear == from;
            if changes {
                *ear = to;
            }
            changes
        });
    }

    /// Waits until the server has let us listen, or has not: what it says before
    /// that, other than as an answer, is lost with many servers.
    pub(super) async fn until_heard(&self) {
        if self.ear.borrow().is_settled() {
            return;
        }
        let mut ear = self.ear.subscribe();
        // Too late or not, the calls have to begin, and the next ones at once.
        let begun = ear.wait_for(|ear| *ear != Ear::NotYet);
        if tokio::time::timeout(HANDSHAKE_WAIT, begun).await.is_err() {
            return self.change_ear(Ear::NotYet, Ear::Late);
        }
        if tokio::time::timeout(HEAR_WAIT, ear.wait_for(|ear| ear.is_settled())).await.is_err() {
            self.heard();
        }
    }

    /// Waits until another session has come.
    async fn until_after(&self, session: &Session) {
        let is_after = |_: &Ear| self.session().number != session.number;
        // The sender is ours, so waiting cannot fail.
        _ = self.ear.subscribe().wait_for(is_after).await;
    }

    /// How the listening of a session ended, if no other has come.
    fn end_listening(&self, session: &Session, end: Ear) {
        self.ear.send_if_modified(|ear| {
            let is_ours = self.session().number == session.number;
            if is_ours {
                *ear = end;
            }
            is_ours
        });
    }

    /// Whether the server has ever let us listen.
    fn offers_listening(&self) -> bool {
        self.was_heard.load(Ordering::Relaxed)
    }
}

impl Upstream {
    /// Listens for what belongs to no call, if that is not done already.
    pub(super) fn listen(self: &Arc<Self>, link: &Link) {
        let mut session = None;
        link.ear.send_if_modified(|ear| {
            let begins = matches!(*ear, Ear::NotYet | Ear::Late | Ear::Lost);
            if begins {
                *ear = Ear::Asking;
                session = Some(link.session());
            }
            begins
        });
        if let Some(session) = session {
            self.spawn(Arc::clone(self).keep_listening(session));
        }
    }

    /// Waits until it is known whether the server lets us listen.
    pub(crate) async fn until_listening(&self) {
        let by_http = lock(&self.core).transport == Transport::Http;
        if let Some(link) = self.http.get().filter(|_| by_http) {
            self.stop.until(link.until_heard()).await;
        }
    }

    /// It is known whether the server can say what belongs to no call.
    pub(in crate::upstream) fn hears(self: &Arc<Self>, hears: bool) {
        self.step(|half, now| half.handle_hearing(hears, now)).1.detach();
    }

    /// Time to listen again, if that had been given up: the server has answered,
    /// or somebody begins to wait for what it says.
    pub(in crate::upstream) fn listen_again(self: &Arc<Self>) {
        let Some(link) = self.http.get() else { return };
        let is_lost = *link.ear.borrow() == Ear::Lost;
        if is_lost {
            *lock(&link.strain) = None;
            self.listen(link);
        }
    }

    /// Whether somebody would miss what the server says.
    fn is_awaited(&self) -> bool {
        self.is_used() || self.is_attached()
    }

    /// Listens until the session is over or the server does not offer it.
    async fn keep_listening(self: Arc<Self>, session: Session) {
        let Some(link) = self.link() else { return };
        let reconnect = lock(&link.strain).take().unwrap_or_else(|| Reconnect::new(ATTEMPTS));
        let mut course = Course::under(reconnect);
        let last = lock(&link.last).take().filter(|(number, _)| *number == session.number);
        course.last = last.map(|(_, last)| last);
        let listening = race(link.until_after(&session), self.hear(link, &session, &mut course));
        let Some(Either::Right(end)) = self.stop.until(listening).await else { return };
        let strain = course.reconnect;
        *lock(&link.last) = course.last.map(|last| (session.number, last));
        link.end_listening(&session, end);
        if end != Ear::Lost || !self.is_awaited() {
            return;
        }
        let mut ear = link.ear.subscribe();
        let others = ear.wait_for(|ear| *ear != Ear::Lost);
        if let Either::Right(true) = race(others, self.stop.sleep(SELDOM)).await {
            *lock(&link.strain) = Some(strain);
            self.listen(link);
        }
    }

    /// Hears what is said in one session, over as many connections as it takes.
    async fn hear(self: &Arc<Self>, link: &Link, session: &Session, course: &mut Course) -> Ear {
        let nothing = Message::notification("", None);
        let mut was_heard = false;
        loop {
            let got = self.get(link, session, course).await;
            link.heard();
            match got {
                Ok(Some(response)) => {
                    was_heard = true;
                    link.was_heard.store(true, Ordering::Relaxed);
                    self.hears(true);
                    if link.missed.swap(false, Ordering::Relaxed) && course.last.is_none() {
                        self.step(ClientHalf::handle_gap).1.detach();
                    }
                    self.read(link, Lane::MAIN, &nothing, course, response).await;
                }
                Err(status) if is_final(status, link.offers_listening()) => {
                    self.hears(false);
                    tracing::debug!(server = self.name, "no listening stream: HTTP {status}");
                    return Ear::Refused;
                }
                Err(StatusCode::NOT_FOUND) if session.id.is_some() => {
                    return self.renew(link, session, course, was_heard).await;
                }
                // What was said before we were ever heard is not missed.
                Ok(None) | Err(_) => link.missed.store(link.offers_listening(), Ordering::Relaxed),
            }
            if !self.pause(course).await {
                return Ear::Lost;
            }
        }
    }

    /// The server has forgotten the session, and no call has met that yet: whoever
    /// waits to hear of something would wait for ever. Over when the next one begins.
    async fn renew(
        self: &Arc<Self>,
        link: &Link,
        session: &Session,
        course: &mut Course,
        was_heard: bool,
    ) -> Ear {
        // One that did not last is not followed by another at once.
        if !was_heard && !self.pause_longer(course).await {
            return Ear::Lost;
        }
        while self.is_awaited() {
            *lock(&link.strain) = Some(course.reconnect.clone());
            self.renew_session(link, session).detach();
            if !self.pause_longer(course).await {
                break;
            }
        }
        Ear::Lost
    }

    /// Waits before the next attempt, however many there were.
    async fn pause_longer(&self, course: &mut Course) -> bool {
        self.pause(course).await || self.stop.sleep(SELDOM).await
    }
}

/// Whether a refusal means that there is no listening, and not that it is
/// troubled: who has let us listen before offers it.
fn is_final(status: StatusCode, was_heard: bool) -> bool {
    let passes = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
    status == StatusCode::METHOD_NOT_ALLOWED || !was_heard && !passes.contains(&status)
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Uri};
    use switchboard_proto::client::Sharing;
    use switchboard_proto::revision::Era;

    use super::*;
    use crate::http::fetch::{Fetch, FetchOptions};
    use crate::upstream::{ServerTarget, Strategy};

    fn upstream() -> Arc<Upstream> {
        let fetch = Fetch::new(FetchOptions::default()).unwrap();
        let url = Uri::from_static("http://127.0.0.1:1/mcp");
        let server = ServerTarget::url(url, Strategy::HttpOnly, HeaderMap::new(), fetch);
        Upstream::new(server, Era::Legacy, Sharing::Alone, None, Arc::default())
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_made_soon_though_the_server_does_not_say_that_it_is_heard() {
        let up = upstream();
        let link = up.link().unwrap();
        link.ear.send_replace(Ear::Asking);
        let begun = tokio::time::Instant::now();
        link.until_heard().await;
        assert_eq!(begun.elapsed(), Duration::from_millis(250));
        link.until_heard().await;
        assert_eq!(begun.elapsed(), Duration::from_millis(250), "the next one waits too");
    }

    #[tokio::test(start_paused = true)]
    async fn calls_wait_once_for_a_client_that_never_ends_its_handshake() {
        let up = upstream();
        let link = up.link().unwrap();
        let begun = tokio::time::Instant::now();
        link.until_heard().await;
        assert_eq!(begun.elapsed(), HANDSHAKE_WAIT);
        link.until_heard().await;
        assert_eq!(begun.elapsed(), HANDSHAKE_WAIT, "the next one waits too");
        // It may be over later.
        up.listen(link);
        assert_eq!(*link.ear.borrow(), Ear::Asking);
    }
}
