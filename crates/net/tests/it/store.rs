//! The store of credentials between processes: one that is killed, and many that write.
//!
//! The other processes are this test, started again with a folder to work in.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use switchboard_net::auth::store::{
    FileStore, KeySource, RecordId, RecordKind, RecordStore as _, StoreError, StoreOptions,
};

/// Names the folder of the store to another process.
const STORE: &str = "SWITCHBOARD_TEST_STORE";

static FOLDERS: AtomicU64 = AtomicU64::new(1);

/// A folder of its own, gone when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("switchboard-it-store-{}-{number}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It may never have been made.
        _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open(dir: &Path) -> Result<FileStore, StoreError> {
    FileStore::open(StoreOptions::new(dir, KeySource::Folder))
}

fn record() -> RecordId {
    RecordId { kind: RecordKind::Tokens, name: "https://a.example/mcp".to_owned() }
}

/// A number as a record of some length that shows if a part of it is missing.
fn content(number: u64) -> Vec<u8> {
    format!("{number} ").repeat(2_000).into_bytes()
}

fn number(content: &[u8]) -> u64 {
    let text = str::from_utf8(content).expect("it is text");
    let number = text.split(' ').next().and_then(|first| first.parse().ok()).expect("a number");
    assert!(content == self::content(number), "the record is whole");
    number
}

/// Starts a test again as another process.
fn again(test: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("store::{test}"), "--nocapture"])
        .env(STORE, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Adds one to the number in the record.
async fn add_one(store: &FileStore) -> u64 {
    let mut held = store.lock(&record()).await.expect("it locks");
    let before = held.read().await.expect("it reads").map_or(0, |content| number(&content));
    held.write(&content(before + 1)).await.expect("it writes");
    before + 1
}

/// A number for each round that nobody could have prepared for.
fn random() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(0)
}

// wire: OT-4, OT-5, OA-11
#[tokio::test]
async fn a_killed_process_leaves_the_old_record_or_the_new_and_no_lock() {
    const TEST: &str = "a_killed_process_leaves_the_old_record_or_the_new_and_no_lock";
    if let Some(folder) = std::env::var_os(STORE) {
        let store = open(Path::new(&folder)).unwrap();
        loop {
            println!("\nwrote {}", add_one(&store).await);
        }
    }
    let folder = Folder::new();
    let mut last = 0;
    for round in 0..200 {
        let mut victim = again(TEST, &folder.0);
        let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
        let wrote = |line: &str| line.strip_prefix("wrote ").and_then(|it| it.parse::<u64>().ok());
        let first = lines.by_ref().find_map(|line| wrote(&line.unwrap()));
        assert_eq!(first, Some(last + 1), "round {round}: it goes on from the record");
        // Somewhere in the writes that follow: one takes about a millisecond.
        std::thread::sleep(Duration::from_micros(random() % 8_000));
        victim.kill().unwrap();
        victim.wait().unwrap();
        let said = lines.filter_map(|line| wrote(&line.ok()?)).last().or(first).unwrap();
        let store = open(&folder.0).unwrap();
        let found = number(&store.read(&record()).await.unwrap().expect("it is there"));
        assert!(found == said || found == said + 1, "round {round}: {found} after {said}");
        assert!(store.try_lock(&record()).await.unwrap().is_some(), "round {round}");
        last = found;
    }
    let left = std::fs::read_dir(&folder.0).unwrap().flatten().map(|file| file.file_name());
    let bad: Vec<_> = left.filter(|name| name.to_string_lossy().ends_with(".bad")).collect();
    assert!(bad.is_empty(), "{bad:?}");
}

// wire: OT-3, OT-5, OT-6, OA-10
#[tokio::test]
async fn every_change_of_ten_processes_counts() {
    const TEST: &str = "every_change_of_ten_processes_counts";
    if let Some(folder) = std::env::var_os(STORE) {
        let store = open(Path::new(&folder)).unwrap();
        for _ in 0..100 {
            add_one(&store).await;
        }
        return;
    }
    // They make the folder and the key, too.
    let folder = Folder::new();
    let processes: Vec<_> = (0..10).map(|_| again(TEST, &folder.0)).collect();
    for process in processes {
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let store = open(&folder.0).unwrap();
    assert_eq!(number(&store.read(&record()).await.unwrap().unwrap()), 1_000);
}

// wire: OT-5, OA-11
#[tokio::test]
async fn a_full_disk_and_a_read_only_one_are_told_and_lose_nothing() {
    const TEST: &str = "a_full_disk_and_a_read_only_one_are_told_and_lose_nothing";
    if let Some(folder) = std::env::var_os(STORE) {
        let store = open(Path::new(&folder)).unwrap();
        let mut held = store.lock(&record()).await.unwrap();
        held.write(&content(1)).await.unwrap();
        std::fs::write(Path::new(&folder).join("filler"), vec![0; 1 << 20]).unwrap_err();
        let full = held.write(&content(2)).await.unwrap_err();
        drop(held);
        let mounted = Command::new("mount").args(["-o", "remount,ro"]).arg(&folder).status();
        assert!(mounted.unwrap().success());
        let store = open(Path::new(&folder)).unwrap();
        let read_only = store.lock(&record()).await.unwrap_err();
        let found = number(&store.read(&record()).await.unwrap().unwrap());
        println!("\nsaw {found}; {full}; {read_only}");
        return;
    }
    // A disk of its own in a name space of its own, gone with the process.
    let folder = Folder::new();
    std::fs::create_dir(&folder.0).unwrap();
    let line = "mount -t tmpfs -o size=128k,mode=700 none \"$0\" && exec \"$@\"";
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", line])
        .arg(&folder.0)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &format!("store::{TEST}"), "--nocapture"])
        .env(STORE, &folder.0)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said} {}", String::from_utf8_lossy(&output.stderr));
    let saw = said.lines().find(|line| line.starts_with("saw ")).expect("it says what it saw");
    assert!(saw.starts_with("saw 1; cannot write "), "{saw}");
    assert!(saw.contains("the disk is full"), "{saw}");
    assert!(saw.contains("the store needs a folder that it may write to"), "{saw}");
}
