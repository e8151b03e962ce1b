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

/// What to call whoever stands behind a client: the name of their key, or what tells
/// those apart who have none; nothing if they do not say.
pub fn who(face: &Face) -> Option<String> {
    let name = face.who().name();
    if !name.is_empty() {
        return Some(name.to_owned());
    }
    if face.principal().is_empty() {
        return None;
    }
    let [a, b, c, d, ..] = mark(face);
    Some(format!("{a:02x}{b:02x}{c:02x}{d:02x}"))
}
