//! The store of a cluster on Redis, or on Valkey.
//!
//! ```text
//!   PREFIX:c:{NAME}   a claim: owner, epoch, record, bytes of its log
//!   PREFIX:p:{NAME}   entries of its log that may be evicted first
//!   PREFIX:l:{NAME}   beginnings and answers
//!   PREFIX:b:{NAME}   a bucket of tokens         PREFIX:h:{NAME}   what replicas have open
//!   PREFIX:m:{all}    the replicas               PREFIX:s:{all}    since when there is data
//! ```
//!
//! Everything expires: nothing is left when all replicas are gone. Only commands of Redis 6.2
//! are used. The store must not evict (`maxmemory-policy noeviction`).

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ErrorKind, Pipeline, ServerErrorKind, Value};
use ring::digest;
use switchboard_net::cluster::{Store, StoreAnswer, StoreAway};
use switchboard_proto::cluster::command::{LogEntry, StoreCommand, StoreReply, StoredClaim};
use switchboard_proto::cluster::model::{MOST_ENTRIES, MOST_LOG_BYTES};
use switchboard_proto::cluster::{Claim, Epoch, ReplicaId};
use tokio::sync::Mutex;

mod scripts;

use scripts::DIGITS;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_millis(500);

/// How long the store may take to answer: a client waits for it.
const ANSWER: Duration = Duration::from_millis(200);

/// Why there is no store.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the store {url}: {why}")]
pub struct BadStoreUrl {
    url: String,
    why: String,
}

/// A store on a server of Redis.
#[derive(Debug)]
pub struct RedisStore {
    client: Client,
    prefix: String,
    /// How long the store may take to answer.
    patience: Duration,
    connection: Mutex<Option<MultiplexedConnection>>,
    connections: AtomicU64,
}

impl RedisStore {
    /// A store at `url` (`redis://` or `rediss://`), whose keys begin with `prefix`. It is not
    /// connected to yet.
    pub fn new(url: &str, prefix: &str) -> Result<Self, BadStoreUrl> {
        let client = Client::open(url).map_err(|why| BadStoreUrl {
            url: url.rsplit('@').next().unwrap_or_default().to_owned(),
            why: why.to_string(),
        })?;
        let (connection, connections) = (Mutex::new(None), AtomicU64::new(0));
        Ok(Self { client, prefix: prefix.to_owned(), patience: ANSWER, connection, connections })
    }

    /// The same, where nobody waits for the store.
    #[must_use]
    pub fn patient(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    async fn connection(&self) -> Result<MultiplexedConnection, StoreAway> {
        let mut connection = self.connection.lock().await;
        if let Some(connection) = &*connection {
            return Ok(connection.clone());
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT))
            .set_response_timeout(Some(self.patience));
        let connecting = self.client.get_multiplexed_async_connection_with_config(&config);
        let connected = connecting.await.map_err(|why| away(&why))?;
        self.connections.fetch_add(1, Ordering::Relaxed);
        Ok(connection.insert(connected).clone())
    }

    async fn run(&self, commands: &[StoreCommand]) -> Result<Vec<StoreReply>, StoreAway> {
        let mut connection = self.connection().await?;
        let mut pipeline = Pipeline::with_capacity(commands.len());
        for command in commands {
            pipeline.add_command(self.encode(command));
        }
        let mut answer = pipeline.query_async(&mut connection).await;
        let lacks_script =
            |why: &redis::RedisError| why.kind() == ErrorKind::Server(ServerErrorKind::NoScript);
        if answer.as_ref().is_err_and(lacks_script) {
            let mut loading = Pipeline::new();
            for script in scripts::ALL {
                loading.cmd("SCRIPT").arg("LOAD").arg(script).ignore();
            }
            // Every command may be sent again.
            answer = match loading.exec_async(&mut connection).await {
                Ok(()) => pipeline.query_async(&mut connection).await,
                Err(why) => Err(why),
            };
        }
        let values: Vec<Value> = match answer {
            Ok(values) => values,
            Err(why) => {
                *self.connection.lock().await = None;
                return Err(away(&why));
            }
        };
        let replies = commands.iter().zip(values);
        replies.map(|(command, value)| decode(command, value).ok_or(StoreAway)).collect()
    }

