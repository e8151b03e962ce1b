//! A server that is reached as a client of a bridge reaches it: by the same
//! connection, in the same words.

use std::fmt;
use std::sync::Arc;

use http::HeaderMap;
use switchboard_proto::client::Sharing;
use switchboard_proto::exchange::Carrier;
use switchboard_proto::jsonrpc::{Member, Message};
use switchboard_proto::limits::Limits;
use switchboard_proto::method;
use switchboard_proto::revision::Era;

use super::ServerTarget;
use crate::bridge::Bridge;
use crate::connection::{ClientConnection, size};
use crate::who::Who;

/// All that servers can tell a client from others by.
#[derive(Clone)]
pub struct ClientIdentity {
    /// None for whichever the server speaks.
    pub(crate) era: Option<Era>,
    who: Who,
    carried: Option<HeaderMap>,
    /// The parameters of its greeting.
    pub(crate) greeting: Option<Box<[u8]>>,
    /// What a modern client says of itself with each request.
    pub(crate) envelope: Vec<(Member, String)>,
}

impl ClientIdentity {
    /// That of a client. `words` is its greeting, or any request if it is a
    /// modern one: what it says of itself is repeated.
    pub fn of(client: &ClientConnection, words: Option<&Message>) -> Self {
        let (era, who, carried) = (client.era(), client.who().clone(), client.carried().cloned());
        // Nothing else of its request is kept.
        let said = |of: Era| words.filter(|_| era == of);
        let greeting = said(Era::Legacy).filter(|it| it.method() == method::INITIALIZE);
        let greeting = greeting.and_then(Message::payload).map(Into::into);
        let envelope = said(Era::Modern).map(envelope).unwrap_or_default();
        Self { era: Some(era), who, carried, greeting, envelope }
    }

    /// Our own, in the era of the server. It is for a server that everybody shares.
    pub fn ours() -> Self {
        Self { era: None, who: Who::default(), carried: None, greeting: None, envelope: Vec::new() }
    }

    /// The user that it speaks for.
    pub fn who(&self) -> &Who {
        &self.who
    }

    /// The bytes of all that is kept of the client.
    pub fn size(&self) -> usize {
        let carried = self.carried.as_ref().map_or(0, size);
        let said: usize = self.envelope.iter().map(|(_, said)| said.len()).sum();
        carried + said + self.greeting.as_ref().map_or(0, |it| it.len())
    }
}

fn envelope(request: &Message) -> Vec<(Member, String)> {
    let said = |member| {
        let text = request.get(member)?;
        Some((member, String::from_utf8_lossy(text).into_owned()))
    };
    let members = [Member::MetaVersion, Member::MetaClient, Member::MetaCapabilities];
    members.into_iter().filter_map(said).collect()
}

impl fmt::Debug for ClientIdentity {
    /// What it carries may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientIdentity").field("era", &self.era).finish_non_exhaustive()
    }
}

/// How a server behind a bridge is reached.
#[derive(Clone)]
pub(crate) struct ViaBridge {
    pub(crate) bridge: Arc<Bridge>,
    pub(crate) identity: Arc<ClientIdentity>,
}

impl ViaBridge {
    /// A client with this identity, to the bridge.
    pub(crate) fn client(&self, era: Era) -> Arc<ClientConnection> {
        let backend: Arc<Bridge> = Arc::clone(&self.bridge);
        let client =
            ClientConnection::new(era, Carrier::Http, backend, &Limits::default(), Sharing::Shared);
        client.speak_for(&self.identity.who);
        if let Some(carried) = &self.identity.carried {
            // It was carried before, and is no longer now.
            _ = client.carry(carried);
        }
        client
    }
}

impl ServerTarget {
    /// The server of a bridge, reached by the connection that the calls of a
    /// client with this identity go by. It is for a [`Client`](crate::client::Client) or a
    /// [`Roster`](crate::roster::Roster), and ends no connection that others use.
    pub fn behind(bridge: &Arc<Bridge>, identity: &Arc<ClientIdentity>) -> Self {
        let (bridge, identity) = (Arc::clone(bridge), Arc::clone(identity));
        let mut server = bridge.server().clone();
        server.behind = Some(ViaBridge { bridge, identity });
        server
    }
}

/// A question that begins a conversation with a modern server, in these words.
pub(crate) fn asked(question: Message, envelope: Vec<(Member, String)>) -> Message {
    envelope.into_iter().fold(question, |question, (member, value)| {
        if question.has(member) { question.with(member, value) } else { question }
    })
}
