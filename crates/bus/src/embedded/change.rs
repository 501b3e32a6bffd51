//! Changes of a log, and their form in a file.

use bytes::Bytes;

use super::coding::{put_record, put_u32, put_u64, take, take_record, take_u32, take_u64};
use crate::{Keep, Position, Record, Writers};

/// The append that a record comes from, so that an append which is sent twice is stored once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// The client: a number that no other client has.
    pub(super) client: u64,
    /// The number of the append. Later appends of the client have higher numbers.
    pub(super) number: u64,
}

/// One thing that happened to a log. A file is a sequence of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The specification of the log: the first change of a file, and again where its limits were changed.
    Spec { partitions: u32, writers: Writers, keep: Keep, max_records: u64, max_bytes: u64 },
    /// The state of a partition when the file was rewritten; its records follow.
    Base { partition: u32, first: Position, next: Position, owner: Option<Position> },
    /// Appends of one client that a partition remembers when the file is rewritten: numbers and positions.
    Remembered { partition: u32, client: u64, last: u64, stored: Vec<(u64, Position)> },
    /// A record was appended, by a client of the socket or within this process.
    Record { partition: u32, origin: Option<Origin>, record: Record },
    /// A claim: its position is the epoch of the new owner.
    Claim { partition: u32, position: Position },
    /// All below was removed.
    Trim { partition: u32, below: Position },
}

const NO_OWNER: u64 = u64::MAX;

impl Change {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Spec { partitions, writers, keep, max_records, max_bytes } => {
                let flags = u32::from(*writers == Writers::Owner) | u32::from(*keep == Keep::LatestOfKey) << 1;
                out.push(0);
                put_u32(out, *partitions);
                put_u32(out, flags);
                put_u64(out, *max_records);
                put_u64(out, *max_bytes);
            }
            Self::Base { partition, first, next, owner } => {
                out.push(1);
                put_u32(out, *partition);
                for number in [first.0, next.0, owner.map_or(NO_OWNER, |owner| owner.0)] {
                    put_u64(out, number);
                }
            }
            Self::Remembered { partition, client, last, stored } => {
                out.push(5);
                put_u32(out, *partition);
                put_u64(out, *client);
                put_u64(out, *last);
                put_u32(out, stored.len() as u32);
                for (number, position) in stored {
                    put_u64(out, *number);
                    put_u64(out, position.0);
                }
            }
            Self::Record { partition, origin, record } => {
                out.push(2);
                put_u32(out, *partition);
                out.push(u8::from(origin.is_some()));
                if let Some(origin) = origin {
                    put_u64(out, origin.client);
                    put_u64(out, origin.number);
                }
                put_record(out, record);
            }
            Self::Claim { partition, position } => {
                out.push(3);
                put_u32(out, *partition);
                put_u64(out, position.0);
            }
            Self::Trim { partition, below } => {
                out.push(4);
                put_u32(out, *partition);
                put_u64(out, below.0);
            }
        }
    }

    /// Reads one change from the front; `None` without a whole one.
    pub(super) fn decode(from: &mut Bytes) -> Option<Self> {
        Some(match take(from, 1)?[0] {
            0 => {
                let (partitions, flags) = (take_u32(from)?, take_u32(from)?);
                let writers = if flags & 1 == 0 { Writers::Many } else { Writers::Owner };
                let keep = if flags & 2 == 0 { Keep::All } else { Keep::LatestOfKey };
                let (max_records, max_bytes) = (take_u64(from)?, take_u64(from)?);
                Self::Spec { partitions, writers, keep, max_records, max_bytes }
            }
            1 => {
                let partition = take_u32(from)?;
                let (first, next, owner) = (take_u64(from)?, take_u64(from)?, take_u64(from)?);
                let owner = (owner != NO_OWNER).then_some(Position(owner));
                Self::Base { partition, first: Position(first), next: Position(next), owner }
            }
            2 => {
                let (partition, has_origin) = (take_u32(from)?, take(from, 1)?[0] != 0);
                let origin = |from: &mut Bytes| Some(Origin { client: take_u64(from)?, number: take_u64(from)? });
                let origin = if has_origin { Some(origin(from)?) } else { None };
                Self::Record { partition, origin, record: take_record(from)? }
            }
            3 => Self::Claim { partition: take_u32(from)?, position: Position(take_u64(from)?) },
            4 => Self::Trim { partition: take_u32(from)?, below: Position(take_u64(from)?) },
            5 => {
                let (partition, client, last, count) =
                    (take_u32(from)?, take_u64(from)?, take_u64(from)?, take_u32(from)?);
                let pair = |from: &mut Bytes| Some((take_u64(from)?, Position(take_u64(from)?)));
                let stored = (0..count).map(|_| pair(from)).collect::<Option<_>>()?;
                Self::Remembered { partition, client, last, stored }
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Header;

    #[test]
    fn changes_are_read_as_they_were_written_and_no_part_of_one_is() {
        let headers = vec![Header { name: "qos".to_owned(), value: "1".to_owned() }];
        let record = Record { position: Position(7), key: "k".into(), headers, payload: "content".into() };
        for change in [
            Change::Spec {
                partitions: 3,
                writers: Writers::Owner,
                keep: Keep::LatestOfKey,
                max_records: 9,
                max_bytes: 10,
            },
            Change::Remembered { partition: 1, client: 2, last: 5, stored: vec![(3, Position(4)), (5, Position(6))] },
            Change::Base { partition: 1, first: Position(2), next: Position(9), owner: None },
            Change::Base { partition: 1, first: Position(2), next: Position(9), owner: Some(Position(4)) },
            Change::Record { partition: 2, origin: None, record: record.clone() },
            Change::Record { partition: 2, origin: Some(Origin { client: 8, number: 9 }), record },
            Change::Claim { partition: 2, position: Position(8) },
            Change::Trim { partition: 2, below: Position(8) },
        ] {
            let mut bytes = Vec::new();
            change.encode(&mut bytes);
            for end in 0..bytes.len() {
                assert_eq!(Change::decode(&mut Bytes::copy_from_slice(&bytes[..end])), None);
            }
            assert_eq!(Change::decode(&mut bytes.into()), Some(change));
        }
    }
}
