//! Usage in the store: a batch of a shard's journal that is awaited also has the changed counters, so that an acknowledged
//! message is never stored without the usage that it belongs to.
//!
//! Counters begin at zero with each process, so their keys have the number of its run. Counters of an earlier run stay
//! until they are in the books.

use tidegate_engine::{Now, ShardId, TenantId, Usage};
use tidegate_store::operation;

use crate::admission::stored_bans;

/// The first byte of the keys. The engine leaves those from 0x80 on to others.
const USAGE: u8 = 0x81;
/// The version of the values.
const VERSION: u8 = 1;
/// Longest user name that a key can have, bytes. The usage of a user with a longer one is not in the store.
const MAX_USER: usize = 60_000;

/// The usage of a payer on a shard in an earlier run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftUsage {
    /// The number of the run, larger than the number of each run before it.
    pub run: u64,
    /// The tenant.
    pub tenant: TenantId,
    /// The user name; empty for clients that are not metered by user.
    pub user: String,
    /// When it was stored, Unix seconds.
    pub at_s: u64,
    /// The counters since the start of the run.
    pub usage: Usage,
    /// The shard that had it.
    pub(crate) shard: ShardId,
    key: Vec<u8>,
}

impl LeftUsage {
    /// Its key in the store.
    pub(crate) fn into_key(self) -> Vec<u8> {
        self.key
    }
}

/// A pair of a store as usage; `None` when it is another, or one of a later version.
pub(crate) fn read(key: &[u8], value: &[u8]) -> Option<LeftUsage> {
    let ([run, shard, tenant], user) = numbers(key.strip_prefix(&[USAGE])?)?;
    let ([at_s, messages_in, messages_out, bytes_in, bytes_out, connection_ms], _) =
        numbers(value.strip_prefix(&[VERSION])?)?;
    Some(LeftUsage {
        run,
        tenant: TenantId(u16::try_from(tenant).ok()?),
        user: std::str::from_utf8(user).ok()?.to_owned(),
        at_s,
        usage: Usage { messages_in, messages_out, bytes_in, bytes_out, connection_ms, ..Usage::default() },
        shard: ShardId(u16::try_from(shard).ok()?),
        key: key.to_vec(),
    })
}

