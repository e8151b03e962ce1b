//! Follows the files while the gateway runs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use serde_json::{Value, json};
use switchboard_gateway::gateway::Gateway;
use switchboard_gateway::plan::{PlanChanges, Reading, Secret};
use switchboard_gateway::watch::Watch;
use switchboard_proto::moment;
use tokio::task::JoinHandle;

use super::{Exposure, ServedSites, check_plan, host, serve_args, tell};
use crate::args::GatewayArgs;
use crate::exit::CommandError;
use crate::signal::StopSignal;
use crate::{log, target};

/// Has the gateway do what the files say.
pub(super) struct Follow {
    args: GatewayArgs,
    /// Whom the address lets in that is bound, whatever the files say now.
    reach: Exposure,
    gateway: Arc<Gateway>,
    watch: Watch,
    loaded: Arc<Loaded>,
}

/// Which configuration is in force, for the page `/status`.
pub(super) struct Loaded {
    state: Mutex<LoadedState>,
}

struct LoadedState {
    at: SystemTime,
    /// Mistakes for which what the files say is not in force.
    problems: usize,
}

/// Goes on until it is dropped.
pub(super) struct Following(JoinHandle<()>);

impl Drop for Following {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Loaded {
    fn state(&self) -> MutexGuard<'_, LoadedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Since when it is in force, and how many mistakes keep another from it. The
    /// log has the rest: files are not for everybody to know.
    pub(super) fn status(&self) -> Value {
        let state = self.state();
        json!({"loaded": moment::text(state.at), "problems": state.problems})
    }
}

impl Follow {
    /// Listens from now on, for changes of files and SIGHUP.
    pub(super) fn new(
        args: &GatewayArgs,
        gateway: &Arc<Gateway>,
        reading: &Reading,
        stop: &StopSignal,
    ) -> Result<Self, CommandError> {
        let mut watch = Watch::new(args.config.clone(), target::surroundings()?, reading);
        if !args.config.is_empty() {
            stop.reload_on_hangup(watch.reload())?;
            if let Err(error) = watch.listen() {
                tracing::warn!("{}; send SIGHUP after a change", CommandError::of(&error).line());
            }
        }
        let state =
            Mutex::new(LoadedState { at: SystemTime::now(), problems: reading.errors().count() });
        let plan = gateway.plan();
        let reach = Exposure::new(args, &plan);
        let args = GatewayArgs { host: Some(host(args, &plan)), ..args.clone() };
        let gateway = Arc::clone(gateway);
        Ok(Self { args, reach, gateway, watch, loaded: Arc::new(Loaded { state }) })
    }

    pub(super) fn loaded(&self) -> Arc<Loaded> {
        Arc::clone(&self.loaded)
    }

    /// Follows; `stands` is what is served over HTTP.
    pub(super) fn run(mut self, mut stands: Option<ServedSites>) -> Following {
        Following(tokio::spawn(async move {
            loop {
                let reading = self.watch.changed().await;
                let problems = self.take(reading, stands.as_mut());
                let mut state = self.loaded.state();
                state.problems = problems;
                if problems == 0 {
                    state.at = SystemTime::now();
                }
            }
        }))
    }

    /// Follows what was read; the number of mistakes because of which it is not followed.
    fn take(&self, mut reading: Reading, stands: Option<&mut ServedSites>) -> usize {
        for error in &reading.unread {
            tracing::error!("{}", error.line());
        }
        tell(&reading.problems);
        if !reading.is_sound() {
            tracing::error!("the configuration has mistakes; what was in force stays in force");
            return reading.unread.len() + reading.errors().count();
        }
        // The servers of before may still speak.
        log::hide(Secret::collect(&[&self.gateway.plan(), &reading.plan]));
        let checked = check_plan(&self.args, &mut reading.plan, &self.reach);
        let was_open = self.gateway.plan().access.is_open();
        let applied = checked.and_then(|()| Ok(self.gateway.apply(reading.plan)?));
        match applied {
            Ok(changes) => {
                if let Some(stands) = stands {
                    let plan = self.gateway.plan();
                    if let Err(failure) = stands.adjust(&serve_args(&self.args, &plan), &plan) {
                        // A plan with such a mistake is not followed.
                        tracing::error!("{}", failure.line());
                    }
                    stands.follow(&self.gateway);
                    stands.end_listens(&changes);
                }
                told(&changes);
                if !was_open && self.gateway.plan().access.is_open() {
                    tracing::warn!("no key is needed any more: any client may connect");
                }
                0
            }
            Err(failure) => {
                tracing::error!("{}; what was in force stays in force", failure.line());
                1
            }
        }
    }
}

fn told(changes: &PlanChanges) {
    let PlanChanges { added, removed, changed, adjusted, .. } = changes;
    tracing::info!(?added, ?removed, restarted = ?changed, ?adjusted, "configuration is in force");
    if changes.listen {
        tracing::warn!(
            "host, port, allowUnauthenticated, maxConnections and maxHeaderBytes hold from the next start on"
        );
    }
}
