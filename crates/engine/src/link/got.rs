//! Partitions that have a QoS 2 message that crosses between nodes.

use crate::ids::Partitions;
use crate::partitions::put_partitions;
use crate::wire::{WireError, WireReader, WireWrite};

/// The layout in the store, in front of it. Two sets behind it are 2 bytes and whole series of 6, or more than 128
/// bytes: so its length is never that of sets of earlier versions.
const STORED: u8 = 2;
/// Bytes of a record of the first versions.
const ONE_EARLIER_SET: usize = 8;
/// Bytes of a record of later ones, with 64 partitions.
const TWO_EARLIER_SETS: usize = 16;

/// The partitions that a message has reached. Sessions and groups of one partition are looked at apart: while homes
/// change, a shard may serve the sessions of a partition whose groups another one deals for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Got {
    /// Partitions whose sessions and retained values have it.
    pub sessions: Partitions,
    /// Partitions to whose groups it was dealt.
    pub groups: Partitions,
}

impl Got {
    /// No partition.
    pub(crate) const EMPTY: Self = Self { sessions: Partitions::NONE, groups: Partitions::NONE };

    /// The union of both.
    #[must_use]
    pub(crate) fn with(self, others: Self) -> Self {
        Self { sessions: self.sessions.with(others.sessions), groups: self.groups.with(others.groups) }
    }

    /// Without the sessions of these partitions.
    #[must_use]
    pub(crate) fn without_sessions(self, partitions: Partitions) -> Self {
        Self { sessions: self.sessions.without(partitions), ..self }
    }

    /// The part in some partitions.
    #[must_use]
    pub(crate) fn among(self, partitions: Partitions) -> Self {
        Self { sessions: self.sessions.among(partitions), groups: self.groups.among(partitions) }
    }

    pub(crate) fn is_empty(self) -> bool {
        self == Self::EMPTY
    }

    pub(crate) fn write(self, out: &mut Vec<u8>) {
        put_partitions(out, self.sessions);
        put_partitions(out, self.groups);
    }

    pub(crate) fn read(reader: &mut WireReader<'_>) -> Result<Self, WireError> {
        Ok(Self { sessions: Partitions::read(reader)?, groups: Partitions::read(reader)? })
    }

    /// Reads the two sets of a version with 64 partitions.
    pub(crate) fn read_earlier(reader: &mut WireReader<'_>) -> Result<Self, WireError> {
        Ok(Self { sessions: Partitions::read_earlier(reader)?, groups: Partitions::read_earlier(reader)? })
    }

    /// Writes it for the store.
    pub(crate) fn write_stored(self, out: &mut Vec<u8>) {
        out.put_u8(STORED);
        self.write(out);
    }

    /// Reads a stored record, to the end. Earlier versions had fewer partitions, and the first of them did not separate
    /// groups from sessions.
    pub(crate) fn read_stored(reader: &mut WireReader<'_>) -> Result<Self, WireError> {
        match reader.remaining() {
            ONE_EARLIER_SET => {
                let sessions = Partitions::read_earlier(reader)?;
                Ok(Self { sessions, groups: sessions })
            }
            TWO_EARLIER_SETS => Self::read_earlier(reader),
            _ if reader.skip(STORED) => Self::read(reader),
            _ => Err(WireError { reading: "who has got a message" }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::PartitionId;

    fn stored(got: Got) -> Vec<u8> {
        let mut out = Vec::new();
        got.write_stored(&mut out);
        out
    }

    #[test]
    fn a_stored_record_is_read_in_each_layout() {
        let of = |earlier: &[u16]| earlier.iter().flat_map(|it| PartitionId::of_earlier(*it)).collect::<Partitions>();
        let read = |bytes: &[u8]| Got::read_stored(&mut WireReader::new(bytes)).unwrap();
        let first = [1, 0, 0, 0, 0, 0, 0, 0x80];
        assert_eq!(read(&first), Got { sessions: of(&[0, 63]), groups: of(&[0, 63]) });
        let second = [first, [4, 0, 0, 0, 0, 0, 0, 0]].concat();
        assert_eq!(read(&second), Got { sessions: of(&[0, 63]), groups: of(&[2]) });
        for step in 1..70 {
            let got =
                Got { sessions: Partitions::that(|it| it.0 % step == 0), groups: Partitions::of(PartitionId(step)) };
            assert_eq!(read(&stored(got)), got);
            assert!(![ONE_EARLIER_SET, TWO_EARLIER_SETS].contains(&stored(got).len()));
        }
        assert!(Got::read_stored(&mut WireReader::new(&[7; 12])).is_err());
    }
}
