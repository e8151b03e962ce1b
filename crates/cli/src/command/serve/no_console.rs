//! What stands in for the console in a program that is built without it.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use switchboard_gateway::gateway::Gateway;
use switchboard_gateway::plan::Plan;
use switchboard_net::OwnedTask;
use switchboard_net::http::site::SitePage;

use crate::args::GatewayArgs;
use crate::exit::CommandResult;
use crate::serve::{ConsoleEntrance, Web};
use crate::signal::StopSignal;

/// There is none.
#[derive(Clone)]
pub(super) struct NoConsole(Infallible);

pub(super) use NoConsole as ServedConsole;

pub(super) fn is_wanted(_: &GatewayArgs, _: &Plan) -> bool {
    false
}

pub(super) fn start(_: &GatewayArgs, _: &Arc<Gateway>, _: &StopSignal) -> Option<ServedConsole> {
    None
}

impl NoConsole {
    pub(super) fn pages(&self) -> Vec<(String, SitePage)> {
        match self.0 {}
    }

    pub(super) fn entrance(&self) -> ConsoleEntrance {
        match self.0 {}
    }

    pub(super) fn found_at(&self, _: &Plan, _: &Web, _: Option<&Web>) -> String {
        match self.0 {}
    }

    pub(super) fn follow_files(&self, _: &[PathBuf]) -> CommandResult {
        match self.0 {}
    }

    pub(super) fn tell_config(&self, _: usize) {
        match self.0 {}
    }

    pub(super) fn tell_links(self) -> OwnedTask {
        match self.0 {}
    }
}
