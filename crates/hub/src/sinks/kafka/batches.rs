//! Records out of the batches of a partition (format 2). Batches of aborted transactions are left out, and so are the
//! marks by which transactions end.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::unpack::{MAX_UNPACKED, UnpackError, unpack};
use crate::headers::HeaderRoom;

/// A record of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) offset: i64,
    /// Unix milliseconds.
    pub(crate) time: i64,
    pub(crate) key: Option<Vec<u8>>,
    /// Nothing where a compacted topic has a mark of deletion.
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    /// Whether it has more headers than are taken.
    pub(crate) headers_cut: bool,
}

/// Why records cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BatchError {
    #[error("the batch of records at offset {offset} cannot be unpacked: {why}")]
    Packed { offset: i64, why: UnpackError },
    #[error("records at offset {0} have an old format, which is not read")]
    OldFormat(i64),
    #[error("the records behind offset {0} cannot be read")]
    Broken(i64),
}

/// Bytes before the bytes that the length of a batch counts.
const BEFORE_LENGTH: usize = 12;
/// The codec within the attributes.
const CODEC: i16 = 0x07;
/// The attribute of batches that belong to a transaction.
const TRANSACTION: i16 = 0x10;
/// The attribute of marks that end a transaction.
const MARK: i16 = 0x20;
/// The attribute of batches whose time is that of the broker.
const TIME_OF_BROKER: i16 = 0x08;
/// The kind of a mark that aborts its transaction.
const ABORT: i16 = 0;

struct Head {
    base: i64,
    attributes: i16,
    last: i64,
    first_time: i64,
    last_time: i64,
    producer: i64,
    count: i32,
}

/// A compressed batch with records that are not taken yet: it is not unpacked again for them.
#[derive(Debug, Default)]
pub(crate) struct PartlyTaken {
    /// The offset of the next record.
    next: i64,
    checksum: Option<[u8; 4]>,
    /// The records, unpacked.
    bytes: Vec<u8>,
    /// Where the next one begins in `bytes`, and how many are left.
    at: usize,
    left: i32,
}

impl PartlyTaken {
    /// Its bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// The records of all whole batches from `from` on, `most` at most, and the offset that is next behind them. `aborted` are
/// the producers of aborted transactions with the first offset of each. `partly` is the batch that the last call has left,
/// and becomes that of this one.
///
/// # Errors
/// When there are no records before a batch that cannot be read.
pub(crate) fn records(
    bytes: &[u8],
    from: i64,
    aborted: &[(i64, i64)],
    most: usize,
    partly: &mut Option<PartlyTaken>,
) -> Result<(Vec<Taken>, i64), BatchError> {
    let mut open: BTreeMap<i64, i64> = BTreeMap::new();
    let mut left: Vec<(i64, i64)> = aborted.to_vec();
    left.sort_by_key(|(_, first)| *first);
    let mut left = left.into_iter().peekable();
    let (mut all, mut next, mut rest, mut room) = (Vec::new(), from, Reader(bytes), MAX_UNPACKED);
    while let Some((base, batch)) = rest.batch() {
        let checksum = batch.get(5..9).and_then(|bytes| bytes.try_into().ok());
        let known = partly.take().filter(|it| it.next == from && it.checksum == checksum);
        let found = head(base, batch).and_then(|(head, body)| match known {
            Some(known) => Ok((Cow::Owned(known.bytes), known.at, Head { count: known.left, ..head })),
            None => Ok((body_of(&head, body, room)?, 0, head)),
        });
        let (unpacked, start, head) = match found {
            Ok(found) => found,
            Err(error) if next == from => return Err(error),
            // The next answer begins with it.
            Err(_) => break,
        };
        if let Cow::Owned(unpacked) = &unpacked {
            room = room.saturating_sub(unpacked.len());
        }
        let mut body = Reader(unpacked.get(start..).unwrap_or_default());
        while let Some((producer, first)) = left.next_if(|(_, first)| *first <= head.last) {
            open.insert(producer, first);
        }
        if head.attributes & MARK != 0 {
            let is_abort = body.record(&head).and_then(|mark| mark.key).is_some_and(|key| kind_of_mark(&key) == ABORT);
            if is_abort {
                open.remove(&head.producer);
            }
        } else if head.attributes & TRANSACTION == 0 || !open.contains_key(&head.producer) {
            for taken in 0..head.count {
                let at = unpacked.len() - body.0.len();
                let record = body.record(&head).ok_or(BatchError::Broken(base))?;
                // A batch is sent whole, also when a record in it is asked for.
                if record.offset < from {
                    continue;
                }
                if all.len() >= most {
                    // The records behind it are not held: many tiny ones need far more memory than the batch.
                    let (next, left) = (record.offset, head.count - taken);
                    if let Cow::Owned(bytes) = unpacked {
                        *partly = Some(PartlyTaken { next, checksum, bytes, at, left });
                    }
                    return Ok((all, next));
                }
                all.push(record);
            }
        }
        next = next.max(head.last.saturating_add(1));
    }
    Ok((all, next))
}

fn kind_of_mark(key: &[u8]) -> i16 {
    key.get(2..4).and_then(|bytes| bytes.try_into().ok()).map_or(-1, i16::from_be_bytes)
}

fn head(base: i64, batch: &[u8]) -> Result<(Head, &[u8]), BatchError> {
    let mut reader = Reader(batch);
    let format = batch.get(4).copied();
    if matches!(format, Some(0 | 1)) {
        return Err(BatchError::OldFormat(base));
    }
    let broken = || BatchError::Broken(base);
    let mut read = || {
        reader.take(4 + 1 + 4)?;
        let attributes = reader.i16()?;
        let last = base.checked_add(i64::from(reader.i32()?))?;
        let (first_time, last_time, producer) = (reader.i64()?, reader.i64()?, reader.i64()?);
        reader.take(2 + 4)?;
        Some(Head { base, attributes, last, first_time, last_time, producer, count: reader.i32()? })
    };
    let head = read().ok_or_else(broken)?;
    let checksum = batch.get(5..9).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
    if format != Some(2) || checksum != batch.get(9..).map(crc32c::crc32c) {
        return Err(broken());
    }
    Ok((head, reader.0))
}

/// The records of a batch, unpacked where they are compressed. They have `room` bytes at most then.
fn body_of<'a>(head: &Head, body: &'a [u8], room: usize) -> Result<Cow<'a, [u8]>, BatchError> {
    match head.attributes & CODEC {
        0 => Ok(Cow::Borrowed(body)),
        codec => {
            let packed = |why| BatchError::Packed { offset: head.base, why };
            unpack(codec, body, room).map(Cow::Owned).map_err(packed)
        }
    }
}

