//! The parts of a run that are no table of calls: starting, idle sessions, updates, a client that
//! does not read, and hours of load.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use http_body_util::BodyExt as _;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::Failure;
use crate::load::{Caller, PATIENCE, within};
use crate::measure::{Spread, cpu, descriptors, memory};
use crate::process::Process;
use crate::run::{Plan, each, sample};
use crate::target::{Back, LARGE, Program, SMALL, Starter};
use crate::wire::CHANGE;
use crate::wire::Era::{self, Legacy, Modern};

const GATEWAY: Program = Program::Gateway { to: Back::Http, servers: 1, guarded: false };
const BRIDGE: Program = Program::Bridge(Back::Http);

/// From the start of a process to its first answer, and what it has then.
pub struct Started {
    pub name: &'static str,
    pub program: Program,
    pub milliseconds: Spread,
    pub memory: f64,
    pub descriptors: usize,
}

const STARTS: [(&str, Program, Era); 8] = [
    ("bare server", Program::Echo(Back::Http), Modern),
    ("library", Program::Ours, Modern),
    ("bridge to stdio", Program::Bridge(Back::Stdio), Modern),
    ("bridge to HTTP", BRIDGE, Modern),
    ("gateway, 1 server", GATEWAY, Modern),
    (
        "gateway, 200 servers",
        Program::Gateway { to: Back::Http, servers: 200, guarded: false },
        Modern,
    ),
    ("rmcp server", Program::RmcpServer { json: true }, Modern),
    ("rmcp proxy to HTTP", Program::RmcpProxy(Back::Http), Legacy),
];

/// Starts each program several times, and calls a tool.
pub async fn start(starter: &mut Starter, plan: &Plan) -> Result<Vec<Started>, Failure> {
    let mut times = STARTS.map(|_| Vec::new());
    let mut rest = STARTS.map(|_| (0.0, 0));
    for round in 1..=2 * plan.rounds {
        eprintln!("starts, round {round} of {}", 2 * plan.rounds);
        for (at, (name, program, era)) in STARTS.into_iter().enumerate() {
            // The echo behind it is there already from the second round on.
            let begun = Instant::now();
            let process = starter.start(program).await?;
            let caller = Caller::new(&process.url, &program.manner(era)).await?;
            let called = async { caller.call(&mut caller.connect().await?, 100).await };
            within(PATIENCE, name, called).await.map_err(|error| format!("{name}: {error}"))?;
            if round > 1 {
                times[at].push(begun.elapsed().as_secs_f64() * 1e3);
            }
            rest[at] = (memory(process.pid()?)?, descriptors(process.pid()?)?);
        }
    }
    let mut readings = Vec::new();
    for (((name, program, _), times), (memory, descriptors)) in
        STARTS.into_iter().zip(times).zip(rest)
    {
        readings.push(Started {
            name,
            program,
            milliseconds: Spread::new(times)?,
            memory,
            descriptors,
        });
    }
    Ok(readings)
}

/// What a session costs while nothing happens, and what calls cost beside many of them.
pub struct Idle {
    pub name: &'static str,
    pub program: Program,
    pub streams: bool,
    pub sessions: usize,
    pub kib: f64,
    pub descriptors: usize,
    /// Microseconds of a call without the sessions, and with them.
    pub before: f64,
    pub after: f64,
}

/// Which programs, and how many sessions at most. The bridge allows 1,024 in all, with a connection to the
/// server each; the rmcp server would take a gigabyte for more.
const IDLERS: [(&str, Program, usize); 5] = [
    ("bare server", Program::Echo(Back::Http), usize::MAX),
    ("library", Program::Ours, usize::MAX),
    ("gateway", GATEWAY, usize::MAX),
    ("bridge to HTTP", BRIDGE, 900),
    ("rmcp server", Program::RmcpServer { json: false }, 1000),
];

/// What a process needs besides the connections of its clients.
const SPARE_DESCRIPTORS: u64 = 500;

pub async fn idle(starter: &mut Starter, plan: &Plan, limit: u64) -> Result<Vec<Idle>, Failure> {
    let allowed = usize::try_from(limit.saturating_sub(SPARE_DESCRIPTORS)).unwrap_or(usize::MAX);
    let mut readings = Vec::new();
    for (name, program, most) in IDLERS {
        for streams in [true, false] {
            // A tenth more is opened.
            let sessions = plan.sessions.min(most).min(allowed / 11 * 10);
            eprintln!(
                "{sessions} idle sessions: {name}{}",
                if streams { ", each with a stream" } else { "" }
            );
            let process = starter.start(program).await?;
            let caller = Caller::new(&process.url, &program.manner(Legacy)).await?;
            let named = |error| format!("{name}: {error}");
            let before = median_cost(&process, &caller, plan).await?;
            // The first ones pay for what all share.
            let mut open = open_sessions(&caller, sessions / 10, streams).await.map_err(named)?;
            let memory_before = memory(process.pid()?)?;
            open.extend(open_sessions(&caller, sessions, streams).await.map_err(named)?);
            let memory_after = memory(process.pid()?)?;
            check_open(&process, &open).await.map_err(named)?;
            #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52 sessions")]
            let kib = (memory_after - memory_before) / sessions.max(1) as f64;
            let after = median_cost(&process, &caller, plan).await?;
            let descriptors = descriptors(process.pid()?)?;
            readings.push(Idle {
                name,
                program,
                streams,
                sessions,
                kib,
                descriptors,
                before,
                after,
            });
            drop(open);
        }
    }
    Ok(readings)
}

