//! Where a client came in, as far as what it is told depends on that.
//!
//! Not the front itself: a session goes on at another one when its grant changes.

use std::borrow::Cow;
use std::sync::{Arc, Weak};

use switchboard_net::face::Face;
use switchboard_net::seal::Sealer;
use switchboard_proto::failure::{Failure, Outcome};
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::method;
use switchboard_proto::revision::Era;

use super::reply::Duty;
use super::{Front, state};
use crate::fleet::Fleet;

/// A server's own path, or one of many together.
#[derive(Clone)]
pub(super) struct At {
    /// Gone only when the gateway is.
    fleet: Weak<Fleet>,
    many: Option<Many>,
    /// What must be known as long as somebody is here.
    _kept: Option<Arc<Front>>,
}

#[derive(Clone)]
struct Many {
    sealer: Option<Arc<Sealer>>,
}

impl At {
    /// Where one server is as it is. `kept` knows what it lists to whom a client
    /// speaks for, if that decides on what they see.
    pub(super) fn one(fleet: &Arc<Fleet>, kept: Option<Arc<Front>>) -> Self {
        Self { fleet: Arc::downgrade(fleet), many: None, _kept: kept }
    }

    /// Where many are together, and what they let clients carry is sealed.
    pub(super) fn many(fleet: &Arc<Fleet>, sealer: Option<Arc<Sealer>>) -> Self {
        Self { fleet: Arc::downgrade(fleet), many: Some(Many { sealer }), _kept: None }
    }

    /// What the server says, in words that the client knows; none if it is not
    /// for its ears.
    pub(super) fn told<'m>(
        &self,
        face: &Face,
        server: &Arc<str>,
        message: &'m Message,
    ) -> Option<Cow<'m, Message>> {
        let fleet = self.fleet.upgrade()?;
        // Which lists have changed the front tells, for all servers.
        let is_told = self.many.is_some() && is_about_lists(message);
        if is_told || !fleet.may_tell(face, server, message) {
            return None;
        }
        match self.many {
            Some(_) => fleet.tasks.told(face, server, message),
            None => Some(Cow::Borrowed(message)),
        }
    }

    /// An answer as the client is to get it.
    pub(super) fn answer(
        &self,
        face: &Face,
        server: &Arc<str>,
        duty: &Duty,
        answer: &Message,
    ) -> Outcome {
        let answer = match duty {
            Duty::Plain => Cow::Borrowed(answer),
            Duty::Show(shown) => Cow::Owned(shown.of(answer)),
            Duty::Task(errand) => {
                let Some(fleet) = self.fleet.upgrade() else { return Failure::CLOSED.into() };
                match fleet.tasks.renamed(face, server, errand, answer) {
                    Ok(answer) => Cow::Owned(answer),
                    Err(why) => return why.into(),
                }
            }
        };
        match &self.many {
            Some(many) if face.era() == Era::Modern => {
                let sealed = state::sealed(many.sealer.as_deref(), face, server, answer);
                sealed.map_or(Failure::NotSealed.into(), |answer| answer.into_owned().into())
            }
            _ => answer.into_owned().into(),
        }
    }
}

/// A list has changed in the client's own session with the server.
fn is_about_lists(message: &Message) -> bool {
    ["tools", "prompts", "resources"]
        .iter()
        .any(|list| method::list_changed(list) == Some(message.method()))
}
