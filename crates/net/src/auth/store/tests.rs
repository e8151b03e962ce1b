//! What the store keeps, from whom, and what it says if it cannot.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};

use super::record::{RecordSeal, Unopened};
use super::*;

mod key_source;

static FOLDERS: AtomicU64 = AtomicU64::new(1);

const SECRET: &[u8] = b"{\"access_token\":\"marked-token-of-ours\"}";

/// A folder of its own, gone when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("switchboard-store-{}-{number}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn open(&self) -> FileStore {
        self.open_with(KeySource::Folder).expect("the store opens")
    }

    fn open_with(&self, key: KeySource) -> Result<FileStore, StoreError> {
        FileStore::open(StoreOptions { dir: self.0.clone(), key })
    }

    /// The names of its files, in order.
    fn files(&self) -> Vec<String> {
        let files = fs::read_dir(&self.0).expect("it is there").flatten();
        let mut names: Vec<_> =
            files.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        names
    }

    /// The only file with this ending.
    fn file(&self, ending: &str) -> PathBuf {
        let files = self.files();
        let mut found = files.iter().filter(|name| name.ends_with(ending));
        let name = found.next().expect("there is one");
        assert!(found.next().is_none(), "there is one");
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It may never have been made.
        _ = fs::remove_dir_all(&self.0);
    }
}

fn tokens(name: &str) -> RecordId {
    RecordId { kind: RecordKind::Tokens, name: name.to_owned() }
}

async fn write(store: &dyn RecordStore, record: &RecordId, content: &[u8]) {
    store.lock(record).await.expect("it locks").write(content).await.expect("it writes");
}

async fn read(store: &dyn RecordStore, record: &RecordId) -> Option<Vec<u8>> {
    store.read(record).await.expect("it reads").map(|content| content.to_vec())
}

