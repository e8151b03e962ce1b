//! What of one server was first seen or approved, and what waits for somebody's yes. Pure.
//!
//! ```text
//!   a server that was never seen        ──▶ all that it lists is approved
//!   a definition that was approved      ──▶ approved, also if another was listed meanwhile
//!   another definition of a known name  ──▶ waits
//!   a new name                          ──▶ waits if changes are refused, else approved
//! ```

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use switchboard_net::roster::ListKind;
use switchboard_proto::jsonrpc::Part;

/// Names of one kind that are remembered of a server.
const MAX_NAMES: usize = 20_000;
/// Bytes of a name that is remembered.
const MAX_NAME: usize = 256;
/// Definitions of one name that are approved; the oldest goes. A server may show several people
/// different ones.
const MAX_APPROVED: usize = 8;
/// Bytes of a definition whose text is kept, so that people see what changed.
const MAX_TEXT: usize = 64 << 10;
/// Bytes of all texts of a server.
const MAX_TEXTS: usize = 1 << 20;

/// Bytes of a record as it is written.
pub(super) const MAX_RECORD: u64 = 16 << 20;

/// What is remembered of a server.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct ServerRecord {
    /// Its name.
    pub server: String,
    tools: BTreeMap<String, KnownItem>,
    prompts: BTreeMap<String, KnownItem>,
    /// Whether there was one that could not be read: what is listed now was not seen first.
    #[serde(skip)]
    is_lost: bool,
}

/// What is remembered of one name.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
struct KnownItem {
    /// Digests of definitions, the newest first.
    approved: Vec<String>,
    /// The newest of them, if it is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<WaitingItem>,
    /// Tells the text that was reviewed last from others, without reading it.
    #[serde(skip)]
    seen: Option<u64>,
}

/// A definition that nobody has approved.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
struct WaitingItem {
    digest: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// A definition that waits for somebody's yes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WaitingChange {
    /// The server that lists it.
    pub server: String,
    /// A tool or a prompt.
    pub kind: ListKind,
    /// The server's own name for it.
    pub name: String,
    /// Names this definition, so that nobody approves another one than they saw.
    pub digest: String,
    /// Whether the name is new.
    pub is_new: bool,
    /// What was approved last, as JSON, if it is kept.
    pub before: Option<String>,
    /// What is listed now, as JSON, if it is kept.
    pub after: Option<String>,
}

/// The kinds whose definitions are compared: those that models read.
pub(super) const KINDS: [ListKind; 2] = [ListKind::Tools, ListKind::Prompts];

/// How definitions of one kind are reviewed.
pub(super) struct Review<'r> {
    /// Whether new names wait, too.
    refuses: bool,
    /// Whether the server was never seen before.
    is_first: bool,
    /// Whether the list is whole: a page of one is not what is seen first.
    is_whole: bool,
    hash: &'r RandomState,
    /// Bytes of texts that may still be kept.
    room: usize,
}

impl ServerRecord {
    pub(super) fn new(server: &str) -> Self {
        Self { server: server.to_owned(), ..Self::default() }
    }

    /// In the place of a record that cannot be read.
    pub(super) fn lost(server: &str) -> Self {
        Self { is_lost: true, ..Self::new(server) }
    }

    /// A record as it was written; none if it is not one of this server.
    pub(super) fn parse(text: &[u8], server: Option<&str>) -> Option<Self> {
        let record: Self = Part::new(text).read().ok()?;
        server.is_none_or(|server| record.server == server).then_some(record)
    }

    fn list(&self, kind: ListKind) -> Option<&BTreeMap<String, KnownItem>> {
        match kind {
            ListKind::Tools => Some(&self.tools),
            ListKind::Prompts => Some(&self.prompts),
            ListKind::Resources | ListKind::Templates => None,
        }
    }

