//! The endpoint of a site, over real sockets; where time matters, as a service.

use std::time::Duration;

use switchboard_net::http::listen::{ListenOptions, serve};
use switchboard_net::http::site::{Site, SiteOptions};
use switchboard_proto::limits::Limits;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::client::Way;
use crate::script::Stage;
use switchboard_testkit::within;

mod alone;
mod bytes;
mod cut;
mod era;
mod gate;
mod half;
mod hang_up;
mod limit;
mod mount;
mod park;
mod post;
mod session;
mod stop;
mod stream;
mod unread;
mod ws;

/// A site with a test behind it.
struct Set {
    stage: Stage,
    site: Site,
    way: Way,
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<()>>,
}

/// A site on a port of its own.
async fn start(options: SiteOptions) -> Set {
    start_within(ListenOptions::default(), options).await
}

/// The same, with bounds on its connections.
async fn start_within(listen: ListenOptions, options: SiteOptions) -> Set {
    let stage = Stage::new();
    let site = Site::new(stage.backend.clone(), options);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let way = Way::Socket(listener.local_addr().unwrap());
    let (stop, stopped) = oneshot::channel();
    let shutdown = async move { _ = stopped.await };
    let task = tokio::spawn(serve(listener, site.clone(), listen, shutdown));
    Set { stage, site, way, stop: Some(stop), task: Some(task) }
}

/// A site without a port, for tests that pause the clock.
fn direct(options: SiteOptions) -> Set {
    let stage = Stage::new();
    let site = Site::new(stage.backend.clone(), options);
    let way = Way::Direct(site.clone());
    Set { stage, site, way, stop: None, task: None }
}

impl Set {
    async fn stopped(mut self) {
        self.site.close();
        _ = self.stop.take().map(|stop| stop.send(()));
        within(self.task.take().unwrap()).await.unwrap();
    }
}

fn limits(change: impl FnOnce(&mut Limits)) -> SiteOptions {
    let mut limits = Limits::default();
    change(&mut limits);
    SiteOptions::default().limits(limits)
}

/// Long enough never to come in a test.
const NEVER: Duration = Duration::from_hours(1);
