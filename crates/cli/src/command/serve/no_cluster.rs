//! What stands in for several replicas in a program that is built without them.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;

use switchboard_net::cluster::replica::Replica;

use crate::args::GatewayArgs;
use crate::exit::CommandResult;
use crate::serve::Web;
use crate::signal::StopSignal;

/// There is none.
pub(super) struct NoCluster(Infallible);

pub(super) use NoCluster as JoinedCluster;

pub(super) fn join(_: &GatewayArgs) -> Ready<CommandResult<Option<JoinedCluster>>> {
    ready(Ok(None))
}

impl NoCluster {
    pub(super) fn replica(&self) -> Arc<Replica> {
        match self.0 {}
    }

    pub(super) fn serve(self, _: Web, _: StopSignal) -> Ready<()> {
        match self.0 {}
    }
}
