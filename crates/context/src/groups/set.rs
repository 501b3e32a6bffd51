//! A set of the groups of one definition, by their places in it.

/// Which groups of a definition a node is in. Up to 64 groups take no memory of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSet(Bits);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Bits {
    Few(u64),
    Many(Box<[u64]>),
}

impl GroupSet {
    /// No group, out of this number.
    pub fn empty(groups: usize) -> Self {
        if groups <= 64 { Self(Bits::Few(0)) } else { Self(Bits::Many(vec![0; groups.div_ceil(64)].into())) }
    }

    /// Whether the group at a place is in it.
    pub fn contains(&self, place: usize) -> bool {
        match &self.0 {
            Bits::Few(bits) => place < 64 && bits >> place & 1 == 1,
            Bits::Many(words) => words.get(place / 64).is_some_and(|word| word >> (place % 64) & 1 == 1),
        }
    }

    /// Puts the group at a place in. Places beyond the number of groups have no effect.
    pub fn insert(&mut self, place: usize) {
        match &mut self.0 {
            Bits::Few(bits) => *bits |= if place < 64 { 1 << place } else { 0 },
            Bits::Many(words) => {
                if let Some(word) = words.get_mut(place / 64) {
                    *word |= 1 << (place % 64);
                }
            }
        }
    }

    /// Whether no group is in it.
    pub fn is_empty(&self) -> bool {
        match &self.0 {
            Bits::Few(bits) => *bits == 0,
            Bits::Many(words) => words.iter().all(|word| *word == 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_groups_are_kept_alike() {
        for groups in [1, 50, 64, 65, 200] {
            let mut set = GroupSet::empty(groups);
            assert!(set.is_empty());
            set.insert(groups - 1);
            set.insert(10_000);
            assert!((0..300).all(|place| set.contains(place) == (place == groups - 1)), "{groups}");
            assert!(!set.is_empty());
        }
    }
}
