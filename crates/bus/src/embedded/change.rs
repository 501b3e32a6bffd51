//! What happens to a log, and how a file says it.

use bytes::Bytes;

use crate::{Header, Keep, Position, Record, Writers};

/// One thing that happened to a log. A file is a sequence of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// What the log is; the first of a file.
    Spec { partitions: u32, writers: Writers, keep: Keep },
    /// How a partition stood when the file was written anew; its records follow.
    Base { partition: u32, first: Position, next: Position, owner: Option<Position> },
    /// A record was appended.
    Record { partition: u32, record: Record },
    /// Somebody became the owner, at this position.
    Claim { partition: u32, position: Position },
    /// All below was removed.
    Trim { partition: u32, below: Position },
}

const NO_OWNER: u64 = u64::MAX;

impl Change {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Spec { partitions, writers, keep } => {
                let flags = u32::from(*writers == Writers::Owner) | u32::from(*keep == Keep::LatestOfKey) << 1;
                out.push(0);
                put_u32(out, *partitions);
                put_u32(out, flags);
            }
            Self::Base { partition, first, next, owner } => {
                out.push(1);
                put_u32(out, *partition);
                for number in [first.0, next.0, owner.map_or(NO_OWNER, |owner| owner.0)] {
                    put_u64(out, number);
                }
            }
            Self::Record { partition, record } => {
                out.push(2);
                put_u32(out, *partition);
                put_u64(out, record.position.0);
                put_bytes(out, &record.key);
                put_u32(out, record.headers.len() as u32);
                for header in &record.headers {
                    put_bytes(out, header.name.as_bytes());
                    put_bytes(out, header.value.as_bytes());
                }
                put_bytes(out, &record.payload);
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

    /// Reads one change from the front; `None` when there is none.
    pub(super) fn decode(from: &mut Bytes) -> Option<Self> {
        Some(match take(from, 1)?[0] {
            0 => {
                let (partitions, flags) = (take_u32(from)?, take_u32(from)?);
                let writers = if flags & 1 == 0 { Writers::Many } else { Writers::Owner };
                let keep = if flags & 2 == 0 { Keep::All } else { Keep::LatestOfKey };
                Self::Spec { partitions, writers, keep }
            }
            1 => {
                let partition = take_u32(from)?;
                let (first, next, owner) = (take_u64(from)?, take_u64(from)?, take_u64(from)?);
                let owner = (owner != NO_OWNER).then_some(Position(owner));
                Self::Base { partition, first: Position(first), next: Position(next), owner }
            }
            2 => {
                let (partition, position) = (take_u32(from)?, Position(take_u64(from)?));
                let key = take_bytes(from)?;
                let count = take_u32(from)?;
                let headers = (0..count).map(|_| take_header(from)).collect::<Option<_>>()?;
                let payload = take_bytes(from)?;
                Self::Record { partition, record: Record { position, key, headers, payload } }
            }
            3 => Self::Claim { partition: take_u32(from)?, position: Position(take_u64(from)?) },
            4 => Self::Trim { partition: take_u32(from)?, below: Position(take_u64(from)?) },
            _ => return None,
        })
    }
}

fn put_u32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u32(out, bytes.len() as u32);
    out.extend_from_slice(bytes);
}

fn take(from: &mut Bytes, count: usize) -> Option<Bytes> {
    (from.len() >= count).then(|| from.split_to(count))
}

fn take_u32(from: &mut Bytes) -> Option<u32> {
    Some(u32::from_le_bytes(take(from, 4)?.as_ref().try_into().ok()?))
}

fn take_u64(from: &mut Bytes) -> Option<u64> {
    Some(u64::from_le_bytes(take(from, 8)?.as_ref().try_into().ok()?))
}

fn take_bytes(from: &mut Bytes) -> Option<Bytes> {
    let count = take_u32(from)?;
    take(from, count as usize)
}

fn take_header(from: &mut Bytes) -> Option<Header> {
    let (name, value) = (take_bytes(from)?, take_bytes(from)?);
    Some(Header { name: String::from_utf8(name.into()).ok()?, value: String::from_utf8(value.into()).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_as_they_were_written_and_no_part_of_one_is() {
        let headers = vec![Header { name: "qos".to_owned(), value: "1".to_owned() }];
        let record = Record { position: Position(7), key: "k".into(), headers, payload: "content".into() };
        for change in [
            Change::Spec { partitions: 3, writers: Writers::Owner, keep: Keep::LatestOfKey },
            Change::Base { partition: 1, first: Position(2), next: Position(9), owner: None },
            Change::Base { partition: 1, first: Position(2), next: Position(9), owner: Some(Position(4)) },
            Change::Record { partition: 2, record },
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
