//! Checks that need no server: what they say of evidence made up.

use std::time::Duration;

use super::*;
use crate::doctor::evidence::Step;

#[test]
fn a_step_that_takes_long_is_told() {
    let step =
        |name: &str, millis| Step { name: name.to_owned(), took: Duration::from_millis(millis) };
    let steps = vec![step("resolve", 1200), step("tools/list", 900), step("initialize", 9000)];
    let revision = Some("any".to_owned());
    let evidence = Evidence { revision, steps, ..Evidence::default() };
    let findings = pace::is_quick(&evidence);
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].what, "resolve takes 1.2 s");
}
