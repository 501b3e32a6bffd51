//! The number of connections and the rate of new ones: one entry per source.

use std::collections::{BTreeMap, HashMap};

use tidegate_engine::{Millis, Reason};

use super::bucket::{Rate, TokenBucket};
use super::source::Source;

/// The limits of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceLimits {
    /// Connections at once; 0 is no limit.
    pub connections: u32,
    /// New connections.
    pub rate: Rate,
}

#[derive(Debug)]
struct Entry {
    source: Source,
    connections: u32,
    bucket: TokenBucket,
    /// Its place in the order of addresses without connections.
    idle: Option<u64>,
}

/// The sources with connections, and some recent ones without.
#[derive(Debug)]
pub(crate) struct Addresses {
    /// Limit of entries without connections. Beyond it the least recently seen entry is evicted.
    idle_limit: usize,
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    places: HashMap<Source, u32>,
    idle: BTreeMap<u64, u32>,
    next_stamp: u64,
    evicted: u64,
}

impl Addresses {
    /// A table that remembers up to `idle_limit` sources without connections. Those with some are as many as they are.
    pub(crate) fn new(idle_limit: usize) -> Self {
        Self {
            idle_limit: idle_limit.max(1),
            entries: Vec::new(),
            free: Vec::new(),
            places: HashMap::new(),
            idle: BTreeMap::new(),
            next_stamp: 0,
            evicted: 0,
        }
    }

    /// Takes one more connection of a source in and returns the place of its entry, to be given to
    /// [`Addresses::release`] once.
    ///
    /// # Errors
    /// With the limit that it is above.
    pub(crate) fn admit(&mut self, now: Millis, source: Source, limits: SourceLimits) -> Result<u32, Reason> {
        let place = self.place_of(source);
        let Some(Some(entry)) = self.entries.get_mut(place as usize) else { return Err(Reason::TooManyFromAddress) };
        let refused = if !entry.bucket.take(now, limits.rate) {
            Some(Reason::AddressRateExceeded)
        } else if limits.connections != 0 && entry.connections >= limits.connections {
            Some(Reason::TooManyFromAddress)
        } else {
            None
        };
        if let Some(reason) = refused {
            self.rest(place);
            return Err(reason);
        }
        entry.connections += 1;
        Ok(place)
    }

    /// Gives back a place: a connection has ended.
    pub(crate) fn release(&mut self, place: u32) {
        if let Some(Some(entry)) = self.entries.get_mut(place as usize) {
            entry.connections = entry.connections.saturating_sub(1);
            self.rest(place);
        }
    }

    /// The entry of a source, taken out of the order of those without connections.
    fn place_of(&mut self, source: Source) -> u32 {
        if let Some(place) = self.places.get(&source).copied() {
            if let Some(Some(entry)) = self.entries.get_mut(place as usize)
                && let Some(stamp) = entry.idle.take()
            {
                self.idle.remove(&stamp);
            }
            return place;
        }
        let entry = Entry { source, connections: 0, bucket: TokenBucket::default(), idle: None };
        let place = if let Some(place) = self.free.pop() {
            place
        } else {
            self.entries.push(None);
            self.entries.len() as u32 - 1
        };
        if let Some(slot) = self.entries.get_mut(place as usize) {
            *slot = Some(entry);
        }
        self.places.insert(source, place);
        place
    }

    /// Puts an entry without connections at the young end of the order.
    fn rest(&mut self, place: u32) {
        let Some(Some(entry)) = self.entries.get_mut(place as usize) else { return };
        if entry.connections > 0 {
            return;
        }
        let stamp = self.next_stamp;
        self.next_stamp += 1;
        if let Some(old) = entry.idle.replace(stamp) {
            self.idle.remove(&old);
        }
        self.idle.insert(stamp, place);
        if self.idle.len() > self.idle_limit
            && let Some((_, oldest)) = self.idle.pop_first()
            && let Some(entry) = self.entries.get_mut(oldest as usize).and_then(Option::take)
        {
            self.places.remove(&entry.source);
            self.free.push(oldest);
            self.evicted += 1;
        }
    }

    /// Sources in the table.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Sources that were forgotten to make room.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use proptest::prelude::*;

    use super::*;

    fn source(number: u32) -> Source {
        Source::of(IpAddr::V4(Ipv4Addr::from_bits(number)))
    }

    const TWO: SourceLimits = SourceLimits { connections: 2, rate: Rate::UNLIMITED };

    #[test]
    fn a_source_has_its_limit_and_others_have_theirs() {
        let mut table = Addresses::new(10);
        let first = table.admit(Millis(1), source(1), TWO).unwrap();
        assert_eq!(table.admit(Millis(1), source(1), TWO), Ok(first));
        assert_eq!(table.admit(Millis(1), source(1), TWO), Err(Reason::TooManyFromAddress));
        assert!(table.admit(Millis(1), source(2), TWO).is_ok());
        table.release(first);
        assert!(table.admit(Millis(1), source(1), TWO).is_ok());
    }

    #[test]
    fn a_rate_holds_although_connections_close_at_once() {
        let limits = SourceLimits { connections: 0, rate: Rate { per_second: 1, burst: 2 } };
        let mut table = Addresses::new(10);
        for expected in [true, true, false, false] {
            let place = table.admit(Millis(1000), source(1), limits);
            assert_eq!(place.is_ok(), expected);
            if let Ok(place) = place {
                table.release(place);
            }
        }
        assert_eq!(table.admit(Millis(1000), source(1), limits), Err(Reason::AddressRateExceeded));
        assert!(table.admit(Millis(2000), source(1), limits).is_ok());
    }

    proptest! {
        /// In any order of events, no count is lost, and the table stays within its bound.
        #[test]
        fn counts_survive_whatever_is_forgotten(
            steps in prop::collection::vec((0_u32..20, any::<bool>()), 1..400), idle_limit in 1_usize..6,
        ) {
            let limits = SourceLimits { connections: 3, rate: Rate::UNLIMITED };
            let mut table = Addresses::new(idle_limit);
            let mut held: Vec<Vec<u32>> = vec![Vec::new(); 20];
            for (number, opens) in steps {
                let places = &mut held[number as usize];
                if opens {
                    match table.admit(Millis(1), source(number), limits) {
                        Ok(place) => places.push(place),
                        Err(reason) => {
                            prop_assert_eq!(reason, Reason::TooManyFromAddress);
                            prop_assert_eq!(places.len(), 3);
                        }
                    }
                    prop_assert!(places.len() <= 3);
                } else if let Some(place) = places.pop() {
                    table.release(place);
                }
                let live = held.iter().filter(|places| !places.is_empty()).count();
                prop_assert!(table.len() <= live + idle_limit);
                prop_assert_eq!(table.idle.len(), table.len() - live);
            }
        }
    }
}
