//! The place of this process in chains of gateways and bridges that start each
//! other, and what it does if it is a link of one without end.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use switchboard_net::call::Call;
use switchboard_net::face::Face;
use switchboard_net::inside::{Inside, Works};
use switchboard_net::stdio;
use switchboard_net::upstream::{Ancestry, VARIABLE};
use switchboard_proto::exchange::Said;
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::limits::Limits;
use switchboard_proto::refusal::Refusal;

use crate::exit::CommandError;
use crate::signal::Stop;

/// A gateway: another one that reads the same files serves the same.
pub(crate) fn gateway(files: &[PathBuf], on_stdio: bool) -> Ancestry {
    let real = |file: &PathBuf| fs::canonicalize(file).unwrap_or_else(|_| file.clone());
    let serves: Vec<_> = files.iter().map(real).collect();
    let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
    let source = if names.is_empty() { "the command line".to_owned() } else { names.join(", ") };
    Ancestry::gateway(serves, &source, variable().as_deref()).serving_parent(on_stdio)
}

/// A bridge: another one that is called with the same words does the same.
pub(crate) fn bridge(on_stdio: bool) -> Ancestry {
    let serves: (Vec<_>, _) = (std::env::args_os().collect(), std::env::current_dir().ok());
    Ancestry::bridge(serves, variable().as_deref()).serving_parent(on_stdio)
}

fn variable() -> Option<String> {
    std::env::var(VARIABLE).ok()
}

/// Refuses whatever the process that started us asks for, and starts nothing.
pub(crate) async fn refuse(
    ancestry: &Ancestry,
    on_stdio: bool,
    stop: Stop,
) -> Result<(), CommandError> {
    let failure = CommandError::new("started by a gateway that serves the same configuration")
        .hint("remove the server that starts this command from that configuration")
        .hint(format!("if that is meant, start it without the variable {VARIABLE}"));
    if !on_stdio {
        return Err(failure);
    }
    tracing::error!("{}", failure.line());
    let limits = Arc::new(Limits::default());
    let looping = Arc::new(Looping { ids: ancestry.above() });
    let served = stdio::serve_within(Duration::ZERO, looping, false, limits, stop.asked());
    served.await.map_err(|error| CommandError::of(&error))
}

/// Answers everything with the reason why nothing is served.
struct Looping {
    /// The servers that led to this process.
    ids: Vec<u64>,
}

impl Inside for Looping {
    fn open(&self, _: &Arc<Face>, call: &Call, _: Message, _: Said) -> Works {
        let refusal = Refusal::Loop { ids: self.ids.clone() };
        call.finish(refusal);
        Works::none()
    }
}