/// Bytes of a record, or none where the length is -1.
struct Field<'a>(Option<&'a [u8]>);

/// Bytes that are read from their front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(front)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn i16(&mut self) -> Option<i16> {
        self.array().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_be_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_be_bytes)
    }

    /// The first offset of the next whole batch, and its bytes behind the length.
    fn batch(&mut self) -> Option<(i64, &'a [u8])> {
        let base = i64::from_be_bytes(self.0.get(..8)?.try_into().ok()?);
        let len = i32::from_be_bytes(self.0.get(8..BEFORE_LENGTH)?.try_into().ok()?);
        let len = usize::try_from(len).ok()?;
        self.0.get(BEFORE_LENGTH..BEFORE_LENGTH.checked_add(len)?)?;
        self.take(BEFORE_LENGTH)?;
        Some((base, self.take(len)?))
    }

    /// A number of variable length, whose sign is in its lowest bit.
    fn varint(&mut self) -> Option<i64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed());
            }
        }
        None
    }

    /// Bytes with their length before them.
    fn field(&mut self) -> Option<Field<'a>> {
        match self.varint()? {
            -1 => Some(Field(None)),
            len => self.take(usize::try_from(len).ok()?).map(|bytes| Field(Some(bytes))),
        }
    }

    fn record(&mut self, head: &Head) -> Option<Taken> {
        let len = usize::try_from(self.varint()?).ok()?;
        let mut record = Self(self.take(len)?);
        record.take(1)?;
        let time = head.first_time.checked_add(record.varint()?)?;
        let time = if head.attributes & TIME_OF_BROKER == 0 { time } else { head.last_time };
        let offset = head.base.checked_add(record.varint()?)?;
        let (key, value) = (record.field()?.0.map(<[u8]>::to_vec), record.field()?.0.map(<[u8]>::to_vec));
        let (mut headers, mut headers_cut, mut room) = (Vec::new(), false, HeaderRoom::default());
        for _ in 0..record.varint()? {
            let (name, value) = (record.field()?.0?, record.field()?.0.unwrap_or_default());
            if room.takes(name.len() + value.len()) {
                headers.push((String::from_utf8_lossy(name).into_owned(), value.to_vec()));
            } else {
                headers_cut = true;
            }
        }
        Some(Taken { offset, time, key, value, headers, headers_cut })
    }
}

