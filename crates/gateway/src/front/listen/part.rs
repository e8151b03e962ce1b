//! What one server has to do with a listen.

use std::collections::BTreeSet;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Weak};

use switchboard_net::call::{Asker, ReplySink};
use switchboard_net::face::Face;
use switchboard_proto::exchange::{Ask, Exchange};
use switchboard_proto::failure::Outcome;
use switchboard_proto::jsonrpc::{Member, Message};
use switchboard_proto::method;

use super::{Front, Listen, Share, lock};

/// Hears one server in place of the client.
pub(super) struct Part {
    listen: Arc<Listen>,
    server: Arc<str>,
    front: Weak<Front>,
}

impl Part {
    pub(super) fn new(listen: &Arc<Listen>, server: &Arc<str>, front: &Weak<Front>) -> Arc<Self> {
        let (listen, server, front) = (Arc::clone(listen), Arc::clone(server), Weak::clone(front));
        Arc::new(Self { listen, server, front })
    }

    /// The server has said what it honours: nothing, if it refuses.
    fn settle(&self, honoured: Share) -> bool {
        let mut stage = lock(&self.listen.stage);
        let is_awaited = stage.pending.remove(&self.server);
        if is_awaited {
            stage.honoured.uris.extend(honoured.uris);
            stage.honoured.tasks.extend(honoured.tasks);
        }
        drop(stage);
        self.listen.acknowledge_if_known();
        is_awaited
    }
}

impl ReplySink for Part {
    fn number(&self) -> u64 {
        self.listen.face.number()
    }

    fn principal(&self) -> &[u8] {
        self.listen.face.principal()
    }

    fn note(&self, exchange: Option<Exchange>, message: &Message) {
        let Some(front) = self.front.upgrade() else { return };
        let face = &self.listen.face;
        if message.method() != method::ACKNOWLEDGED {
            if let Some(message) = front.at().told(face, &self.server, message) {
                face.note(exchange, &message);
            }
            return;
        }
        let names = |member| -> BTreeSet<String> { message.read(member).unwrap_or_default() };
        let tasks = names(Member::ListenTasks);
        let tasks =
            tasks.iter().filter_map(|theirs| front.fleet.tasks.ours(face, &self.server, theirs));
        self.settle(Share { uris: names(Member::ListenUris), tasks: tasks.collect() });
    }

    fn ask(self: Arc<Self>, _: Option<Exchange>, _: Weak<dyn Asker>, _: Ask, _: &Message) -> bool {
        false
    }

    fn recall(&self, _: Ask, _: &Message) {}

    fn finish(&self, exchange: Exchange, _: Outcome) {
        // One that never began is not missed; one that ends takes the listen with it.
        if !self.settle(Share::default())
            && let Some(front) = self.front.upgrade()
        {
            front.end_listen(self.number(), exchange);
        }
    }

    fn is_slow(&self) -> bool {
        self.listen.face.is_slow()
    }

    fn room(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Arc::clone(&self.listen.face).room_for_more()
    }

    fn end(self: Arc<Self>) {
        Face::end(&self.listen.face);
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part").field("server", &self.server).finish_non_exhaustive()
    }
}
