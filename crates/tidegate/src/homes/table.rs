//! A table of homes: which place works which partition.

use serde_json::{Value, json};
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

/// An orchestrator that partitions may be at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its name.
    pub(crate) name: String,
    /// Where clients reach it, for server references; empty for none.
    pub(crate) mqtt: String,
    /// Where it takes relayed clients, `HOST:PORT`; empty for nowhere.
    pub(crate) relay: String,
    /// Its admin address, `HOST:PORT`; empty where nothing can be moved to it.
    pub(crate) admin: String,
}

/// Which place works which partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    /// Grows with each change.
    pub(crate) epoch: u64,
    pub(crate) places: Vec<Place>,
    /// For each partition the position of its place.
    pub(crate) homes: Vec<usize>,
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

    /// Reads `{"epoch", "places", "homes"}`; other keys are somebody else's.
    pub(crate) fn from_json(value: &Value) -> Result<Self, TableError> {
        let epoch =
            value.get("epoch").and_then(Value::as_u64).ok_or_else(|| wrong("`epoch` is missing, or no number"))?;
        let places = list(value, "places")?.iter().map(read_place).collect::<Result<Vec<Place>, _>>()?;
        if places.len() > MAX_PLACES {
            return Err(wrong(format!("there are more than {MAX_PLACES} places")));
        }
        let mut names: Vec<&str> = places.iter().map(|place| place.name.as_str()).collect();
        names.sort_unstable();
        if names.windows(2).any(|pair| pair.first() == pair.last()) {
            return Err(wrong("two places have the same name"));
        }
        let homes = list(value, "homes")?;
        if homes.len() != usize::from(PARTITIONS) {
            return Err(wrong(format!("`homes` has {} entries; there are {PARTITIONS} partitions", homes.len())));
        }
        let position = |home: &Value| match home {
            Value::String(name) => places.iter().position(|place| place.name == *name),
            other => other.as_u64().and_then(|at| usize::try_from(at).ok()).filter(|at| *at < places.len()),
        };
        let homes = homes.iter().map(|home| position(home).ok_or_else(|| wrong(format!("{home} is no place of it"))));
        Ok(Self { epoch, homes: homes.collect::<Result<_, _>>()?, places })
    }

    /// The table as JSON.
    pub(crate) fn to_json(&self) -> Value {
        let places = self
            .places
            .iter()
            .map(|place| json!({ "name": place.name, "mqtt": place.mqtt, "relay": place.relay, "admin": place.admin }));
        let homes = self.homes.iter().map(|at| self.places.get(*at).map(|place| place.name.as_str()));
        json!({
            "epoch": self.epoch,
            "places": places.collect::<Vec<Value>>(),
            "homes": homes.collect::<Vec<_>>(),
        })
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

fn list<'a>(value: &'a Value, name: &str) -> Result<&'a Vec<Value>, TableError> {
    value.get(name).and_then(Value::as_array).ok_or_else(|| wrong(format!("`{name}` is missing, or no list")))
}

fn read_place(value: &Value) -> Result<Place, TableError> {
    let text = |name: &str| match value.get(name) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) if text.len() <= MAX_TEXT => Ok(text.clone()),
        Some(_) => Err(wrong(format!("`{name}` of a place is no text of at most {MAX_TEXT} bytes"))),
    };
    let place = Place { name: text("name")?, mqtt: text("mqtt")?, relay: text("relay")?, admin: text("admin")? };
    if place.name.is_empty() { Err(wrong("a place has no name")) } else { Ok(place) }
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
        let mut json = table.to_json();
        assert_eq!(Table::from_json(&json).unwrap(), table);
        json["homes"] = json!(table.homes);
        assert_eq!(Table::from_json(&json).unwrap(), table);
        let moved = table.moved(table.at("a"), 1, 8);
        assert_eq!((moved.at("a").is_empty(), moved.at("b").iter().count(), moved.epoch), (true, 64, 8));
    }

    #[test]
    fn what_is_no_table_is_refused() {
        let good = Table::by_hash(1, places(&["a"])).to_json();
        for (key, value) in [
            ("epoch", json!("x")),
            ("places", json!([])),
            ("places", json!([{"name": "a"}, {"name": "a"}])),
            ("places", json!([{"name": ""}])),
            ("homes", json!(["a"])),
            ("homes", json!(vec!["b"; 64])),
            ("homes", json!(vec![1; 64])),
        ] {
            let mut bad = good.clone();
            bad[key] = value;
            assert!(Table::from_json(&bad).is_err(), "{bad}");
        }
    }
}
