//! The homes of all partitions: each different home once, and a small number for each partition.

use crate::{Home, PARTITIONS};

/// The place of a partition without a home.
const NONE: u16 = u16::MAX;

/// The home of each partition.
///
/// Partitions with the same home share it, so that a question about nodes is asked once for each different home. Two
/// are equal when each partition has an equal home.
#[derive(Clone, Debug)]
pub struct Homes {
    shared: Vec<Shared>,
    /// For each partition the place of its home in `shared`, or [`NONE`].
    at: Vec<u16>,
}

/// A home, and how many partitions have it. With none its place is free for another home.
#[derive(Clone, Debug)]
struct Shared {
    home: Home,
    count: u16,
}

impl Default for Homes {
    /// No partition has a home.
    fn default() -> Self {
        Self { shared: Vec::new(), at: vec![NONE; usize::from(PARTITIONS)] }
    }
}

impl PartialEq for Homes {
    fn eq(&self, other: &Self) -> bool {
        // The places of homes may differ, and two different places here never mean one place there.
        let mut places = vec![NONE; self.shared.len()];
        self.at.iter().zip(&other.at).all(|(own, its)| match places.get_mut(usize::from(*own)) {
            None => *its == NONE,
            Some(known) if *known == *its => *its != NONE,
            Some(known) => {
                let is_first = *known == NONE;
                *known = *its;
                is_first && self.shared_at(*own) == other.shared_at(*its)
            }
        })
    }
}

impl Eq for Homes {}

impl Homes {
    /// The home of a partition.
    pub fn get(&self, partition: u16) -> Option<&Home> {
        self.shared_at(*self.at.get(usize::from(partition))?)
    }

    fn shared_at(&self, place: u16) -> Option<&Home> {
        self.shared.get(usize::from(place)).map(|shared| &shared.home)
    }

    /// The home of each partition, in order.
    pub fn iter(&self) -> impl Iterator<Item = Option<&Home>> {
        self.at.iter().map(|place| self.shared_at(*place))
    }

    /// Each different home, and how many partitions have it.
    pub fn shares(&self) -> impl Iterator<Item = (&Home, usize)> {
        self.shared.iter().filter(|shared| shared.count > 0).map(|shared| (&shared.home, usize::from(shared.count)))
    }

    /// The partitions whose home is one that `wanted` accepts, in order. It is asked once for each different home.
    pub fn partitions(&self, wanted: impl Fn(Option<&Home>) -> bool) -> Vec<u16> {
        let is_wanted: Vec<bool> =
            self.shared.iter().map(|shared| shared.count > 0 && wanted(Some(&shared.home))).collect();
        let wants_homeless = wanted(None);
        if !wants_homeless && !is_wanted.contains(&true) {
            return Vec::new();
        }
        let all = (0..).zip(&self.at);
        all.filter(|(_, place)| is_wanted.get(usize::from(**place)).copied().unwrap_or(wants_homeless))
            .map(|(partition, _)| partition)
            .collect()
    }

    /// Gives a partition a home, or takes it away; an invalid partition is ignored.
    pub fn set(&mut self, partition: u16, home: Option<Home>) {
        let Some(place) = self.at.get(usize::from(partition)).copied() else { return };
        if self.shared_at(place) == home.as_ref() {
            return;
        }
        if let Some(shared) = self.shared.get_mut(usize::from(place)) {
            shared.count -= 1;
        }
        let place = home.map_or(NONE, |home| self.place(home));
        if let Some(at) = self.at.get_mut(usize::from(partition)) {
            *at = place;
        }
    }

    /// The place of a home, which one more partition has from now on.
    fn place(&mut self, home: Home) -> u16 {
        let at = |is_it: &dyn Fn(&Shared) -> bool| self.shared.iter().rposition(is_it);
        let place = at(&|shared| shared.home == home).or_else(|| at(&|shared| shared.count == 0));
        let place = place.unwrap_or(self.shared.len());
        if let Some(shared) = self.shared.get_mut(place) {
            *shared = Shared { home, count: shared.count + 1 };
        } else {
            // There are never more than partitions: with that many, each has another home, or a place is free.
            self.shared.push(Shared { home, count: 1 });
        }
        place as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(node: &str, since: u64) -> Home {
        Home { node: node.to_owned(), since, by: None, first: false, former: Vec::new() }
    }

    #[test]
    fn homes_are_equal_whatever_their_places_are() {
        let (mut one, mut other) = (Homes::default(), Homes::default());
        assert_eq!(one, other);
        one.set(1, Some(home("a", 1)));
        one.set(2, Some(home("b", 1)));
        one.set(PARTITIONS, Some(home("c", 1)));
        for (at, name) in [(2, "c"), (2, "b"), (1, "a"), (3, "a")] {
            other.set(at, Some(home(name, 1)));
        }
        assert_ne!(one, other, "partition 3 has a home in one of them");
        other.set(3, None);
        assert_eq!(one, other);
        other.set(2, Some(home("a", 1)));
        assert_ne!(one, other, "partition 2 has another home");
        other.set(2, Some(home("b", 2)));
        assert_ne!(one, other, "partition 2 has it since another epoch");
    }

    #[test]
    fn places_of_homes_without_partitions_are_used_again() {
        let mut homes = Homes::default();
        for since in 0..10 {
            for partition in 0..PARTITIONS {
                homes.set(partition, Some(home("a", since * 2_000 + u64::from(partition))));
            }
        }
        assert!(homes.shared.len() <= usize::from(PARTITIONS), "{}", homes.shared.len());
        assert_eq!(homes.get(1_023), Some(&home("a", 19_023)));
        assert_eq!((homes.shares().count(), homes.get(PARTITIONS)), (1_024, None));
        assert_eq!(homes.partitions(|it| it.is_some_and(|it| it.since % 2_000 < 3)), [0, 1, 2]);
        homes.set(7, None);
        assert_eq!(homes.partitions(|it| it.is_none()), [7]);
        assert_eq!(homes.iter().flatten().count(), 1_023);
    }
}