fn key(byte: u8) -> StoreKey {
    StoreKey::parse(&format!("{byte:02x}").repeat(32), "a test").expect("32 bytes")
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

/// What holds for every store.
async fn check(store: &dyn RecordStore) {
    let (a, b) = (tokens("https://a.example/mcp"), tokens("https://b.example/mcp"));
    assert_eq!(read(store, &a).await, None);
    write(store, &b, b"2").await;
    write(store, &a, b"1").await;
    assert_eq!(read(store, &a).await.unwrap(), b"1");
    assert_eq!(store.list(RecordKind::Tokens).await.unwrap(), [a.name.as_str(), &b.name]);
    assert!(store.list(RecordKind::Pending).await.unwrap().is_empty());
    let pending = RecordId { kind: RecordKind::Pending, ..a.clone() };
    assert_eq!(read(store, &pending).await, None, "another kind is another record");

    let mut held = store.lock(&a).await.unwrap();
    assert!(store.try_lock(&a).await.unwrap().is_none(), "it is held");
    assert!(store.try_lock(&b).await.unwrap().is_some(), "others are free");
    assert_eq!(read(store, &a).await.unwrap(), b"1", "readers need no lock");
    held.write(b"3").await.unwrap();
    assert_eq!(held.read().await.unwrap().unwrap().as_slice(), b"3");
    let large = vec![0; MOST_CONTENT + 1];
    let error = held.write(&large).await.unwrap_err();
    assert!(matches!(error, StoreError::TooLarge { .. }), "{error}");
    held.write(&large[1..]).await.unwrap();
    held.remove().await.unwrap();
    held.remove().await.unwrap();
    drop(held);
    assert_eq!(read(store, &a).await, None);
    assert!(store.try_lock(&a).await.unwrap().is_some());
}

// wire: OT-1, OT-6, OT-9
#[tokio::test]
async fn a_record_is_what_the_last_holder_of_its_lock_wrote() {
    check(&MemoryStore::new()).await;
    let folder = Folder::new();
    check(&folder.open()).await;
    assert_eq!(folder.files().len(), 4, "a key, its lock, a record and its lock are left");
}

// wire: OT-5
#[tokio::test]
async fn two_stores_on_one_folder_exclude_each_other() {
    let folder = Folder::new();
    let (one, other, record) = (folder.open(), folder.open(), tokens("a"));
    let mut held = one.lock(&record).await.unwrap();
    assert!(other.try_lock(&record).await.unwrap().is_none());
    let waiting = tokio::spawn(async move { read_locked(&other, &tokens("a")).await });
    held.write(b"renewed").await.unwrap();
    drop(held);
    assert_eq!(waiting.await.unwrap().unwrap(), b"renewed", "it waited for the change");
}

async fn read_locked(store: &dyn RecordStore, record: &RecordId) -> Option<Vec<u8>> {
    let held = store.lock(record).await.expect("it locks");
    held.read().await.expect("it reads").map(|content| content.to_vec())
}

// wire: OT-5
#[tokio::test]
async fn waiting_that_is_given_up_leaves_no_lock_behind() {
    let folder = Folder::new();
    let (one, other, record) = (folder.open(), folder.open(), tokens("a"));
    let mut nobody = Context::from_waker(Waker::noop());
    for _ in 0..100 {
        let mut waiting = other.lock(&record);
        _ = waiting.as_mut().poll(&mut nobody);
        drop(waiting);
        let held = one.lock(&record).await.unwrap();
        let mut waiting = other.lock(&record);
        assert!(waiting.as_mut().poll(&mut nobody).is_pending());
        drop((held, waiting));
    }
    one.lock(&record).await.unwrap();
    other.lock(&record).await.unwrap();
}

// wire: OT-6
#[tokio::test]
async fn a_write_that_is_given_up_ends_before_its_lock_does() {
    let folder = Folder::new();
    let (one, other, record) = (folder.open(), folder.open(), tokens("a"));
    let mut nobody = Context::from_waker(Waker::noop());
    for round in 0..50_u8 {
        let mut held = one.lock(&record).await.unwrap();
        _ = held.write(&[round]).as_mut().poll(&mut nobody);
        drop(held);
        assert_eq!(read_locked(&other, &record).await.unwrap(), [round]);
    }
}

// wire: OT-2, OT-4
#[tokio::test]
async fn files_are_private_and_hold_nothing_in_plaintext() {
    let (folder, record) = (Folder::new(), tokens("https://marked.example/mcp"));
    write(&folder.open(), &record, SECRET).await;
    assert_eq!(mode(&folder.0), 0o700);
    for name in folder.files() {
        let (path, marked) = (folder.0.join(&name), [b"marked".as_slice(), b"bWFya2Vk"]);
        assert_eq!(mode(&path), 0o600, "{name}");
        let whole = [name.as_bytes(), &fs::read(path).unwrap()].concat();
        for marked in marked {
            assert!(!whole.windows(marked.len()).any(|part| part == marked), "{name}");
        }
    }
    assert_eq!(read(&folder.open(), &record).await.unwrap(), SECRET);
}

// wire: OT-4
#[tokio::test]
async fn what_others_may_read_is_refused() {
    let (folder, record) = (Folder::new(), tokens("a"));
    let store = folder.open();
    write(&store, &record, SECRET).await;
    let key = folder.file("store.key");
    for (path, loose, tight) in [(&folder.0, 0o750, 0o700), (&key, 0o644, 0o600)] {
        chmod(path, loose);
        let error = folder.open_with(KeySource::Folder).unwrap_err();
        assert!(matches!(&error, StoreError::Exposed { path: of, .. } if of == path), "{error}");
        let advice = format!("chmod {tight:o} {}", path.display());
        assert!(error.to_string().contains(&advice), "{error}");
        chmod(path, tight);
    }
    chmod(&key, 0o644);
    assert!(folder.open_with(KeySource::File(key.clone())).is_err());
    chmod(&key, 0o600);
    assert!(folder.open_with(KeySource::File(key)).is_ok());
    chmod(&folder.file(".tokens"), 0o640);
    assert!(matches!(store.read(&record).await, Err(StoreError::Exposed { .. })));
}

// wire: OT-2, OT-8
#[tokio::test]
async fn a_record_of_another_key_is_an_error_and_stays() {
    let (folder, record) = (Folder::new(), tokens("a"));
    let ours = || KeySource::Given(key(1));
    let store = folder.open_with(ours()).unwrap();
    write(&store, &record, SECRET).await;
    let other = KeySource::Given(key(2));
    let other = folder.open_with(other).unwrap();
    let error = other.read(&record).await.unwrap_err();
    assert!(matches!(error, StoreError::WrongKey { .. }), "{error}");
    assert!(error.to_string().contains("sealed with the key"), "{error}");
    assert!(other.list(RecordKind::Tokens).await.unwrap().is_empty());
    let mut held = other.lock(&record).await.unwrap();
    assert!(matches!(held.write(b"x").await, Err(StoreError::WrongKey { .. })));
    assert_eq!(read(&store, &record).await.unwrap(), SECRET, "it was not touched");
    held.remove().await.unwrap();
    held.write(b"x").await.unwrap();
    drop(held);
    assert_eq!(read(&other, &record).await.unwrap(), b"x");
}

// wire: OT-8
#[tokio::test]
async fn a_record_of_another_version_is_an_error_and_stays() {
    let (folder, record) = (Folder::new(), tokens("a"));
    let store = folder.open();
    write(&store, &record, SECRET).await;
    let path = folder.file(".tokens");
    fs::write(&path, "switchboard-record 2 anything\nbytes").unwrap();
    let error = store.read(&record).await.unwrap_err();
    assert!(matches!(error, StoreError::OtherVersion { .. }), "{error}");
    assert!(error.to_string().contains("has version 2 of the format"), "{error}");
    assert!(store.lock(&record).await.unwrap().write(b"x").await.is_err());
    assert!(path.exists());
}

// wire: OT-8
#[tokio::test]
async fn a_damaged_record_is_set_aside() {
    let (folder, record) = (Folder::new(), tokens("a"));
    let store = folder.open();
    for whole in [b"".as_slice(), b"switchboard-record 1 ", b"{\"access_token\":1}"] {
        write(&store, &record, SECRET).await;
        fs::write(folder.file(".tokens"), whole).unwrap();
        let held = store.lock(&record).await.unwrap();
        assert_eq!(read(&store, &record).await, None);
        assert!(folder.file(".tokens").exists(), "a reader does not move what is being changed");
        drop(held);
        assert_eq!(read(&store, &record).await, None);
        assert_eq!(fs::read(folder.file(".tokens.bad")).unwrap(), whole);
    }
    write(&store, &record, SECRET).await;
    assert_eq!(read(&store, &record).await.unwrap(), SECRET);
}

#[test]
fn no_byte_of_a_record_can_be_changed_or_left_out() {
    let seal = RecordSeal::new(StoreKey::random().unwrap().bytes());
    let sealed = || seal.seal("tokens", "a", SECRET).unwrap();
    let (name, whole) = (tokens("a").digest(), sealed());
    let open = |whole: &[u8]| seal.open("tokens", &name, whole);
    assert_eq!(open(&whole).unwrap().1.as_slice(), SECRET);
    for at in 0..whole.len() {
        assert_eq!(open(&whole[..at]).unwrap_err(), Unopened::Damaged, "cut at {at}");
        let mut changed = whole.clone();
        changed[at] ^= 1;
        assert!(open(&changed).is_err(), "changed at {at}");
    }
    assert_ne!(sealed(), whole, "each nonce is used once");
}

// wire: OT-2
#[test]
fn a_record_in_the_place_of_another_does_not_open() {
    let seal = RecordSeal::new(StoreKey::random().unwrap().bytes());
    let whole = seal.seal("tokens", "a", SECRET).unwrap();
    let of = |kind, name| seal.open(kind, &record::digest(kind, name), &whole).map(|it| it.0);
    assert_eq!(of("tokens", "a").unwrap(), "a");
    assert_eq!(of("tokens", "b"), Err(Unopened::Damaged));
    assert_eq!(of("pending", "a"), Err(Unopened::Damaged));
}

// wire: OT-8
#[tokio::test]
async fn what_is_printed_for_debugging_has_no_secret() {
    let folder = Folder::new();
    let key = key(0x61);
    let source = KeySource::Given(key.clone());
    let printed = format!("{source:?} {key:?} {:?}", RecordSeal::new(key.bytes()));
    assert!(
        !printed.contains("97") && !printed.contains("aaa") && !printed.contains("6161"),
        "{printed}"
    );
    let stores: [&dyn RecordStore; 2] = [&MemoryStore::new(), &folder.open_with(source).unwrap()];
    for store in stores {
        write(store, &tokens("a"), SECRET).await;
        let held = store.lock(&tokens("a")).await.unwrap();
        let printed = format!("{store:?} {held:?}");
        assert!(!printed.contains("marked") && !printed.contains("97"), "{printed}");
    }
}

#[test]
fn a_system_that_refuses_to_write_is_told_in_words() {
    let of = |kind: io::ErrorKind| disk::unwritten(Path::new("/s/a"))(kind.into()).to_string();
    assert_eq!(
        of(io::ErrorKind::StorageFull),
        "cannot write /s/a: the disk is full; make room and try again"
    );
    let read_only = of(io::ErrorKind::ReadOnlyFilesystem);
    assert!(read_only.ends_with("the store needs a folder that it may write to"), "{read_only}");
}
