//! For whom a connection is, and what they may have of what there is for all.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::Upstream;
use crate::face::lock;
use crate::stdio::child::most_children;
use crate::who::Who;

/// Connections by which processes are started for one name each.
static TAKEN: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());

/// One name has one in so many of all processes, so that no single key takes all
/// places. Whoever has no name is everybody.
const PART: usize = 2;

fn share(most: usize) -> usize {
    (most / PART).max(1)
}

/// Somebody whom a connection is for.
#[derive(Debug)]
pub(crate) struct Tenant {
    who: Who,
    is_counted: bool,
}

impl Tenant {
    /// Somebody at a server that is a URL: it takes no process.
    pub(crate) fn visiting(who: &Who) -> Self {
        Self { who: who.clone(), is_counted: false }
    }

    /// Somebody with a process; none if as many run for them as may. `gives_way` ends
    /// another of theirs if it can: this one comes in its place.
    pub(crate) fn housed(who: &Who, gives_way: impl FnOnce() -> bool) -> Option<Self> {
        Self::among(most_children(), who, gives_way)
    }

    fn among(most: usize, who: &Who, gives_way: impl FnOnce() -> bool) -> Option<Self> {
        if who.name().is_empty() {
            return Some(Self::visiting(who));
        }
        let is_full = || lock(&TAKEN).get(who.name()).is_some_and(|taken| *taken >= share(most));
        if is_full() && !gives_way() {
            return None;
        }
        *lock(&TAKEN).entry(who.name().to_owned()).or_default() += 1;
        Some(Self { who: who.clone(), is_counted: true })
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        let mut taken = lock(&TAKEN);
        if let Some(count) = taken.get_mut(self.who.name()).filter(|_| self.is_counted) {
            *count -= 1;
            if *count == 0 {
                taken.remove(self.who.name());
            }
        }
    }
}

impl Upstream {
    /// It is for them alone, until its end.
    pub(crate) fn let_to(&self, tenant: Tenant) {
        _ = self.tenant.set(tenant);
    }

    /// Whether it is for somebody who may not come in any more.
    pub(crate) fn is_orphaned(&self) -> bool {
        self.tenant.get().is_some_and(|tenant| !tenant.who.is_known())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_more_than_half_of_all_places() {
        let (one, other) = (Who::new("a tenant"), Who::new("another tenant"));
        let house = |who: &Who| Tenant::among(5, who, || false);
        let mut housed = vec![house(&one).unwrap(), house(&one).unwrap()];
        assert!(house(&one).is_none());
        assert!(Tenant::among(5, &one, || true).is_some(), "in the place of another");
        assert!(house(&other).is_some(), "others have their own share");
        housed.pop();
        assert!(house(&one).is_some(), "a place is free again");
        assert!((0..9).all(|_| house(&Who::default()).is_some()), "nobody in particular");
        assert_eq!(share(1), 1);
    }
}