async fn median_cost(process: &Process, caller: &Caller, plan: &Plan) -> Result<f64, Failure> {
    let mut costs = Vec::new();
    for _ in 0..plan.rounds {
        costs.push(sample(process, caller, SMALL, plan.window).await?.cost);
    }
    Ok(Spread::new(costs)?.median)
}

type Stream = hyper::Response<hyper::body::Incoming>;

/// A session that is open, and its stream if it has one.
struct OpenSession {
    caller: Caller,
    stream: Option<Stream>,
}

/// Opens sessions, and on each a stream if `streams`.
async fn open_sessions(
    caller: &Caller,
    count: usize,
    streams: bool,
) -> Result<Vec<OpenSession>, Failure> {
    let mut connection = caller.connect().await?;
    let mut open = Vec::new();
    for _ in 0..count {
        let opened = async {
            let caller = caller.greet(&mut connection).await?;
            let stream = if streams { Some(caller.watch().await?) } else { None };
            Ok(OpenSession { caller, stream })
        };
        open.push(within(PATIENCE, "opening a session", opened).await?);
    }
    Ok(open)
}

/// How many idle sessions are asked whether they are still there.
const ASKED_SESSIONS: usize = 20;

/// Fails unless the process holds the streams of all sessions, and sessions all over still answer.
async fn check_open(process: &Process, open: &[OpenSession]) -> Result<(), Failure> {
    let streams = open.iter().filter(|session| session.stream.is_some()).count();
    let held = descriptors(process.pid()?)?;
    if held < streams {
        return Err(format!("{held} open files for {streams} streams").into());
    }
    for session in open.iter().step_by(open.len().div_ceil(ASKED_SESSIONS).max(1)) {
        let called = async { session.caller.call(&mut session.caller.connect().await?, 100).await };
        within(PATIENCE, "a call on an idle session", called).await?;
    }
    Ok(())
}

/// One changed list, told to many clients.
pub struct Update {
    pub name: &'static str,
    pub subscribers: usize,
    /// Microseconds of CPU for each subscriber.
    pub cost: Spread,
    /// Until the last one knows.
    pub milliseconds: Spread,
}

/// The server behind a proxy is legacy: it tells of changes on the stream of a session.
const TOLD: [(&str, Program); 4] = [
    ("bare server", Program::Echo(Back::Http)),
    ("library", Program::Ours),
    ("gateway", Program::Gateway { to: Back::Legacy, servers: 1, guarded: false }),
    ("bridge to HTTP", Program::Bridge(Back::Legacy)),
];

const SUBSCRIBERS: usize = 1000;

/// How long a change may take to reach everybody.
const TELLING: Duration = Duration::from_secs(20);

/// How long nobody hears anything before the next change.
const QUIET: Duration = Duration::from_millis(100);

pub async fn update(starter: &mut Starter, plan: &Plan) -> Result<Vec<Update>, Failure> {
    let mut readings = Vec::new();
    for (name, program) in TOLD {
        eprintln!("an update to {SUBSCRIBERS} subscribers: {name}");
        let process = starter.start(program).await?;
        let manner = program.manner(Legacy);
        let change = manner.tools[0].replace(crate::wire::TOOL, CHANGE);
        let caller = Caller::new(&process.url, &manner).await?;
        let (told, mut heard) = mpsc::channel(SUBSCRIBERS);
        let open = open_sessions(&caller, SUBSCRIBERS, true).await?;
        for (number, stream) in open.into_iter().filter_map(|one| one.stream).enumerate() {
            tokio::spawn(listen(number, stream, told.clone()));
        }
        let mut connection = caller.connect().await?;
        let (mut costs, mut times) = (Vec::new(), Vec::new());
        for round in 0..=plan.rounds {
            // What a subscriber hears twice must not count as the next round's.
            let quiet = async { while timeout(QUIET, heard.recv()).await.is_ok() {} };
            timeout(TELLING, quiet).await.map_err(|_| format!("{name}: updates without end"))?;
            let (before, begun) = (cpu(process.pid()?)?, Instant::now());
            let mut reached = HashSet::new();
            let all_told = timeout(TELLING, async {
                caller.call_tool(&mut connection, 1, &change, "").await?;
                while reached.len() < SUBSCRIBERS {
                    reached.extend(heard.recv().await);
                }
                Ok::<_, Failure>(())
            });
            let ended = all_told.await;
            let count = reached.len();
            ended.map_err(|_| format!("{name}: an update reached {count} of {SUBSCRIBERS}"))??;
            // The first one finds nothing ready.
            if round > 0 {
                costs.push(each(cpu(process.pid()?)?.saturating_sub(before), SUBSCRIBERS as u64));
                times.push(begun.elapsed().as_secs_f64() * 1e3);
            }
        }
        let (cost, milliseconds) = (Spread::new(costs)?, Spread::new(times)?);
        readings.push(Update { name, subscribers: SUBSCRIBERS, cost, milliseconds });
    }
    Ok(readings)
}

