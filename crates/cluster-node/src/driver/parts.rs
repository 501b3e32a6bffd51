//! Images of partitions as records on the bus: cut into parts, and put together again.

use std::collections::BTreeMap;

use bytes::Bytes;
use tidegate_bus::{Append, Record};

/// Bytes of a part: well below the limit of a bus.
const PART: usize = 256 * 1024;
/// Bytes that a move may take; more is refused, and the partitions stay.
pub(super) const MAX_BYTES: usize = 192 * 1024 * 1024;

const MOVE: &str = "Move";
const PARTS: &str = "Parts";
const INDEX: &str = "Part";
const KIND: &str = "Kind";

/// The content of a parcel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// The images of the partitions.
    Images,
    /// Messages that have come for them since, to the old home alone.
    Rest,
}

impl Kind {
    const ALL: [Self; 2] = [Self::Images, Self::Rest];

    fn name(self) -> &'static str {
        match self {
            Self::Images => "images",
            Self::Rest => "rest",
        }
    }
}

/// The records of a parcel.
pub(super) fn cut(id: u64, kind: Kind, parcel: &[u8]) -> Vec<Append> {
    let parts = parcel.chunks(PART);
    let count = parts.len().to_string();
    let append = |(index, part): (usize, &[u8])| {
        Append::new(Bytes::copy_from_slice(part))
            .with_header(MOVE, id.to_string())
            .with_header(KIND, kind.name())
            .with_header(PARTS, count.clone())
            .with_header(INDEX, index.to_string())
    };
    parts.enumerate().map(append).collect()
}

/// Parcels that come in parts.
#[derive(Debug, Default)]
pub(super) struct Collector {
    expected: BTreeMap<(u64, Kind), BTreeMap<usize, Bytes>>,
}

impl Collector {
    /// The parts of this move are wanted.
    pub(super) fn expect(&mut self, id: u64) {
        for kind in Kind::ALL {
            self.expected.entry((id, kind)).or_default();
        }
    }

    /// Only these are still wanted.
    pub(super) fn retain(&mut self, wanted: impl Fn(u64) -> bool) {
        self.expected.retain(|(id, _), _| wanted(*id));
    }

    /// Whether none is wanted.
    pub(super) fn is_idle(&self) -> bool {
        self.expected.is_empty()
    }

    /// Takes a part, and gives the parcel out when it is whole. Parts that have come before change nothing.
    pub(super) fn take(&mut self, record: &Record) -> Option<(u64, Kind, Vec<u8>)> {
        let text = |name: &str| record.headers.iter().find(|header| header.name == name).map(|header| &header.value);
        let number = |name: &str| text(name)?.parse::<u64>().ok();
        let (id, count, index) = (number(MOVE)?, number(PARTS)?, number(INDEX)?);
        let kind = Kind::ALL.into_iter().find(|kind| text(KIND).is_some_and(|text| text == kind.name()))?;
        let parts = self.expected.get_mut(&(id, kind))?;
        parts.insert(usize::try_from(index).ok()?, record.payload.clone());
        if parts.len() as u64 != count {
            return None;
        }
        let parts = self.expected.remove(&(id, kind))?;
        Some((id, kind, parts.into_values().flatten().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_bus::Position;

    #[test]
    fn a_parcel_is_whole_when_all_its_parts_have_come_once_or_twice() {
        let parcel: Vec<u8> = (0..PART * 2 + 5).map(|at| (at % 251) as u8).collect();
        let records: Vec<Record> = (0..)
            .zip(cut(7, Kind::Images, &parcel).into_iter().chain(cut(7, Kind::Rest, &[9])))
            .map(|(position, append)| Record {
                position: Position(position),
                key: append.key,
                headers: append.headers,
                payload: append.payload,
            })
            .collect();
        assert_eq!(records.len(), 4);
        let mut collector = Collector::default();
        assert_eq!(collector.take(&records[0]), None);
        collector.expect(7);
        assert_eq!((collector.take(&records[0]), collector.take(&records[0])), (None, None));
        assert_eq!(collector.take(&records[2]), None);
        assert_eq!(collector.take(&records[1]), Some((7, Kind::Images, parcel)));
        assert_eq!(collector.take(&records[3]), Some((7, Kind::Rest, vec![9])));
        assert!(collector.is_idle());
    }
}
