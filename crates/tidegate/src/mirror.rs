//! The files of the store on the bus: opens them where the configuration names a bus, and stops the broker when another
//! process takes them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use signal_hook::consts::SIGTERM;
use tidegate_bus::{Address, AddressError, Bus, BusError, NameError};
use tidegate_mirror::{Lost, MirrorDisk, MirrorError, MirrorStatus, OnLost, Settings};

use crate::cluster::StoreOnBus;
use tidegate_administration::{BrokerStatus, Part};
use tidegate_config::Config;
use tidegate_console::Status;

/// How long a stop waits for the bus, beyond the time that clients have.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// Maximum time without a confirmation of pending writes by the bus, before the broker is not ready.
const MAX_STALL: Duration = Duration::from_secs(2);

/// Why the files of the store cannot be on the bus, or not be left in order.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BusFilesError {
    /// The address of the bus.
    #[error("{key}: {source}")]
    Address {
        /// The key that is set.
        key: &'static str,
        /// The fault.
        source: AddressError,
    },
    /// The bus cannot be opened.
    #[error("the bus {address}: {source}")]
    Bus {
        /// Its address.
        address: Address,
        /// The error of the bus.
        source: Box<BusError>,
    },
    /// The name that the log of the files is made of.
    #[error("{name}: {source}")]
    Name {
        /// The name.
        name: String,
        /// The fault.
        source: NameError,
    },
    /// The files cannot be opened.
    #[error("the store in {directory}: {source}")]
    Open {
        /// The data directory.
        directory: String,
        /// The fault, with its remedy.
        source: MirrorError,
    },
    /// The system gives no thread.
    #[error("cannot start a thread for the stop: {0}")]
    Thread(#[source] io::Error),
}

/// A store whose files are on the bus.
#[derive(Clone)]
pub(crate) struct Mirrored {
    disk: Arc<MirrorDisk>,
    /// The reason why the store has failed, once it has: mostly another process has the files.
    lost: Arc<OnceLock<Lost>>,
    /// True if the directory had them before: then their last owner has ended.
    was_here: bool,
}

/// The log that the files go to.
struct Target {
    /// The key that is set.
    key: &'static str,
    bus: String,
    name: String,
    settings: tidegate_bus::Settings,
}

/// Whether the nodes of the cluster find the files when this one dies.
fn is_for_cluster(config: &Config) -> bool {
    let (mirror, cluster) = (&config.mirror, &config.cluster);
    let is_said = mirror.bus.is_some()
        && mirror.bus == cluster.bus
        && mirror.prefix == cluster.prefix
        && mirror.name == cluster.name;
    tidegate_config::mirror::is_implied(&config.store, &config.cluster, &config.mirror) || is_said
}

fn target(config: &Config) -> Option<Target> {
    if tidegate_config::mirror::is_implied(&config.store, &config.cluster, &config.mirror) {
        let (bus, name) = (config.cluster.bus.clone().unwrap_or_default(), config.cluster.name.clone());
        return Some(Target { key: "cluster.bus", bus, name, settings: tidegate_cluster_node::bus_settings(config) });
    }
    let mirror = &config.mirror;
    let settings = tidegate_bus::Settings {
        prefix: mirror.prefix.clone(),
        replicas: mirror.replicas,
        tls: mirror.tls,
        tls_ca: mirror.bus_ca.as_ref().map(PathBuf::from),
        ..tidegate_bus::Settings::default()
    };
    let name = mirror.name.clone();
    mirror.bus.clone().map(|bus| Target { key: "mirror.bus", bus, name, settings })
}

/// Opens the files, where the configuration names a bus.
///
/// # Errors
/// When the bus or the files cannot be used.
pub(crate) fn open(config: &Config, directory: &str, status: &BrokerStatus) -> Result<Option<Mirrored>, BusFilesError> {
    let mirror = &config.mirror;
    let Some(Target { key, bus, name, settings }) = target(config) else { return Ok(None) };
    let address: Address = bus.parse().map_err(|source| BusFilesError::Address { key, source })?;
    let bus = Bus::open(&address, settings, Arc::new(|_| {}));
    let bus = bus.map_err(|source| BusFilesError::Bus { address: address.clone(), source: Box::new(source) })?;
    let lost = Arc::default();
    let settings = Settings::new(&name, directory).map_err(|source| BusFilesError::Name { name, source })?;
    let configured = Some(mirror.max_bytes.0).filter(|bytes| *bytes != 0);
    let settings = Settings {
        local_sync: mirror.local_sync,
        max_bytes: configured.unwrap_or(settings.max_bytes),
        least_bytes: configured.unwrap_or(settings.least_bytes),
        joins_cluster: is_for_cluster(config),
        on_lost: stop_on_loss(&lost),
        ..settings
    };
    tracing::info!(bus = %address, log = %settings.log, "fetching the files of the store");
    let was_here = tidegate_mirror::is_copy(Path::new(directory));
    status.waits_for(&address, &bus);
    let opened = tidegate_mirror::open(&bus, settings);
    let opened = opened.map_err(|source| BusFilesError::Open { directory: directory.to_owned(), source })?;
    status.has_bus();
    status.parts().register(Arc::new(MirrorPart(Arc::clone(&opened.disk))));
    Ok(Some(Mirrored { disk: opened.disk, lost, was_here }))
}

