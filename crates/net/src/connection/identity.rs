//! Who a client is: what it says of itself, for whom it speaks, its session, and the
//! headers that it passes on.

use std::sync::Arc;
use std::time::Duration;

use http::header::CONNECTION;
use http::{HeaderMap, HeaderName};
use switchboard_proto::exchange::ClientEvent;
use switchboard_proto::jsonrpc::{Member, Message};
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::Revision;
use switchboard_proto::server::ServerHalf;
use switchboard_proto::server::legacy::Phase;

use super::{ClientConnection, lock, now};
use crate::backend::PendingWork;
use crate::http::request_body::Charge;
use crate::who::{Turns, Who};

/// Characters of a name that are kept: enough for people, whatever a client calls itself.
const MOST: usize = 64;

/// A client in its own words, cut short. They may hold anything.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Intro {
    /// What it is called; empty if it does not say.
    pub name: Box<str>,
    /// Which version of that it is.
    pub version: Box<str>,
}

impl Intro {
    /// What a greeting or a listen says. Other requests are not looked at: most
    /// clients with a conversation that lasts say it in one of these.
    fn of(request: &Message) -> Option<Self> {
        let member = match request.method() {
            method::INITIALIZE => Member::ClientInfo,
            method::LISTEN => Member::MetaClient,
            _ => return None,
        };
        let words = request.part(member)?;
        let word = |name: &str| {
            let text = words.string(name).unwrap_or_default();
            text.chars().take(MOST).collect::<String>().into()
        };
        Some(Self { name: word("name"), version: word("version") })
    }
}

impl ClientConnection {
    /// A verb of the client may say who it is; the first word counts.
    pub(super) fn hear(&self, verb: &ClientEvent) {
        if let ClientEvent::Open { request, .. } = verb
            && let Some(intro) = Intro::of(request)
        {
            _ = self.intro.set(intro);
        }
    }

    /// Who it says it is, if it has said so.
    pub fn intro(&self) -> Option<&Intro> {
        self.intro.get()
    }

    /// How long it has been there.
    pub fn age(&self) -> Duration {
        now().saturating_duration_since(self.since)
    }

    /// How long nothing has come from it, and no answer went to it.
    pub fn quiet(&self) -> Duration {
        now().saturating_duration_since(lock(&self.state).used)
    }

    /// The revision it is spoken to in; none before that is settled.
    pub fn revision(&self) -> Option<Revision> {
        match &lock(&self.state).half {
            ServerHalf::Legacy(half) => {
                let is_settled = !matches!(half.phase(), Phase::Fresh | Phase::Greeting);
                is_settled.then(|| half.revision())
            }
            ServerHalf::Modern(_) => Some(Revision::NEWEST_MODERN),
        }
    }

    /// How many streams it is told things on.
    pub fn streams(&self) -> usize {
        match &lock(&self.state).half {
            ServerHalf::Legacy(half) => half.streams(),
            ServerHalf::Modern(half) => half.calls() - half.owed(),
        }
    }

    /// How many answers it waits for.
    pub fn owed(&self) -> usize {
        lock(&self.state).half.owed()
    }
}

/// Enough to find a session in a log, far too little to guess its id.
const SHOWN: usize = 6;

impl ClientConnection {
    /// Says under which id a client has its session; the first word counts.
    pub(crate) fn mark(&self, id: &str) {
        _ = self.mark.set(id.get(..SHOWN).unwrap_or_default().into());
    }

    /// The beginning of its session's id, for logs; none if it has no session.
    pub fn session(&self) -> Option<&str> {
        self.mark.get().map(|mark| &**mark)
    }
}

/// Bytes of the headers of one client that are kept. They stay as long as
/// anything is remembered of whom it speaks for.
const MOST_CARRIED: usize = 16 << 10;

impl ClientConnection {
    /// Keeps those headers of its first request that the backend wants to know.
    pub(crate) fn carry(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(names) = self.backend.carries() else { return Ok(()) };
        let mut carried = HeaderMap::new();
        for name in names.iter().filter(|name| !is_hop_by_hop(headers, name)) {
            for value in headers.get_all(name) {
                carried.append(name, value.clone());
            }
        }
        if size(&carried) > MOST_CARRIED {
            return Err(Refusal::PassedTooLarge { limit: MOST_CARRIED });
        }
        _ = self.carried.set(carried);
        Ok(())
    }

    /// The headers that it began with, of those that [`carries`](crate::backend::Backend::carries) names.
    pub fn carried(&self) -> Option<&HeaderMap> {
        self.carried.get().filter(|headers| !headers.is_empty())
    }
}

/// Whether the client names it in `Connection`: then it is meant for us alone (RFC 9110, 7.6.1).
fn is_hop_by_hop(headers: &HeaderMap, name: &HeaderName) -> bool {
    let listed = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    listed
        .flat_map(|value| value.split(','))
        .any(|token| token.trim().eq_ignore_ascii_case(name.as_str()))
}

/// Bytes of names and values.
pub(crate) fn size(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum()
}

impl ClientConnection {
    /// Says on whose behalf it speaks; the first word counts.
    pub(crate) fn speak_for(&self, who: &Who) {
        _ = self.who.set(who.clone());
    }

    /// On whose behalf it speaks: nobody in particular, if it did not say.
    pub fn who(&self) -> &Who {
        static NOBODY: std::sync::LazyLock<Who> = std::sync::LazyLock::new(Who::default);
        self.who.get().unwrap_or(&NOBODY)
    }

    /// What tells those whom it speaks for from others; empty for nobody in particular.
    pub fn principal(&self) -> &[u8] {
        self.who().identity()
    }

    /// A step that opens calls which have their turns, and a charge for their text: both
    /// are over when the answer is not owed any more.
    pub(crate) fn step_in<R>(
        self: &Arc<Self>,
        turns: Turns,
        charge: Option<&Arc<Charge>>,
        step: impl FnOnce(&mut ServerHalf) -> R,
    ) -> (R, PendingWork) {
        self.pass(charge, |state| {
            state.turns.take(turns);
            step(&mut state.half)
        })
    }
}

impl ClientConnection {
    /// It has no session, and is gone after its first answer. To be said before anything else.
    pub(crate) fn go_bare(&self) {
        if let ServerHalf::Legacy(half) = &mut lock(&self.state).half {
            half.go_bare();
        }
    }

    /// Whether nobody could ever tell it what belongs to no call.
    pub(crate) fn is_bare(&self) -> bool {
        matches!(&lock(&self.state).half, ServerHalf::Legacy(half) if half.is_bare())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_cut_and_its_absence_is_no_fault() {
        let of = |text: &str| {
            let message = switchboard_proto::jsonrpc::parse_one(text.to_owned().into()).unwrap();
            Intro::of(&message).map(|it| (it.name.chars().count(), it.version.into_string()))
        };
        let greeting = |client: &str| {
            let params = format!(r#"{{"protocolVersion":"x","capabilities":{{}}{client}}}"#);
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{params}}}"#)
        };
        let long = format!(r#","clientInfo":{{"name":"{}","version":"1"}}"#, "é".repeat(1000));
        assert_eq!(of(&greeting(&long)), Some((MOST, "1".to_owned())));
        assert_eq!(of(&greeting(r#","clientInfo":{"name":7}"#)), Some((0, String::new())));
        assert_eq!(of(&greeting("")), None);
        assert_eq!(of(r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#), None);
    }
}