    fn list_mut(&mut self, kind: ListKind) -> Option<&mut BTreeMap<String, KnownItem>> {
        match kind {
            ListKind::Tools => Some(&mut self.tools),
            ListKind::Prompts => Some(&mut self.prompts),
            ListKind::Resources | ListKind::Templates => None,
        }
    }

    /// Bytes of texts that are kept.
    fn kept(&self) -> usize {
        let items = self.tools.values().chain(self.prompts.values());
        let waiting = |it: &KnownItem| Some(it.waiting.as_ref()?.text.as_ref()?.len());
        let kept =
            |it: &KnownItem| it.text.as_ref().map_or(0, String::len) + waiting(it).unwrap_or(0);
        items.map(kept).sum()
    }

    /// Begins to look at a list of a kind.
    pub(super) fn begin<'r>(
        &self,
        kind: ListKind,
        (refuses, is_whole): (bool, bool),
        hash: &'r RandomState,
    ) -> Review<'r> {
        let is_first = !self.is_lost && self.list(kind).is_none_or(BTreeMap::is_empty);
        Review { refuses, is_first, is_whole, hash, room: MAX_TEXTS.saturating_sub(self.kept()) }
    }

    /// Looks at a definition: whether nobody has approved it, and whether the record is another
    /// one now.
    pub(super) fn review(
        &mut self,
        kind: ListKind,
        (name, text): (&str, &[u8]),
        review: &mut Review<'_>,
    ) -> (bool, bool) {
        let quick = Some(review.hash.hash_one(text));
        let known = self.list(kind).and_then(|list| list.get(name));
        if let Some(known) = known.filter(|known| known.seen == quick) {
            return (known.waiting.is_some(), false);
        }
        let plain = plain_text(text);
        let digest = BASE64_URL_SAFE_NO_PAD.encode(ring_digest(&plain));
        let text = (plain.len() <= MAX_TEXT.min(review.room)).then_some(plain);
        review.room -= text.as_ref().map_or(0, String::len);
        let Some(list) = self.list_mut(kind) else { return (false, false) };
        let count = list.len();
        match list.get_mut(name) {
            Some(known) => {
                known.seen = quick;
                if known.approved.contains(&digest) {
                    return (false, known.waiting.take().is_some());
                }
                let is_other = known.waiting.as_ref().is_none_or(|it| it.digest != digest);
                if is_other {
                    known.waiting = Some(WaitingItem { digest, text });
                }
                (true, is_other)
            }
            // Nobody can tell whether it changes.
            None if count >= MAX_NAMES || name.len() > MAX_NAME => (review.refuses, false),
            None if review.is_first && !review.is_whole => (false, false),
            None => {
                let waits = review.refuses && !review.is_first;
                let known = if waits {
                    let waiting = Some(WaitingItem { digest, text });
                    KnownItem { waiting, seen: quick, ..KnownItem::default() }
                } else {
                    KnownItem { approved: vec![digest], text, waiting: None, seen: quick }
                };
                list.insert(name.to_owned(), known);
                (waits, true)
            }
        }
    }

    /// Whether a name waits for somebody's yes.
    pub(super) fn is_waiting(&self, kind: ListKind, name: &str) -> bool {
        self.list(kind).and_then(|list| list.get(name)).is_some_and(|it| it.waiting.is_some())
    }

    /// The names of all that waits.
    pub(super) fn waiting_names(&self) -> impl Iterator<Item = (ListKind, &str)> {
        let of = |kind| self.list(kind).into_iter().flatten().map(move |it| (kind, it));
        let all = KINDS.into_iter().flat_map(of);
        all.filter(|(_, (_, it))| it.waiting.is_some())
            .map(|(kind, (name, _))| (kind, name.as_str()))
    }

    /// All that waits.
    pub fn waiting(&self) -> Vec<WaitingChange> {
        let of = |kind| self.list(kind).into_iter().flatten().map(move |it| (kind, it));
        let all = KINDS.into_iter().flat_map(of);
        let change = |(kind, (name, known)): (ListKind, (&String, &KnownItem))| {
            let waiting = known.waiting.as_ref()?;
            Some(WaitingChange {
                server: self.server.clone(),
                kind,
                name: name.clone(),
                digest: waiting.digest.clone(),
                is_new: known.approved.is_empty(),
                before: known.text.clone(),
                after: waiting.text.clone(),
            })
        };
        all.filter_map(change).collect()
    }

    /// Somebody says yes to this definition; false if it does not wait any more.
    pub fn approve(&mut self, kind: ListKind, name: &str, digest: &str) -> bool {
        let known = self.list_mut(kind).and_then(|list| list.get_mut(name));
        let is_meant = |known: &&mut KnownItem| {
            known.waiting.as_ref().is_some_and(|waiting| waiting.digest == digest)
        };
        let Some(known) = known.filter(is_meant) else { return false };
        known.accept();
        true
    }

    /// Takes what was approved elsewhere; whether something does not wait any more.
    pub(super) fn merge(&mut self, other: &Self) -> bool {
        let mut has_approved = false;
        for kind in KINDS {
            let (Some(list), Some(theirs)) = (self.list_mut(kind), other.list(kind)) else {
                continue;
            };
            for (name, theirs) in theirs {
                let Some(known) = list.get_mut(name) else {
                    if list.len() < MAX_NAMES {
                        list.insert(name.clone(), theirs.clone());
                    }
                    continue;
                };
                for digest in theirs.approved.iter().rev() {
                    if !known.approved.contains(digest) {
                        known.approved.insert(0, digest.clone());
                        known.text.clone_from(&theirs.text);
                    }
                }
                known.approved.truncate(MAX_APPROVED);
                let is_approved =
                    known.waiting.as_ref().is_some_and(|it| known.approved.contains(&it.digest));
                if is_approved {
                    known.accept();
                    has_approved = true;
                }
            }
        }
        has_approved
    }
}

