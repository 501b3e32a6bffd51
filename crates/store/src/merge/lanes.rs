//! Operations on keys that end in a number, in order without being sorted.
//!
//! Most of a journal is about the entries of queues: each is put once and deleted once, and within a queue both come in
//! the order of their numbers. Kept apart by queue, and puts apart from deletes, they are in order already.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::entry::Entry;

/// Bytes of a key before its number.
const HEAD: usize = 10;
/// Bytes of a key that has a lane.
const KEY: usize = HEAD + size_of::<u64>();

/// The first bytes of a key, shared by all keys of a lane.
type Head = [u8; HEAD];

/// An operation on a key with a number.
#[derive(Clone, Copy)]
struct Numbered {
    number: u64,
    file: u32,
    key: u32,
    value_length: u32,
}

/// The operations on keys of one head.
#[derive(Default)]
struct Lane {
    puts: Vec<Numbered>,
    deletes: Vec<Numbered>,
}

/// All operations on keys that have a lane.
#[derive(Default)]
pub(super) struct Lanes {
    by_head: HashMap<Head, Lane>,
}

impl Lanes {
    /// Takes an operation, the newest so far; says whether its key has a lane.
    pub(super) fn take(&mut self, key: &[u8], entry: &Entry) -> bool {
        let Some((head, number)) = key.split_first_chunk::<HEAD>() else { return false };
        let Ok(number) = <[u8; KEY - HEAD]>::try_from(number) else { return false };
        let Entry { file, key, value_length, is_put, .. } = *entry;
        let numbered = Numbered { number: u64::from_be_bytes(number), file, key, value_length };
        let lane = self.by_head.entry(*head).or_default();
        if is_put {
            lane.puts.push(numbered);
        } else {
            lane.deletes.push(numbered);
        }
        true
    }

    /// The newest operation of each key, in the order of the keys.
    pub(super) fn sorted(self) -> Vec<Entry> {
        let mut lanes: Vec<(Head, Lane)> = self.by_head.into_iter().collect();
        lanes.sort_unstable_by_key(|(head, _)| *head);
        let operations = lanes.iter().map(|(_, lane)| lane.puts.len().max(lane.deletes.len())).sum();
        let mut entries = Vec::with_capacity(operations);
        for (_, lane) in lanes {
            lane.append_to(&mut entries);
        }
        entries
    }
}

impl Lane {
    fn append_to(mut self, entries: &mut Vec<Entry>) {
        // Operations are mostly in order already, which costs one comparison each. The newest of equal numbers stays
        // last.
        self.puts.sort_by_key(|operation| operation.number);
        self.deletes.sort_by_key(|operation| operation.number);
        let (mut puts, mut deletes) = (newest(&self.puts).peekable(), newest(&self.deletes).peekable());
        loop {
            let order = match (puts.peek(), deletes.peek()) {
                (Some(put), Some(delete)) => put.number.cmp(&delete.number),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return,
            };
            let put = if order.is_le() { puts.next() } else { None };
            let delete = if order.is_ge() { deletes.next() } else { None };
            let is_put = match (put, delete) {
                (Some(put), Some(delete)) => (put.file, put.key) > (delete.file, delete.key),
                (put, _) => put.is_some(),
            };
            entries.extend(if is_put { put } else { delete }.map(|operation| operation.entry(is_put)));
        }
    }
}

/// The last of each number.
fn newest(operations: &[Numbered]) -> impl Iterator<Item = &Numbered> {
    operations.chunk_by(|one, next| one.number == next.number).filter_map(<[Numbered]>::last)
}

impl Numbered {
    fn entry(&self, is_put: bool) -> Entry {
        Entry { file: self.file, key: self.key, value_length: self.value_length, key_length: KEY as u16, is_put }
    }
}