/// The mirror, as a part of the broker's status.
struct MirrorPart(Arc<MirrorDisk>);

impl Part for MirrorPart {
    fn block_reason(&self) -> Option<String> {
        block_reason(self.0.status())
    }

    fn add_to(&self, _: &mut Status) {}
}

/// Why nothing that has to be kept is acknowledged at the moment, in one line; `None` when it is.
fn block_reason(status: MirrorStatus) -> Option<String> {
    let MirrorStatus { waiting, is_interrupted, stalled, .. } = status;
    let stands_still = stalled > MAX_STALL;
    (is_interrupted || stands_still).then(|| {
        let ms = stalled.as_millis();
        format!("nothing can be acknowledged that is to be kept: the bus has confirmed nothing for {ms} ms, and {waiting} records wait for it")
    })
}

/// The action after the loss of the mirror: the broker stops, so that its clients turn to the process that has the
/// files.
fn stop_on_loss(lost: &Arc<OnceLock<Lost>>) -> OnLost {
    let lost = Arc::clone(lost);
    Arc::new(move |why: &Lost| {
        // It is reported once.
        let _ = lost.set(why.clone());
        // The same way as a stop by a signal.
        if let Err(error) = signal_hook::low_level::raise(SIGTERM) {
            tracing::error!(%error, "the broker cannot be stopped; it acknowledges nothing more");
        }
    })
}

impl Mirrored {
    /// The disk, for the store.
    pub(crate) fn disk(&self) -> Arc<MirrorDisk> {
        Arc::clone(&self.disk)
    }

    /// Whether nothing can be kept any more.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.get().is_some()
    }

    /// The files, for the node of a cluster.
    pub(crate) fn for_cluster(&self, config: &Config) -> StoreOnBus {
        let (disk, is_for_cluster) = (self.disk(), is_for_cluster(config));
        StoreOnBus { disk, was_here: self.was_here, is_for_cluster }
    }

    /// Sees to it that a stop does not wait for a bus that is away, beyond this time.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn stop_within(self, limit: Duration) -> Result<Closing, BusFilesError> {
        let (stopped, wait) = channel();
        let disk = Arc::clone(&self.disk);
        let watch = move || {
            if wait.recv_timeout(limit.saturating_add(CLOSE_PATIENCE)) == Err(RecvTimeoutError::Timeout) {
                tracing::warn!("the bus did not confirm the last writes; none of them was acknowledged");
                disk.close(Duration::ZERO);
            }
        };
        let watch = Builder::new().name("mirror-stop".into()).spawn(watch);
        let watch = watch.map_err(BusFilesError::Thread)?;
        Ok(Closing { mirrored: self, stopped, watch })
    }
}

/// A stop under way.
pub(crate) struct Closing {
    mirrored: Mirrored,
    stopped: Sender<()>,
    watch: JoinHandle<()>,
}

impl Closing {
    /// Ends it after the stop of the store. Returns the reason if the store had failed.
    pub(crate) fn end(self) -> Option<Lost> {
        let _ = self.stopped.send(());
        let _ = self.watch.join();
        self.mirrored.disk.close(CLOSE_PATIENCE);
        self.mirrored.lost.get().cloned()
    }
}

/// The last words of a broker that lost its mirror, with the next step.
pub(crate) fn farewell(config: &Config, lost: &Lost) -> String {
    let name = &config.cluster.name;
    match lost {
        Lost::Fenced(_) if is_for_cluster(config) => format!(
            "node `{name}` has lost its place in the cluster: it was silent on the bus for longer than cluster.lease, or a second process has its \
             name; others go on with all that it had acknowledged. Start it again with the same data directory, as a supervisor does, and it \
             gets a share of the work"
        ),
        Lost::Fenced(log) => format!(
            "another process has taken {log}, and continues with all messages acknowledged here; stop that one before this one is started again"
        ),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bus_that_confirms_nothing_makes_a_broker_not_ready() {
        let status = MirrorStatus::default();
        assert_eq!(block_reason(status), None);
        assert_eq!(block_reason(MirrorStatus { waiting: 9, stalled: MAX_STALL, ..status }), None, "a slow bus");
        let stalled = MirrorStatus { waiting: 9, stalled: MAX_STALL * 2, ..status };
        assert!(block_reason(stalled).is_some_and(|why| why.contains("4000 ms, and 9 records")));
        assert!(block_reason(MirrorStatus { is_interrupted: true, ..status }).is_some());
    }
}
