//! Partitions: the shares of all client ids, retained topics and shared groups, and sets of them.

use crate::wire::{WireError, WireReader, WireWrite};
use std::collections::BTreeMap;

/// Number of partitions that client ids, retained topics and shared groups are spread over, fixed for a deployment.
///
/// A cluster has no more members than partitions. 1,024 balance 51 members within 5 % and give each of 1,000 members
/// one; the set of all is 128 bytes, the home of each 2 KiB for a shard.
pub const PARTITIONS: u16 = 1_024;

/// Number of partitions of earlier versions. A partition of today is a part of the one whose number it has modulo this.
pub const EARLIER_PARTITIONS: u16 = 64;

const WORDS: usize = PARTITIONS as usize / u64::BITS as usize;

const _: () = assert!(PARTITIONS.is_multiple_of(u64::BITS as u16), "the words of a set are whole");
const _: () = assert!(PARTITIONS.is_multiple_of(EARLIER_PARTITIONS), "each partition of earlier versions is divided");
const _: () = assert!(EARLIER_PARTITIONS as u32 == u64::BITS, "a set of earlier versions is a number");

/// A share of all client ids, retained topics and shared groups, and the unit of everything that moves between places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u16);

impl PartitionId {
    /// All of them, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..PARTITIONS).map(Self)
    }

    /// The partitions into which one of earlier versions is divided.
    pub fn of_earlier(earlier: u16) -> impl Iterator<Item = Self> {
        (earlier % EARLIER_PARTITIONS..PARTITIONS).step_by(usize::from(EARLIER_PARTITIONS)).map(Self)
    }

    fn bit(self) -> u64 {
        1 << (self.0 % u64::BITS as u16)
    }

    fn word(self) -> usize {
        usize::from(self.0) / u64::BITS as usize
    }
}

/// Some of the partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partitions([u64; WORDS]);

impl Partitions {
    /// None of them.
    pub const NONE: Self = Self([0; WORDS]);

    /// All of them.
    pub const ALL: Self = Self([u64::MAX; WORDS]);

    /// One alone.
    pub(crate) fn of(partition: PartitionId) -> Self {
        std::iter::once(partition).collect()
    }

    /// Whether it is among them.
    #[inline]
    pub fn has(&self, partition: PartitionId) -> bool {
        self.0.get(partition.word()).is_some_and(|word| word & partition.bit() != 0)
    }

    /// Adds one; an invalid partition is not added.
    pub fn add(&mut self, partition: PartitionId) {
        if let Some(word) = self.0.get_mut(partition.word()) {
            *word |= partition.bit();
        }
    }

    /// Removes one.
    pub(crate) fn remove(&mut self, partition: PartitionId) {
        if let Some(word) = self.0.get_mut(partition.word()) {
            *word &= !partition.bit();
        }
    }

    fn merged(mut self, others: &Self, merge: impl Fn(u64, u64) -> u64) -> Self {
        self.0.iter_mut().zip(&others.0).for_each(|(word, other)| *word = merge(*word, *other));
        self
    }

    /// The union of both.
    #[must_use]
    pub fn with(self, others: Self) -> Self {
        self.merged(&others, |word, other| word | other)
    }

    /// The partitions that are in the first set only.
    #[must_use]
    pub fn without(self, others: Self) -> Self {
        self.merged(&others, |word, other| word & !other)
    }

    /// The partitions in both sets.
    #[must_use]
    pub(crate) fn among(self, others: Self) -> Self {
        self.merged(&others, |word, other| word & other)
    }

    /// The partitions that match `wanted`.
    pub(crate) fn that(wanted: impl Fn(PartitionId) -> bool) -> Self {
        let mut all = Self::NONE;
        for number in 0..PARTITIONS {
            if wanted(PartitionId(number)) {
                all.add(PartitionId(number));
            }
        }
        all
    }

