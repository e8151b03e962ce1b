//! Calls that pass by a layer between the eras: their clients speak the server's own.

use super::CallId;

/// Apart from the numbers that a layer gives its own calls.
const NATIVE: u64 = 1 << 63;

/// How a layer names a call that the machine below it knows by `id`.
pub(super) fn above(id: CallId) -> CallId {
    if id == CallId::DONE { id } else { CallId(id.0 | NATIVE) }
}

/// What the machine below calls it, if it is such a call.
pub(super) fn below(id: CallId) -> Option<CallId> {
    (id.0 & NATIVE != 0).then_some(CallId(id.0 & !NATIVE))
}
