//! Attacks and faults against the `switchboard` binary, and a table of what held.
//!
//! ```text
//!   torture                    every attack, some minutes
//!   torture --quick            the same in small, for CI
//!   torture --minutes 60       all faults at random under load, every answer checked
//!   torture hostile KIND       a stdio server that misbehaves; the campaign starts these
//! ```
//!
//! Traffic stays on loopback. Every process is ended by its id, also when the campaign
//! fails or is interrupted.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};

mod access;
mod caller;
mod campaign;
mod clients;
mod exhaustion;
mod faults;
mod gateway;
mod hostile;
mod http;
mod input;
mod load;
mod process;
mod random;
mod servers;
mod soak;
mod table;

use campaign::{Campaign, Row};

/// Attacks and faults against the switchboard binary, and a table of what held.
#[derive(Debug, Parser)]
struct Args {
    /// The binary to attack (default: switchboard beside this program)
    #[arg(long, value_name = "PATH")]
    switchboard: Option<PathBuf>,
    /// The small form, for CI
    #[arg(long)]
    quick: bool,
    /// Only attacks whose area or name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// The long form: random faults under load for so many minutes
    #[arg(long, value_name = "MINUTES")]
    minutes: Option<f64>,
    /// Repeats the random choices of a run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Ends the long form after so many steps, to look at one
    #[arg(long, value_name = "STEPS")]
    steps: Option<u64>,
    /// Puts the table into this document, between its marks
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Role>,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Be a stdio server that misbehaves
    #[command(hide = true)]
    Hostile {
        /// In which way
        kind: String,
        /// Tells it from others in the list of processes
        #[arg(default_value = "")]
        label: String,
    },
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(Role::Hostile { kind, .. }) = &args.command {
        return hostile::run(kind);
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let ran = runtime.map_err(|error| error.to_string()).and_then(|runtime| {
        let ran = runtime.block_on(until_told(run(args)));
        // What a client of ours still waits for is of no interest any more.
        runtime.shutdown_background();
        ran
    });
    match ran {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            complain(&why);
            ExitCode::from(2)
        }
    }
}

#[expect(clippy::print_stderr, reason = "this is a program")]
fn complain(why: &str) {
    eprintln!("torture: {why}");
}

/// Runs to the end, or until a signal; then everything that was started ends with it.
async fn until_told(run: impl Future<Output = Result<bool, String>>) -> Result<bool, String> {
    let mut stop = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
    tokio::select! {
        ran = run => ran,
        _ = tokio::signal::ctrl_c() => Err("interrupted".to_owned()),
        _ = stop.recv() => Err("told to stop".to_owned()),
    }
}

/// The clients of the campaign have many connections at once.
fn raise_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(DESCRIPTORS, |maximum| maximum.min(DESCRIPTORS));
    // What does not go is seen where a connection cannot be opened.
    _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
}

const DESCRIPTORS: u64 = 16_384;

async fn run(args: Args) -> Result<bool, String> {
    raise_limit();
    let beside = std::env::current_exe().map_err(|error| error.to_string())?;
    let binary = args.switchboard.unwrap_or_else(|| beside.with_file_name("switchboard"));
    let binary = binary.canonicalize().map_err(|error| {
        format!("{}: {error}; build it, or say where it is with --switchboard", binary.display())
    })?;
    if let Some(minutes) = args.minutes {
        return soak::run(binary, minutes, args.seed, args.steps).await;
    }
    let campaign = Campaign::new(binary, args.quick, args.seed, args.only);
    let rows = if args.quick { at_once(&campaign).await } else { in_turn(campaign).await };
    let broken = table::print(&rows);
    if let Some(file) = args.write {
        table::write(&file, &rows)?;
    }
    Ok(broken == 0)
}

/// Area after area, so that none disturbs another.
async fn in_turn(mut cx: Campaign) -> Vec<Row> {
    access::run(&mut cx).await;
    input::run(&mut cx).await;
    servers::run(&mut cx).await;
    clients::run(&mut cx).await;
    faults::run(&mut cx).await;
    exhaustion::run(&mut cx).await;
    cx.rows
}

/// Three at a time: most attacks wait for something. Each has gateways of its own.
async fn at_once(cx: &Campaign) -> Vec<Row> {
    let [mut access, mut input, mut servers, mut clients, mut faults, mut exhaustion] =
        [(); 6].map(|()| cx.another());
    tokio::join!(
        async {
            access::run(&mut access).await;
            input::run(&mut input).await;
        },
        servers::run(&mut servers),
        async {
            clients::run(&mut clients).await;
            faults::run(&mut faults).await;
            exhaustion::run(&mut exhaustion).await;
        },
    );
    let all = [access, input, servers, clients, faults, exhaustion];
    all.into_iter().flat_map(|cx| cx.rows).collect()
}
