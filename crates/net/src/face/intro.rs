//! Who a client says it is, and how its conversation stands, for whoever looks.

use std::time::Duration;

use switchboard_proto::exchange::Up;
use switchboard_proto::jsonrpc::{Member, Message};
use switchboard_proto::method;
use switchboard_proto::revision::Revision;
use switchboard_proto::server::ServerHalf;
use switchboard_proto::server::legacy::Phase;

use super::{Face, lock, now};

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

impl Face {
    /// A verb of the client may say who it is; the first word counts.
    pub(super) fn hear(&self, verb: &Up) {
        if let Up::Open { request, .. } = verb
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
