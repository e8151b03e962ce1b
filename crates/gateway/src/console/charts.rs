//! The last hour in figures: calls, errors, times, sessions and memory, a point a minute.
//!
//! Nothing is counted for them: once a minute they look at what the monitor has counted.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, RwLock, Weak};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use switchboard_net::OwnedTask;
use switchboard_net::http::site::{Site, Sites};
use switchboard_net::platform;
use switchboard_proto::moment;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::sign_in::Viewer;
use crate::fleet::Fleet;
use crate::monitor::{BUCKETS, CallMonitor, CallResult, LoggedCall, Series};
use crate::{lock, read, write};

/// Points that are kept: an hour.
const MAX_POINTS: usize = 60;
/// The time of one point.
const STEP: Duration = Duration::from_mins(1);

/// Calls that are counted together.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct CallSum {
    pub(super) calls: u64,
    pub(super) errors: u64,
    /// One for each of [`BUCKETS`], and one for what took longer.
    buckets: [u64; BUCKETS.len() + 1],
}

impl CallSum {
    pub(super) fn of_series(series: &Series) -> Self {
        let cumulated = series.cumulated();
        let mut before = 0;
        let buckets = cumulated.map(|sum| {
            let own = sum.saturating_sub(before);
            before = sum;
            own
        });
        let errors = series.of(CallResult::Error) + series.of(CallResult::ToolError);
        Self { calls: cumulated[BUCKETS.len()], errors, buckets }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.errors += other.errors;
        for (own, more) in self.buckets.iter_mut().zip(other.buckets) {
            *own += more;
        }
    }

    pub(super) fn add_call(&mut self, call: &LoggedCall) {
        self.calls += 1;
        self.errors += u64::from(call.has_failed());
        let seconds = call.took().as_secs_f64();
        self.buckets[BUCKETS.partition_point(|end| *end < seconds)] += 1;
    }

    fn since(&self, before: &Self) -> Self {
        let mut own = *self;
        own.calls = own.calls.saturating_sub(before.calls);
        own.errors = own.errors.saturating_sub(before.errors);
        for (own, before) in own.buckets.iter_mut().zip(before.buckets) {
            *own = own.saturating_sub(before);
        }
        own
    }

    /// The time that this part of the calls took at most, in milliseconds: an estimate within
    /// its bucket. None if there was no call.
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    pub(super) fn quantile(&self, part: f64) -> Option<f64> {
        let all: u64 = self.buckets.iter().sum();
        let wanted = all as f64 * part;
        let (mut sum, mut from) = (0.0, 0.0);
        for (at, count) in self.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            let until = BUCKETS.get(at).copied().unwrap_or(BUCKETS[BUCKETS.len() - 1]);
            from = if at == 0 { from } else { BUCKETS[at - 1] };
            if sum + *count as f64 >= wanted {
                let share = (wanted - sum) / *count as f64;
                return Some(((from + (until - from) * share) * 1e4).round() / 10.0);
            }
            sum += *count as f64;
        }
        None
    }
}

/// What tools of each server were called, as far as `is_meant` says by server and tool.
pub(super) fn sums_by_server(
    monitor: &CallMonitor,
    is_meant: impl Fn(&str, &str) -> bool,
) -> BTreeMap<String, CallSum> {
    let mut sums: BTreeMap<String, CallSum> = BTreeMap::new();
    monitor.counts().each_tool(|labels, series| {
        if let [(_, server), (_, tool)] = labels
            && is_meant(server, tool)
        {
            let sum = sums.entry((*server).to_owned()).or_default();
            sum.add(&CallSum::of_series(series));
        }
    });
    sums
}

/// The last hour.
#[derive(Default)]
pub(super) struct Charts {
    state: Mutex<ChartState>,
    sites: RwLock<Vec<Sites>>,
}

#[derive(Default)]
struct ChartState {
    points: VecDeque<ChartPoint>,
    /// All that was counted at the last point.
    before: BTreeMap<String, CallSum>,
}

struct ChartPoint {
    /// Servers that were called.
    servers: BTreeMap<String, CallSum>,
    sessions: usize,
    memory: Option<u64>,
}

impl Charts {
    pub(super) fn start(fleet: &Arc<Fleet>) -> (Arc<Self>, OwnedTask) {
        let charts = Arc::new(Self::default());
        let sampling = sample(Arc::downgrade(&charts), Arc::downgrade(fleet));
        (charts, OwnedTask::spawn(sampling))
    }

