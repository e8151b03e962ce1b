//! Which call a question is about, where nothing says it.

use std::collections::BTreeMap;

/// Questions of one call before others are thought to be about another.
const MOST_OF_ONE: usize = 8;

/// The oldest of the `open` calls that is not asked yet. Where all are, it is most
/// likely one more of the last that was: others may be parked, and their clients
/// gone. `asked` names a call for each question, the oldest question first.
pub(super) fn likely<K: Ord + Copy>(
    open: impl Iterator<Item = K>,
    asked: impl Iterator<Item = K>,
) -> Option<K> {
    let mut questions: BTreeMap<K, usize> = open.map(|call| (call, 0)).collect();
    let mut last = None;
    for call in asked {
        if let Some(count) = questions.get_mut(&call) {
            *count += 1;
        }
        last = Some(call);
    }
    let (&idlest, &fewest) = questions.iter().min_by_key(|&(call, count)| (*count, *call))?;
    let again = last.filter(|call| questions.get(call).is_some_and(|&count| count < MOST_OF_ONE));
    again.filter(|_| fewest > 0).or(Some(idlest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_that_is_not_asked_then_the_one_that_was_asked_last() {
        let guess = |open: &[u8], asked: &[u8]| likely(open.iter().copied(), asked.iter().copied());
        assert_eq!(guess(&[], &[1]), None);
        assert_eq!(guess(&[2, 1], &[]), Some(1));
        assert_eq!(guess(&[1, 2, 3], &[1, 3]), Some(2));
        assert_eq!(guess(&[1, 2], &[2, 1]), Some(1));
        assert_eq!(guess(&[1, 2], &[1, 2]), Some(2));
        assert_eq!(guess(&[1, 2], &[1, 2, 9]), Some(1), "the last is not open any more");
        assert_eq!(guess(&[1, 2], &[1, 2, 2, 2, 2, 2, 2, 2, 2]), Some(1), "so many of one call");
    }
}
