//! The limit on open files, raised as far as we may.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More than 1024 sessions and 512 connections need. Some programs close every
/// descriptor up to their limit when they start, so it is not raised without end.
const WANTED: u64 = 65_536;

/// Raises the limit. Most systems start a process with 1024 descriptors, which
/// is for programs that cannot count further; a server takes four of ours.
pub(crate) fn raise() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(WANTED, |maximum| maximum.min(WANTED));
    if current.is_some_and(|current| current < wanted) {
        let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
        if let Err(error) = raised {
            tracing::debug!(%error, "the limit on open files stays as it is");
        }
    }
}
