//! Definitions of tools and prompts that changed since they were first seen or approved.
//!
//! ```text
//!   what servers list ──▶ review: digests of what was approved ──▶ shown, or waits
//!   somebody says yes (console, `switchboard approve`) ──▶ approved, and written
//! ```
//!
//! A server that is trusted may describe its tools otherwise one day, and models do what
//! descriptions say. What waits is shown to people and, if the file says so, kept from clients.
//! There is a record for each server, in the gateway's state folder: a gateway and the
//! command may both write it, and take over what the other has approved.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::RandomState;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, SystemTime};

use switchboard_net::private_folder::PrivateFolder;
use switchboard_net::roster::{Change, Changes, Definition, ListKind};
use switchboard_net::secret::hex_digest;
use switchboard_net::{Either, race};
use switchboard_proto::jsonrpc::{ItemAction, Kind, Message};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::catalog::{Nowhere, named_by};
use crate::fleet::Fleet;
use crate::lock;
use record::{KINDS, MAX_RECORD};

pub use difference::{Difference, differences};
pub use record::{ServerRecord, WaitingChange};

mod difference;
mod record;

/// How often it is looked whether the command has approved something, while something waits;
/// and how often records are written at most.
const PACE: Duration = Duration::from_secs(1);

/// Gateways of one user whose state is kept; the one that was used longest ago goes.
const MAX_GATEWAYS: usize = 256;

/// The folder for what a gateway of these files remembers, in the state folder of the user.
/// None without files: a gateway that nothing tells from others remembers nothing. Blocks.
pub fn gateway_folder(state: &Path, files: &[PathBuf]) -> Option<PrivateFolder> {
    let whole = |file: &PathBuf| file.canonicalize().unwrap_or_else(|_| file.clone());
    let files: Vec<_> = files.iter().map(whole).collect();
    let names: Vec<_> = files.iter().map(|file| file.as_os_str().as_encoded_bytes()).collect();
    let name = hex_digest(&names.join(&0));
    (!files.is_empty()).then(|| PrivateFolder::at(state.join("gateways").join(&name[..32])))
}

/// Makes room for a gateway that is new.
fn forget_oldest(folder: &PrivateFolder) -> Option<()> {
    let all = fs::read_dir(folder.path().parent()?).ok()?.flatten();
    let used = |entry: fs::DirEntry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()));
    let mut all: Vec<_> = all.filter_map(used).filter(|(_, path)| path != folder.path()).collect();
    all.sort();
    let surplus = all.len().saturating_sub(MAX_GATEWAYS - 1);
    for (_, path) in all.drain(..surplus) {
        _ = fs::remove_dir_all(path);
    }
    Some(())
}

/// What was approved of all servers of a gateway.
#[derive(Default)]
pub struct Approvals {
    folder: Option<PrivateFolder>,
    /// Whether clients do not get what waits.
    refuses: AtomicBool,
    records: Mutex<BTreeMap<Arc<str>, ApprovalEntry>>,
    hash: RandomState,
    /// A record is another one.
    news: Notify,
}

#[derive(Default)]
struct ApprovalEntry {
    record: ServerRecord,
    /// How much of it waits.
    waiting: usize,
    is_unsaved: bool,
    /// When the file was written that was read last.
    read_at: Option<SystemTime>,
}

impl ApprovalEntry {
    fn count(&mut self) {
        self.waiting = self.record.waiting_names().count();
    }

    /// Takes what was written or read.
    fn take(&mut self, (record, read_at): (&ServerRecord, Option<SystemTime>)) -> bool {
        let has_approved = self.record.merge(record);
        self.read_at = read_at;
        self.count();
        has_approved
    }
}

impl Approvals {
    /// What is remembered in this folder; nothing is remembered without one.
    pub fn at(folder: Option<PrivateFolder>) -> Arc<Self> {
        if let Some(folder) = folder.as_ref().filter(|folder| !folder.path().exists()) {
            forget_oldest(folder);
        }
        Arc::new(Self { folder, ..Self::default() })
    }

