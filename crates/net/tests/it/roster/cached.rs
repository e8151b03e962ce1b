//! What is offered of servers that are not ready.

use std::fs;
use std::thread;
use std::time::Duration;

use switchboard_net::roster::{Bounds, Cache, Roster, RosterOptions, ServerPhase};
use switchboard_testkit::script::Journal;
use switchboard_testkit::within;

use super::{Folder, patient, tools};
use crate::client_lib::child;
use crate::upstream::journal;

/// Of servers that hang: long enough to read a file on a busy machine.
fn hasty() -> RosterOptions {
    RosterOptions::default().patience(Duration::from_secs(1))
}

fn cached(folder: &Folder, options: RosterOptions) -> Roster {
    Roster::new(options.cache(Cache::at(&folder.0)))
}

/// A life in which the server is met and its lists are kept.
async fn met(folder: &Folder, journal: &Journal) {
    let roster = cached(folder, patient());
    roster.add("a", child(journal, &["lists", "moody"])).unwrap();
    assert_eq!(roster.ready().await, []);
    kept(folder, 1).await;
    within(roster.close()).await;
}

/// Waits until so many entries are there.
async fn kept(folder: &Folder, count: usize) {
    let entries = || {
        let files = fs::read_dir(&folder.0).into_iter().flatten().flatten();
        files.filter(|file| file.path().extension().is_some_and(|end| end == "definitions")).count()
    };
    within(async {
        while entries() != count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn tools_of_an_earlier_time_are_offered_while_a_server_hangs() {
    let (folder, journal) = (Folder::new(), journal());
    met(&folder, &journal).await;
    journal.hang(true);
    let roster = cached(&folder, hasty());
    roster.add("renamed", child(&journal, &["lists", "moody"])).unwrap();
    let late = within(roster.ready()).await;
    assert_eq!((&late[0].state.phase, late[0].is_cached), (&ServerPhase::Starting, true));
    assert_eq!(tools(&roster), ["(renamed/echo)"]);
    within(roster.close()).await;
    journal.all_gone().await;
}

#[tokio::test]
async fn an_entry_that_is_damaged_is_ignored_and_written_anew() {
    let (folder, journal) = (Folder::new(), journal());
    met(&folder, &journal).await;
    for file in fs::read_dir(&folder.0).unwrap().flatten() {
        fs::write(file.path(), "switchboard-definitions 9 what is this\n{").unwrap();
    }
    journal.hang(true);
    let roster = cached(&folder, hasty());
    roster.add("a", child(&journal, &["lists", "moody"])).unwrap();
    assert!(!within(roster.ready()).await[0].is_cached);
    within(roster.close()).await;
    journal.hang(false);
    met(&folder, &journal).await;
    journal.hang(true);
    let roster = cached(&folder, hasty());
    roster.add("a", child(&journal, &["lists", "moody"])).unwrap();
    assert!(within(roster.ready()).await[0].is_cached);
    within(roster.close()).await;
}

#[tokio::test]
async fn a_folder_that_cannot_be_used_hinders_nobody() {
    let (folder, journal) = (Folder::new(), journal());
    fs::write(&folder.0, "a file").unwrap();
    let roster = cached(&folder, patient());
    roster.add("a", child(&journal, &["lists"])).unwrap();
    assert_eq!(roster.ready().await, []);
    assert_eq!(tools(&roster), ["a/echo"]);
    within(roster.close()).await;
    fs::remove_file(&folder.0).unwrap();
}

#[tokio::test]
async fn a_full_cache_keeps_the_newest() {
    let (folder, journal) = (Folder::new(), journal());
    let bounds = Bounds { entries: 1, ..Bounds::default() };
    let mut cache = Cache::at(&folder.0);
    cache.bounds = bounds;
    let cache = Some(cache);
    let roster = Roster::new(patient().cache(cache));
    roster.add("a", child(&journal, &["lists"])).unwrap();
    assert_eq!(roster.ready().await, []);
    kept(&folder, 1).await;
    roster.add("b", child(&journal, &["lists", "moody"])).unwrap();
    assert_eq!(roster.ready().await, []);
    within(roster.close()).await;
    kept(&folder, 1).await;
}

#[test]
fn two_rosters_share_a_folder() {
    let folder = Folder::new();
    let journals = [journal(), journal(), journal()];
    let life = || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let roster = cached(&folder, patient());
            for (name, journal) in ["a", "b", "c"].into_iter().zip(&journals) {
                roster.add(name, child(journal, &["lists", "moody"])).unwrap();
            }
            assert_eq!(roster.ready().await, []);
            kept(&folder, 3).await;
            within(roster.close()).await;
        });
    };
    thread::scope(|scope| {
        scope.spawn(life);
        scope.spawn(life);
    });
    for journal in &journals {
        journal.hang(true);
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let roster = cached(&folder, hasty());
        for (name, journal) in ["a", "b", "c"].into_iter().zip(&journals) {
            roster.add(name, child(journal, &["lists", "moody"])).unwrap();
        }
        assert!(within(roster.ready()).await.iter().all(|late| late.is_cached));
        assert_eq!(tools(&roster), ["(a/echo)", "(b/echo)", "(c/echo)"]);
        within(roster.close()).await;
    });
}
