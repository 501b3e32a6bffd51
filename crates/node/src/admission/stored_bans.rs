//! Bans in the store, so that they outlive the process.
//!
//! Changes are written in batches by a writer of their own, one batch at a time. Later changes wait, of each ban only
//! the newest, so that a stalled disk costs no more than [`UNKEPT_BAN_BYTES`].

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_engine::{Millis, Now};
use tidegate_store::{Writer, operation};

use crate::admission::{Admission, Ban, BanChange, RecordError};
use crate::limits::UNKEPT_BAN_BYTES;

/// The first byte of the keys of bans. The engine leaves those from 0x80 on to others.
const BAN: u8 = 0x80;

/// Takes a pair in that is a ban; returns whether it is one.
///
/// # Errors
/// When it is an unreadable ban. It may exclude a client, so a start must not ignore it.
pub(crate) fn restore(admission: &Admission, now: Now, key: &[u8], value: &[u8]) -> Result<bool, RecordError> {
    let Some((&BAN, key)) = key.split_first() else { return Ok(false) };
    admission.restore_ban(now, key, value)?;
    Ok(true)
}

/// A pair of a store as a ban; `None` when it is another.
pub(crate) fn read(now: Now, key: &[u8], value: &[u8]) -> Option<Result<Ban, RecordError>> {
    let (&BAN, key) = key.split_first()? else { return None };
    if Admission::is_end_of_ban(key, value) {
        return None;
    }
    Some(Admission::read_ban(now, key, value))
}

/// Whether a key of a store is that of a ban.
pub fn is_stored_ban(key: &[u8]) -> bool {
    key.first() == Some(&BAN)
}

/// A pair of a store in words for people; `None` when it is not the node's or not of this version.
pub(crate) fn describe_stored(key: &[u8], value: &[u8]) -> Option<String> {
    let (&BAN, key) = key.split_first()? else { return None };
    if Admission::is_end_of_ban(key, value) {
        return Some("the end of a ban, remembered for other nodes of the cluster".to_owned());
    }
    // Times are in the form of the store: since the Unix epoch.
    let clock = Now { monotonic: Millis(0), unix: 0 };
    let ban = Admission::read_ban(clock, key, value).ok()?;
    let until = match ban.until {
        Millis::NEVER => "for ever".to_owned(),
        Millis(until) => format!("until {until} ms since 1970"),
    };
    Some(format!("ban of {} {until}, by {}: {}", ban.target, ban.origin.label(), ban.reason))
}

/// Connects the list of bans and the store.
#[derive(Default)]
pub(crate) struct StoredBans {
    state: Mutex<State>,
    committed: Condvar,
}

#[derive(Default)]
struct State {
    /// There is one once the store runs.
    writer: Option<Writer>,
    /// Changes that wait for the batch under way: a new value, or the end.
    waiting: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// Bytes of the waiting clients.
    waiting_bytes: usize,
    /// Number of the last change.
    changes: u64,
    /// Number of the last change that was handed to the store.
    submitted: u64,
    /// Number of the last change that is on the disk.
    committed: u64,
    /// Number of the last change for which there was no room.
    lost: u64,
}

impl std::fmt::Debug for StoredBans {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredBans").finish_non_exhaustive()
    }
}

impl StoredBans {
    /// Has every change of these bans written from now on.
    pub(crate) fn follow(self: &Arc<Self>, admission: &Admission) {
        let bans = Arc::clone(self);
        admission.on_ban_change(move |change| bans.note(change));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, change: &BanChange) {
        let mut state = self.state();
        state.note(change);
        state.submit();
    }

    /// The store runs: pending and later changes are written to it.
    pub(crate) fn serve(&self, writer: Writer) {
        let mut state = self.state();
        state.writer = Some(writer);
        state.submit();
    }

    /// The store has committed a batch.
    pub(crate) fn on_committed(&self, sequence: u64) {
        let mut state = self.state();
        state.committed = sequence;
        state.submit();
        self.committed.notify_all();
    }

    /// Waits until all changes so far are on the disk; returns whether they are. Where there is no store, at once.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let state = self.state();
        let last = state.changes;
        let outstanding = |state: &mut State| state.committed < last && state.lost < last;
        let waited = self.committed.wait_timeout_while(state, limit, outstanding);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.committed >= last && state.lost < last.max(1)
    }
}

impl State {
    fn note(&mut self, change: &BanChange) {
        self.changes += 1;
        let (key, value) = match change {
            BanChange::Put { key, value } => (key, Some(value.clone())),
            BanChange::Delete { key } => (key, None),
        };
        let key = [&[BAN], key.as_slice()].concat();
        if let Some(before) = self.waiting.remove(&key) {
            self.waiting_bytes -= weight(&key, before.as_ref());
        }
        let bytes = weight(&key, value.as_ref());
        if self.waiting_bytes + bytes > UNKEPT_BAN_BYTES {
            if self.lost <= self.submitted {
                tracing::error!("too many ban changes wait for the store; further changes end with the process");
            }
            self.lost = self.changes;
            return;
        }
        self.waiting_bytes += bytes;
        self.waiting.insert(key, value);
    }

    /// Submits pending changes to the store, unless a batch is in progress.
    fn submit(&mut self) {
        let Some(writer) = &self.writer else { return };
        if self.waiting.is_empty() || self.committed < self.submitted {
            return;
        }
        let mut batch = Vec::with_capacity(self.waiting_bytes);
        for (key, value) in std::mem::take(&mut self.waiting) {
            let added = match value {
                Some(value) => operation::put(&mut batch, &key, &value),
                None => operation::delete(&mut batch, &key),
            };
            if let Err(error) = added {
                tracing::error!(%error, "a ban is not stored: the store is full. It ends with the process");
            }
        }
        self.waiting_bytes = 0;
        self.submitted = self.changes;
        if let Err(error) = writer.submit(self.submitted, batch) {
            tracing::error!(%error, "changes of bans are not stored; they end with the process");
        }
    }
}

fn weight(key: &[u8], value: Option<&Vec<u8>>) -> usize {
    key.len() + value.map_or(0, Vec::len)
}

#[cfg(test)]
mod tests;
