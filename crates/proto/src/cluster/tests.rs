//! Names, epochs, the model of the store, and portions, each for itself.

use std::time::{Duration, Instant};

use bytes::Bytes;

use super::command::{LogEntry, StoreCommand, StoreReply};
use super::model::{MOST_ENTRIES, ModelStore};
use super::portions::{PortionStep, Portions};
use super::{Claim, Epoch, ReplicaId};

const KEEP: Duration = Duration::from_mins(1);

#[expect(clippy::disallowed_methods, reason = "any start will do, only differences count")]
fn start() -> Instant {
    Instant::now()
}

#[test]
fn a_session_id_names_its_first_owner() {
    // R-5
    let id = ReplicaId(0x00ab_cdef).session_id(7);
    assert_eq!(id, "00abcdef-00000000000000000000000000000007");
    assert_eq!(ReplicaId::hint(&id), Some(ReplicaId(0x00ab_cdef)));
    for other in ["00abcdef", "00abcdef-07", "0ABCDEF0-00000000000000000000000000000007", "-"] {
        assert_eq!(ReplicaId::hint(other), None, "{other}");
    }
}

fn write(owner: u32, epoch: u64, entries: Vec<LogEntry>) -> StoreCommand {
    let (owner, epoch, record) = (ReplicaId(owner), Epoch(epoch), Some(Bytes::from_static(b"r")));
    StoreCommand::Write { name: "s".into(), owner, epoch, record, entries, keep: KEEP }
}

#[test]
fn an_older_epoch_is_fenced_and_a_newer_one_adopted() {
    // R-6, R-7
    let (now, mut store) = (start(), ModelStore::default());
    assert_eq!(store.execute(now, &write(1, 1, vec![])), StoreReply::Done);
    let first = Claim { owner: Some(ReplicaId(1)), epoch: Epoch(1) };
    let take = |by| {
        let (name, by) = ("s".into(), ReplicaId(by));
        let not_after = Duration::ZERO;
        StoreCommand::Take { name, expected: first, by, not_after, keep: KEEP }
    };
    assert!(matches!(store.execute(now, &take(2)), StoreReply::Taken(_)));
    // Said again it is the same; another comes too late.
    assert!(matches!(store.execute(now, &take(2)), StoreReply::Taken(_)));
    assert!(matches!(store.execute(now, &take(3)), StoreReply::Claim(Some(_))));
    let second = Claim { owner: Some(ReplicaId(2)), epoch: Epoch(2) };
    assert_eq!(store.execute(now, &write(1, 1, vec![])), StoreReply::Fenced(second));
    assert_eq!(store.execute(now, &write(3, 2, vec![])), StoreReply::Fenced(second));
    assert_eq!(store.execute(now, &write(3, 4, vec![])), StoreReply::Done);
}

#[test]
fn a_log_forgets_notes_before_answers() {
    // R-15
    let (now, mut store) = (start(), ModelStore::default());
    let entry = |position, is_lasting| LogEntry { position, is_lasting, payload: Bytes::new() };
    store.execute(now, &write(1, 1, vec![entry(1, true)]));
    let notes = (2..=MOST_ENTRIES as u64 + 2).map(|position| entry(position, false)).collect();
    store.execute(now, &write(1, 1, notes));
    let StoreReply::Log(log) = store.execute(now, &StoreCommand::ReadLog("s".into())) else {
        panic!("no log")
    };
    assert_eq!(log.len(), MOST_ENTRIES);
    assert_eq!((log[0].position, log[1].position), (1, 4));
}

#[test]
fn replicas_together_never_get_more_than_the_limit() {
    // R-28, A-11
    let (start, mut store) = (start(), ModelStore::default());
    let mut replicas: Vec<_> = (0..3).map(|_| Portions::new(600, 10, start)).collect();
    let mut allowed = 0;
    for millis in 0..60_000u64 {
        let now = start + Duration::from_millis(millis);
        let replica = &mut replicas[usize::try_from(millis % 3).unwrap()];
        let goes = match replica.take(now) {
            PortionStep::Go => true,
            PortionStep::Ask { want, back } => {
                let (per_minute, burst) = (600, 10);
                let ask = StoreCommand::Portion { name: "p".into(), per_minute, burst, want, back };
                let StoreReply::Granted(granted) = store.execute(now, &ask) else { panic!("no") };
                replica.handle_granted(granted, now)
            }
        };
        allowed += u32::from(goes);
    }
    assert!((570..=610).contains(&allowed), "{allowed}");
}

#[test]
fn without_a_store_each_replica_has_its_share() {
    // R-28
    let start = start();
    let mut replica = Portions::new(600, 30, start);
    let calls =
        (0..60_000).filter(|&millis| replica.handle_away(3, start + Duration::from_millis(millis)));
    let calls = calls.count();
    assert!((190..=210).contains(&calls), "{calls}");
}

#[test]
fn what_a_dead_replica_had_open_is_free_again() {
    // R-29
    let (start, mut store) = (start(), ModelStore::default());
    let lease = Duration::from_secs(3);
    let mut hold = |replica, count, now| {
        let (name, replica) = ("p".into(), ReplicaId(replica));
        store.execute(now, &StoreCommand::Hold { name, replica, count, most: 4, lease })
    };
    assert_eq!(hold(1, 3, start), StoreReply::Granted(3));
    assert_eq!(hold(2, 2, start), StoreReply::Granted(0));
    assert_eq!(hold(2, 1, start), StoreReply::Granted(1));
    let later = start + Duration::from_secs(2);
    assert_eq!(hold(2, 1, later), StoreReply::Granted(1));
    let over = start + Duration::from_secs(4);
    assert_eq!(hold(2, 4, over), StoreReply::Granted(4));
}