    /// Counts the sessions there from here on.
    pub(super) fn count_sessions_of(&self, sites: &[Sites]) {
        *write(&self.sites) = sites.to_vec();
    }

    /// Lets go of what leads back to the console.
    pub(super) fn close(&self) {
        write(&self.sites).clear();
    }

    fn add_point(&self, fleet: &Fleet) {
        let sums = sums_by_server(fleet.monitor(), |_, _| true);
        let sites = read(&self.sites).clone();
        let of_port = |it: &Sites| it.each().iter().map(Site::sessions).sum::<usize>();
        let sessions = sites.iter().map(of_port).sum();
        let mut state = lock(&self.state);
        let none = CallSum::default();
        let own = sums
            .iter()
            .map(|(name, sum)| (name.clone(), sum.since(state.before.get(name).unwrap_or(&none))));
        let servers = own.filter(|(_, sum)| sum.calls > 0).collect();
        let point = ChartPoint { servers, sessions, memory: platform::resident_memory() };
        state.before = sums;
        if state.points.len() >= MAX_POINTS {
            state.points.pop_front();
        }
        state.points.push_back(point);
    }

    /// The points as somebody may see them: of all servers or one. Whoever is not whole sees
    /// their own calls.
    pub(super) fn shown(&self, viewer: &Viewer, fleet: &Fleet, server: Option<&str>) -> Value {
        let (own, is_whole) = (|| own_calls(viewer, fleet, server), viewer.is_whole());
        let state = lock(&self.state);
        let mut sums: Vec<CallSum> = if is_whole {
            let sum = |point: &ChartPoint| {
                let mut sum = CallSum::default();
                let meant =
                    point.servers.iter().filter(|(name, _)| server.is_none_or(|it| it == **name));
                meant.for_each(|(_, more)| sum.add(more));
                sum
            };
            state.points.iter().map(sum).collect()
        } else {
            own()
        };
        if !is_whole {
            sums = sums.split_off(sums.len().saturating_sub(state.points.len()));
        }
        let each = |part| sums.iter().map(|sum| sum.quantile(part)).collect::<Vec<_>>();
        let mut shown = json!({
            "stepSeconds": STEP.as_secs(),
            "until": moment::text(SystemTime::now()),
            "calls": sums.iter().map(|sum| sum.calls).collect::<Vec<_>>(),
            "errors": sums.iter().map(|sum| sum.errors).collect::<Vec<_>>(),
            "p50Ms": each(0.5),
            "p95Ms": each(0.95),
            "p99Ms": each(0.99),
        });
        if is_whole {
            let points = &state.points;
            shown["sessions"] = points.iter().map(|point| point.sessions).collect();
            shown["memoryBytes"] = points.iter().map(|point| json!(point.memory)).collect();
        }
        shown
    }
}

/// The calls of one viewer in each minute of the last hour, oldest first.
fn own_calls(viewer: &Viewer, fleet: &Fleet, server: Option<&str>) -> Vec<CallSum> {
    let mut sums = vec![CallSum::default(); MAX_POINTS];
    let now = SystemTime::now();
    for call in fleet.monitor().calls().after(0) {
        let age = now.duration_since(call.at()).unwrap_or_default();
        let minute = usize::try_from(age.as_secs() / STEP.as_secs()).unwrap_or(usize::MAX);
        let is_meant = viewer.is_own(call.identity.as_bytes())
            && call.server.is_some()
            && server.is_none_or(|it| call.server.as_deref() == Some(it));
        if is_meant && minute < MAX_POINTS {
            sums[MAX_POINTS - 1 - minute].add_call(&call);
        }
    }
    sums
}

async fn sample(charts: Weak<Charts>, fleet: Weak<Fleet>) {
    let mut ticks = interval_at(Instant::now() + STEP, STEP);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let (Some(charts), Some(fleet)) = (charts.upgrade(), fleet.upgrade()) else { return };
        charts.add_point(&fleet);
        // Nobody may look when the time of a capture is over.
        fleet.monitor().captures().tidy();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_estimated_within_their_bucket() {
        let mut sum = CallSum::default();
        assert_eq!(sum.quantile(0.5), None);
        sum.buckets[0] = 50;
        sum.buckets[4] = 50;
        assert_eq!(sum.quantile(0.25), Some(0.5));
        assert_eq!(sum.quantile(0.5), Some(1.0));
        assert_eq!(sum.quantile(0.75), Some(35.0));
        assert_eq!(sum.quantile(1.0), Some(50.0));
    }
}
