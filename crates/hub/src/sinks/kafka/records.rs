//! Batches of records as Kafka stores them (format 2), and the partition of a key.

use std::borrow::Cow;

/// The id of the producer, and the number of the first record: by these the broker drops a batch that it has already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sequence {
    pub(crate) producer: i64,
    pub(crate) epoch: i16,
    pub(crate) first: i32,
    /// Whether the batch belongs to a transaction.
    pub(crate) in_transaction: bool,
}

/// The attribute of batches that belong to a transaction.
const TRANSACTION: i16 = 0x10;

/// A record of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BatchEntry {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    /// Unix milliseconds.
    pub(crate) timestamp: u64,
    pub(crate) headers: Vec<(Cow<'static, str>, Vec<u8>)>,
}

/// Bytes of a batch before its checksum: base offset, length, epoch of the leader, format.
const BEFORE_CHECKSUM: usize = 8 + 4 + 4 + 1;

/// A batch, uncompressed.
pub(crate) fn batch(sequence: Sequence, entries: &[BatchEntry]) -> Vec<u8> {
    let count = i32::try_from(entries.len()).unwrap_or(i32::MAX);
    let times = || entries.iter().map(|entry| i64::try_from(entry.timestamp).unwrap_or(i64::MAX));
    let (first, last) = (times().next().unwrap_or_default(), times().max().unwrap_or_default());
    let mut checked = Vec::new();
    // Not compressed; the time is the producer's.
    let attributes = if sequence.in_transaction { TRANSACTION } else { 0 };
    checked.extend_from_slice(&attributes.to_be_bytes());
    checked.extend_from_slice(&(count - 1).to_be_bytes());
    checked.extend_from_slice(&first.to_be_bytes());
    checked.extend_from_slice(&last.to_be_bytes());
    checked.extend_from_slice(&sequence.producer.to_be_bytes());
    checked.extend_from_slice(&sequence.epoch.to_be_bytes());
    checked.extend_from_slice(&sequence.first.to_be_bytes());
    checked.extend_from_slice(&count.to_be_bytes());
    for ((entry, offset), time) in entries.iter().zip(0_i64..).zip(times()) {
        let mut record = vec![0];
        varint(time.saturating_sub(first), &mut record);
        varint(offset, &mut record);
        bytes(&entry.key, &mut record);
        bytes(&entry.value, &mut record);
        length(entry.headers.len(), &mut record);
        for (name, value) in &entry.headers {
            bytes(name.as_bytes(), &mut record);
            bytes(value, &mut record);
        }
        bytes(&record, &mut checked);
    }
    let mut batch = Vec::with_capacity(BEFORE_CHECKSUM + 4 + checked.len());
    batch.extend_from_slice(&0_i64.to_be_bytes());
    // The length counts the bytes behind it: the epoch, the format, the checksum.
    batch.extend_from_slice(&(4 + 1 + 4 + checked.len() as u32).to_be_bytes());
    batch.extend_from_slice(&(-1_i32).to_be_bytes());
    batch.push(2);
    batch.extend_from_slice(&crc32c::crc32c(&checked).to_be_bytes());
    batch.extend_from_slice(&checked);
    batch
}

fn varint(number: i64, out: &mut Vec<u8>) {
    // Zigzag: small numbers of either sign are short.
    let mut rest = ((number << 1) ^ (number >> 63)).cast_unsigned();
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn length(length: usize, out: &mut Vec<u8>) {
    varint(i64::try_from(length).unwrap_or(i64::MAX), out);
}

fn bytes(bytes: &[u8], out: &mut Vec<u8>) {
    length(bytes.len(), out);
    out.extend_from_slice(bytes);
}

/// The partition of a key, as Kafka's own clients choose it, so that they find all records of a key in one.
pub(crate) fn partition(key: &[u8], partitions: usize) -> usize {
    (murmur2(key) & 0x7fff_ffff) as usize % partitions.max(1)
}

/// `MurmurHash2` with the seed of Kafka.
fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ data.len() as u32;
    let words = data.chunks_exact(4);
    let rest = words.remainder();
    for word in words {
        let mut k = u32::from_le_bytes([word[0], word[1], word[2], word[3]]).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    for (at, byte) in rest.iter().enumerate() {
        hash ^= u32::from(*byte) << (8 * at);
    }
    if !rest.is_empty() {
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_partitions_of_kafkas_clients() {
        // From the tests of Kafka's client for Java.
        for (key, hash) in [
            ("21", -973_932_308_i32),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        }
        assert_eq!(partition(b"abc", 1), 0);
    }

    #[test]
    fn a_batch_has_its_length_its_checksum_and_its_sequence() {
        let entry = |n: u8| BatchEntry {
            key: vec![b'k'],
            value: vec![n; 70],
            timestamp: 1000 + u64::from(n),
            headers: vec![("h".into(), vec![n])],
        };
        let batch = batch(Sequence { producer: 7, epoch: 1, first: 40, in_transaction: false }, &[entry(1), entry(0)]);
        assert_eq!(batch[8..12], (batch.len() as u32 - 12).to_be_bytes());
        assert_eq!(batch[16], 2);
        assert_eq!(batch[17..21], crc32c::crc32c(&batch[21..]).to_be_bytes());
        assert_eq!(batch[23..27], 1_i32.to_be_bytes(), "the offset of the last record");
        assert_eq!((&batch[27..35], &batch[35..43]), (&1001_i64.to_be_bytes()[..], &1001_i64.to_be_bytes()[..]));
        assert_eq!((&batch[43..51], &batch[53..57]), (&7_i64.to_be_bytes()[..], &40_i32.to_be_bytes()[..]));
        // Length (zigzag of 82), attributes, time, offset, key, length of the value (zigzag of 70 in two bytes).
        assert_eq!(batch[61..70], [0xa4, 1, 0, 0, 0, 2, b'k', 0x8c, 1]);
        let second = 61 + 2 + 82;
        assert_eq!(batch[second..second + 5], [0xa4, 1, 0, 1, 2], "a time before the first one is negative");
    }
}
