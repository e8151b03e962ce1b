//! What is the matter with a server.
//!
//! ```text
//!   visit ──▶ Evidence ──▶ check/*.rs ──▶ Finding ──▶ Report
//!   talks,      what was      pure: one       what is wrong,   for people,
//!   judges      said and      function for    the rule, and    or as JSON
//!   nothing     seen          each question   what to do
//! ```
//!
//! The visit speaks the protocol by hand, without our client: that one puts up
//! with what a doctor has to see. It calls no tool and changes nothing.

pub(crate) use evidence::Evidence;
use report::Finding;
pub(crate) use report::Report;
pub(crate) use visit::{Plan, visit};

mod check;
mod evidence;
mod report;
mod visit;
mod wire;

/// Says what is wrong with a server that was visited.
pub(crate) fn judge(evidence: Evidence) -> Report {
    let mut findings: Vec<_> = check::ALL.iter().flat_map(|check| check(&evidence)).collect();
    // A visit without a conversation is no sign of health, whatever the reason.
    if !evidence.was_greeted() && findings.iter().all(|finding| !finding.is_error()) {
        let what = "no conversation came about, and it cannot be said why";
        let remedy = "look at what is said with --log-level trace";
        findings.push(Finding::error("greeting.none", what).rule("LIF-1").remedy(remedy));
    }
    findings.sort_by_key(|finding| finding.severity);
    Report { evidence, findings }
}
