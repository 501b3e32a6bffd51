//! A table as a record: partitions with the same home are named together.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Factor, Former, Home, Homes, Move, PARTITIONS, RecordError, Table};

/// The layout that is written.
pub(crate) const VERSION: u32 = 2;
/// The layout of earlier versions: the home of each of 64 partitions, one after the other.
const VERSION_1: u32 = 1;
/// The number of partitions of that layout. A partition of today is a part of the one whose number it has modulo this.
pub const EARLIER_PARTITIONS: u16 = 64;

/// The partitions into which one of the earlier layout is divided.
pub fn parts_of_earlier(earlier: u16) -> impl Iterator<Item = u16> {
    (earlier % EARLIER_PARTITIONS..PARTITIONS).step_by(usize::from(EARLIER_PARTITIONS))
}

/// A table as it is written and read.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct TableRecord {
    version: u32,
    epoch: u64,
    lives: BTreeMap<String, u64>,
    /// Of the earlier layout alone, like `moves`. Without them, nodes of earlier versions would not read the version.
    homes: Vec<Option<Home>>,
    moves: Vec<Move>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    given_up: BTreeMap<String, u64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    factors: BTreeMap<String, Factor>,
    /// How many partitions there are. From here on of the present layout alone.
    #[serde(default)]
    partitions: u16,
    #[serde(default)]
    shares: Vec<ShareRecord>,
    #[serde(default)]
    moving: Vec<MoveRecord>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    preparing: Vec<MoveRecord>,
}

/// Partitions with the same home.
#[derive(Clone, Serialize, Deserialize)]
struct ShareRecord {
    node: String,
    since: u64,
    by: Option<u64>,
    #[serde(default, skip_serializing_if = "crate::advert::is_unset")]
    first: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    former: Vec<Former>,
    partitions: Vec<Series>,
}

#[derive(Clone, Serialize, Deserialize)]
struct MoveRecord {
    id: u64,
    partitions: Vec<Series>,
    from: String,
    to: String,
}

/// Partitions at equal distances: the first one, the distance, and how many. A plain number is a partition alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Series {
    One(u16),
    Several(u16, u16, u16),
}

fn series_of(partitions: impl IntoIterator<Item = u16>) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for at in partitions {
        match all.last_mut() {
            Some(last @ Series::One(_)) => {
                let Series::One(first) = *last else { continue };
                *last = Series::Several(first, at.saturating_sub(first), 2);
            }
            Some(Series::Several(first, step, count))
                if u32::from(*first) + u32::from(*step) * u32::from(*count) == u32::from(at) =>
            {
                *count += 1;
            }
            _ => all.push(Series::One(at)),
        }
    }
    all
}

/// The partitions of some series, in order; `None` where one is no partition.
fn partitions_of(all: &[Series]) -> Option<Vec<u16>> {
    let mut partitions = Vec::new();
    for series in all {
        let (first, step, count) = match *series {
            Series::One(first) => (first, 1, 1),
            Series::Several(first, step, count) => (first, step, count),
        };
        let last = u64::from(first) + u64::from(step) * u64::from(count.checked_sub(1)?);
        if last >= u64::from(PARTITIONS) || step == 0 {
            return None;
        }
        partitions.extend((0..count).map(|at| first + at * step));
    }
    partitions.sort_unstable();
    Some(partitions)
}

impl From<Table> for TableRecord {
    fn from(table: Table) -> Self {
        let Table { epoch, lives, homes, moves, preparing, given_up, factors } = table;
        let mut shares: BTreeMap<&Home, Vec<u16>> = BTreeMap::new();
        for (partition, home) in (0..).zip(homes.iter()) {
            if let Some(home) = home {
                shares.entry(home).or_default().push(partition);
            }
        }
        let share = |(home, partitions): (&Home, Vec<u16>)| {
            let Home { node, since, by, first, former } = home.clone();
            ShareRecord { node, since, by, first, former, partitions: series_of(partitions) }
        };
        let record =
            |it: Move| MoveRecord { id: it.id, partitions: series_of(it.partitions), from: it.from, to: it.to };
        Self {
            version: VERSION,
            epoch,
            lives,
            homes: Vec::new(),
            moves: Vec::new(),
            given_up,
            factors,
            partitions: PARTITIONS,
            shares: shares.into_iter().map(share).collect(),
            moving: moves.into_iter().map(record).collect(),
            preparing: preparing.into_iter().map(record).collect(),
        }
    }
}