    fn key(&self, kind: char, name: &str) -> String {
        format!("{}:{kind}:{{{name}}}", self.prefix)
    }

    /// A script with the keys of a claim.
    fn on_claim(&self, text: &str, name: &str) -> Cmd {
        script(text, &['c', 'p', 'l'].map(|kind| self.key(kind, name)))
    }

    fn encode(&self, command: &StoreCommand) -> Cmd {
        match command {
            StoreCommand::Renew { replica, state, lease } => {
                let mut cmd = script(scripts::RENEW, &[self.key('m', "all"), self.key('s', "all")]);
                cmd.arg(replica.to_string()).arg(millis(*lease)).arg(&state[..]);
                cmd
            }
            StoreCommand::Leave(replica) => {
                let mut cmd = redis::cmd("HDEL");
                cmd.arg(self.key('m', "all")).arg(replica.to_string());
                cmd
            }
            StoreCommand::Read(name) => {
                let mut cmd = redis::cmd("HMGET");
                cmd.arg(self.key('c', name)).arg(&["o", "e", "r"]);
                cmd
            }
            StoreCommand::Take { name, expected, by, not_after, keep } => {
                let mut cmd = self.on_claim(scripts::TAKE, name);
                cmd.arg(owner_text(expected.owner)).arg(padded(expected.epoch.0));
                cmd.arg(by.to_string()).arg(padded(expected.epoch.next().0));
                cmd.arg(millis(*keep)).arg(millis(*not_after));
                cmd
            }
            StoreCommand::Write { name, owner, epoch, record, entries, keep } => {
                let mut cmd = self.on_claim(scripts::WRITE, name);
                cmd.arg(owner.to_string()).arg(padded(epoch.0));
                cmd.arg(u8::from(record.is_some())).arg(record.as_deref().unwrap_or_default());
                cmd.arg(millis(*keep)).arg(MOST_ENTRIES).arg(MOST_LOG_BYTES);
                for LogEntry { position, is_lasting, payload } in entries {
                    cmd.arg(padded(*position)).arg(u8::from(*is_lasting)).arg(&payload[..]);
                }
                cmd
            }
            StoreCommand::Release { name, owner, epoch } => {
                self.change(name, *owner, *epoch, &padded(epoch.next().0))
            }
            StoreCommand::Delete { name, owner, epoch } => self.change(name, *owner, *epoch, ""),
            StoreCommand::ReadLog(name) => self.on_claim(scripts::READ_LOG, name),
            StoreCommand::Portion { name, per_minute, burst, want, back } => {
                let mut cmd = script(scripts::PORTION, &[self.key('b', name)]);
                cmd.arg(&[per_minute, burst, want, back]);
                cmd
            }
            StoreCommand::Hold { name, replica, count, most, lease } => {
                let mut cmd = script(scripts::HOLD, &[self.key('h', name)]);
                cmd.arg(replica.to_string()).arg(*count).arg(*most).arg(millis(*lease));
                cmd
            }
        }
    }

    fn change(&self, name: &str, owner: ReplicaId, epoch: Epoch, next: &str) -> Cmd {
        let mut cmd = self.on_claim(scripts::CHANGE, name);
        cmd.arg(owner.to_string()).arg(padded(epoch.0)).arg(next);
        cmd
    }
}

impl Store for RedisStore {
    fn execute(&self, commands: Vec<StoreCommand>) -> StoreAnswer<'_> {
        Box::pin(async move { self.run(&commands).await })
    }

    fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }
}

fn away(why: &redis::RedisError) -> StoreAway {
    tracing::debug!("the store of the cluster does not answer: {why}");
    StoreAway
}

/// A script by its name, which is its digest.
fn script(text: &str, keys: &[String]) -> Cmd {
    let name = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    let name = name.as_ref().iter().fold(String::new(), |mut name, byte| {
        _ = write!(name, "{byte:02x}");
        name
    });
    let mut cmd = redis::cmd("EVALSHA");
    cmd.arg(name).arg(keys.len()).arg(keys);
    cmd
}