/// Numbers, and the bytes behind them. A byte has 7 bits of a number, the lowest first; the highest bit says that more follow.
fn numbers<const N: usize>(mut bytes: &[u8]) -> Option<([u64; N], &[u8])> {
    let mut numbers = [0; N];
    for number in &mut numbers {
        for shift in (0..u64::BITS).step_by(7) {
            let (byte, rest) = bytes.split_first()?;
            bytes = rest;
            *number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    Some((numbers, bytes))
}

fn push_number(mut number: u64, to: &mut Vec<u8>) {
    while number > 0x7f {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// A pair of a store in words for people; `None` when it is not the node's or not of this version.
pub fn describe_stored(key: &[u8], value: &[u8]) -> Option<String> {
    stored_bans::describe_stored(key, value).or_else(|| describe(key, value))
}

fn describe(key: &[u8], value: &[u8]) -> Option<String> {
    let LeftUsage { run, tenant, user, usage, .. } = read(key, value)?;
    let Usage { messages_in, messages_out, .. } = usage;
    let of_user = if user.is_empty() { String::new() } else { format!(", user {user}") };
    Some(format!("usage of tenant {}{of_user} in run {run}: {messages_in} messages in, {messages_out} out", tenant.0))
}

/// The usage of earlier processes that a store has.
#[derive(Clone, Debug, Default)]
pub struct LeftRuns {
    /// The number under which this process stores its usage; 0 without a store.
    pub this_run: u64,
    /// The usage under smaller numbers.
    pub left: Vec<LeftUsage>,
}

impl LeftRuns {
    /// A run begins now. The wall clock may have been set back since the earlier ones.
    pub(crate) fn before(now: Now, left: Vec<LeftUsage>) -> Self {
        let last = left.iter().map(|left| left.run).max().unwrap_or_default();
        Self { this_run: now.unix.max(last.saturating_add(1)), left }
    }

    /// The usage is given away once: it may be long.
    pub(crate) fn take(&mut self) -> Self {
        Self { this_run: self.this_run, left: std::mem::take(&mut self.left) }
    }
}

/// Writes the usage of a shard.
#[derive(Debug)]
pub(crate) struct UsageWriter {
    /// The last key that was put.
    key: Vec<u8>,
    /// Bytes of the run and the shard, with which all keys begin.
    of_shard: usize,
    /// The last value that was put.
    value: Vec<u8>,
    /// Keys of earlier runs that are in the books. They are deleted with the next usage, so that the store always has the
    /// number of the last run.
    forgotten: Vec<Vec<u8>>,
}

impl UsageWriter {
    pub(crate) fn new(run: u64, shard: ShardId) -> Self {
        let mut key = vec![USAGE];
        push_number(run, &mut key);
        push_number(shard.0.into(), &mut key);
        Self { of_shard: key.len(), key, value: Vec::new(), forgotten: Vec::new() }
    }

    /// Usage of earlier runs is in the books.
    pub(crate) fn forget(&mut self, keys: Vec<Vec<u8>>) {
        self.forgotten.extend(keys);
    }

    /// Adds changed usage to a batch.
    pub(crate) fn begin<'a>(&'a mut self, now: Now, batch: &'a mut Vec<u8>) -> UsageWriting<'a> {
        UsageWriting { writer: self, batch, at_s: now.unix / 1000 }
    }
}

/// Changed usage that is being added to a batch.
pub(crate) struct UsageWriting<'a> {
    writer: &'a mut UsageWriter,
    batch: &'a mut Vec<u8>,
    at_s: u64,
}

impl UsageWriting<'_> {
    /// Adds the counters of a payer.
    pub(crate) fn put(&mut self, tenant: TenantId, user: &str, usage: &Usage) {
        if user.len() > MAX_USER {
            return;
        }
        let UsageWriter { key, of_shard, value, .. } = &mut *self.writer;
        key.truncate(*of_shard);
        push_number(tenant.0.into(), key);
        key.extend_from_slice(user.as_bytes());
        value.clear();
        value.push(VERSION);
        let Usage { messages_in, messages_out, bytes_in, bytes_out, connection_ms, .. } = *usage;
        for number in [self.at_s, messages_in, messages_out, bytes_in, bytes_out, connection_ms] {
            push_number(number, value);
        }
        // Neither is too long.
        let _ = operation::put(self.batch, key, value);
    }

    /// Deletes keys of earlier runs.
    pub(crate) fn end(self) {
        for key in self.writer.forgotten.drain(..) {
            // It is as long as it was when it was put.
            let _ = operation::delete(self.batch, &key);
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_engine::Millis;
    use tidegate_store::operation::{Operation, Operations};

    use super::*;

    #[test]
    fn usage_is_read_as_it_was_written_and_forgotten_with_the_next() {
        let now = Now { monotonic: Millis(0), unix: 1_700_000_000_123 };
        let usage = Usage {
            messages_in: 1,
            messages_out: 2,
            bytes_in: 300,
            bytes_out: u64::MAX,
            connection_ms: 5,
            ..Usage::default()
        };
        let mut writer = UsageWriter::new(7, ShardId(1));
        let mut batch = Vec::new();
        let mut writing = writer.begin(now, &mut batch);
        writing.put(TenantId(3), "ann", &usage);
        writing.end();
        let written: Vec<Operation<'_>> = Operations::new(&batch).map(Result::unwrap).collect();
        let [Operation::Put { key, value }] = written[..] else { panic!("{written:?}") };
        let left = read(key, value).unwrap();
        assert_eq!(
            (left.run, left.tenant, &*left.user, left.at_s, left.usage),
            (7, TenantId(3), "ann", 1_700_000_000, usage)
        );
        assert_eq!(describe(key, value).unwrap(), "usage of tenant 3, user ann in run 7: 1 messages in, 2 out");
        assert_eq!((read(key, &value[1..]), read(&key[1..], value)), (None, None));
        assert!((0..value.len()).all(|end| read(key, &value[..end]).is_none()));
        assert_eq!(LeftRuns::before(now, vec![left.clone()]).this_run, now.unix);
        assert_eq!(LeftRuns::before(Now { unix: 5, ..now }, vec![left.clone()]).this_run, 8, "the clock was set back");
        let mut later = UsageWriter::new(8, ShardId(0));
        later.forget(vec![left.into_key()]);
        let mut next = Vec::new();
        let mut writing = later.begin(now, &mut next);
        writing.put(TenantId(3), "ann", &usage);
        writing.end();
        let written: Vec<Operation<'_>> = Operations::new(&next).map(Result::unwrap).collect();
        assert!(matches!(written[..], [Operation::Put { .. }, Operation::Delete { key: deleted }] if deleted == key));
    }
}
