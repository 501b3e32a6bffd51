//! The compact encoding of newer requests: lengths are numbers of seven bits a byte, and each structure ends with tagged
//! fields. Source: KIP-482.
//!
//! The header of such a request ends with tagged fields, too. It stands directly before the body, so a body begins with them.

use super::wire::AnswerReader;
use crate::sinks::SinkError;

/// Tagged fields of a structure that has none.
pub(super) const NO_TAGS: u8 = 0;
/// Most bytes of a number of 32 bits.
const MAX_NUMBER_BYTES: u32 = 5;

/// Appends a number.
fn number(mut number: u32, out: &mut Vec<u8>) {
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            out.push(low & 0x7f);
            return;
        }
        out.push(low | 0x80);
    }
}

/// Appends elements, each as `write` writes it.
pub(super) fn array<T>(items: &[T], out: &mut Vec<u8>, mut write: impl FnMut(&T, &mut Vec<u8>)) {
    number(u32::try_from(items.len()).unwrap_or(u32::MAX).saturating_add(1), out);
    for item in items {
        write(item, out);
    }
}

/// Appends a text.
pub(super) fn string(text: &str, out: &mut Vec<u8>) {
    array(text.as_bytes(), out, |byte, out| out.push(*byte));
}

impl AnswerReader<'_> {
    fn number(&mut self) -> Result<u32, SinkError> {
        let mut number = 0;
        for place in 0..MAX_NUMBER_BYTES {
            let byte = self.u8()?;
            number |= u32::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(SinkError::away("the answer has a number of more than 32 bits"))
    }

    /// A text; an absent one is empty.
    pub(super) fn compact_string(&mut self) -> Result<String, SinkError> {
        let len = usize::try_from(self.number()?.saturating_sub(1)).unwrap_or(usize::MAX);
        Ok(String::from_utf8_lossy(self.take(len)?).into_owned())
    }

    /// Reads elements one after the other, each with its tagged fields. Their number is bounded by the answer.
    pub(super) fn each_compact<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, SinkError>,
    ) -> Result<Vec<T>, SinkError> {
        let mut all = Vec::new();
        for _ in 0..self.number()?.saturating_sub(1) {
            all.push(read(self)?);
            self.tags()?;
        }
        Ok(all)
    }

    /// Partition numbers.
    pub(super) fn compact_numbers(&mut self) -> Result<Vec<i32>, SinkError> {
        (0..self.number()?.saturating_sub(1)).map(|_| self.i32()).collect()
    }

    /// Skips tagged fields.
    pub(super) fn tags(&mut self) -> Result<(), SinkError> {
        for _ in 0..self.number()? {
            self.number()?;
            let len = usize::try_from(self.number()?).unwrap_or(usize::MAX);
            self.take(len)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_seven_bits_a_byte() {
        for (value, bytes) in [(0, &[0][..]), (127, &[127]), (128, &[128, 1]), (300, &[172, 2])] {
            let mut out = Vec::new();
            number(value, &mut out);
            assert_eq!((out.as_slice(), AnswerReader(bytes).number()), (bytes, Ok(value)));
        }
        let mut largest = Vec::new();
        number(u32::MAX, &mut largest);
        assert_eq!(AnswerReader(&largest).number(), Ok(u32::MAX));
        assert!(AnswerReader(&[0x80; 6]).number().is_err());
    }

    #[test]
    fn tagged_fields_of_elements_are_skipped() {
        let mut bytes = vec![3, 2, b'a', 1, 9, 2, 7, 7, 1, 0];
        let read = |bytes: &[u8]| AnswerReader(bytes).each_compact(AnswerReader::compact_string);
        assert_eq!(read(&bytes), Ok(vec!["a".to_owned(), String::new()]));
        for end in 0..bytes.len() {
            assert!(read(&bytes[..end]).is_err(), "{end}");
        }
        bytes[0] = 0xff;
        assert!(read(&bytes).is_err());
    }
}
