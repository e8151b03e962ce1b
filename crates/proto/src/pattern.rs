//! Names with `*` for any characters.
//!
//! Case counts: the names of MCP are told apart by it.

/// Whether `pattern` describes `name`; `*` stands for any characters, or none.
pub fn fits(pattern: &str, name: &str) -> bool {
    fit_in_order(pattern.split('*'), name)
}

/// Whether `name` is these parts in their order, with any characters between them.
pub fn fit_in_order<'p>(mut parts: impl DoubleEndedIterator<Item = &'p str>, name: &str) -> bool {
    let (head, tail) = (parts.next().unwrap_or_default(), parts.next_back());
    let Some(tail) = tail else { return head == name };
    let Some(mut name) = name.strip_prefix(head) else { return false };
    for part in parts {
        // The leftmost place leaves the most for what follows.
        let Some(at) = name.find(part) else { return false };
        name = &name[at + part.len()..];
    }
    name.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters_or_none() {
        for (pattern, name, expected) in [
            ("find", "find", true),
            ("find", "find_all", false),
            ("find", "Find", false),
            ("*", "", true),
            ("*", "anything", true),
            ("get_*", "get_issue", true),
            ("get_*", "get_", true),
            ("get_*", "forget_it", false),
            ("*_issue", "get_issue", true),
            ("*_issue", "get_issues", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("**", "x", true),
            ("*ä*", "naïve ä", true),
            ("", "", true),
            ("", "x", false),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern:?} and {name:?}");
        }
    }
}