    /// Has the records of these servers. Blocks.
    pub(crate) fn follow<'n>(&self, servers: impl Iterator<Item = &'n String>, refuses: bool) {
        self.refuses.store(refuses, Ordering::Relaxed);
        let servers: BTreeSet<_> = servers.collect();
        let mut records = lock(&self.records);
        records.retain(|name, _| servers.contains(&name.to_string()));
        for name in servers {
            if records.contains_key(name.as_str()) {
                continue;
            }
            let found = self.folder.as_ref().map(|folder| read_record(folder, name));
            let (found, read_at) = match found.unwrap_or(Ok((None, None))) {
                Ok(found) => found,
                Err(error) => {
                    tracing::warn!(
                        server = name,
                        "what was approved of it cannot be read: {error}"
                    );
                    (Some(ServerRecord::lost(name)), None)
                }
            };
            let record = found.unwrap_or_else(|| ServerRecord::new(name));
            let mut entry = ApprovalEntry { record, read_at, ..ApprovalEntry::default() };
            entry.count();
            records.insert(name.as_str().into(), entry);
        }
    }

    /// Whether clients do not get what waits.
    pub(crate) fn refuses(&self) -> bool {
        self.refuses.load(Ordering::Relaxed)
    }

    /// Looks at what servers list; those that clients get, and those that they do not.
    pub(crate) fn review(&self, all: Vec<Definition>) -> (Vec<Definition>, Vec<Definition>) {
        let refuses = self.refuses();
        let mut by_list: BTreeMap<(&Arc<str>, ListKind), Vec<usize>> = BTreeMap::new();
        for (at, it) in all.iter().enumerate().filter(|(_, it)| KINDS.contains(&it.kind)) {
            by_list.entry((&it.server, it.kind)).or_default().push(at);
        }
        let mut waiting = BTreeSet::new();
        for ((server, kind), places) in by_list {
            let items = places.iter().map(|at| (all[*at].name(), &*all[*at].text));
            let waits = self.review_list(server, kind, true, items);
            waiting.extend(places.into_iter().zip(waits).filter(|it| it.1).map(|it| it.0));
        }
        let (mut shown, mut held) = (Vec::with_capacity(all.len()), Vec::new());
        for (at, definition) in all.into_iter().enumerate() {
            let is_held = refuses && waiting.contains(&at);
            if is_held { held.push(definition) } else { shown.push(definition) }
        }
        (shown, held)
    }

    /// Looks at a list of a server, or at a page of it: whether each of its definitions waits.
    fn review_list<'i>(
        &self,
        server: &str,
        kind: ListKind,
        is_whole: bool,
        items: impl Iterator<Item = (impl AsRef<str>, &'i [u8])>,
    ) -> Vec<bool> {
        let mut records = lock(&self.records);
        let Some(entry) = records.get_mut(server) else { return items.map(|_| false).collect() };
        let mut review = entry.record.begin(kind, (self.refuses(), is_whole), &self.hash);
        let (mut waits, mut is_other, mut count) = (Vec::new(), false, 0_usize);
        for (name, text) in items {
            let (waits_now, is_new) = entry.record.review(kind, (name.as_ref(), text), &mut review);
            waits.push(waits_now);
            is_other |= is_new;
            count += usize::from(waits_now && is_new);
        }
        // One line for a list: a server may change them all.
        if count > 0 {
            let what = "definitions are not those that were approved; see switchboard approve";
            tracing::warn!(server, count, kind = kind.noun(), "{what}");
        }
        if is_other {
            entry.count();
            entry.is_unsaved = true;
            self.news.notify_one();
        }
        waits
    }

    /// Whether clients may not get all of a kind.
    pub(crate) fn may_hold(&self, kind: ListKind) -> bool {
        self.refuses() && KINDS.contains(&kind)
    }

    /// A list as a server has sent it to one client, without what waits.
    pub(crate) fn without_held(&self, server: &str, kind: ListKind, answer: &Message) -> Message {
        if !self.may_hold(kind) || answer.kind() != Kind::Result {
            return answer.clone();
        }
        let mut items = Vec::new();
        _ = answer.with_list(kind.member(), |item| {
            let name = item.string(kind.key()).unwrap_or_default().into_owned();
            items.push((name, item.text().to_vec()));
            ItemAction::Keep
        });
        let seen = items.iter().map(|(name, text)| (name, text.as_slice()));
        let mut waits = self.review_list(server, kind, false, seen).into_iter();
        answer.with_list(kind.member(), |_| match waits.next() {
            Some(true) => ItemAction::Drop,
            _ => ItemAction::Keep,
        })
    }

    /// Why a request to one server is refused, if what it asks for waits. The request is in the
    /// server's own words.
    pub(crate) fn refusal(&self, server: &str, request: &Message) -> Option<Nowhere> {
        if !self.refuses() {
            return None;
        }
        let (kind, member) = named_by(request).filter(|(kind, _)| self.may_hold(*kind))?;
        let name = request.string(member)?;
        let records = lock(&self.records);
        let is_waiting = records.get(server)?.record.is_waiting(kind, &name);
        is_waiting.then(|| Nowhere::held(kind, &name))
    }

    /// All that waits, by server.
    pub fn waiting(&self) -> Vec<WaitingChange> {
        lock(&self.records).values().flat_map(|entry| entry.record.waiting()).collect()
    }

    /// Names all that waits.
    #[cfg(feature = "console")]
    pub(crate) fn each_waiting(&self, mut see: impl FnMut(&Arc<str>, ListKind, &str)) {
        for (server, entry) in lock(&self.records).iter().filter(|(_, entry)| entry.waiting > 0) {
            entry.record.waiting_names().for_each(|(kind, name)| see(server, kind, name));
        }
    }

    /// Somebody says yes; false if this definition does not wait any more. It is written first.
    async fn approve(self: &Arc<Self>, change: &WaitingChange) -> io::Result<bool> {
        let WaitingChange { server, kind, name, digest, .. } = change;
        let record = lock(&self.records).get(&**server).map(|entry| entry.record.clone());
        let Some(mut record) = record else { return Ok(false) };
        if !record.approve(*kind, name, digest) {
            return Ok(false);
        }
        let this = Arc::clone(self);
        let written = tokio::task::spawn_blocking(move || {
            let read_at = this.folder.as_ref().map(|folder| write_record(folder, &mut record));
            read_at.transpose().map(|read_at| (record, read_at.flatten()))
        });
        let (record, read_at) = written.await.map_err(io::Error::other)??;
        if let Some(entry) = lock(&self.records).get_mut(&**server) {
            entry.take((&record, read_at));
        }
        Ok(true)
    }

    /// Writes the records that are others now. Blocks.
    pub(crate) fn save(&self) {
        let Some(folder) = &self.folder else { return };
        let mut records = lock(&self.records);
        let take = |entry: &mut ApprovalEntry| {
            std::mem::take(&mut entry.is_unsaved).then(|| entry.record.clone())
        };
        let unsaved: Vec<_> = records.values_mut().filter_map(take).collect();
        drop(records);
        for mut record in unsaved {
            match write_record(folder, &mut record) {
                Ok(read_at) => {
                    if let Some(entry) = lock(&self.records).get_mut(&*record.server) {
                        entry.take((&record, read_at));
                    }
                }
                Err(error) => {
                    let what = "what was seen of it is not remembered";
                    tracing::warn!(server = record.server, "{what}: {error}");
                }
            }
        }
    }

    fn has_waiting(&self) -> bool {
        self.folder.is_some() && lock(&self.records).values().any(|entry| entry.waiting > 0)
    }

    /// Takes what the command has approved meanwhile; whether there was something. Blocks.
    fn reload(&self) -> bool {
        let Some(folder) = &self.folder else { return false };
        let known = |(name, entry): (&Arc<str>, &ApprovalEntry)| (Arc::clone(name), entry.read_at);
        let known: Vec<_> = lock(&self.records).iter().map(known).collect();
        let mut has_approved = false;
        for (name, read_at) in known {
            if modified(folder, &name) == read_at {
                continue;
            }
            let Ok((Some(record), read_at)) = read_record(folder, &name) else { continue };
            if let Some(entry) = lock(&self.records).get_mut(&name) {
                has_approved |= entry.take((&record, read_at));
            }
        }
        has_approved
    }
}

