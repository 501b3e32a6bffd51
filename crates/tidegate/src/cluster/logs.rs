//! The bus of a cluster and the logs on it.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use tidegate_bus::{Address, Append, Bus, BusError, Done, LogName, LogSpec, Place, Position, Settings, Wake};
use zeroize::Zeroizing;

use super::NotJoined;
use crate::bus_access::{BusAccess, lease_on};
use crate::config::Config;
use crate::status::BrokerStatus;

/// How often it is looked whether the process is to stop while the bus is waited for.
const LOOK: Duration = Duration::from_millis(200);
/// Bytes of a secret that is made up.
const SECRET_BYTES: usize = 32;
/// What a log of the cluster's own records may hold; their latest ones are all that is kept.
const SMALL_RECORDS: u64 = 100_000;
const SMALL_BYTES: u64 = 16 * 1024 * 1024;
/// What images of partitions may take until they are taken in.
const IMAGE_BYTES: u64 = 256 * 1024 * 1024;

/// The bus, and the logs of a cluster.
#[derive(Clone)]
pub(super) struct Logs {
    pub(super) bus: Bus,
    /// The table; its owner leads.
    pub(super) table: Place,
    /// What nodes say of themselves, the latest of each.
    pub(super) adverts: Place,
    /// Images of partitions that move.
    pub(super) images: Place,
    secret: Place,
}

/// How long nodes of the cluster may be silent.
pub(super) fn lease(config: &Config) -> Duration {
    // An address that cannot be read is refused with the configuration.
    let bus = config.cluster.bus.as_deref().and_then(|bus| bus.parse().ok()).unwrap_or(Address::Embedded);
    lease_on(&bus, config.cluster.lease)
}

/// How the bus of a cluster is spoken to.
pub(crate) fn settings(config: &Config) -> Settings {
    let (cluster, lease) = (&config.cluster, lease(config));
    BusAccess::of_cluster(cluster).put(Settings {
        prefix: cluster.prefix.clone(),
        lease,
        max_release_time: lease / 4,
        replicas: cluster.bus_replicas,
        ..Settings::default()
    })
}

/// Waits for the end of something on the bus, unless the process is to stop.
fn wait<T: Send + 'static>(
    begin: impl FnOnce(Done<T>) -> Result<(), BusError>,
    stop: &mut dyn FnMut() -> bool,
) -> Result<Result<T, BusError>, NotJoined> {
    let (sender, outcome) = channel();
    if let Err(error) = begin(Box::new(move |outcome| drop(sender.send(outcome)))) {
        return Ok(Err(error));
    }
    loop {
        match outcome.recv_timeout(LOOK) {
            Ok(outcome) => return Ok(outcome),
            Err(RecvTimeoutError::Timeout) if stop() => return Err(NotJoined::Stopped),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(Err(BusError::Stopped)),
        }
    }
}

impl Logs {
    /// Opens the bus and makes the logs, as soon as it is reached.
    pub(super) fn open(
        config: &Config,
        status: &BrokerStatus,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Self, NotJoined> {
        let cluster = &config.cluster;
        let address: Address =
            cluster.bus.as_deref().unwrap_or_default().parse().map_err(|error| format!("cluster.bus: {error}"))?;
        let bus = Bus::open(&address, settings(config), Arc::new(|_| {}))
            .map_err(|error| format!("the bus {address}: {error}"))?;
        status.waits_for(&address, &bus);
        let place = |name: &str| LogName::new(name).map(|name| Place::new(name, 0)).map_err(|error| error.to_string());
        let logs = Self {
            bus,
            table: place("cluster-table")?,
            adverts: place("cluster-nodes")?,
            images: place("cluster-images")?,
            secret: place("cluster-secret")?,
        };
        tracing::info!(bus = %address, "joining the cluster");
        for spec in logs.specs() {
            logs.create(&spec, &address, stop)?;
        }
        Ok(logs)
    }

    fn specs(&self) -> [LogSpec; 4] {
        let small = |spec: LogSpec| LogSpec { max_records: SMALL_RECORDS, max_bytes: SMALL_BYTES, ..spec };
        [
            small(LogSpec::fenced(self.table.log.clone(), 1).latest_of_key()),
            small(LogSpec::shared(self.adverts.log.clone(), 1).latest_of_key()),
            small(LogSpec::shared(self.secret.log.clone(), 1)),
            LogSpec { max_bytes: IMAGE_BYTES, ..LogSpec::shared(self.images.log.clone(), 1) },
        ]
    }

    fn create(&self, spec: &LogSpec, address: &Address, stop: &mut dyn FnMut() -> bool) -> Result<(), NotJoined> {
        loop {
            match wait(|done| self.bus.create(spec.clone(), done), stop)? {
                Ok(()) => return Ok(()),
                Err(error @ (BusError::Away { .. } | BusError::Unconfirmed { .. })) => {
                    tracing::warn!(bus = %address, %error, "the node waits for its bus");
                }
                Err(error) => {
                    return Err(NotJoined::Failed(format!("log {} on the bus {address}: {error}", spec.name)));
                }
            }
        }
    }

    /// The secret of the cluster: the first that any node has put on the bus.
    pub(super) fn agree_on_secret(&self, stop: &mut dyn FnMut() -> bool) -> Result<Zeroizing<Vec<u8>>, NotJoined> {
        let failed = |error: BusError| NotJoined::Failed(format!("the secret on the bus: {error}"));
        let bounds = wait(|done| self.bus.bounds(&self.secret, done), stop)?.map_err(failed)?;
        if bounds.next <= bounds.first {
            let mut made_up = vec![0; SECRET_BYTES];
            let filled = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut made_up));
            filled.map_err(|error| format!("no randomness for a secret: {error}"))?;
            wait(|done| self.bus.append(&self.secret, Append::new(made_up), done), stop)?.map_err(failed)?;
        }
        let (sender, woken) = channel();
        let wake: Wake = Arc::new(move || {
            let _ = sender.send(());
        });
        let mut reader = self.bus.read(&self.secret, Position::START, wake).map_err(failed)?;
        loop {
            if let Some(record) = reader.take(1).map_err(failed)?.records.first() {
                return Ok(Zeroizing::new(record.payload.to_vec()));
            }
            if stop() {
                return Err(NotJoined::Stopped);
            }
            let _ = woken.recv_timeout(LOOK);
        }
    }

    /// Appends to the log of images and waits until it is there.
    pub(super) fn append_image(&self, append: Append) -> Result<(), BusError> {
        let (sender, outcome) = channel();
        self.bus.append(&self.images, append, Box::new(move |outcome| drop(sender.send(outcome))))?;
        outcome.recv().unwrap_or(Err(BusError::Stopped)).map(drop)
    }
}