#[cfg(test)]
mod tests {
    use super::super::records::{BatchEntry, Sequence, batch};
    use super::*;

    /// A batch with these values at `base`, with attributes.
    fn at(base: i64, producer: i64, attributes: i16, values: &[&str]) -> Vec<u8> {
        let entry = |value: &&str| BatchEntry {
            key: b"k".to_vec(),
            value: value.as_bytes().to_vec(),
            timestamp: 1000,
            headers: vec![("h".into(), b"x".to_vec())],
        };
        let entries: Vec<BatchEntry> = values.iter().map(entry).collect();
        let mut bytes = batch(Sequence { producer, epoch: 0, first: 0, in_transaction: false }, &entries);
        bytes[..8].copy_from_slice(&base.to_be_bytes());
        bytes[21..23].copy_from_slice(&attributes.to_be_bytes());
        let checksum = crc32c::crc32c(&bytes[21..]);
        bytes[17..21].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    /// A mark that ends a transaction: its key says how.
    fn mark(base: i64, producer: i64, kind: i16) -> Vec<u8> {
        let entry = BatchEntry { key: [[0; 2], kind.to_be_bytes()].concat(), ..BatchEntry::default() };
        let mut bytes = batch(Sequence { producer, epoch: 0, first: 0, in_transaction: false }, &[entry]);
        bytes[..8].copy_from_slice(&base.to_be_bytes());
        bytes[21..23].copy_from_slice(&(MARK | TRANSACTION).to_be_bytes());
        let checksum = crc32c::crc32c(&bytes[21..]);
        bytes[17..21].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    fn values(found: &[Taken]) -> Vec<(i64, String)> {
        let value = |one: &Taken| String::from_utf8(one.value.clone().unwrap()).unwrap();
        found.iter().map(|one| (one.offset, value(one))).collect()
    }

    #[test]
    fn a_record_with_many_headers_is_cut() {
        let of = |count: usize| {
            let headers = vec![("".into(), Vec::new()); count];
            let entry = BatchEntry { key: b"k".to_vec(), value: b"v".to_vec(), timestamp: 1, headers };
            let bytes =
                batch(Sequence { producer: 1, epoch: 0, first: 0, in_transaction: false }, &[entry.clone(), entry]);
            records(&bytes, 0, &[], usize::MAX, &mut None).unwrap().0
        };
        assert!(of(1_000).iter().all(|one| one.headers.len() == 1_000 && !one.headers_cut));
        let found = of(100_000);
        assert!(found.len() == 2 && found.iter().all(|one| one.headers.len() < 2_000 && one.headers_cut));
    }

    #[test]
    fn records_are_read_from_the_offset_on() {
        let bytes = [at(5, 1, 0, &["a", "b"]), at(9, 1, 0, &["c"])].concat();
        let (found, next) = records(&bytes, 6, &[], usize::MAX, &mut None).unwrap();
        assert_eq!((values(&found), next), (vec![(6, "b".to_owned()), (9, "c".to_owned())], 10));
        let headers = vec![("h".to_owned(), b"x".to_vec())];
        assert_eq!((found[0].time, &found[0].key, &found[0].headers), (1000, &Some(b"k".to_vec()), &headers));
        // The last batch may be cut off.
        let (found, next) = records(&bytes[..bytes.len() - 1], 5, &[], usize::MAX, &mut None).unwrap();
        assert_eq!((found.len(), next), (2, 7));
        assert_eq!(records(&[], 5, &[], usize::MAX, &mut None), Ok((vec![], 5)));
    }

    #[test]
    fn no_more_records_are_read_than_are_wanted() {
        let bytes = [packed(&at(5, 1, 0, &["a", "b", "c"]), 1), at(9, 1, 0, &["d"])].concat();
        let (mut from, mut all, mut partly) = (6, Vec::new(), None);
        for (next, left) in [(7, Some(1)), (9, None), (10, None), (10, None)] {
            let (found, behind) = records(&bytes, from, &[], 1, &mut partly).unwrap();
            assert_eq!((behind, partly.as_ref().map(|it: &PartlyTaken| it.left)), (next, left));
            all.extend(values(&found));
            from = behind;
        }
        assert_eq!(all, [(6, "b".to_owned()), (7, "c".to_owned()), (9, "d".to_owned())]);
    }

    #[test]
    fn a_batch_is_unpacked_once_unless_it_is_read_again() {
        let bytes = packed(&at(5, 1, 0, &["a", "b", "c"]), 1);
        let mut partly = None;
        records(&bytes, 5, &[], 1, &mut partly).unwrap();
        // The kept bytes are read, and not the batch.
        let kept = partly.as_mut().unwrap();
        let place = kept.bytes.iter().position(|byte| *byte == b'b').unwrap();
        kept.bytes[place] = b'B';
        let (found, next) = records(&bytes, 6, &[], 1, &mut partly).unwrap();
        assert_eq!((values(&found), next), (vec![(6, "B".to_owned())], 7));
        // A replay begins elsewhere, and another batch has another checksum.
        for (bytes, from, value) in [(&bytes, 6, "b"), (&packed(&at(5, 1, 0, &["a", "b", "x"]), 1), 7, "x")] {
            let mut partly = None;
            records(&packed(&at(5, 1, 0, &["a", "b", "c"]), 1), 5, &[], 2, &mut partly).unwrap();
            let (found, _) = records(bytes, from, &[], 1, &mut partly).unwrap();
            assert_eq!(values(&found), [(from, value.to_owned())]);
        }
    }

    #[test]
    fn an_aborted_transaction_is_left_out() {
        let bytes = [
            at(0, 7, TRANSACTION, &["lost"]),
            at(1, 8, TRANSACTION, &["kept"]),
            mark(2, 7, ABORT),
            at(3, 7, TRANSACTION, &["later"]),
            mark(4, 7, 1),
        ];
        let (found, next) = records(&bytes.concat(), 0, &[(7, 0)], usize::MAX, &mut None).unwrap();
        assert_eq!((values(&found), next), (vec![(1, "kept".to_owned()), (3, "later".to_owned())], 5));
    }

    /// The batch with its records packed.
    fn packed(batch: &[u8], codec: i16) -> Vec<u8> {
        let (head, body) = batch.split_at(61);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut gzip, body).unwrap();
        let mut bytes = [head, &gzip.finish().unwrap()].concat();
        let len = u32::try_from(bytes.len() - BEFORE_LENGTH).unwrap();
        bytes[8..BEFORE_LENGTH].copy_from_slice(&len.to_be_bytes());
        bytes[21..23].copy_from_slice(&codec.to_be_bytes());
        let checksum = crc32c::crc32c(&bytes[21..]);
        bytes[17..21].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    #[test]
    fn compressed_batches_are_read_up_to_a_bound() {
        let bytes = [packed(&at(5, 1, 0, &["a", "b"]), 1), at(7, 1, 0, &["c"])].concat();
        let (found, next) = records(&bytes, 6, &[], usize::MAX, &mut None).unwrap();
        assert_eq!((values(&found), next), (vec![(6, "b".to_owned()), (7, "c".to_owned())], 8));
        let large = "x".repeat(MAX_UNPACKED / 2);
        let half = packed(&at(0, 1, 0, &[&large]), 1);
        let mut other = half.clone();
        other[..8].copy_from_slice(&1_i64.to_be_bytes());
        let (found, next) = records(&[half.as_slice(), &other].concat(), 0, &[], usize::MAX, &mut None).unwrap();
        assert_eq!((found.len(), next), (1, 1), "the next answer begins with the other one");
        assert_eq!(records(&other, 1, &[], usize::MAX, &mut None).unwrap().1, 2);
        let whole = packed(&at(0, 1, 0, &[&large, &large]), 1);
        let why = UnpackError::TooLarge;
        assert_eq!(records(&whole, 0, &[], usize::MAX, &mut None), Err(BatchError::Packed { offset: 0, why }));
    }

    #[test]
    fn what_cannot_be_read_is_an_error_and_never_skipped() {
        let wrong = at(1, 1, 5, &["b"]);
        let why = UnpackError::Unknown(5);
        assert_eq!(records(&wrong, 1, &[], usize::MAX, &mut None), Err(BatchError::Packed { offset: 1, why }));
        let (found, next) = records(&[at(0, 1, 0, &["a"]), wrong].concat(), 0, &[], usize::MAX, &mut None).unwrap();
        assert_eq!((found.len(), next), (1, 1), "earlier records come");
        let mut broken = at(0, 1, 0, &["a"]);
        let end = broken.len() - 1;
        broken[end] ^= 1;
        assert_eq!(records(&broken, 0, &[], usize::MAX, &mut None), Err(BatchError::Broken(0)));
        let mut old = at(0, 1, 0, &["a"]);
        old[16] = 1;
        assert_eq!(records(&old, 0, &[], usize::MAX, &mut None), Err(BatchError::OldFormat(0)));
    }
}