impl Fleet {
    /// Somebody says yes to a definition; false if it does not wait any more. Clients whose
    /// lists are others now are told.
    pub async fn approve(&self, change: &WaitingChange) -> io::Result<bool> {
        let is_approved = self.approvals().approve(change).await?;
        if is_approved {
            self.show_approved();
        }
        Ok(is_approved)
    }

    fn show_approved(&self) {
        if self.approvals().refuses() {
            self.views().iter().for_each(|views| views.review_again());
        }
    }
}

/// Looks at what servers list, writes what is new, and reads what the command has approved.
pub(crate) async fn follow(fleet: Weak<Fleet>, approvals: Arc<Approvals>, mut changes: Changes) {
    loop {
        let due = async {
            if approvals.has_waiting() {
                sleep(PACE).await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        match race(changes.next(), race(approvals.news.notified(), due)).await {
            Either::Left(None) => return,
            Either::Left(Some(change)) => {
                let Some(fleet) = fleet.upgrade() else { return };
                let listed = |kind: ListKind| fleet.roster.definitions(kind);
                match change {
                    Change::Definitions { server, kind } => {
                        let of_server = listed(kind).into_iter().filter(|it| it.server == server);
                        approvals.review(of_server.collect());
                    }
                    Change::Missed => KINDS.into_iter().for_each(|kind| {
                        approvals.review(listed(kind));
                    }),
                    _ => {}
                }
            }
            Either::Right(Either::Left(())) => {
                let saving = Arc::clone(&approvals);
                _ = tokio::task::spawn_blocking(move || saving.save()).await;
                sleep(PACE).await;
            }
            Either::Right(Either::Right(())) => {
                let reading = Arc::clone(&approvals);
                let read = tokio::task::spawn_blocking(move || reading.reload()).await;
                let Some(fleet) = fleet.upgrade() else { return };
                if read.is_ok_and(|has_approved| has_approved) {
                    fleet.show_approved();
                }
            }
        }
    }
}

/// The file of a server. Its name may be anything.
fn file_name(server: &str) -> String {
    format!("{}{}.json", PREFIX, &hex_digest(server.as_bytes())[..32])
}

const PREFIX: &str = "approved-";

fn modified(folder: &PrivateFolder, server: &str) -> Option<SystemTime> {
    fs::metadata(folder.path().join(file_name(server))).ok()?.modified().ok()
}

fn read_record(
    folder: &PrivateFolder,
    server: &str,
) -> io::Result<(Option<ServerRecord>, Option<SystemTime>)> {
    // Before it is read: what is written meanwhile is read once more.
    let read_at = modified(folder, server);
    let text = folder.read(&file_name(server), MAX_RECORD)?;
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "it is not as it was written");
    let parse = |text: Vec<u8>| ServerRecord::parse(&text, Some(server)).ok_or_else(wrong);
    Ok((text.map(parse).transpose()?, read_at))
}

/// Writes a record, with what others have approved; when that was.
fn write_record(
    folder: &PrivateFolder,
    record: &mut ServerRecord,
) -> io::Result<Option<SystemTime>> {
    let turn = folder.lock()?;
    // One that cannot be read is replaced.
    if let Ok((Some(there), _)) = read_record(folder, &record.server) {
        record.merge(&there);
    }
    turn.replace(&file_name(&record.server), &serde_json::to_vec(record)?)?;
    Ok(modified(folder, &record.server))
}

/// The records in a folder, whether the gateway runs or not. Blocks.
pub fn read_records(folder: &PrivateFolder) -> io::Result<Vec<ServerRecord>> {
    let entries = match fs::read_dir(folder.path()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut records = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(PREFIX) && Path::new(&name).extension().is_some_and(|it| it == "json") {
            let text = folder.read(&name, MAX_RECORD)?;
            records.extend(text.and_then(|text| ServerRecord::parse(&text, None)));
        }
    }
    records.sort_by(|one, other| one.server.cmp(&other.server));
    Ok(records)
}

/// Somebody says yes without a gateway; false if the definition does not wait any more. One
/// that runs takes it over. Blocks.
pub fn approve_in(folder: &PrivateFolder, change: &WaitingChange) -> io::Result<bool> {
    let (record, _) = read_record(folder, &change.server)?;
    let Some(mut record) = record else { return Ok(false) };
    if !record.approve(change.kind, &change.name, &change.digest) {
        return Ok(false);
    }
    write_record(folder, &mut record)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(texts: &[&'static str]) -> Vec<Definition> {
        let definition = |text: &&'static str| Definition {
            server: "files".into(),
            kind: ListKind::Tools,
            text: text.as_bytes().into(),
            is_cached: false,
        };
        texts.iter().map(definition).collect()
    }

    fn names(definitions: &[Definition]) -> Vec<String> {
        definitions.iter().map(|it| it.name().into_owned()).collect()
    }

    #[tokio::test]
    async fn what_a_gateway_and_the_command_approve_is_one_and_outlives_both() {
        // C-16, B-12
        let state =
            std::env::temp_dir().join(format!("switchboard-approval-{}", std::process::id()));
        _ = fs::remove_dir_all(&state);
        assert!(gateway_folder(&state, &[]).is_none(), "nothing tells it from others");
        let folder = gateway_folder(&state, &["a.json".into()]).unwrap();
        assert_ne!(Some(&folder), gateway_folder(&state, &["b.json".into()]).as_ref());
        let (servers, old) = (["files".to_owned()], r#"{"name":"read","title":"old"}"#);
        let gateway = Approvals::at(Some(folder.clone()));
        gateway.follow(servers.iter(), true);
        let (shown, held) = gateway.review(listed(&[old, r#"{"name":"write"}"#]));
        assert_eq!((shown.len(), held.len()), (2, 0), "first seen");
        gateway.save();

        let (first, second) = (r#"{"name":"read","title":"1"}"#, r#"{"name":"read","title":"2"}"#);
        let (shown, held) = gateway.review(listed(&[first, r#"{"name":"write"}"#]));
        assert_eq!((names(&shown), names(&held)), (vec!["write".into()], vec!["read".into()]));
        gateway.save();
        assert!(!gateway.reload(), "nobody has said anything");
        let waiting = |folder| read_records(folder).unwrap()[0].waiting();
        assert!(approve_in(&folder, &waiting(&folder)[0]).unwrap());
        assert!(!approve_in(&folder, &gateway.waiting()[0]).unwrap(), "once");
        assert!(gateway.reload() && gateway.waiting().is_empty() && !gateway.has_waiting());
        assert!(gateway.review(listed(&[first])).1.is_empty());

        gateway.review(listed(&[second]));
        let mut change = gateway.waiting().remove(0);
        let seen = std::mem::replace(&mut change.digest, "another".to_owned());
        assert!(!gateway.approve(&change).await.unwrap(), "not what was seen");
        change.digest = seen;
        assert!(gateway.approve(&change).await.unwrap());
        let restarted = Approvals::at(Some(folder.clone()));
        restarted.follow(servers.iter(), true);
        let (_, held) = restarted.review(listed(&[second, first, old, r#"{"name":"new"}"#]));
        assert_eq!(names(&held), ["new"]);
        restarted.follow(servers.iter(), false);
        let (shown, held) = restarted.review(listed(&[r#"{"name":"read","title":"3"}"#]));
        assert_eq!((shown.len(), held.len()), (1, 0), "it is shown to people alone");
        assert_eq!(restarted.waiting().len(), 2);

        let file = folder.path().join(file_name("files"));
        fs::write(&file, "{").unwrap();
        let broken = Approvals::at(Some(folder.clone()));
        broken.follow(servers.iter(), true);
        assert_eq!(names(&broken.review(listed(&[old])).1), ["read"], "it approves nothing");
        fs::remove_dir_all(&state).unwrap();
    }
}
