//! Lists of tasks, one server after the other.
//!
//! A cursor says whose turn it is, and how far that server's list was read:
//! the length of its name, its name, and its own cursor, if it gave one.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use switchboard_net::face::Face;
use switchboard_proto::json::{Fault, Walker};
use switchboard_proto::patch;

use super::{ID, Tasks};

/// The server and its own cursor.
pub(super) fn read_cursor(
    cursor: &str,
    servers: &[Arc<str>],
) -> Option<(Arc<str>, Option<String>)> {
    let (length, rest) = cursor.split_once(':')?;
    let (name, theirs) = rest.split_at_checked(length.parse().ok()?)?;
    let server = servers.iter().find(|server| ***server == *name)?;
    Some((Arc::clone(server), (!theirs.is_empty()).then(|| theirs.to_owned())))
}

fn written(server: &str, theirs: &str) -> String {
    format!("{}:{server}{theirs}", server.len())
}

/// Where the list goes on after this page of `server`, if it does.
pub(super) fn next_cursor(server: &str, page: &[u8], servers: &[Arc<str>]) -> Option<String> {
    let theirs = patch::string(page, &["nextCursor"]).filter(|cursor| !cursor.is_empty());
    match theirs {
        Some(theirs) => Some(written(server, &theirs)),
        None => servers.iter().find(|other| ***other > *server).map(|next| written(next, "")),
    }
}

/// The page with this client's tasks alone, under our ids.
pub(super) fn of_ours(
    tasks: &Tasks,
    face: &Face,
    server: &Arc<str>,
    page: &[u8],
    next: Option<String>,
) -> Option<Bytes> {
    let listed = patch::get(page, &["tasks"])?;
    let mut kept = Vec::new();
    let walk = |place: std::ops::Range<usize>| {
        kept.extend(tasks.under_ours(face, server, &listed[place], &[ID]));
        Ok::<_, Fault>(())
    };
    Walker::new(listed).elements(walk).ok()?;
    let kept = [b"[", kept.join(&b","[..]).as_slice(), b"]"].concat();
    let page = patch::replace(page, &["tasks"], &kept)?;
    let page = patch::without(&page, &[], &["nextCursor"]).unwrap_or(page);
    match next {
        Some(next) => {
            let next = Value::from(next).to_string();
            patch::put(&page, &[], "nextCursor", next.as_bytes())
        }
        None => Some(page),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_goes_on_with_the_next_server_where_one_has_ended() {
        let servers: Vec<Arc<str>> = ["a", "b:1"].map(Arc::from).to_vec();
        let more = next_cursor("a", br#"{"tasks":[],"nextCursor":"x:1"}"#, &servers).unwrap();
        assert_eq!(read_cursor(&more, &servers), Some(("a".into(), Some("x:1".to_owned()))));
        let next = next_cursor("a", br#"{"tasks":[]}"#, &servers).unwrap();
        assert_eq!(read_cursor(&next, &servers), Some(("b:1".into(), None)));
        assert_eq!(next_cursor("b:1", b"{}", &servers), None);
        for wrong in ["", "a", "1:z", "9:a", "x:a", "2:é"] {
            assert_eq!(read_cursor(wrong, &servers), None, "{wrong}");
        }
    }
}