fn padded(number: u64) -> String {
    format!("{number:0DIGITS$}")
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn owner_text(owner: Option<ReplicaId>) -> String {
    owner.map(|owner| owner.to_string()).unwrap_or_default()
}

/// What a reply means; None if it is nothing that our scripts say.
fn decode(command: &StoreCommand, value: Value) -> Option<StoreReply> {
    match command {
        StoreCommand::Leave(_) => Some(StoreReply::Done),
        StoreCommand::Portion { .. } | StoreCommand::Hold { .. } => {
            Some(StoreReply::Granted(u32::try_from(number(&value)?).ok()?))
        }
        StoreCommand::Read(_) => {
            let mut fields = array(value)?.into_iter();
            let (owner, epoch, record) = (fields.next()?, fields.next()?, fields.next()?);
            let is_there = !matches!(epoch, Value::Nil);
            let stored = is_there.then(|| stored(&owner, &epoch, record));
            Some(StoreReply::Claim(stored.map_or(Some(None), |stored| Some(Some(stored?)))?))
        }
        StoreCommand::ReadLog(_) => {
            let entries = array(value)?.into_iter().map(entry);
            let mut log = entries.collect::<Option<Vec<_>>>()?;
            log.sort_by_key(|entry| entry.position);
            Some(StoreReply::Log(log))
        }
        StoreCommand::Renew { .. } => {
            let mut fields = array(value)?.into_iter();
            let was_there = number(&fields.next()?)? == 1;
            let age = Duration::from_millis(number(&fields.next()?)?);
            let clock = Duration::from_millis(number(&fields.next()?)?);
            let mut members = Vec::new();
            while let (Some(id), Some(state)) = (fields.next(), fields.next()) {
                members.push((ReplicaId::parse(&text(&id)?)?, bytes(state)?));
            }
            members.sort_by_key(|(id, _)| *id);
            Some(StoreReply::Members { members, was_there, age, clock })
        }
        StoreCommand::Take { .. }
        | StoreCommand::Write { .. }
        | StoreCommand::Release { .. }
        | StoreCommand::Delete { .. } => {
            let mut fields = array(value)?.into_iter();
            match text(&fields.next()?)?.as_str() {
                "D" => Some(StoreReply::Done),
                "N" => Some(StoreReply::Claim(None)),
                "F" => {
                    let fenced = stored(&fields.next()?, &fields.next()?, Value::Nil)?;
                    Some(StoreReply::Fenced(fenced.claim))
                }
                kind => {
                    let stored = stored(&fields.next()?, &fields.next()?, fields.next()?)?;
                    let taken = StoreReply::Taken;
                    Some(if kind == "T" { taken(stored) } else { StoreReply::Claim(Some(stored)) })
                }
            }
        }
    }
}

fn stored(owner: &Value, epoch: &Value, record: Value) -> Option<StoredClaim> {
    let owner = text(owner)?;
    let owner = if owner.is_empty() { None } else { Some(ReplicaId::parse(&owner)?) };
    let epoch = Epoch(text(epoch)?.parse().ok()?);
    let record = if matches!(record, Value::Nil) { Bytes::new() } else { bytes(record)? };
    Some(StoredClaim { claim: Claim { owner, epoch }, record })
}

fn entry(value: Value) -> Option<LogEntry> {
    let whole = bytes(value)?;
    let (head, _) = whole.split_at_checked(1 + DIGITS)?;
    let (is_lasting, position) = (head[0] == b'1', std::str::from_utf8(&head[1..]).ok()?);
    Some(LogEntry {
        position: position.parse().ok()?,
        is_lasting,
        payload: whole.slice(1 + DIGITS..),
    })
}

fn array(value: Value) -> Option<Vec<Value>> {
    if let Value::Array(values) = value { Some(values) } else { None }
}

fn bytes(value: Value) -> Option<Bytes> {
    match value {
        Value::BulkString(bytes) => Some(bytes.into()),
        Value::SimpleString(text) => Some(text.into()),
        _ => None,
    }
}

fn text(value: &Value) -> Option<String> {
    String::from_utf8(bytes(value.clone())?.into()).ok()
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}
