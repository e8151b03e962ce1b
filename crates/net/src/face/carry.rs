//! Headers of a client that are meant for what stands behind the inside.

use http::header::CONNECTION;
use http::{HeaderMap, HeaderName};
use switchboard_proto::refusal::Refusal;

use super::Face;

/// Bytes of the headers of one client that are kept. They stay as long as
/// anything is remembered of whom it speaks for.
const MOST_CARRIED: usize = 16 << 10;

impl Face {
    /// Keeps those headers of its first request that the inside wants to know.
    pub(crate) fn carry(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(names) = self.inside.carries() else { return Ok(()) };
        let mut carried = HeaderMap::new();
        for name in names.iter().filter(|name| !is_hop_by_hop(headers, name)) {
            for value in headers.get_all(name) {
                carried.append(name, value.clone());
            }
        }
        if size(&carried) > MOST_CARRIED {
            return Err(Refusal::PassedTooLarge { limit: MOST_CARRIED });
        }
        _ = self.carried.set(carried);
        Ok(())
    }

    /// The headers that it began with, of those that [`carries`](crate::inside::Inside::carries) names.
    pub fn carried(&self) -> Option<&HeaderMap> {
        self.carried.get().filter(|headers| !headers.is_empty())
    }
}

/// Whether the client names it in `Connection`: then it is meant for us alone (RFC 9110, 7.6.1).
fn is_hop_by_hop(headers: &HeaderMap, name: &HeaderName) -> bool {
    let listed = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    listed
        .flat_map(|value| value.split(','))
        .any(|token| token.trim().eq_ignore_ascii_case(name.as_str()))
}

/// Bytes of names and values.
pub(crate) fn size(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum()
}
