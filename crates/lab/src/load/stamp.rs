//! The lab's bytes at the begin of every payload: who has sent it, as which message, and for when it was scheduled. A document
//! that systems read on its way has them as digits in a field.

/// The size of a stamp in bytes.
pub const STAMP_LEN: usize = 16;

/// The field of a document that has the stamp, and the bytes before its value in compact JSON.
pub const STAMP_FIELD: &str = "lab";
const BEFORE: &[u8] = b"\"lab\":\"";

/// The greatest time that a stamp can carry, in nanoseconds: 48 bits, 78 hours.
pub const MAX_TIME_NS: u64 = (1 << 48) - 1;

/// The mark, stream, sequence and time of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The mark of the run, so that messages of another run are recognised.
    pub mark: u16,
    /// The publisher, and the number of its topic.
    pub stream: u32,
    /// The number of the message in its stream, from 0.
    pub sequence: u32,
    /// When it was to be sent, in nanoseconds since the run's zero.
    pub scheduled_ns: u64,
}

impl Stamp {
    /// The bytes: mark (2), stream (4), sequence (4), time (6), all little-endian.
    pub fn to_bytes(self) -> [u8; STAMP_LEN] {
        let mut bytes = [0; STAMP_LEN];
        bytes[0..2].copy_from_slice(&self.mark.to_le_bytes());
        bytes[2..6].copy_from_slice(&self.stream.to_le_bytes());
        bytes[6..10].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[10..16].copy_from_slice(&self.scheduled_ns.min(MAX_TIME_NS).to_le_bytes()[..6]);
        bytes
    }

    /// The same bytes as hexadecimal digits, for a document.
    pub fn to_digits(self) -> String {
        let digit = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap_or('0');
        self.to_bytes().iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
    }

    /// Reads the stamp in the field of a document in compact JSON; `None` when it has none.
    pub fn of_document(document: &[u8]) -> Option<Self> {
        let at = document.windows(BEFORE.len()).position(|part| part == BEFORE)? + BEFORE.len();
        let digits = document.get(at..at + 2 * STAMP_LEN)?;
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let mut bytes = [0; STAMP_LEN];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Self::read(&bytes)
    }

    /// Reads the stamp of a payload; `None` when it is too short to have one.
    pub fn read(payload: &[u8]) -> Option<Self> {
        let bytes: &[u8; STAMP_LEN] = payload.first_chunk()?;
        let mut time = [0; 8];
        time[..6].copy_from_slice(&bytes[10..16]);
        Some(Self {
            mark: u16::from_le_bytes([bytes[0], bytes[1]]),
            stream: u32::from_le_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]),
            sequence: u32::from_le_bytes([bytes[6], bytes[7], bytes[8], bytes[9]]),
            scheduled_ns: u64::from_le_bytes(time),
        })
    }
}

/// The two marks of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// Messages that are measured.
    pub measured: u16,
    /// Messages that warm the broker up.
    pub warm_up: u16,
}

impl Marks {
    /// The marks of the run with this seed.
    pub fn of(seed: u64) -> Self {
        let mixed = super::chance::mix(seed) as u16;
        Self { measured: mixed & 0x7FFF, warm_up: mixed | 0x8000 }
    }

    /// Whether a message with this mark is of the run.
    pub const fn knows(self, mark: u16) -> bool {
        mark == self.measured || mark == self.warm_up
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_stamp_is_read_as_it_was_written(mark: u16, stream: u32, sequence: u32, scheduled_ns in 0..=MAX_TIME_NS) {
            let stamp = Stamp { mark, stream, sequence, scheduled_ns };
            prop_assert_eq!(Stamp::read(&stamp.to_bytes()), Some(stamp));
            prop_assert_eq!(Stamp::read(&stamp.to_bytes()[..15]), None);
            let document = format!("{{\"a\":1,\"{STAMP_FIELD}\":\"{}\"}}", stamp.to_digits());
            prop_assert_eq!(Stamp::of_document(document.as_bytes()), Some(stamp));
            prop_assert_eq!(Stamp::of_document(&document.as_bytes()[..document.len() - 3]), None);
        }
    }
}
