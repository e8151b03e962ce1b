//! `switchboard demo`: a server to try clients with.

use std::sync::Arc;

use switchboard_proto::limits::Limits;
use switchboard_proto::revision::{Era, Revision};

use crate::args::{DemoArgs, EraChoice};
use crate::demo;
use crate::exit::CommandError;
use crate::serve::Offer;
use crate::signal::Stop;

/// Serves until a signal, or until the client on our stdio is gone.
pub(crate) async fn run(args: &DemoArgs) -> Result<(), CommandError> {
    let server = demo::server(&revisions(args)).map_err(|flaw| CommandError::of(&flaw))?;
    let stop = Stop::on_signals().map_err(|error| CommandError::of(&error))?;
    let limits = Arc::new(Limits::default());
    let offer = Offer { inside: Arc::clone(&server) as _, shared: false, limits };
    let port = args.serve.port.or(args.http.then_some(0));
    let stopped = stop.clone().asked();
    tokio::spawn(async move {
        stopped.await;
        // Listens would go on for ever.
        server.close();
    });
    offer.serve(&args.serve, port, stop).await
}

/// What the server is to speak.
fn revisions(args: &DemoArgs) -> Vec<Revision> {
    if !args.revision.is_empty() {
        return args.revision.clone();
    }
    let wanted = |revision: &Revision| match args.era {
        EraChoice::Both => true,
        EraChoice::Legacy => revision.era() == Era::Legacy,
        EraChoice::Modern => revision.era() == Era::Modern,
    };
    Revision::ALL.into_iter().filter(wanted).collect()
}
