//! Settings for opening a mirror.

use std::path::PathBuf;
use std::sync::Arc;

use tidegate_bus::{LogName, LogSpec, NameError};

use crate::Lost;

/// Called once when writes fail for good. It should return quickly.
pub type OnLost = Arc<dyn Fn(&Lost) + Send + Sync>;

/// Limits and habits of a mirror.
#[derive(Clone)]
pub struct Settings {
    /// The log that has the files, with one owner.
    pub log: LogName,
    /// The working copy.
    pub directory: PathBuf,
    /// Whether a sync waits for this machine's disk, too. Without it the working copy may be of no use after power
    /// loss, and is fetched.
    pub local_sync: bool,
    /// Bytes that the log may take on the bus. Above it writes are refused as on a disk without room; at least 64 MiB.
    pub max_bytes: u64,
    /// The fewest bytes that will do where the bus has no room for `max_bytes`, at least 64 MiB. The log then takes the
    /// largest half, quarter and so on of `max_bytes` that the bus has room for.
    pub least_bytes: u64,
    /// Bytes of a file in one record, 4,096 to 900,000.
    pub chunk_bytes: usize,
    /// Bytes of one file that may be unconfirmed, which delay the sync of another file.
    pub max_unconfirmed_bytes: usize,
    /// Bytes carried after which a new list of files is written. It bounds the records that a restart with its working
    /// copy has to fetch.
    pub index_after_bytes: u64,
    /// Bytes of dead records, beyond the size of the live ones, above which small old files are written again so that
    /// the log can be trimmed.
    pub max_dead_bytes: u64,
    /// Whether this process becomes a member of a cluster, and serves nothing before
    /// [`serve_since`](crate::MirrorDisk::serve_since): fences of its former processes do not end it.
    pub joins_cluster: bool,
    /// Called when writes fail for good.
    pub on_lost: OnLost,
}

/// Bytes of the log beyond `max_bytes` that are reserved for records that free space: changes of names and lists of
/// files.
pub(crate) const RESERVE_BYTES: u64 = 16 * 1024 * 1024;
/// Most records of a log, so high that the limit in bytes applies first.
const MAX_RECORDS: u64 = 1 << 40;
/// Least that a log has to be allowed to take.
pub(crate) const MIN_MAX_BYTES: u64 = 64 * MIB;
const MIB: u64 = 1024 * 1024;

impl Settings {
    /// The usual ones for the store of a node of this name, with its working copy in a directory.
    ///
    /// # Errors
    /// When the name is invalid for a log.
    pub fn new(node: &str, directory: impl Into<PathBuf>) -> Result<Self, NameError> {
        Ok(Self {
            log: log_of(node)?,
            directory: directory.into(),
            local_sync: true,
            max_bytes: 4 * 1024 * MIB,
            least_bytes: MIN_MAX_BYTES,
            chunk_bytes: 512 * 1024,
            max_unconfirmed_bytes: 2 * 1024 * 1024,
            index_after_bytes: 16 * MIB,
            max_dead_bytes: 32 * MIB,
            joins_cluster: false,
            on_lost: Arc::new(|_| {}),
        })
    }
}

impl Settings {
    /// The log as the bus is asked for it.
    pub(crate) fn spec(&self) -> LogSpec {
        // The servers count otherwise than we do: their limit must not be the first that is reached.
        let max_bytes = self.max_bytes + self.max_bytes / 8 + RESERVE_BYTES * 4;
        LogSpec { max_bytes, max_records: MAX_RECORDS, ..LogSpec::fenced(self.log.clone(), 1) }
    }

    /// Whether a new list of files is due: for the bytes written since the last one, or the bytes that were live then and
    /// are dead now. A log without room takes no writes: there only dead bytes say that a list gives room.
    pub(crate) fn wants_index(&self, written: u64, freed: u64, dead: u64) -> bool {
        let is_worth_it = dead > self.max_dead_bytes && written + freed > self.index_after_bytes / 16;
        written >= self.index_after_bytes || is_worth_it
    }

    /// The `max_bytes` whose log has this limit on the bus.
    pub(crate) fn max_bytes_of(limit: u64) -> u64 {
        limit.saturating_sub(RESERVE_BYTES * 4) / 9 * 8
    }
}

/// The log that has the store of a node.
///
/// # Errors
/// When the node's name is invalid for a log.
pub fn log_of(node: &str) -> Result<LogName, NameError> {
    LogName::new(&format!("store-{node}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_bytes_alone_make_a_list_due() {
        let settings = Settings::new("a", "unused").unwrap();
        assert!(settings.wants_index(0, 8 * MIB, 40 * MIB), "a full log takes no write, and much of it has died");
        assert!(!settings.wants_index(0, 0, 40 * MIB), "the last list could not free them, and the next cannot");
        assert!(!settings.wants_index(0, 8 * MIB, 20 * MIB));
        assert!(settings.wants_index(2 * MIB, 0, 40 * MIB) && !settings.wants_index(2 * MIB, 0, 20 * MIB));
        assert!(settings.wants_index(16 * MIB, 0, 0));
    }
}
