//! Reads `MessagePack`: <https://github.com/msgpack/msgpack/blob/master/spec.md>.

use crate::drivers::Problem;
use crate::drivers::driver::Bytes;

/// How deep a value may be that is passed over.
const DEEPEST: u32 = 32;

/// The unread bytes.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    /// The next array's length.
    pub(super) fn array(&mut self) -> Result<usize, Problem> {
        match self.take(1)?[0] {
            short @ 0x90..=0x9F => Ok(usize::from(short & 0x0F)),
            0xDC => self.len(2),
            0xDD => self.len(4),
            other => Err(unexpected("an array", other)),
        }
    }

    /// The number of pairs in the next map.
    pub(super) fn map(&mut self) -> Result<usize, Problem> {
        match self.take(1)?[0] {
            short @ 0x80..=0x8F => Ok(usize::from(short & 0x0F)),
            0xDE => self.len(2),
            0xDF => self.len(4),
            other => Err(unexpected("a map", other)),
        }
    }

    /// A number that is not negative.
    pub(super) fn number(&mut self) -> Result<u64, Problem> {
        match self.take(1)?[0] {
            short @ 0..=0x7F => Ok(u64::from(short)),
            // Some peers encode positive numbers as signed.
            0xCC | 0xD0 => self.big_endian(1),
            0xCD | 0xD1 => self.big_endian(2),
            0xCE | 0xD2 => self.big_endian(4),
            0xCF | 0xD3 => self.big_endian(8),
            other => Err(unexpected("a number", other)),
        }
    }

    /// The bytes of a string or of binary data.
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Problem> {
        let len = match self.take(1)?[0] {
            short @ 0xA0..=0xBF => usize::from(short & 0x1F),
            0xC4 | 0xD9 => self.len(1)?,
            0xC5 | 0xDA => self.len(2)?,
            0xC6 | 0xDB => self.len(4)?,
            other => return Err(unexpected("a string or bytes", other)),
        };
        self.take(len)
    }

    pub(super) fn text(&mut self) -> Result<String, Problem> {
        self.bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// Skips a value.
    pub(super) fn skip(&mut self) -> Result<(), Problem> {
        self.skip_within(DEEPEST)
    }

    fn skip_within(&mut self, levels: u32) -> Result<(), Problem> {
        let Some(below) = levels.checked_sub(1) else { return Err(Problem::new("a message is too deep")) };
        let first = self.0.first().copied().ok_or_else(|| Problem::new("a message ends too early"))?;
        match first {
            0x90..=0x9F | 0xDC | 0xDD => (0..self.array()?).try_for_each(|_| self.skip_within(below)),
            0x80..=0x8F | 0xDE | 0xDF => (0..2 * self.map()?).try_for_each(|_| self.skip_within(below)),
            0xA0..=0xBF | 0xC4..=0xC6 | 0xD9..=0xDB => self.bytes().map(drop),
            0..=0x7F | 0xC0..=0xC3 | 0xE0..=0xFF => self.take(1).map(drop),
            0xCC | 0xD0 => self.take(2).map(drop),
            0xCD | 0xD1 => self.take(3).map(drop),
            0xCA | 0xCE | 0xD2 => self.take(5).map(drop),
            0xCB | 0xCF | 0xD3 => self.take(9).map(drop),
            other => Err(unexpected("a value of WAMP", other)),
        }
    }

    fn len(&mut self, bytes: usize) -> Result<usize, Problem> {
        self.big_endian(bytes).map(|len| len as usize)
    }

    fn big_endian(&mut self, bytes: usize) -> Result<u64, Problem> {
        Ok(self.take(bytes)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Problem> {
        let mut left = Bytes(self.0);
        let taken = left.take(count)?;
        self.0 = left.0;
        Ok(taken)
    }
}

fn unexpected(wanted: &str, first: u8) -> Problem {
    Problem::new(format!("a message has {first:#04x} where {wanted} is due"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::load::record::message_pack;

    #[test]
    fn whatever_is_written_is_passed_over_to_the_byte() {
        let deep = json!([1, "x".repeat(40), [1.5, null, { "a": -1, "b": [-200, 70_000, 5_000_000_000_u64] }], true]);
        let values = [deep, json!(vec![0; 20]), json!("x".repeat(70_000)), json!(-70_000), json!(-5_000_000_000_i64)];
        for value in values {
            let mut packed = Vec::new();
            message_pack::write(&value, &mut packed);
            packed.push(0x2A);
            let mut reader = Reader(&packed);
            reader.skip().unwrap();
            assert_eq!(reader.number(), Ok(42));
            for end in 0..packed.len() - 1 {
                assert!(Reader(&packed[..end]).skip().is_err(), "{value} up to {end}");
                if end > 300 {
                    break;
                }
            }
        }
    }

    #[test]
    fn unbounded_nesting_is_refused() {
        assert_eq!(Reader(&[0x91; 100]).skip(), Err(Problem::new("a message is too deep")));
    }
}