impl KnownItem {
    /// What waits is approved.
    fn accept(&mut self) {
        let Some(waiting) = self.waiting.take() else { return };
        self.approved.retain(|digest| *digest != waiting.digest);
        self.approved.insert(0, waiting.digest);
        self.approved.truncate(MAX_APPROVED);
        self.text = waiting.text;
    }
}

fn ring_digest(text: &str) -> impl AsRef<[u8]> {
    digest(&SHA256, text.as_bytes())
}

/// A definition as its meaning: the order of members does not count, and neither does what
/// models do not read.
fn plain_text(text: &[u8]) -> String {
    let Some(mut value) = Part::new(text).value() else {
        return String::from_utf8_lossy(text).into_owned();
    };
    if let Value::Object(members) = &mut value {
        members.remove("_meta");
    }
    value.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reviews tools as a list of a server; the names that wait.
    fn list(record: &mut ServerRecord, refuses: bool, tools: &[&str]) -> Vec<String> {
        let hash = RandomState::new();
        let mut review = record.begin(ListKind::Tools, (refuses, true), &hash);
        let named = tools.iter().map(|text| {
            let name = Part::new(text.as_bytes()).string("name").unwrap().into_owned();
            (name, *text)
        });
        let waits = |(name, text): (String, &str)| {
            let item = (&*name, text.as_bytes());
            let (waits, _) = record.review(ListKind::Tools, item, &mut review);
            waits.then_some(name)
        };
        named.filter_map(waits).collect()
    }

    const READ: &str = r#"{"name":"read","description":"Reads"}"#;
    const READ_MORE: &str = r#"{"name":"read","description":"Reads, and sends it to evil"}"#;

    #[test]
    fn a_definition_waits_from_its_change_until_somebody_says_yes_to_it() {
        // C-16
        let mut record = ServerRecord::new("files");
        assert!(list(&mut record, false, &[READ]).is_empty(), "first seen");
        assert_eq!(list(&mut record, false, &[READ_MORE]), ["read"]);
        assert_eq!(list(&mut record, false, &[READ_MORE]), ["read"], "and again");
        let [change] = &record.waiting()[..] else { panic!("one waits") };
        assert!(!change.is_new && change.before.as_deref() == Some(&plain_text(READ.as_bytes())));
        assert!(!record.approve(ListKind::Tools, "read", "another"), "not what was seen");
        let digest = change.digest.clone();
        assert!(record.approve(ListKind::Tools, "read", &digest));
        assert!(list(&mut record, false, &[READ_MORE]).is_empty());
        assert!(list(&mut record, false, &[READ]).is_empty(), "it was approved before");
        let written = serde_json::to_vec(&record).unwrap();
        let mut record = ServerRecord::parse(&written, Some("files")).unwrap();
        assert!(list(&mut record, true, &[READ_MORE]).is_empty(), "after a restart");
        assert!(ServerRecord::parse(&written, Some("other")).is_none());
    }

    #[test]
    fn order_and_metadata_are_no_change_and_going_back_ends_the_wait() {
        let mut record = ServerRecord::new("files");
        list(&mut record, true, &[READ]);
        let same = r#"{ "description":"Reads", "_meta":{"at":7}, "name":"read" }"#;
        assert!(list(&mut record, true, &[same]).is_empty());
        assert_eq!(list(&mut record, true, &[READ_MORE]), ["read"]);
        assert!(list(&mut record, true, &[READ]).is_empty());
        assert!(record.waiting().is_empty());
    }

    #[test]
    fn a_new_name_waits_where_changes_are_refused() {
        let (mut shown, mut refused) = (ServerRecord::new("a"), ServerRecord::new("a"));
        let new = r#"{"name":"new"}"#;
        for record in [&mut shown, &mut refused] {
            list(record, true, &[READ]);
        }
        assert!(list(&mut shown, false, &[READ, new]).is_empty());
        assert_eq!(list(&mut refused, true, &[READ, new]), ["new"]);
        assert!(refused.waiting()[0].is_new);
    }

    #[test]
    fn a_page_of_a_list_is_not_what_is_seen_first() {
        let (mut record, hash) = (ServerRecord::new("a"), RandomState::new());
        let mut review = record.begin(ListKind::Tools, (true, false), &hash);
        let read = record.review(ListKind::Tools, ("read", READ.as_bytes()), &mut review);
        assert_eq!((read, record.tools.len()), ((false, false), 0));
    }

    #[test]
    fn what_cannot_be_read_was_not_seen_first() {
        let mut record = ServerRecord::lost("a");
        assert_eq!(list(&mut record, true, &[READ]), ["read"]);
    }

    #[test]
    fn what_is_approved_elsewhere_is_taken_over() {
        let mut record = ServerRecord::new("a");
        list(&mut record, false, &[READ]);
        list(&mut record, false, &[READ_MORE]);
        let mut other = record.clone();
        assert!(!record.merge(&other), "it waits there, too");
        let digest = other.waiting()[0].digest.clone();
        other.approve(ListKind::Tools, "read", &digest);
        assert!(record.merge(&other) && record.waiting().is_empty());
        assert!(list(&mut record, false, &[READ_MORE]).is_empty());
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let mut record = ServerRecord::new("a");
        let long = "x".repeat(MAX_NAME + 1);
        let tool = |name: &str| {
            format!("{{\"name\":\"{name}\",\"description\":\"{}\"}}", "y".repeat(60_000))
        };
        let tools: Vec<_> = (0..30).map(|n| tool(&format!("t{n}"))).chain([tool(&long)]).collect();
        let tools: Vec<_> = tools.iter().map(String::as_str).collect();
        assert_eq!(
            list(&mut record, true, &tools),
            std::slice::from_ref(&long),
            "nobody can tell if it changes"
        );
        assert!(record.kept() <= MAX_TEXTS && record.tools.len() == 30);
        assert!(list(&mut record, false, &[&tool(&long)]).is_empty());
    }
}
