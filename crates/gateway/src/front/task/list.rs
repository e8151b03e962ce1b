//! Lists of tasks, one server after the other.
//!
//! A cursor says whose turn it is, and how far that server's list was read:
//! the length of its name, its name, and its own cursor, if it gave one.

use std::sync::Arc;

use switchboard_net::face::Face;
use switchboard_proto::jsonrpc::{ItemAction, Member, Message, Part};

use super::Tasks;

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
fn next_cursor(server: &str, page: &Message, servers: &[Arc<str>]) -> Option<String> {
    let theirs = page.string(Member::NextCursor).filter(|cursor| !cursor.is_empty());
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
    page: &Message,
    servers: &[Arc<str>],
) -> Message {
    if !page.part(Member::Tasks).is_some_and(Part::is_list) {
        return page.clone();
    }
    let id = Member::TaskId.key();
    let under_ours = |task: Part<'_>| {
        let ours = tasks.ours(face, server, &task.string(id)?)?;
        task.with_string(id, &ours)
    };
    let ours = page.with_list(Member::Tasks, |task| {
        under_ours(task).map_or(ItemAction::Drop, ItemAction::Replace)
    });
    match next_cursor(server, page, servers) {
        Some(next) => ours.with_string(Member::NextCursor, &next),
        None => ours.without(Member::NextCursor),
    }
}

#[cfg(test)]
mod tests {
    use switchboard_proto::jsonrpc::Id;

    use super::*;

    #[test]
    fn a_list_goes_on_with_the_next_server_where_one_has_ended() {
        let servers: Vec<Arc<str>> = ["a", "b:1"].map(Arc::from).to_vec();
        let next_cursor = |server, page: &str| {
            next_cursor(server, &Message::result(&Id::Integer(1), page.as_bytes()), &servers)
        };
        let more = next_cursor("a", r#"{"tasks":[],"nextCursor":"x:1"}"#).unwrap();
        assert_eq!(read_cursor(&more, &servers), Some(("a".into(), Some("x:1".to_owned()))));
        let next = next_cursor("a", r#"{"tasks":[]}"#).unwrap();
        assert_eq!(read_cursor(&next, &servers), Some(("b:1".into(), None)));
        assert_eq!(next_cursor("b:1", "{}"), None);
        for wrong in ["", "a", "1:z", "9:a", "x:a", "2:é"] {
            assert_eq!(read_cursor(wrong, &servers), None, "{wrong}");
        }
    }
}
