//! Headers of a client that are meant for what stands behind the inside.

use http::HeaderMap;

use super::Face;

impl Face {
    /// Keeps those headers of its first request that the inside wants to know.
    pub(crate) fn carry(&self, headers: &HeaderMap) {
        let Some(names) = self.inside.carries() else { return };
        let mut carried = HeaderMap::new();
        for name in &*names {
            for value in headers.get_all(name) {
                carried.append(name, value.clone());
            }
        }
        _ = self.carried.set(carried);
    }

    /// The headers that it began with, of those that [`carries`](crate::inside::Inside::carries) names.
    pub fn carried(&self) -> Option<&HeaderMap> {
        self.carried.get().filter(|headers| !headers.is_empty())
    }
}