impl TryFrom<TableRecord> for Table {
    type Error = RecordError;

    fn try_from(record: TableRecord) -> Result<Self, RecordError> {
        match record.version {
            VERSION => of_shares(record),
            VERSION_1 => of_earlier(record),
            other => Err(RecordError::Version(other)),
        }
    }
}

fn of_shares(record: TableRecord) -> Result<Table, RecordError> {
    let TableRecord { epoch, lives, given_up, factors, partitions, shares, moving, preparing, .. } = record;
    if partitions != PARTITIONS {
        return Err(RecordError::Partitions(partitions.into()));
    }
    let mut homes = Homes::default();
    for share in shares {
        for partition in partitions_of(&share.partitions).ok_or(RecordError::Series)? {
            let (node, former) = (share.node.clone(), share.former.clone());
            let home = Home { node, since: share.since, by: share.by, first: share.first, former };
            homes.set(partition, Some(home));
        }
    }
    let move_of = |it: MoveRecord| {
        let partitions = partitions_of(&it.partitions).ok_or(RecordError::Series)?;
        Ok(Move { id: it.id, partitions, from: it.from, to: it.to })
    };
    let moves = moving.into_iter().map(move_of).collect::<Result<_, RecordError>>()?;
    let preparing = preparing.into_iter().map(move_of).collect::<Result<_, RecordError>>()?;
    Ok(Table { epoch, lives, homes: Arc::new(homes), moves, preparing, given_up, factors })
}

/// Each partition of the earlier layout is divided, and all parts are at its home. Moves are called off: their images
/// are of partitions that there are no more, and the old homes have all of them.
fn of_earlier(record: TableRecord) -> Result<Table, RecordError> {
    let TableRecord { epoch, lives, homes, given_up, .. } = record;
    if homes.len() != usize::from(EARLIER_PARTITIONS) {
        return Err(RecordError::Partitions(homes.len()));
    }
    let mut divided = Homes::default();
    for (partition, home) in (0..PARTITIONS).zip(homes.iter().cycle()) {
        divided.set(partition, home.clone());
    }
    let homes = Arc::new(divided);
    Ok(Table { epoch, lives, homes, given_up, ..Table::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_another_layout_is_refused_with_its_version() {
        let table = Table { epoch: 7, ..Table::default() };
        let mut record = TableRecord::from(table.clone());
        record.version = 3;
        assert!(matches!(Table::try_from(record.clone()), Err(RecordError::Version(3))));
        (record.version, record.partitions) = (VERSION, 2_048);
        assert!(matches!(Table::try_from(record.clone()), Err(RecordError::Partitions(2_048))));
        record.version = VERSION_1;
        assert!(matches!(Table::try_from(record.clone()), Err(RecordError::Partitions(0))));
        record = TableRecord::from(table);
        record.moving.push(MoveRecord {
            id: 1,
            partitions: vec![Series::One(1_024)],
            from: "a".into(),
            to: "b".into(),
        });
        assert!(matches!(Table::try_from(record), Err(RecordError::Series)));
    }

    #[test]
    fn a_table_of_a_thousand_members_is_short_and_read_again() {
        for members in [1, 3, 1_000] {
            let mut table = Table::default();
            let names: Vec<String> = (0..members).map(|it| format!("node-{it}")).collect();
            for (partition, name) in (0..PARTITIONS).zip(names.iter().cycle()) {
                table.give(partition, name, 1, None);
            }
            let bytes = table.to_bytes();
            assert!(bytes.len() < 200 + 70 * members, "{members}: {}", bytes.len());
            assert_eq!(Table::from_bytes(&bytes).unwrap(), table);
        }
    }
}
