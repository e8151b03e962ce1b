//! The revisions of the protocol, and what each one asks for.
//!
//! The only file that names a date. Everybody else asks for a rule.

use std::fmt;

/// A dated revision of the Model Context Protocol.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Revision {
    /// Handshake; HTTP+SSE.
    V2024_11_05,
    /// Streamable HTTP; batches.
    V2025_03_26,
    /// Version header; no batches.
    V2025_06_18,
    /// Priming events.
    V2025_11_25,
    /// Stateless; every request carries its own envelope.
    V2026_07_28,
}

/// The two families of revisions, in the words of the specification.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Era {
    /// Handshake and sessions; the server may send requests.
    Legacy,
    /// No handshake; the server answers and nothing else.
    Modern,
}

/// What a revision asks of a transport.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "a table of yes and no")]
pub struct RevisionRules {
    /// Arrays of messages are messages too.
    pub batches: bool,
    /// Requests after the handshake carry `MCP-Protocol-Version`.
    pub version_header: bool,
    /// A stream begins with an event that has an id and no data.
    pub priming: bool,
    /// Closing the response stream cancels the call.
    pub cancel_by_close: bool,
    /// Clients may ask that a call goes on as a task, without an extension.
    pub core_tasks: bool,
    /// Tools have output schemas, and results `structuredContent`.
    pub structured_content: bool,
    /// Content may be a link to a resource.
    pub resource_links: bool,
    /// Content may be sound.
    pub audio: bool,
    /// Servers may ask a person something.
    pub elicitation: bool,
    /// They may ask it to visit a page, in forms with titled and multiple
    /// choices, and the client's model with tools at hand.
    pub rich_questions: bool,
    /// Capabilities name extensions.
    pub extensions: bool,
}

impl Revision {
    /// Oldest first.
    pub const ALL: [Self; 5] = [
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
        Self::V2026_07_28,
    ];

    /// The newest with a handshake: what to offer a client that asks for something unknown.
    pub const NEWEST_LEGACY: Self = Self::V2025_11_25;

    /// The newest without.
    pub const NEWEST_MODERN: Self = Self::V2026_07_28;

    /// What a legacy request without a version header is taken for (HTTP-26).
    pub const ASSUMED: Self = Self::V2025_03_26;

    /// As it stands on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The revision of that name, if we know it.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.as_str() == name)
    }

    /// The rules to follow towards a legacy peer that settled on `name`: those of the
    /// newest legacy revision that is not newer. Dates compare as text.
    pub fn legacy_at_most(name: &str) -> Self {
        let known = Self::ALL.into_iter().filter(|revision| revision.era() == Era::Legacy);
        known.filter(|revision| revision.as_str() <= name).max().unwrap_or(Self::V2024_11_05)
    }

    /// Which family it belongs to.
    pub fn era(self) -> Era {
        if self >= Self::V2026_07_28 { Era::Modern } else { Era::Legacy }
    }

    /// What it asks of a transport.
    pub fn rules(self) -> RevisionRules {
        RevisionRules {
            batches: self == Self::V2025_03_26,
            version_header: self >= Self::V2025_06_18,
            priming: self == Self::V2025_11_25,
            cancel_by_close: self.era() == Era::Modern,
            core_tasks: self == Self::V2025_11_25,
            structured_content: self >= Self::V2025_06_18,
            resource_links: self >= Self::V2025_06_18,
            audio: self >= Self::V2025_03_26,
            elicitation: self >= Self::V2025_06_18,
            rich_questions: self >= Self::V2025_11_25,
            extensions: self >= Self::V2025_11_25,
        }
    }

    /// The names of all revisions of an era, newest first.
    pub fn names(era: Era) -> Vec<&'static str> {
        let newest_first = Self::ALL.into_iter().rev();
        newest_first.filter(|revision| revision.era() == era).map(Self::as_str).collect()
    }
}

/// The era that a version string belongs to, known or not: dates compare as text.
pub fn era_of(name: &str) -> Era {
    let dated = name.len() == 10 && name.as_bytes()[0].is_ascii_digit();
    if dated && name < Revision::NEWEST_MODERN.as_str() { Era::Legacy } else { Era::Modern }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// wire: NEG-11
    #[test]
    fn names_are_dates_and_find_their_revision() {
        for revision in Revision::ALL {
            assert_eq!(Revision::parse(revision.as_str()), Some(revision));
            assert_eq!(era_of(revision.as_str()), revision.era());
        }
        assert_eq!(Revision::parse("2024-10-07"), None);
        assert_eq!(Revision::names(Era::Modern), ["2026-07-28"]);
        assert_eq!(Revision::NEWEST_LEGACY.era(), Era::Legacy);
    }

    #[test]
    fn unknown_legacy_dates_follow_the_rules_before_them() {
        assert_eq!(Revision::legacy_at_most("2024-10-07"), Revision::V2024_11_05);
        assert_eq!(Revision::legacy_at_most("2025-08-01"), Revision::V2025_06_18);
        assert_eq!(Revision::legacy_at_most("2031-01-01"), Revision::V2025_11_25);
    }

    #[test]
    fn only_one_revision_has_batches_and_one_primes() {
        let count = |rule: fn(RevisionRules) -> bool| {
            Revision::ALL.iter().filter(|r| rule(r.rules())).count()
        };
        assert_eq!(count(|rules| rules.batches), 1);
        assert_eq!(count(|rules| rules.priming), 1);
        assert_eq!(count(|rules| rules.cancel_by_close), 1);
    }
}
