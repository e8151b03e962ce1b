//! Headers of a client that are meant for what stands behind the inside.

use http::HeaderMap;
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
        for name in &*names {
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

/// Bytes of names and values.
pub(crate) fn size(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum()
}
