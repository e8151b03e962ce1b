//! Words of names and sentences.

/// A word as it is compared.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Term {
    /// Without case and endings.
    pub(super) stem: String,
    /// Whether it says nothing about what is asked for.
    pub(super) is_filler: bool,
}

/// Letters of a word that count.
const MAX_LENGTH: usize = 40;

/// Words that are in every question.
const FILLERS: &[&str] = &[
    "a", "about", "all", "am", "an", "and", "any", "are", "as", "at", "be", "by", "can", "could",
    "do", "does", "for", "from", "give", "has", "have", "help", "how", "i", "if", "in", "into",
    "is", "it", "its", "let", "like", "me", "my", "need", "now", "of", "on", "or", "our", "out",
    "please", "some", "that", "the", "their", "them", "there", "these", "this", "to", "tool", "up",
    "use", "using", "want", "was", "we", "what", "when", "where", "which", "who", "will", "with",
    "would", "you", "your",
];

/// Words that people and tools use for the same thing.
const SAME: &[&[&str]] = &[
    &["add", "create", "insert", "make", "new", "open", "write"],
    &["appointment", "calendar", "event", "meeting"],
    &["bill", "cost", "spend"],
    &["bug", "issue", "ticket"],
    &["cancel", "halt", "kill", "stop", "terminate"],
    &["change", "edit", "modify", "set", "update"],
    &["chat", "dm", "message"],
    &["code", "source"],
    &["compose", "send", "write"],
    &["database", "db", "sql"],
    &["delete", "drop", "erase", "remove"],
    &["dir", "directory", "folder"],
    &["display", "fetch", "get", "look", "read", "retrieve", "show", "view"],
    &["doc", "document", "file", "page"],
    &["email", "gmail", "mail"],
    &["enumerate", "list", "show"],
    &["execute", "invoke", "launch", "run", "start", "trigger"],
    &["find", "look", "lookup", "query", "search"],
    &["forecast", "temperature", "weather"],
    &["image", "photo", "picture", "screenshot"],
    &["log", "trace"],
    &["member", "people", "person", "user"],
    &["move", "rename"],
    &["music", "song", "track"],
    &["navigate", "go", "visit"],
    &["pay", "payment", "charge"],
    &["post", "publish", "send", "submit"],
    &["pr", "pull"],
    &["repo", "repository"],
    &["site", "url", "web", "webpage", "website"],
    &["switch", "turn"],
    &["task", "todo"],
];

/// The words of a text, in its order: runs of letters and digits, cut where
/// `camelCase` has a hump.
pub(super) fn terms(text: &str) -> impl Iterator<Item = Term> {
    let runs = text.split(|c: char| !c.is_alphanumeric()).filter(|run| !run.is_empty());
    runs.flat_map(humps).map(|word| {
        let word: String = word.chars().take(MAX_LENGTH).flat_map(char::to_lowercase).collect();
        let is_filler = FILLERS.binary_search(&word.as_str()).is_ok();
        Term { stem: stem(&word), is_filler }
    })
}

/// `getHTTPUrl2` is `get`, `HTTP`, `Url` and `2`.
fn humps(run: &str) -> Vec<&str> {
    let letters: Vec<(usize, char)> = run.char_indices().collect();
    let mut cuts = vec![0];
    for at in 1..letters.len() {
        let (before, here) = (letters[at - 1].1, letters[at].1);
        let next = letters.get(at + 1).map(|(_, next)| *next);
        let up = before.is_lowercase() && here.is_uppercase();
        let last_of_capitals =
            before.is_uppercase() && here.is_uppercase() && next.is_some_and(char::is_lowercase);
        if up || last_of_capitals || before.is_numeric() != here.is_numeric() {
            cuts.push(letters[at].0);
        }
    }
    cuts.push(run.len());
    cuts.windows(2).map(|pair| &run[pair[0]..pair[1]]).collect()
}

/// A word without its ending. Crude, for both sides get the same.
fn stem(word: &str) -> String {
    if word.len() <= 3 || !word.is_ascii() {
        return word.to_owned();
    }
    let word = match word {
        _ if word.ends_with("ies") && word.len() > 4 => format!("{}y", &word[..word.len() - 3]),
        _ if word.ends_with("sses") => word[..word.len() - 2].to_owned(),
        _ if word.ends_with('s') && !word.ends_with("ss") && !word.ends_with("us") => {
            word[..word.len() - 1].to_owned()
        }
        _ => word.to_owned(),
    };
    for (end, least) in [("ing", 3), ("ed", 3), ("ment", 4), ("ion", 4), ("er", 4), ("or", 4)] {
        let rest = word.strip_suffix(end).filter(|rest| rest.len() >= least);
        let Some(rest) = rest else { continue };
        let mut letters = rest.chars().rev();
        // `running` is `run`, but `calling` is `call`.
        if rest.len() > 3 && letters.next() == letters.next() && !rest.ends_with(['l', 's', 'z']) {
            return rest[..rest.len() - 1].to_owned();
        }
        return rest.strip_suffix('e').unwrap_or(rest).to_owned();
    }
    word.strip_suffix('e').filter(|rest| rest.len() > 2).unwrap_or(&word).to_owned()
}

/// Stems that mean the same.
pub(super) fn synonyms(of: &str) -> Vec<String> {
    let sets = SAME.iter().filter(|set| set.iter().any(|word| stem(word) == of));
    sets.flat_map(|set| set.iter().map(|word| stem(word))).filter(|other| other != of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stems(text: &str) -> String {
        terms(text).map(|term| term.stem).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn names_are_cut_into_words_however_they_are_written() {
        assert_eq!(stems("getUserById"), "get user by id");
        assert_eq!(stems("get_user_by_id"), "get user by id");
        assert_eq!(stems("Get-User-By-ID"), "get user by id");
        assert_eq!(stems("parseHTTPUrl2"), "pars http url 2");
        assert_eq!(stems("list.pull/requests"), "list pull request");
        assert_eq!(stems("naïveÜber 日本"), "naïve über 日本");
        assert_eq!(stems("__ -- "), "");
    }

    #[test]
    fn endings_do_not_count() {
        for (one, other) in [
            ("issues", "issue"),
            ("repositories", "repository"),
            ("creating", "create"),
            ("created", "create"),
            ("deletes", "delete"),
            ("running", "runs"),
            ("calling", "calls"),
            ("translation", "translate"),
            ("searching", "search"),
        ] {
            assert_eq!(stems(one), stems(other), "{one} and {other}");
        }
        assert_ne!(stems("status"), stems("stat"));
    }

    #[test]
    fn the_tables_are_in_the_form_they_are_looked_up_in() {
        assert!(FILLERS.is_sorted());
        assert!(SAME.iter().all(|set| set.len() > 1));
        assert_eq!(synonyms("bug"), ["issu", "ticket"]);
        assert_eq!(synonyms(&stem("deleting")), ["drop", "eras", "remov"]);
    }
}
