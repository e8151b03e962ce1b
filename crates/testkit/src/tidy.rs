//! The budgets and invariants that keep the repository the way we planned it.
//!
//! Each rule is a function from one file to its complaints; a complaint says
//! the place, the fact, and what to do. [`check`] applies them all. Whoever
//! needs an exception adds it to the list beside the rule, where the next
//! reader sees it, and argues for it in the commit.
//!
//! Does not repeat what rustfmt and clippy hold already.

use crate::source::Source;

mod place;
mod shape;
#[cfg(test)]
mod tests;
mod words;

pub use place::{impure_dependencies, reads_json};

/// Looks at one file and complains.
pub type Rule = fn(&Source) -> Vec<String>;

/// All rules, in the order of their complaints.
pub const RULES: &[Rule] = &[
    shape::file_fits_its_budget,
    shape::functions_fit_their_budget,
    shape::no_mod_rs,
    shape::module_has_a_header,
    words::no_unfinished_work,
    words::no_ignored_tests,
    words::no_empty_type_names,
    words::no_machine_paths,
    place::dates_live_in_revision,
    place::error_codes_live_in_refusal,
    place::few_read_json,
    place::select_lives_in_the_loops,
    place::only_the_binary_touches_the_process,
    place::systems_differ_in_the_platform_module,
];

/// What every rule has to say about every file.
pub fn check(sources: &[Source]) -> Vec<String> {
    sources.iter().flat_map(|source| RULES.iter().flat_map(move |rule| rule(source))).collect()
}

/// One complaint about a line.
fn at(source: &Source, number: usize, what: &str) -> String {
    format!("{}:{number}: {what}", source.path)
}
