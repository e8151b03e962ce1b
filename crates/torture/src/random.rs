//! Random numbers that a seed repeats: splitmix64.

/// A generator; two with the same seed say the same.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator for one part of the work, whatever the other parts draw.
    pub(crate) fn fork(&self, part: u64) -> Self {
        let mut child = Self(self.0 ^ part.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        child.next();
        child
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// One of these.
    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let index = usize::try_from(self.below(of.len() as u64)).unwrap_or(0);
        &of[index]
    }

    /// True once in `of` times.
    pub(crate) fn once_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_numbers_and_parts_do_not_disturb_each_other() {
        let mut one = Random::new(7);
        let mut other = Random::new(7);
        let numbers: Vec<_> = (0..8).map(|_| one.next()).collect();
        assert_eq!(numbers, (0..8).map(|_| other.next()).collect::<Vec<_>>());
        // The reference implementation's first number for the seed 0.
        assert_eq!(Random::new(0).next(), 0xE220_A839_7B1D_CDAF);
        let root = Random::new(7);
        assert_ne!(root.fork(1).next(), root.fork(2).next());
        assert_eq!(root.fork(1).next(), root.fork(1).next());
    }
}
