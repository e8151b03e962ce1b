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

use words::{Term, terms};

#[cfg(test)]
mod tests;
mod words;

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
#[derive(Clone, Copy, Debug, Default)]
pub struct Document<'t> {
    /// The name that it is called by.
    pub name: &'t str,
    /// Its title, or nothing.
    pub title: &'t str,
    /// Its description, or nothing.
    pub description: &'t str,
    /// The names of its arguments.
    pub arguments: &'t [&'t str],
    /// What its server is called and for, or nothing.
    pub server: &'t str,
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

/// A tool that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found<'i> {
    /// The name that it is called by.
    pub name: &'i str,
    /// How well it fits; only good for comparing.
    pub score: f64,
}

impl Index {
    /// Indexes tools, [`MAX_TOOLS`] at most.
    pub fn new<'t>(tools: impl IntoIterator<Item = Document<'t>>) -> Self {
        let mut index = Self::default();
        for tool in tools.into_iter().take(MAX_TOOLS) {
            index.add(&tool);
        }
        let total: f64 = index.lengths.iter().sum();
        index.average = total / count(index.lengths.len().max(1));
        index
    }

    fn add(&mut self, tool: &Document<'_>) {
        let number = self.names.len();
        self.names.push(tool.name.to_owned());
        let arguments = tool.arguments.join(" ");
        let fields = [
            (tool.name, 3.0),
            (tool.title, 2.0),
            (tool.description, 1.0),
            (&arguments, 0.6),
            (tool.server, 0.8),
        ];
        // Ordered, for sums of floats depend on their order.
        let mut counts: BTreeMap<String, f64> = BTreeMap::new();
        for (text, weight) in fields {
            for term in terms(text).take(MAX_WORDS) {
                *counts.entry(term.stem).or_default() += weight;
            }
        }
        self.lengths.push(counts.values().sum());
        for (word, weight) in counts {
            self.postings.entry(word).or_default().push((number, weight));
        }
    }

    /// How many tools there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The tools that fit `question` best, `limit` and [`MAX_FOUND`] at most. What
    /// has nothing to do with it is not among them.
    pub fn find(&self, question: &str, limit: usize) -> Vec<Found<'_>> {
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
        let found = found.into_iter();
        found.map(|(number, score)| Found { name: &self.names[number], score }).collect()
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
        for other in words::synonyms(&term.stem) {
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
