//! The limit on open files, raised as far as we may, and what follows from it.

use switchboard_net::platform;

/// More than the sessions and connections below need. Some programs close every
/// descriptor up to their limit when they start, so it is not raised without end.
const WANTED: u64 = 65_536;

/// Raises the limit. Most systems start a process with 1024 descriptors, which
/// is for programs that cannot count further; a server takes four of ours.
pub(crate) fn raise() {
    if let Err(error) = platform::raise_open_files_limit(WANTED) {
        tracing::debug!(%error, "the limit on open files stays as it is");
    }
}

/// Connections of clients; a client with a stream has one for as long as it is
/// there, and must not keep others out.
const CONNECTIONS: usize = 8192;

/// Connections that the descriptors suffice for: each may need one more, to a server.
pub(crate) fn connections() -> usize {
    let limit = platform::open_files_limit();
    let half = limit.and_then(|limit| usize::try_from(limit / 2).ok()).unwrap_or(CONNECTIONS);
    half.clamp(16, CONNECTIONS)
}

/// Sessions of clients that share a connection to their server: no process is
/// started for one, and it takes some kilobytes.
pub(crate) const LIGHT_SESSIONS: usize = CONNECTIONS;