/// Says of each change of the list that it has come to subscriber `number`.
async fn listen(number: usize, stream: Stream, told: mpsc::Sender<usize>) {
    let mut body = stream.into_body();
    while let Some(Ok(frame)) = body.frame().await {
        let event = frame.into_data().unwrap_or_default();
        for _ in 0..event.windows(12).filter(|part| part == b"list_changed").count() {
            _ = told.send(number).await;
        }
    }
}

/// What a client that never reads does to the others.
pub struct Reader {
    pub name: &'static str,
    /// p99 of the others in microseconds, without it and with it.
    pub without: Spread,
    pub with: Spread,
}

const READERS: [(&str, Program); 5] = [
    ("bare proxy", Program::Bare(Back::Http)),
    ("library", Program::Ours),
    ("bridge to stdio", Program::Bridge(Back::Stdio)),
    ("bridge to HTTP", BRIDGE),
    ("gateway", GATEWAY),
];

/// What it asks for: enough to fill the buffers of a socket, and more.
const UNREAD_BYTES: usize = 1 << 20;
const UNREAD_CALLS: u64 = 64;

pub async fn reader(starter: &mut Starter, plan: &Plan) -> Result<Vec<Reader>, Failure> {
    let mut readings = Vec::new();
    for (name, program) in READERS {
        eprintln!("a client that never reads: {name}");
        let process = starter.start(program).await?;
        let caller = Caller::new(&process.url, &program.manner(Legacy)).await?;
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for _ in 0..2 * plan.rounds {
            without.push(sample(&process, &caller, SMALL, plan.window).await?.p99);
            let other = Caller::new(&process.url, &program.manner(Legacy)).await?;
            let unread = other.never_read(UNREAD_BYTES, UNREAD_CALLS).await;
            let unread = unread.map_err(|error| format!("{name}: {error}"))?;
            with.push(sample(&process, &caller, SMALL, plan.window).await?.p99);
            drop(unread);
        }
        let (without, with) = (Spread::new(without)?, Spread::new(with)?);
        readings.push(Reader { name, without, with });
    }
    Ok(readings)
}

/// A gateway under load, as time goes by.
pub struct Soaked {
    pub minutes: f64,
    pub rate: f64,
    pub cost: f64,
    pub p99: f64,
    pub memory: f64,
    pub descriptors: usize,
}

/// Samples of a soak, whatever its length.
const SOAK_SAMPLES: u32 = 20;

pub async fn soak(starter: &mut Starter, length: Duration) -> Result<Vec<Soaked>, Failure> {
    let process = starter.start(GATEWAY).await?;
    let old = Caller::new(&process.url, &GATEWAY.manner(Legacy)).await?;
    let new = Caller::new(&process.url, &GATEWAY.manner(Modern)).await?;
    let begun = Instant::now();
    let mut samples = Vec::new();
    for number in 1..=SOAK_SAMPLES {
        eprintln!("soak, {number} of {SOAK_SAMPLES}");
        // Large and small calls of both eras beside each other, a session that ends, and a load to compare.
        let window = length / SOAK_SAMPLES / 3;
        tokio::try_join!(
            sample(&process, &old, SMALL, window),
            sample(&process, &new, LARGE, window)
        )?;
        let another = Caller::new(&process.url, &GATEWAY.manner(Legacy)).await?;
        sample(&process, &another, SMALL, window).await?;
        within(PATIENCE, "the end of a session", another.end()).await?;
        let taken = sample(&process, &new, SMALL, window).await?;
        samples.push(Soaked {
            minutes: begun.elapsed().as_secs_f64() / 60.0,
            rate: taken.rate,
            cost: taken.cost,
            p99: taken.p99,
            memory: taken.memory,
            descriptors: taken.descriptors,
        });
    }
    Ok(samples)
}
