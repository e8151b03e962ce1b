//! The store on a real server of Redis, measured by the model of a store.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use switchboard_gateway::redis_store::RedisStore;
use switchboard_net::cluster::Store;
use switchboard_proto::cluster::command::{LogEntry, StoreCommand, StoreReply};
use switchboard_proto::cluster::model::ModelStore;
use switchboard_proto::cluster::{Claim, ClaimName, Epoch, ReplicaId};

const LONG: Duration = Duration::from_secs(1000);

/// In a century, by the clock of a server.
const FAR: Duration = Duration::from_secs(5_000_000_000);

/// How long a server may take to do what it will do.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server of our own, which ends with the test.
struct RedisServer {
    child: Child,
    port: u16,
}

impl RedisServer {
    async fn start(port: Option<u16>) -> Self {
        let port = port.unwrap_or_else(|| {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
            listener.local_addr().expect("an address").port()
        });
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--maxmemory-policy", "noeviction"]);
        command.args(["--port", &port.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("redis-server; ./test.sh setup installs it");
        let server = Self { child, port };
        let deadline = Instant::now() + PATIENCE;
        while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            assert!(Instant::now() < deadline, "redis-server does not listen");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        server
    }

    fn store(&self) -> RedisStore {
        let url = format!("redis://127.0.0.1:{}", self.port);
        RedisStore::new(&url, "sb").expect("a good URL").patient(PATIENCE)
    }

    fn kill(&mut self) {
        self.child.kill().expect("our own child");
        self.child.wait().expect("our own child");
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// What is at a position is always the same.
fn entry(position: u64) -> LogEntry {
    let payload = match position {
        100 | 101 => Bytes::from(vec![7; 3 * 1024 * 1024]),
        position => Bytes::from(position.to_string()),
    };
    LogEntry { position, is_lasting: position.is_multiple_of(3), payload }
}

struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    fn small(&mut self, most: u32) -> u32 {
        u32::try_from(self.below(most.into())).expect("a small number")
    }

    fn replica(&mut self) -> ReplicaId {
        ReplicaId(1 + self.small(3))
    }

    fn bytes(&mut self, most: u64) -> Bytes {
        let length = self.below(most);
        (0..length).map(|_| u8::try_from(self.below(256)).expect("a byte")).collect()
    }

    fn entries(&mut self) -> Vec<LogEntry> {
        let most = if self.below(40) == 0 { 5000 } else { 4 };
        let (first, count) = (self.below(200), self.below(most));
        (first..first + count).map(entry).collect()
    }

    fn command(&mut self) -> StoreCommand {
        let name: ClaimName = match self.below(3) {
            0 => "a".into(),
            1 => "b".into(),
            _ => "c}d".into(),
        };
        let (owner, epoch) = (self.replica(), Epoch(1 + self.below(4)));
        match self.below(10) {
            0 => StoreCommand::Renew { replica: owner, state: self.bytes(9), lease: LONG },
            1 if self.below(4) == 0 => StoreCommand::Leave(owner),
            1 => StoreCommand::Read(name),
            2 | 3 => {
                let expected = (self.below(4) > 0).then(|| self.replica());
                let expected = Claim { owner: expected, epoch };
                // Long ago, or never too late.
                let not_after = if self.below(5) == 0 { Duration::ZERO } else { FAR };
                StoreCommand::Take { name, expected, by: owner, not_after, keep: LONG }
            }
            4 | 5 => {
                let record = (self.below(2) == 0).then(|| self.bytes(30));
                let entries = self.entries();
                StoreCommand::Write { name, owner, epoch, record, entries, keep: LONG }
            }
            6 if self.below(4) == 0 => StoreCommand::Delete { name, owner, epoch },
            6 => StoreCommand::Release { name, owner, epoch },
            7 => StoreCommand::ReadLog(name),
            8 => {
                let (want, back) = (self.small(4), self.small(2));
                // Without time, so that both stores have the same.
                StoreCommand::Portion { name, per_minute: 0, burst: 9, want, back }
            }
            _ => {
                let (count, most) = (self.small(5), 6);
                StoreCommand::Hold { name, replica: owner, count, most, lease: LONG }
            }
        }
    }
}

/// For how long a store has data is its own matter.
fn without_age(reply: StoreReply) -> StoreReply {
    match reply {
        StoreReply::Members { members, was_there, .. } => {
            let (age, clock) = (Duration::ZERO, Duration::ZERO);
            StoreReply::Members { members, was_there, age, clock }
        }
        reply => reply,
    }
}

#[tokio::test]
async fn redis_does_what_the_model_does() {
    // R-1, R-6, R-7, R-15, R-28, R-29
    let server = RedisServer::start(None).await;
    for seed in 0..8 {
        let store =
            RedisStore::new(&format!("redis://127.0.0.1:{}", server.port), &format!("t{seed}"));
        let store = store.expect("a good URL").patient(PATIENCE);
        let (mut chance, mut model) = (Chance(seed), ModelStore::default());
        for round in 0..200 {
            let mut commands: Vec<_> = (0..=chance.below(9)).map(|_| chance.command()).collect();
            if round == 100 {
                // More than a log holds, by a newer owner.
                let (name, entries): (ClaimName, _) = ("a".into(), (0..5000).map(entry).collect());
                commands.push(StoreCommand::Write {
                    name: name.clone(),
                    owner: ReplicaId(1),
                    epoch: Epoch(9),
                    record: None,
                    entries,
                    keep: LONG,
                });
                commands.push(StoreCommand::ReadLog(name));
            }
            if round == 0 {
                // The clock of the model begins with the first replica.
                let (replica, state) = (ReplicaId(1), Bytes::new());
                commands.insert(0, StoreCommand::Renew { replica, state, lease: LONG });
            }
            let replies = store.execute(commands.clone()).await.expect("the server is there");
            for (command, reply) in commands.iter().zip(replies) {
                let expected = without_age(model.execute(Instant::now(), command));
                assert!(
                    without_age(reply.clone()) == expected,
                    "seed {seed}, round {round}: {command:?} is {reply:?}, not {expected:?}"
                );
            }
        }
    }
}

/// Waits until `is_so` of the reply to a command.
async fn until(store: &RedisStore, command: StoreCommand, is_so: impl Fn(&StoreReply) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Ok(replies) = store.execute(vec![command.clone()]).await
            && is_so(&replies[0])
        {
            return;
        }
        assert!(Instant::now() < deadline, "{command:?} does not come to it");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn leases_and_claims_end_by_themselves() {
    // R-1, R-9
    let server = RedisServer::start(None).await;
    let store = server.store();
    let short = Duration::from_millis(50);
    let renew = |replica, lease| StoreCommand::Renew {
        replica: ReplicaId(replica),
        state: Bytes::new(),
        lease,
    };
    let write = StoreCommand::Write {
        name: "s".into(),
        owner: ReplicaId(1),
        epoch: Epoch(1),
        record: Some(Bytes::from_static(b"r")),
        entries: Vec::new(),
        keep: short,
    };
    store.execute(vec![renew(1, short), write]).await.expect("the server is there");
    until(
        &store,
        renew(2, LONG),
        |reply| matches!(reply, StoreReply::Members { members, .. } if members.len() == 1),
    )
    .await;
    until(&store, StoreCommand::Read("s".into()), |reply| *reply == StoreReply::Claim(None)).await;
}

#[tokio::test]
async fn a_store_that_comes_back_empty_says_so() {
    // R-7, R-9
    let mut server = RedisServer::start(None).await;
    let store = server.store();
    let (replica, state, lease) = (ReplicaId(1), Bytes::new(), LONG);
    let renew = StoreCommand::Renew { replica, state, lease };
    let was_there =
        |reply: &StoreReply| matches!(reply, StoreReply::Members { was_there: true, .. });
    until(&store, renew.clone(), was_there).await;
    assert_eq!(store.connections(), 1);
    server.kill();
    store.execute(vec![renew.clone()]).await.expect_err("nobody is there");
    let _again = RedisServer::start(Some(server.port)).await;
    let deadline = Instant::now() + PATIENCE;
    let first = loop {
        if let Ok(replies) = store.execute(vec![renew.clone()]).await {
            break replies;
        }
        assert!(Instant::now() < deadline, "no answer from the server that came back");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert!(!was_there(&first[0]));
    assert_eq!(store.connections(), 2);
}
