//! Who stands behind a client, in words that tell no key.

use ring::digest::{SHA256, digest};
use switchboard_net::face::Face;

/// Tells one principal from another, and from nobody.
pub(crate) type Mark = [u8; 16];

pub(crate) fn mark(face: &Face) -> Mark {
    let digest = digest(&SHA256, face.principal());
    let mut mark = Mark::default();
    mark.copy_from_slice(&digest.as_ref()[..16]);
    mark
}

/// What to call whoever stands behind a client; none if it does not say.
pub fn who(face: &Face) -> Option<String> {
    if face.principal().is_empty() {
        return None;
    }
    let [a, b, c, d, ..] = mark(face);
    Some(format!("{a:02x}{b:02x}{c:02x}{d:02x}"))
}
