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
pub(crate) use report::Report;
pub(crate) use visit::{Plan, visit};

mod check;
mod evidence;
mod report;
mod visit;
mod wire;

/// Visits a server and says what is wrong with it.
pub(crate) fn judge(evidence: Evidence) -> Report {
    let mut findings: Vec<_> = check::ALL.iter().flat_map(|check| check(&evidence)).collect();
    findings.sort_by_key(|finding| finding.severity);
    Report { evidence, findings }
}
