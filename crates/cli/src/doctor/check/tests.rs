//! Checks that need no server: what they say of evidence made up.

use std::time::Duration;

use super::*;

#[test]
fn a_step_that_takes_long_is_told() {
    let step = |name: &str, millis| (name.to_owned(), Duration::from_millis(millis));
    let steps = vec![step("resolve", 1200), step("tools/list", 900), step("initialize", 9000)];
    let revision = Some("any".to_owned());
    let evidence = Evidence { revision, steps, ..Evidence::default() };
    let mut found = Findings::default();
    is_quick(&evidence, &mut found);
    assert_eq!(found.list.len(), 1, "{found:?}");
    assert_eq!(found.list[0].what, "resolve takes 1.2 s");
}

/// A user who reads `[STD-2]` must be able to look it up.
#[test]
fn every_rule_that_is_cited_exists() {
    let rules = include_str!("../../../../../docs/wire-rules.txt");
    let sources =
        [include_str!("../check.rs"), include_str!("sign_in.rs"), include_str!("transport.rs")];
    let is_rule = |text: &&str| {
        let parts = text.split_once('-');
        parts.is_some_and(|(letters, digits)| {
            letters.len() > 1
                && letters.chars().all(|c| c.is_ascii_uppercase())
                && !digits.is_empty()
                && digits.chars().all(|c| c.is_ascii_digit())
        })
    };
    let cited: Vec<_> =
        sources.iter().flat_map(|source| source.split('"')).filter(is_rule).collect();
    assert!(cited.len() > 30, "{cited:?}");
    for rule in cited {
        assert!(rules.lines().any(|line| line.starts_with(&format!("{rule} |"))), "{rule}");
    }
}
