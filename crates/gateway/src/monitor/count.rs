//! How many calls there were, how they went and how long they took.
//!
//! Who calls a tool that is there takes two looks into a table and adds to a few
//! counters. What labels there can be is bounded: a name becomes one when its
//! server is known to have a tool of that name, and there are only so many; all
//! else is `other`.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use switchboard_proto::method;

use super::CallResult;

/// What stands for names that are none of ours.
pub const OTHER: &str = "other";

/// Tools of one server that are counted by name: more than people have, few
/// enough to be read at each scrape.
const TOOLS: usize = 256;

/// Servers that are counted by name, over all reloads.
const SERVERS: usize = 1024;

/// The upper ends of the buckets, in seconds: those of OpenTelemetry's
/// conventions for MCP, and a few below for what a gateway adds.
pub const BUCKETS: [f64; 16] =
    [0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// Methods that are counted by name.
const METHODS: [&str; 20] = [
    method::CALL_TOOL,
    method::CANCEL_TASK,
    method::COMPLETE,
    method::DISCOVER,
    method::GET_PROMPT,
    method::GET_TASK,
    method::INITIALIZE,
    method::LIST_PROMPTS,
    method::LIST_RESOURCES,
    method::LIST_TEMPLATES,
    method::LIST_TOOLS,
    method::LISTEN,
    method::PING,
    method::READ_RESOURCE,
    method::SET_LEVEL,
    method::SUBSCRIBE,
    method::TASK_RESULT,
    method::UNSUBSCRIBE,
    method::UPDATE_TASK,
    OTHER,
];

/// Calls that are counted together.
#[derive(Debug, Default)]
pub struct Series {
    outcomes: [AtomicU64; CallResult::ALL.len()],
    /// One for each of [`BUCKETS`], and one for what took longer.
    buckets: [AtomicU64; BUCKETS.len() + 1],
    micros: AtomicU64,
}

impl Series {
    fn add(&self, outcome: CallResult, took: Duration) {
        let one = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
        one(&self.outcomes[outcome as usize]);
        let seconds = took.as_secs_f64();
        one(&self.buckets[BUCKETS.partition_point(|end| *end < seconds)]);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// How many went so.
    pub fn of(&self, outcome: CallResult) -> u64 {
        self.outcomes[outcome as usize].load(Ordering::Relaxed)
    }

    /// How many took no longer than each end, and how many there are in all.
    pub fn cumulated(&self) -> [u64; BUCKETS.len() + 1] {
        let mut sum = 0;
        self.buckets.each_ref().map(|bucket| {
            sum += bucket.load(Ordering::Relaxed);
            sum
        })
    }

    /// How long they took together.
    pub fn seconds(&self) -> f64 {
        Duration::from_micros(self.micros.load(Ordering::Relaxed)).as_secs_f64()
    }
}

/// The calls of tools of one server.
#[derive(Debug, Default)]
struct Tools {
    by_name: Table<Box<str>, Series>,
    other: Series,
}

type Table<K, V> = RwLock<HashMap<K, Arc<V>>>;

/// All that is counted.
#[derive(Debug)]
pub struct Counts {
    methods: [Series; METHODS.len()],
    servers: Table<Arc<str>, Tools>,
    others: Arc<Tools>,
}

impl Default for Counts {
    fn default() -> Self {
        let methods = std::array::from_fn(|_| Series::default());
        Self { methods, servers: RwLock::default(), others: Arc::default() }
    }
}

fn find<K: Eq + Hash + std::borrow::Borrow<str>, V>(
    table: &Table<K, V>,
    name: &str,
) -> Option<Arc<V>> {
    table.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
}

/// Adds a row, if there is room for it.
fn add<K: Eq + Hash, V: Default>(table: &Table<K, V>, name: K, most: usize) -> Option<Arc<V>> {
    let mut table = table.write().unwrap_or_else(PoisonError::into_inner);
    let has_room = table.len() < most || table.contains_key(&name);
    has_room.then(|| Arc::clone(table.entry(name).or_default()))
}

impl Counts {
    /// Counts a request of any method.
    pub(super) fn request(&self, method: &str, outcome: CallResult, took: Duration) {
        let at = METHODS.iter().position(|known| *known == method).unwrap_or(METHODS.len() - 1);
        self.methods[at].add(outcome, took);
    }

    /// Counts a call of a tool; `is_there` says whether the server has it, and
    /// is asked only about names that were not counted yet.
    pub(super) fn tool(
        &self,
        server: &Arc<str>,
        tool: &str,
        (outcome, elapsed): (CallResult, Duration),
        is_there: impl FnOnce() -> bool,
    ) {
        let tools = find(&self.servers, server);
        let tools = tools.or_else(|| add(&self.servers, Arc::clone(server), SERVERS));
        let tools = tools.unwrap_or_else(|| Arc::clone(&self.others));
        if let Some(series) = find(&tools.by_name, tool) {
            return series.add(outcome, elapsed);
        }
        let series = is_there().then(|| add(&tools.by_name, tool.into(), TOOLS)).flatten();
        series.as_deref().unwrap_or(&tools.other).add(outcome, elapsed);
    }

    /// Shows what was counted of each method.
    pub fn each_method(&self, mut show: impl FnMut(&'static str, &Series)) {
        for (name, series) in METHODS.iter().zip(&self.methods) {
            show(name, series);
        }
    }

    /// Shows what was counted of each tool, by server and name.
    pub fn each_tool(&self, mut show: impl FnMut(&str, &str, &Series)) {
        let mut servers: Vec<_> = {
            let table = self.servers.read().unwrap_or_else(PoisonError::into_inner);
            table.iter().map(|(name, tools)| (Arc::clone(name), Arc::clone(tools))).collect()
        };
        servers.sort_by(|one, other| one.0.cmp(&other.0));
        if !self.others.is_empty() {
            servers.push((OTHER.into(), Arc::clone(&self.others)));
        }
        for (server, tools) in &servers {
            let table = tools.by_name.read().unwrap_or_else(PoisonError::into_inner);
            let mut rows: Vec<_> = table.iter().collect();
            rows.sort_by_key(|(name, _)| *name);
            for (name, series) in rows {
                show(server, name, series);
            }
            if !tools.other.is_empty() {
                show(server, OTHER, &tools.other);
            }
        }
    }
}

impl Tools {
    fn is_empty(&self) -> bool {
        let named = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        named.is_empty() && self.other.is_empty()
    }
}

impl Series {
    fn is_empty(&self) -> bool {
        CallResult::ALL.iter().all(|outcome| self.of(*outcome) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_nobody_has_do_not_become_labels() {
        let counts = Counts::default();
        let server: Arc<str> = "s".into();
        let ok = (CallResult::Ok, Duration::from_millis(3));
        for number in 0..2 * TOOLS {
            counts.tool(&server, &format!("t{number}"), ok, || true);
            counts.tool(&server, &format!("unknown{number}"), ok, || false);
        }
        let mut seen = Vec::new();
        counts.each_tool(|_, tool, series| seen.push((tool.to_owned(), series.of(CallResult::Ok))));
        assert_eq!(seen.len(), TOOLS + 1);
        assert_eq!(seen.last().unwrap(), &(OTHER.to_owned(), 3 * TOOLS as u64));
        for number in 0..SERVERS + 5 {
            counts.tool(&format!("s{number}").into(), "t", ok, || true);
        }
        let mut others = 0;
        counts.each_tool(|server, _, series| {
            others += if server == OTHER { series.of(CallResult::Ok) } else { 0 };
        });
        assert_eq!(others, 6, "one more server came first");
    }

    #[test]
    fn a_call_is_in_the_bucket_that_it_fits_and_in_all_above() {
        let series = Series::default();
        for millis in [1, 2, 700, 3_600_000] {
            series.add(CallResult::Ok, Duration::from_millis(millis));
        }
        let cumulated = series.cumulated();
        assert_eq!(cumulated[0], 1, "one millisecond is no longer than one");
        assert_eq!(cumulated[1], 2);
        assert_eq!(cumulated[7], 2, "half a second");
        assert_eq!(cumulated[8], 3, "one second");
        assert_eq!(cumulated[15..], [3, 4]);
        assert!((series.seconds() - 3600.703).abs() < 1e-9);
    }
}