    /// The partitions of this set that match `wanted`.
    #[must_use]
    pub(crate) fn filtered(self, wanted: impl Fn(PartitionId) -> bool) -> Self {
        self.iter().filter(|partition| wanted(*partition)).collect()
    }

    /// True for a set without partitions.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Each of them, in order.
    pub fn iter(self) -> impl Iterator<Item = PartitionId> {
        let each = |(at, mut word): (u16, u64)| {
            std::iter::from_fn(move || {
                let bit = word.trailing_zeros() as u16;
                word &= word.wrapping_sub(1);
                (bit < u64::BITS as u16).then_some(PartitionId(at * u64::BITS as u16 + bit))
            })
        };
        (0..).zip(self.0).flat_map(each)
    }

    /// Those into which a set of earlier versions, one bit each, is divided.
    fn of_earlier(bits: u64) -> Self {
        Self([bits; WORDS])
    }
}

impl FromIterator<PartitionId> for Partitions {
    fn from_iter<I: IntoIterator<Item = PartitionId>>(partitions: I) -> Self {
        let mut all = Self::NONE;
        partitions.into_iter().for_each(|partition| all.add(partition));
        all
    }
}

/// Items of one kind by partition, found in one pass over all.
#[derive(Debug)]
pub(crate) struct ByPartition<T>(BTreeMap<PartitionId, Vec<T>>);

impl<T> ByPartition<T> {
    /// Groups the entries of `all` by partition, for these partitions.
    pub(crate) fn new(partitions: Partitions, all: impl Iterator<Item = (PartitionId, T)>) -> Self {
        let mut by_partition: BTreeMap<PartitionId, Vec<T>> = BTreeMap::new();
        for (partition, one) in all.filter(|(partition, _)| partitions.has(*partition)) {
            by_partition.entry(partition).or_default().push(one);
        }
        Self(by_partition)
    }

    /// The entries of one partition.
    pub(crate) fn of(&self, partition: PartitionId) -> &[T] {
        self.0.get(&partition).map_or(&[], Vec::as_slice)
    }

    /// The entries of all partitions, in their order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        self.0.values().flatten()
    }
}

/// Series of partitions in one set, beyond which all bits of the set take less room.
const MAX_SERIES: usize = 20;
/// The count of series that marks a set written as bits.
const BITS: u8 = u8::MAX;

/// Partitions at equal distances: the partitions of a node, or of one of its shards, are a few such series.
#[derive(Clone, Copy)]
struct Series {
    first: u16,
    step: u16,
    count: u16,
}

/// The series of a set, if they are few.
fn series_of(partitions: Partitions) -> Option<Vec<Series>> {
    let mut all: Vec<Series> = Vec::new();
    for PartitionId(at) in partitions.iter() {
        let number = all.len();
        match all.last_mut() {
            Some(last) if last.count == 1 => (last.step, last.count) = (at - last.first, 2),
            Some(last) if u32::from(last.first) + u32::from(last.step) * u32::from(last.count) == u32::from(at) => {
                last.count += 1;
            }
            _ if number == MAX_SERIES => return None,
            _ => all.push(Series { first: at, step: 1, count: 1 }),
        }
    }
    Some(all)
}

/// Appends a set: as series or as its bits, if they are shorter.
pub(crate) fn put_partitions(out: &mut Vec<u8>, partitions: Partitions) {
    let Some(all) = series_of(partitions) else {
        out.put_u8(BITS);
        partitions.0.iter().for_each(|word| out.put_u64(*word));
        return;
    };
    out.put_u8(all.len() as u8);
    for series in all {
        out.put_u16(series.first);
        out.put_u16(series.step);
        out.put_u16(series.count);
    }
}

