//! Batches of records, version 2: how Kafka keeps messages.

use crate::drivers::Problem;
use crate::drivers::driver::Bytes;

/// The size of a batch before its records, in bytes.
const HEAD: usize = 61;
/// The offset from which on the checksum covers the bytes.
const CHECKED_FROM: usize = 21;
/// The size of the fields before a batch's length: the offset and the length itself.
const BEFORE: usize = 12;

/// Records that are gathered.
#[derive(Default)]
pub(super) struct Gathered {
    records: Vec<u8>,
    pub(super) count: u32,
}

impl Gathered {
    pub(super) const fn len(&self) -> usize {
        self.records.len()
    }

    /// Adds a record without a key.
    pub(super) fn add(&mut self, value: &[u8]) {
        let mut record = vec![0, 0];
        varint(i64::from(self.count), &mut record);
        varint(-1, &mut record);
        varint(signed(value.len()), &mut record);
        varint(signed(record.len() + value.len() + 1), &mut self.records);
        self.records.extend_from_slice(&record);
        self.records.extend_from_slice(value);
        // No headers.
        self.records.push(0);
        self.count += 1;
    }

    /// The whole batch.
    pub(super) fn batch(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD + self.records.len());
        out.extend_from_slice(&0_i64.to_be_bytes());
        out.extend_from_slice(&((HEAD - BEFORE + self.records.len()) as u32).to_be_bytes());
        out.extend_from_slice(&(-1_i32).to_be_bytes());
        out.push(2);
        out.extend_from_slice(&[0; 4]);
        // No compression, and times that the broker does not look at.
        out.extend_from_slice(&0_i16.to_be_bytes());
        out.extend_from_slice(&(self.count.saturating_sub(1)).to_be_bytes());
        out.extend_from_slice(&[0; 16]);
        // Without a producer id.
        out.extend_from_slice(&(-1_i64).to_be_bytes());
        out.extend_from_slice(&(-1_i16).to_be_bytes());
        out.extend_from_slice(&(-1_i32).to_be_bytes());
        out.extend_from_slice(&self.count.to_be_bytes());
        out.extend_from_slice(&self.records);
        let sum = crc32c::crc32c(&out[CHECKED_FROM..]);
        out[CHECKED_FROM - 4..CHECKED_FROM].copy_from_slice(&sum.to_be_bytes());
        out
    }
}

/// Gives the values of all whole batches from an offset on; the offset behind the last of them.
pub(super) fn values(bytes: &[u8], from: u64, mut take: impl FnMut(&[u8])) -> Result<u64, Problem> {
    let (mut rest, mut next) = (bytes, from);
    while rest.len() >= HEAD {
        let mut head = Bytes(rest);
        let (base, len) = (head.u64()?, head.u32()? as usize);
        // The last batch of an answer may be cut off.
        let Some(batch) = rest.get(..BEFORE + len) else { break };
        let mut reader = Bytes(batch.get(CHECKED_FROM..).unwrap_or_default());
        if batch.get(CHECKED_FROM - 5) != Some(&2) || reader.u16()? & 0b111 != 0 {
            return Err(Problem::new("the records are of another version, or compressed"));
        }
        let last = reader.u32()?;
        reader.take(HEAD - CHECKED_FROM - 10)?;
        for _ in 0..reader.u32()? {
            let len = length(&mut reader)?;
            let mut record = Bytes(reader.take(len)?);
            record.u8()?;
            number(&mut record)?;
            let offset = base.wrapping_add_signed(number(&mut record)?);
            if let Ok(key) = usize::try_from(number(&mut record)?) {
                record.take(key)?;
            }
            let len = length(&mut record)?;
            let value = record.take(len)?;
            // A batch may begin before the offset that was asked for.
            if offset >= from {
                take(value);
            }
        }
        next = next.max(base + u64::from(last) + 1);
        rest = &rest[BEFORE + len..];
    }
    Ok(next)
}

fn length(bytes: &mut Bytes<'_>) -> Result<usize, Problem> {
    usize::try_from(number(bytes)?).map_err(|_| Problem::new("a record has a negative length"))
}

/// A number in zigzag, seven bits a byte.
fn number(bytes: &mut Bytes<'_>) -> Result<i64, Problem> {
    let mut value: u64 = 0;
    for shift in (0..64).step_by(7) {
        let byte = bytes.u8()?;
        value |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed());
        }
    }
    Err(Problem::new("a number does not end"))
}

/// A length in the encoding of these numbers: signed.
const fn signed(len: usize) -> i64 {
    (len as u64).cast_signed()
}

fn varint(value: i64, out: &mut Vec<u8>) {
    let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batched_records_are_found_from_any_offset() {
        let mut gathered = Gathered::default();
        let sizes = [0, 1, 63, 64, 300, 70_000];
        for size in sizes {
            gathered.add(&vec![7; size]);
        }
        let mut batch = gathered.batch();
        batch[..8].copy_from_slice(&100_u64.to_be_bytes());
        for from in [0, 100, 103] {
            let mut found = Vec::new();
            let next = values(&batch, from, |value| found.push(value.len())).unwrap();
            assert_eq!(next, 106);
            assert_eq!(found, sizes[from.saturating_sub(100) as usize..]);
        }
    }

    #[test]
    fn a_batch_that_is_cut_off_is_left_for_the_next_time() {
        let mut gathered = Gathered::default();
        gathered.add(b"abc");
        let batch = gathered.batch();
        let mut found = 0;
        assert_eq!(values(&batch[..batch.len() - 1], 5, |_| found += 1).unwrap(), 5);
        assert_eq!(found, 0);
    }

    #[test]
    fn numbers_go_there_and_back() {
        for value in [0, -1, 1, 63, -64, 64, 300, i64::from(i32::MAX), i64::MIN, i64::MAX] {
            let mut out = Vec::new();
            varint(value, &mut out);
            assert_eq!(number(&mut Bytes(&out)).unwrap(), value);
        }
    }
}
