//! How long things take.

use std::time::Duration;

use switchboard_proto::method;

use crate::doctor::evidence::Evidence;
use crate::doctor::report::Finding;

/// What a person waits for without wondering.
const USUAL: Duration = Duration::from_secs(1);
/// A start may install things.
const START: Duration = Duration::from_secs(10);

pub(super) fn is_quick(evidence: &Evidence) -> Vec<Finding> {
    let slow = evidence.steps.iter().filter(|step| {
        let is_start = [method::INITIALIZE, method::DISCOVER].contains(&step.name.as_str());
        // A child that does not answer has a finding of its own.
        step.took > if is_start { START } else { USUAL } && evidence.was_greeted()
    });
    let slow = slow.map(|step| {
        let what = format!("{} takes {:.1} s", step.name, step.took.as_secs_f64());
        let remedy = match step.name.as_str() {
            "resolve" => "look at the DNS servers of this machine",
            "connect" | "TLS" => "the way to the server is long, or the server is busy",
            _ => "clients wait for it at each start; some give up after 10 seconds",
        };
        Finding::warning("slow", what).remedy(remedy)
    });
    slow.collect()
}
