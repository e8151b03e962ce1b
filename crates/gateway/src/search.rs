//! Finds the tools that a question in plain words is about, without any service.
//!
//! BM25 over the words of names, titles, descriptions and argument names. Words
//! of a name weigh most. `getUserById`, `get_user_by_id` and `get-user-by-id` are
//! the same words, and plurals and verb endings do not count. A few words that
//! people and tools use for the same thing are taken for each other.
//!
//! Pure and deterministic: tools of equal score come in the order of their names.

use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Tools beyond it are not indexed: nobody has so many, and memory is bounded.
pub const MAX_TOOLS: usize = 20_000;
/// Words of one tool; descriptions of whole pages add nothing after the first.
const MAX_WORDS: usize = 400;
/// Words of a question.
const MAX_QUESTION: usize = 64;
/// Results of one question.
pub const MAX_FOUND: usize = 100;

/// How fast more of the same word stops to count.
const SATURATION: f64 = 1.2;
/// How much long texts are held against a tool.
const LENGTH: f64 = 0.6;
/// What a word counts for that only means the same.
const SYNONYM: f64 = 0.5;
/// What a word counts for that only starts the same.
const PREFIX: f64 = 0.35;
/// Letters that must be the same.
const MIN_PREFIX: usize = 4;

/// What is known of a tool.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// The name that it is called by.
    pub name: String,
    /// Its title, or nothing.
    pub title: String,
    /// Its description, or nothing.
    pub description: String,
    /// The names of its arguments, as one text.
    pub arguments: String,
    /// What its server is called and for, or nothing.
    pub server: String,
}

/// Words, and the tools that have them.
#[derive(Clone, Debug, Default)]
pub struct Index {
    names: Vec<String>,
    /// How many words each tool has, weighed.
    lengths: Vec<f64>,
    /// For each word the tools with it, and how often, weighed.
    postings: BTreeMap<String, Vec<(usize, f64)>>,
    average: f64,
}

impl Index {
    /// Indexes tools, [`MAX_TOOLS`] at most.
    pub fn new(tools: impl IntoIterator<Item = Document>) -> Self {
        let mut index = Self::default();
        tools.into_iter().take(MAX_TOOLS).for_each(|tool| index.add(tool));
        let total: f64 = index.lengths.iter().sum();
        index.average = total / count(index.lengths.len().max(1));
        index
    }

    fn add(&mut self, tool: Document) {
        let number = self.names.len();
        let fields = [
            (&tool.name, 3.0),
            (&tool.title, 2.0),
            (&tool.description, 1.0),
            (&tool.arguments, 0.6),
            (&tool.server, 0.8),
        ];
        // Ordered, for sums of floats depend on their order.
        let mut counts: BTreeMap<String, f64> = BTreeMap::new();
        for (text, weight) in fields {
            for term in terms(text).take(MAX_WORDS) {
                *counts.entry(term.stem).or_default() += weight;
            }
        }
        self.names.push(tool.name);
        self.lengths.push(counts.values().sum());
        for (word, weight) in counts {
            self.postings.entry(word).or_default().push((number, weight));
        }
    }

    /// The tools that fit `question` best, `limit` and [`MAX_FOUND`] at most, by their places
    /// in the list that was indexed. What has nothing to do with it is not among them.
    pub fn find(&self, question: &str, limit: usize) -> Vec<usize> {
        let mut scores: BTreeMap<usize, (f64, usize)> = BTreeMap::new();
        let mut asked: Vec<Term> = Vec::new();
        for term in terms(question).filter(|term| !term.is_filler).take(MAX_QUESTION) {
            if !asked.iter().any(|other| other.stem == term.stem) {
                asked.push(term);
            }
        }
        if asked.is_empty() {
            // Nothing but fillers: better than no answer at all.
            asked = terms(question).take(MAX_QUESTION).collect();
        }
        for term in &asked {
            for (number, score) in self.scores_of(term) {
                let (sum, words) = scores.entry(number).or_default();
                *sum += score;
                *words += 1;
            }
        }
        // Who has two of three words is meant more than who has one three times.
        let covered = |(number, (sum, words)): (usize, (f64, usize))| {
            (number, sum * (count(words) / count(asked.len())).sqrt())
        };
        let mut found: Vec<_> = scores.into_iter().map(covered).collect();
        found.sort_by(|(left, a), (right, b)| {
            let by_name = || self.names[*left].cmp(&self.names[*right]);
            b.partial_cmp(a).unwrap_or(Ordering::Equal).then_with(by_name)
        });
        found.truncate(limit.min(MAX_FOUND));
        found.into_iter().map(|(number, _)| number).collect()
    }

    /// What each tool scores by one word of a question: by the word itself, by
    /// one that means the same, or by one that starts the same, whichever is most.
    fn scores_of(&self, term: &Term) -> BTreeMap<usize, f64> {
        let mut best: BTreeMap<usize, f64> = BTreeMap::new();
        let mut take = |word: &str, weight: f64| {
            for (number, score) in self.scores_of_word(word, weight) {
                let known = best.entry(number).or_default();
                *known = known.max(score);
            }
        };
        take(&term.stem, 1.0);
        for other in synonyms(&term.stem) {
            take(&other, SYNONYM);
        }
        if term.stem.chars().count() >= MIN_PREFIX {
            let longer = self.postings.range(term.stem.clone()..).map(|(word, _)| word);
            let longer = longer.take_while(|word| word.starts_with(&term.stem));
            for word in longer.filter(|word| **word != term.stem) {
                take(word, PREFIX);
            }
        }
        best
    }

    fn scores_of_word(&self, word: &str, weight: f64) -> impl Iterator<Item = (usize, f64)> {
        let postings = self.postings.get(word).map_or(&[][..], Vec::as_slice);
        let (all, having) = (count(self.names.len()), count(postings.len()));
        let rarity = (1.0 + (all - having + 0.5) / (having + 0.5)).ln();
        postings.iter().map(move |(number, often)| {
            let length = self.lengths[*number] / self.average.max(1.0);
            let damped = often + SATURATION * (1.0 - LENGTH + LENGTH * length);
            (*number, weight * rarity * often * (SATURATION + 1.0) / damped)
        })
    }
}

/// A number of things as a number to compute with.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn count(number: usize) -> f64 {
    number as f64
}

/// A word as it is compared.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Term {
    /// Without case and endings.
    stem: String,
    /// Whether it says nothing about what is asked for.
    is_filler: bool,
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
fn terms(text: &str) -> impl Iterator<Item = Term> {
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
fn synonyms(of: &str) -> Vec<String> {
    let sets = SAME.iter().filter(|set| set.iter().any(|word| stem(word) == of));
    sets.flat_map(|set| set.iter().map(|word| stem(word))).filter(|other| other != of).collect()
}

#[cfg(test)]
mod tests;
