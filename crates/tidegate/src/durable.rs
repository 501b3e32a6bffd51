//! The store of the broker: opened where the configuration names a directory.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use tidegate_engine::{Durability, Sweep};
use tidegate_node::Node;
use tidegate_store::{Disk, OpenError, Opened, RealDisk, Settings, Store, open, with_directory};

use crate::mirror::{self, BusFilesError, Mirrored};
use tidegate_administration::BrokerStatus;
use tidegate_config::Config;
use tidegate_process::physical_memory;

/// The garbage rules of the engines' records.
struct EngineSweep(Sweep);

impl tidegate_store::Sweep for EngineSweep {
    fn keep(&mut self, key: &[u8], value: &[u8]) -> bool {
        self.0.keep(key, value)
    }
}

/// The store of this process, if it has one.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) store: Option<Store>,
    /// Its files, where they are on the bus, too.
    pub(crate) mirrored: Option<Mirrored>,
}

/// Why the store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// The data directory cannot be made.
    #[error("the store in {directory}: {source}")]
    Directory {
        /// The data directory.
        directory: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The files cannot be on the bus.
    #[error(transparent)]
    Bus(#[from] BusFilesError),
    /// The files cannot be used. The store does not know its directory; with it, the command of the remedy can be
    /// copied.
    #[error("{}", with_directory(&format!("the store in {directory}: {source}"), directory))]
    Files {
        /// The data directory.
        directory: String,
        /// The fault, with its remedy.
        source: OpenError,
    },
}

/// Opens the store, if the configuration wants anything to outlive the process.
///
/// # Errors
/// When the directory, its files or the bus cannot be used.
pub(crate) fn open_store(config: &Config, status: &BrokerStatus) -> Result<Kept, StoreError> {
    let durability = match config.store.engine_durability() {
        Durability::Memory => return Ok(Kept::default()),
        Durability::Commit => tidegate_store::Durability::Commit,
        Durability::Relaxed => tidegate_store::Durability::Relaxed { window: config.store.window },
    };
    let Some(directory) = &config.store.directory else { return Ok(Kept::default()) };
    let named = || directory.clone();
    let disk = RealDisk::create(Path::new(directory));
    let disk = disk.map_err(|source| StoreError::Directory { directory: named(), source })?;
    warn_of_open_directory(directory);
    let mirrored = mirror::open(config, directory, status)?;
    let disk: Arc<dyn Disk> = match &mirrored {
        Some(mirrored) => mirrored.disk(),
        None => Arc::new(disk),
    };
    let settings = store_settings(config, durability);
    let sweep = Arc::new(|| Box::new(EngineSweep(Sweep::default())) as Box<dyn tidegate_store::Sweep>);
    let opened = open(disk, settings, sweep);
    let Opened { store, .. } = opened.map_err(|source| StoreError::Files { directory: named(), source })?;
    Ok(Kept { store: Some(store), mirrored })
}

fn store_settings(config: &Config, durability: tidegate_store::Durability) -> Settings {
    let (merge_memory_bytes, max_pending_bytes) = config.store.memory(physical_memory::available());
    Settings {
        durability,
        segment_bytes: config.store.file_bytes(merge_memory_bytes),
        merge_min_bytes: config.store.merge_at.0,
        replay_max_bytes: config.store.replay_max.0,
        checkpoint_after: config.store.checkpoint_after,
        max_bytes: config.store.max_bytes.0,
        min_free_bytes: config.store.min_free.0,
        reserve_bytes: config.store.reserve.0,
        merge_memory_bytes,
        max_pending_bytes,
        ..Settings::default()
    }
}

/// Every user that may read the directory reads the clients' messages.
fn warn_of_open_directory(directory: &str) {
    let Ok(there) = std::fs::metadata(directory) else { return };
    let mode = there.permissions().mode() & 0o7777;
    if mode & 0o007 != 0 {
        let may = if mode & 0o002 == 0 { "read" } else { "change" };
        tracing::warn!(
            directory,
            mode = format!("{mode:04o}"),
            "all users of this machine may {may} the data directory; run chmod 700 on it"
        );
    }
}

/// Logs the number of restored sessions and messages.
pub(crate) fn tell_restored(node: &Node) {
    if node.store_status().is_some() {
        let restored = node.restored();
        tracing::info!(
            sessions = restored.sessions,
            subscriptions = restored.subscriptions,
            messages = restored.messages,
            retained = restored.retained,
            "the store is loaded"
        );
    }
}
