//! Listens that overlap: what several of them bring is told once, by the first
//! that brings it.
//!
//! Each has a place in what was told. A new one begins where all that is told
//! ends: it may have missed some of what an older one is still to bring, and
//! then lags, but the oldest has missed nothing.

use std::collections::HashMap;

use crate::jsonrpc::Message;
use crate::limits::MAX_ID;
use crate::method;

/// Kinds of notices that are counted; of others all are told.
const MOST: usize = 4096;

/// How often each kind of notice was there.
type Count = HashMap<String, u64>;

#[derive(Debug, Default)]
pub(super) struct Overlap {
    told: Count,
    /// By number, oldest first.
    listens: Vec<(u64, Count)>,
}

impl Overlap {
    pub(super) fn begin(&mut self, number: u64) {
        self.listens.push((number, self.told.clone()));
    }

    pub(super) fn end(&mut self, number: u64) {
        self.listens.retain(|(listen, _)| *listen != number);
        if self.listens.len() < 2 {
            self.told.clear();
        }
        if let Some((_, oldest)) = self.listens.first_mut() {
            oldest.clone_from(&self.told);
        }
    }

    /// Whether no other listen has brought this notice.
    pub(super) fn is_news(&mut self, number: u64, notice: &Message) -> bool {
        if self.listens.len() < 2 {
            return true;
        }
        let Some((_, count)) = self.listens.iter_mut().find(|(listen, _)| *listen == number) else {
            return false;
        };
        let kind = kind(notice);
        let is_long = kind.len() > MAX_ID;
        if is_long || self.told.len() >= MOST && !self.told.contains_key(&kind) {
            return true;
        }
        let seen = count.entry(kind.clone()).or_default();
        let told = self.told.entry(kind).or_default();
        *seen += 1;
        let is_news = *seen > *told;
        *told = (*told).max(*seen);
        is_news
    }
}

fn kind(notice: &Message) -> String {
    let uri = notice.uri().filter(|_| notice.method() == method::UPDATED);
    format!("{} {}", notice.method(), uri.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn updated(uri: &str) -> Message {
        let params = format!("{{\"uri\":\"{uri}\"}}");
        Message::notification(method::UPDATED, Some(params.as_bytes()))
    }

    #[test]
    fn what_two_bring_is_told_once_whoever_is_first() {
        let mut overlap = Overlap::default();
        overlap.begin(1);
        assert!(overlap.is_news(1, &updated("a")));
        overlap.begin(2);
        assert!(overlap.is_news(1, &updated("a")));
        assert!(!overlap.is_news(2, &updated("a")));
        assert!(overlap.is_news(2, &updated("a")));
        assert!(!overlap.is_news(1, &updated("a")));
        assert!(overlap.is_news(2, &updated("b")), "another resource");
    }

    #[test]
    fn what_only_the_old_one_was_sent_is_told() {
        let mut overlap = Overlap::default();
        overlap.begin(1);
        overlap.begin(2);
        // The old one was sent two, the new one the second of them, and is faster.
        assert!(overlap.is_news(2, &updated("a")));
        assert!(!overlap.is_news(1, &updated("a")));
        assert!(overlap.is_news(1, &updated("a")));
        overlap.end(1);
        assert!(overlap.is_news(2, &updated("a")), "nobody else brings it any more");
    }

    #[test]
    fn who_lags_is_heard_again_when_it_is_the_oldest() {
        let mut overlap = Overlap::default();
        overlap.begin(1);
        overlap.begin(2);
        assert!(overlap.is_news(1, &updated("a")));
        overlap.begin(3);
        overlap.end(1);
        assert!(overlap.is_news(2, &updated("a")));
        assert!(!overlap.is_news(3, &updated("a")));
        overlap.end(2);
        assert!(overlap.is_news(3, &updated("a")));
    }

    #[test]
    fn long_names_are_told_and_not_kept() {
        let mut overlap = Overlap::default();
        overlap.begin(1);
        overlap.begin(2);
        assert!(overlap.is_news(1, &updated(&"a".repeat(MAX_ID))));
        assert!(overlap.told.is_empty());
    }

    #[test]
    fn more_kinds_than_can_be_counted_are_all_told() {
        let mut overlap = Overlap::default();
        overlap.begin(1);
        overlap.begin(2);
        for number in 0..MOST + 10 {
            assert!(overlap.is_news(1, &updated(&number.to_string())));
        }
        assert!(overlap.is_news(2, &updated(&(MOST + 1).to_string())));
        assert_eq!(overlap.told.len(), MOST);
    }
}
