//! The lists that people make of names with `*`.

use switchboard_proto::pattern::fits;

/// Which names are wanted, by the names the server gives them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct NameFilter {
    /// Only what one of these describes; everything if not said.
    pub only: Option<Vec<String>>,
    /// Never what one of these describes.
    pub never: Vec<String>,
}

impl NameFilter {
    /// Whether `name` is wanted.
    pub fn lets(&self, name: &str) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| fits(pattern, name));
        self.only.as_deref().is_none_or(any) && !any(&self.never)
    }

    /// Whether it wants everything.
    pub fn is_open(&self) -> bool {
        self.only.is_none() && self.never.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_excluded_stays_out_whatever_is_included() {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let filter =
            NameFilter { only: Some(list(&["get_*", "list"])), never: list(&["*_secret"]) };
        assert!(filter.lets("get_issue") && filter.lets("list"));
        assert!(!filter.lets("get_secret") && !filter.lets("delete"));
        assert!(NameFilter::default().lets("x") && NameFilter::default().is_open());
        assert!(!NameFilter { only: Some(Vec::new()), ..NameFilter::default() }.lets("x"));
    }
}