impl Partitions {
    /// Reads the output of [`put_partitions`].
    pub(crate) fn read(reader: &mut WireReader<'_>) -> Result<Self, WireError> {
        const WRONG: WireError = WireError { reading: "partitions" };
        let mut all = Self::NONE;
        let count = reader.u8(WRONG.reading)?;
        if count == BITS {
            for word in &mut all.0 {
                *word = reader.u64(WRONG.reading)?;
            }
            return Ok(all);
        }
        for _ in 0..count {
            let (first, step) = (reader.u16(WRONG.reading)?, reader.u16(WRONG.reading)?);
            let count = reader.u16(WRONG.reading)?;
            let last = u64::from(first) + u64::from(step) * u64::from(count.checked_sub(1).ok_or(WRONG)?);
            if last >= u64::from(PARTITIONS) || step == 0 {
                return Err(WRONG);
            }
            (0..count).for_each(|at| all.add(PartitionId(first + at * step)));
        }
        Ok(all)
    }

    /// Reads a set of earlier versions.
    pub(crate) fn read_earlier(reader: &mut WireReader<'_>) -> Result<Self, WireError> {
        Ok(Self::of_earlier(reader.u64("partitions")?))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(partitions: Partitions) -> Vec<u8> {
        let mut out = Vec::new();
        put_partitions(&mut out, partitions);
        out
    }

    fn read(bytes: &[u8]) -> Result<Partitions, WireError> {
        let mut reader = WireReader::new(bytes);
        let partitions = Partitions::read(&mut reader)?;
        if reader.is_empty() { Ok(partitions) } else { Err(WireError { reading: "the end" }) }
    }

    #[test]
    fn the_share_of_a_node_takes_a_few_bytes() {
        let every = |step: u16| Partitions::that(|it| it.0 % step == step - 1);
        let run = Partitions::that(|it| (300..700).contains(&it.0));
        for (partitions, bytes) in [(Partitions::NONE, 1), (Partitions::ALL, 7), (every(3), 7), (run, 7)] {
            let out = written(partitions);
            assert_eq!((read(&out), out.len()), (Ok(partitions), bytes));
        }
    }

    #[test]
    fn an_invalid_set_of_partitions_is_refused() {
        for (first, step, count) in [(0, 1, 1_025), (1_023, 1, 2), (0, 0, 2), (5, 1, 0), (0, 40_000, 40_000)] {
            let mut out = vec![1];
            for number in [first, step, count] {
                out.put_u16(number);
            }
            assert!(read(&out).is_err(), "{first} {step} {count}");
        }
        assert!(read(&[BITS; 128]).is_err() && read(&[]).is_err());
    }

    #[test]
    fn a_partition_of_earlier_versions_is_divided() {
        let mut reader = WireReader::new(&[0b10, 0, 0, 0, 0, 0, 0, 0x80]);
        let partitions = Partitions::read_earlier(&mut reader).unwrap();
        let those: Partitions = PartitionId::of_earlier(1).chain(PartitionId::of_earlier(63)).collect();
        assert_eq!((partitions, partitions.count()), (those, 32));
    }

    proptest! {
        #[test]
        fn any_set_has_the_partitions_it_was_made_from(mut of in proptest::collection::vec(0..PARTITIONS, 0..200), other in 0..PARTITIONS) {
            let partitions: Partitions = of.iter().copied().map(PartitionId).collect();
            of.sort_unstable();
            of.dedup();
            prop_assert_eq!(partitions.iter().map(|it| it.0).collect::<Vec<_>>(), of.clone());
            prop_assert_eq!((partitions.count(), partitions.is_empty()), (of.len(), of.is_empty()));
            let out = written(partitions);
            prop_assert!(out.len() <= 129);
            prop_assert_eq!(read(&out), Ok(partitions));
            let one = Partitions::of(PartitionId(other));
            prop_assert_eq!(partitions.with(one).without(one).has(PartitionId(other)), false);
            prop_assert_eq!(partitions.among(one).is_empty(), !of.contains(&other));
            let mut less = partitions;
            less.remove(PartitionId(other));
            prop_assert_eq!(less, partitions.without(one));
        }
    }
}
