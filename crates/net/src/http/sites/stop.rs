//! The end of all sites.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::Sites;
use crate::grace;
use crate::http::site::Site;
use crate::inside::Works;

impl Sites {
    /// Ends every site; see [`Site::close`].
    pub fn close(&self) {
        self.each().iter().for_each(Site::close);
    }

    /// Ends every site within `grace`, which is that of the listener: calls go on
    /// until a moment before it is over; then each that is open is answered with an
    /// error of its own, and its server is told that nobody waits.
    ///
    /// To be begun when the listener is told to stop, and awaited beside it;
    /// `served` completes when it has no connection left.
    pub async fn stop(&self, grace: Duration, served: impl Future<Output = ()>) {
        let begin = Instant::now();
        let (patience, end) = (begin + grace::patience(grace), begin + grace);
        let finished = async {
            for site in self.each().iter() {
                site.all_answered().await;
            }
            self.close();
            // What was on its way when we looked is still answered.
            served.await;
            self.sockets_closed().await;
        };
        if timeout_at(patience, finished).await.is_ok() {
            return;
        }
        tracing::warn!("the grace period is all but over: calls that are open are given up");
        let mut works = Works::none();
        for site in self.each().iter() {
            works.append(site.give_up());
        }
        // Before the sessions end, and with them the connections to their servers.
        _ = timeout_at(patience + grace::moment(grace) / 2, works).await;
        self.close();
        _ = timeout_at(end, self.sockets_closed()).await;
    }

    /// Waits until the last `WebSocket` of any site is closed.
    async fn sockets_closed(&self) {
        for site in self.each().iter() {
            site.sockets_closed().await;
        }
    }
}
