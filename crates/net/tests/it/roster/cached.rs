//! What is offered of servers that are not ready.

use std::fs;
use std::thread;
use std::time::Duration;

use http::{HeaderMap, Uri};
use switchboard_net::http::fetch::{Fetch, FetchOptions, ServerTls};
use switchboard_net::http::listen::ListenOptions;
use switchboard_net::http::site::{Site, SiteOptions};
use switchboard_net::roster::{Bounds, Cache, Roster, RosterOptions, ServerPhase};
use switchboard_net::server::{Server, Tool};
use switchboard_net::upstream::{ServerTarget, Strategy};
use switchboard_testkit::script::Journal;
use switchboard_testkit::within;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use super::{Folder, patient, tools, until};
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

/// A server over HTTP with one tool, until the sender is dropped.
async fn served() -> (Uri, oneshot::Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap()).parse().unwrap();
    let tool = Tool::new("echo").run(async |_: serde_json::Value, _| "");
    let server = Server::builder("s", "0").tool(tool).build().unwrap();
    let site = Site::new(server, SiteOptions::default());
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async move { _ = stopped.await };
    tokio::spawn(async move { site.serve(listener, ListenOptions::default(), shutdown).await });
    (url, stop)
}

fn reached(url: &Uri, tls: &ServerTls) -> ServerTarget {
    let fetch = Fetch::new(FetchOptions::default()).unwrap().with_tls(url, tls).unwrap();
    ServerTarget::url(url.clone(), Strategy::HttpOnly, HeaderMap::new(), fetch)
}

/// Its key in the cache may be another after the edit, or the same.
#[tokio::test]
async fn an_edit_that_breaks_a_server_takes_its_tools_away() {
    for edited in [ServerTls::default().insecure(), ServerTls::default()] {
        let (folder, (url, stop)) = (Folder::new(), served().await);
        let roster = cached(&folder, patient());
        roster.add("a", reached(&url, &ServerTls::default())).unwrap();
        assert_eq!(within(roster.ready()).await, []);
        kept(&folder, 1).await;
        assert_eq!(tools(&roster), ["a/echo"]);
        drop(stop);
        within(async {
            while TcpStream::connect(url.authority().unwrap().as_str()).await.is_ok() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        let mut changes = roster.changes();
        let edit = roster.replace_within("a", reached(&url, &edited), Duration::from_secs(30));
        within(edit.unwrap()).await;
        until(&mut changes, "a", |state| state.phase == ServerPhase::Starting).await;
        until(&mut changes, "a", |state| state.reason.is_some()).await;
        assert_eq!(tools(&roster), Vec::<String>::new(), "{edited:?}");
        within(roster.close()).await;
    }
}

/// wire: CACHE-3
#[tokio::test]
async fn tools_that_another_identity_was_shown_are_not_offered() {
    let (folder, (url, stop)) = (Folder::new(), served().await);
    let roster = cached(&folder, patient());
    roster.add("a", reached(&url, &ServerTls::default().insecure())).unwrap();
    assert_eq!(within(roster.ready()).await, []);
    kept(&folder, 1).await;
    within(roster.close()).await;
    drop(stop);
    let roster = cached(&folder, hasty());
    roster.add("a", reached(&url, &ServerTls::default().insecure())).unwrap();
    roster.add("b", reached(&url, &ServerTls::default())).unwrap();
    within(roster.ready()).await;
    assert_eq!(tools(&roster), ["(a/echo)"]);
    within(roster.close()).await;
}
