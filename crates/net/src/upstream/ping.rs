//! A ping now and then, on a connection that nobody uses: some servers, and
//! balancers before them, forget a session that is quiet for a few minutes.
//!
//! It is no proof of life. What the server answers is not looked at, and a
//! server that does not answer is not given up.

use std::sync::Arc;
use std::time::Duration;

use switchboard_proto::client::ClientHalf;
use switchboard_proto::exchange::Exchange;
use switchboard_proto::jsonrpc::{Id, Message};
use switchboard_proto::method;

use super::era::Scout;
use super::{Target, Upstream};
use crate::call::Call;
use crate::face::lock;

/// Nothing else counts as idle while a ping is open, so none is open for long.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// Sends pings until told to stop.
pub(super) async fn run(up: Arc<Upstream>) {
    while up.stop.sleep(up.limits.ping).await {
        if up.may_ping() {
            up.ping().await;
        }
    }
}

impl Upstream {
    /// Whether somebody wants pings to be sent to such a server.
    pub(super) fn wants_pings(&self) -> bool {
        !self.limits.ping.is_zero() && matches!(self.server.target(), Target::Url { .. })
    }

    /// Modern servers have no sessions, and no such method.
    fn may_ping(&self) -> bool {
        let half = &lock(&self.core).half;
        matches!(half, ClientHalf::Legacy(_)) && !half.is_greeting() && half.calls() == 0
    }

    async fn ping(self: &Arc<Self>) {
        let (scout, told) = Scout::new();
        let call = Call::new(scout, Exchange(1));
        let ping = Message::request(&Id::from(1), method::PING, None);
        // Not by `open`: a ping is no use of the connection.
        self.begin(&call, &ping, &None).detach();
        _ = self.stop.until(tokio::time::timeout(ANSWER_WAIT, told)).await;
        call.cancel(None).detach();
    }
}
