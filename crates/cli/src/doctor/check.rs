//! The questions that a doctor asks of the evidence, a function each.

use super::evidence::Evidence;
use super::report::Finding;

mod greeting;
mod http;
mod items;
mod lists;
mod messages;
mod pace;
mod reach;
mod stdio;
#[cfg(test)]
mod tests;

/// Looks at the evidence for one thing.
pub(super) type Check = fn(&Evidence) -> Vec<Finding>;

/// All of them, in the order in which a person would ask.
pub(super) const ALL: &[Check] = &[
    reach::starts,
    reach::connects,
    reach::is_at_another_path,
    reach::has_moved,
    stdio::ends_early,
    stdio::writes_only_messages,
    stdio::bears_the_question_for_its_era,
    stdio::ends_with_its_stdin,
    http::lets_us_in,
    http::has_an_endpoint,
    http::opens_the_stream_that_was_wanted,
    http::takes_our_media_types,
    http::does_not_break,
    http::answers_with_json_or_a_stream,
    http::accepts_the_end_of_the_handshake,
    http::listens_or_says_that_it_does_not,
    http::keeps_its_sessions_apart,
    http::gives_out_the_session_it_wants,
    http::ends_sessions,
    greeting::answers,
    greeting::agrees_on_a_version,
    greeting::says_what_it_is,
    greeting::says_what_a_modern_server_must,
    messages::answers_with_the_id_it_was_asked_with,
    messages::answers_in_jsonrpc,
    messages::answers_only_what_was_asked,
    messages::asks_only_what_it_may,
    messages::refuses_what_it_does_not_know,
    messages::answers_pings,
    lists::has_what_it_announces,
    lists::announces_what_it_has,
    lists::come_to_an_end,
    lists::say_how_long_they_last,
    items::tools_have_usable_names,
    items::tools_have_valid_schemas,
    items::tools_have_valid_header_annotations,
    items::names_are_unique,
    items::tools_are_described,
    pace::is_quick,
];
