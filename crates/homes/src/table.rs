//! A table of homes: which place works which partition.

use tidegate_admin::homes::{HomeOf, HomesTable, Place};
use tidegate_engine::{PARTITIONS, PartitionId, Partitions};

/// Places that a table may have.
const MAX_PLACES: usize = 1024;
/// Longest text in a table, bytes.
const MAX_TEXT: usize = 512;

/// Why something is no table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no table of homes: {0}")]
pub(crate) struct TableError(String);

fn wrong(text: impl Into<String>) -> TableError {
    TableError(text.into())
}

/// Which place works which partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    /// Grows with each change.
    pub epoch: u64,
    pub places: Vec<Place>,
    /// For each partition the position of its place.
    pub homes: Vec<usize>,
}

impl Table {
    /// The table that all orchestrators come to by themselves that have the same places: each partition is at the place
    /// whose name, hashed together with the partition, comes out highest, so that few move when a place comes or goes.
    pub(crate) fn by_hash(epoch: u64, mut places: Vec<Place>) -> Self {
        places.sort_by(|one, other| one.name.cmp(&other.name));
        let best = |partition: u16| {
            let weights = places.iter().map(|place| weight(&place.name, partition)).zip(0..);
            weights.max().map_or(0, |(_, position)| position)
        };
        let homes = (0..PARTITIONS).map(best).collect();
        Self { epoch, places, homes }
    }

    /// Reads a table as it is sent.
    pub(crate) fn read(table: &HomesTable) -> Result<Self, TableError> {
        let HomesTable { epoch, places, homes } = table;
        if places.len() > MAX_PLACES {
            return Err(wrong(format!("there are more than {MAX_PLACES} places")));
        }
        places.iter().try_for_each(check_place)?;
        let mut names: Vec<&str> = places.iter().map(|place| place.name.as_str()).collect();
        names.sort_unstable();
        if names.windows(2).any(|pair| pair.first() == pair.last()) {
            return Err(wrong("two places have the same name"));
        }
        if homes.len() != usize::from(PARTITIONS) {
            return Err(wrong(format!("`homes` has {} entries; there are {PARTITIONS} partitions", homes.len())));
        }
        let position = |home: &HomeOf| match home {
            HomeOf::Name(name) => {
                let at = places.iter().position(|place| place.name == *name);
                at.ok_or_else(|| wrong(format!("`{name}` is no place of it")))
            }
            HomeOf::Position(at) if *at < places.len() => Ok(*at),
            HomeOf::Position(at) => Err(wrong(format!("{at} is no place of it"))),
        };
        let homes = homes.iter().map(position).collect::<Result<_, _>>()?;
        Ok(Self { epoch: *epoch, homes, places: places.clone() })
    }

    /// The table as it is sent.
    pub(crate) fn to_body(&self) -> HomesTable {
        let name = |at: &usize| self.places.get(*at).map(|place| HomeOf::Name(place.name.clone()));
        HomesTable {
            epoch: self.epoch,
            places: self.places.clone(),
            homes: self.homes.iter().filter_map(name).collect(),
        }
    }

    /// The position of a place.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.places.iter().position(|place| place.name == name)
    }

    /// A place by its name.
    pub(crate) fn place(&self, name: &str) -> Option<&Place> {
        self.places.iter().find(|place| place.name == name)
    }

    /// The partitions of a place.
    pub(crate) fn at(&self, name: &str) -> Partitions {
        let position = self.position(name);
        let here = (0..PARTITIONS).map(PartitionId).zip(&self.homes).filter(|(_, at)| Some(**at) == position);
        here.map(|(partition, _)| partition).collect()
    }

    /// The same table after partitions have moved.
    pub(crate) fn moved(&self, partitions: Partitions, to: usize, epoch: u64) -> Self {
        let home = |(partition, at): (u16, &usize)| if partitions.has(PartitionId(partition)) { to } else { *at };
        let homes = (0..).zip(&self.homes).map(home).collect();
        Self { epoch, places: self.places.clone(), homes }
    }
}

fn check_place(place: &Place) -> Result<(), TableError> {
    if place.name.is_empty() {
        return Err(wrong("a place has no name"));
    }
    let texts = [&place.name, &place.mqtt, &place.relay, &place.admin];
    if texts.iter().any(|text| text.len() > MAX_TEXT) {
        return Err(wrong(format!("a text of a place is longer than {MAX_TEXT} bytes")));
    }
    Ok(())
}

/// A number for a place and a partition, the same in every process (FNV-1a, finished by the mixer of splitmix64).
fn weight(name: &str, partition: u16) -> u64 {
    let bytes = name.bytes().chain(partition.to_le_bytes());
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(names: &[&str]) -> Vec<Place> {
        names.iter().map(|name| Place { name: (*name).to_owned(), ..Place::default() }).collect()
    }

    #[test]
    fn everybody_comes_to_the_same_table_and_few_partitions_move() {
        let two = Table::by_hash(1, places(&["b", "a"]));
        assert_eq!(two, Table::by_hash(1, places(&["a", "b"])));
        assert!(two.at("a").iter().count() > 16 && two.at("b").iter().count() > 16);
        let three = Table::by_hash(1, places(&["a", "b", "c"]));
        for partition in (0..PARTITIONS).map(PartitionId).filter(|it| !three.at("c").has(*it)) {
            assert_eq!(two.at("a").has(partition), three.at("a").has(partition));
        }
        assert!(three.at("c").iter().count() > 8);
    }

    #[test]
    fn a_table_is_read_as_it_was_written_by_name_or_position() {
        let table = Table::by_hash(7, places(&["a", "b"]));
        let mut body = table.to_body();
        assert_eq!(Table::read(&body).unwrap(), table);
        body.homes = table.homes.iter().map(|at| HomeOf::Position(*at)).collect();
        assert_eq!(Table::read(&body).unwrap(), table);
        let moved = table.moved(table.at("a"), 1, 8);
        assert_eq!((moved.at("a").is_empty(), moved.at("b").iter().count(), moved.epoch), (true, 64, 8));
    }

    #[test]
    fn what_is_no_table_is_refused() {
        let good = Table::by_hash(1, places(&["a"])).to_body();
        let with_places = |places: Vec<Place>| HomesTable { places, ..good.clone() };
        let with_homes = |homes: Vec<HomeOf>| HomesTable { homes, ..good.clone() };
        for bad in [
            with_places(Vec::new()),
            with_places(places(&["a", "a"])),
            with_places(places(&["a", ""])),
            with_places(places(&["a", &"b".repeat(MAX_TEXT + 1)])),
            with_homes(vec![HomeOf::Name("a".into())]),
            with_homes(vec![HomeOf::Name("b".into()); PARTITIONS.into()]),
            with_homes(vec![HomeOf::Position(1); PARTITIONS.into()]),
        ] {
            assert!(Table::read(&bad).is_err(), "{bad:?}");
        }
    }
}
