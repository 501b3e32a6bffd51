//! The bus of a cluster and the logs on it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tidegate_bus::{
    Address, Append, Bus, BusError, Done, LogName, LogPartition, LogSpec, Membership, Position, Settings, Wake,
};
use zeroize::Zeroizing;

use super::NotJoined;
use super::error::NodeError;
use super::tenants::{self, Names, TenantCheck};
use tidegate_administration::BrokerStatus;
use tidegate_config::Config;
use tidegate_config::bus_access::{BusAccess, lease_on};

/// Interval of checks whether the process is to stop, while it waits for the bus.
const LOOK: Duration = Duration::from_millis(200);
/// Bytes of a secret that is made up.
const SECRET_BYTES: usize = 32;
/// The most records of a log of the cluster's own; only their latest ones are kept.
const SMALL_RECORDS: u64 = 100_000;
const SMALL_BYTES: u64 = 16 * 1024 * 1024;
/// Records with names of tenants that are read at once.
const TENANTS_AT_ONCE: usize = 256;
/// The bytes that images of partitions may take until they are imported.
const IMAGE_BYTES: u64 = 256 * 1024 * 1024;

/// The bus, and the logs of a cluster.
#[derive(Clone)]
pub(super) struct Logs {
    pub(super) bus: Bus,
    /// The table; its owner leads.
    pub(super) table: LogPartition,
    /// The advertisements of nodes, the latest of each.
    pub(super) adverts: LogPartition,
    /// Images of partitions that move.
    pub(super) images: LogPartition,
    secret: LogPartition,
    /// Names of tenants.
    pub(super) tenants: LogPartition,
    /// The names that this node has agreed on last.
    tenant_names: Arc<Mutex<Vec<String>>>,
    /// The secret that nodes have agreed on, where none is configured.
    agreed: Arc<OnceLock<Zeroizing<Vec<u8>>>>,
}

/// By which lease each member gives others up, as far as they say.
pub(super) fn leases(membership: &Membership) -> BTreeMap<String, Duration> {
    let members = membership.members().into_iter();
    members.filter_map(|member| Some((member.name.to_string(), member.lease?))).collect()
}

/// How long nodes of the cluster may be silent.
pub(super) fn lease(config: &Config) -> Duration {
    // An address that cannot be read is refused with the configuration.
    let bus = config.cluster.bus.as_deref().and_then(|bus| bus.parse().ok()).unwrap_or(Address::Embedded);
    lease_on(&bus, config.cluster.lease)
}

/// How the bus of a cluster is spoken to.
pub fn settings(config: &Config) -> Settings {
    let (cluster, lease) = (&config.cluster, lease(config));
    BusAccess::of_cluster(cluster).put(Settings {
        prefix: cluster.prefix.clone(),
        lease,
        max_release_time: lease / 4,
        replicas: cluster.bus_replicas,
        ..Settings::default()
    })
}

/// The outcome of a request to the bus.
type Outcome<T> = Result<Receiver<Result<T, BusError>>, BusError>;

fn begin<T: Send + 'static>(call: impl FnOnce(Done<T>) -> Result<(), BusError>) -> Outcome<T> {
    let (sender, outcome) = channel();
    call(Box::new(move |result| drop(sender.send(result)))).map(|()| outcome)
}

/// Waits for the end of something on the bus, unless the process is to stop.
pub(super) fn wait<T: Send + 'static>(
    call: impl FnOnce(Done<T>) -> Result<(), BusError>,
    stop: &mut dyn FnMut() -> bool,
) -> Result<Result<T, BusError>, NotJoined> {
    wait_for(begin(call), stop)
}

fn wait_for<T>(outcome: Outcome<T>, stop: &mut dyn FnMut() -> bool) -> Result<Result<T, BusError>, NotJoined> {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return Ok(Err(error)),
    };
    loop {
        match outcome.recv_timeout(LOOK) {
            Ok(outcome) => return Ok(outcome),
            Err(RecvTimeoutError::Timeout) if stop() => return Err(NotJoined::Stopped),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(Err(BusError::Stopped)),
        }
    }
}

/// Makes logs: all at once, since some buses take their time for each. Those for which the bus was away are made when
/// it is back.
fn make(
    mut missing: Vec<LogSpec>,
    create: impl Fn(LogSpec, Done<()>) -> Result<(), BusError>,
    address: &Address,
    stop: &mut dyn FnMut() -> bool,
) -> Result<(), NotJoined> {
    while !missing.is_empty() {
        let begun = missing.into_iter().map(|spec| (begin(|done| create(spec.clone(), done)), spec));
        let begun: Vec<_> = begun.collect();
        missing = Vec::new();
        let mut block_reason = None;
        for (outcome, spec) in begun {
            match wait_for(outcome, stop)? {
                Ok(()) => {}
                Err(error @ (BusError::Away { .. } | BusError::Unconfirmed { .. })) => {
                    block_reason = Some(error);
                    missing.push(spec);
                }
                Err(error) => {
                    let (log, address) = (spec.name.to_string(), address.to_string());
                    return Err(NodeError::Log { log, address, source: error }.into());
                }
            }
        }
        if let Some(error) = block_reason {
            tracing::warn!(bus = %address, %error, "the node is waiting for its bus");
        }
    }
    Ok(())
}

impl Logs {
    /// Opens the bus and makes the logs, as soon as it is reached.
    pub(super) fn open(
        config: &Config,
        status: &BrokerStatus,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Self, NotJoined> {
        let cluster = &config.cluster;
        let address: Address = cluster.bus.as_deref().unwrap_or_default().parse().map_err(NodeError::BusAddress)?;
        let bus = Bus::open(&address, settings(config), Arc::new(|_| {}))
            .map_err(|source| NodeError::Bus { address: address.to_string(), source })?;
        status.waits_for(&address, &bus);
        let place = |name: &str| LogName::new(name).map(|name| LogPartition::new(name, 0));
        let logs = Self {
            bus,
            table: place("cluster-table")?,
            adverts: place("cluster-nodes")?,
            images: place("cluster-images")?,
            secret: place("cluster-secret")?,
            tenants: place("cluster-tenants")?,
            tenant_names: Arc::default(),
            agreed: Arc::default(),
        };
        tracing::info!(bus = %address, "joining the cluster");
        make(logs.specs().into(), |spec, done| logs.bus.create(spec, done), &address, stop)?;
        Ok(logs)
    }

    fn specs(&self) -> [LogSpec; 5] {
        let small = |spec: LogSpec| LogSpec { max_records: SMALL_RECORDS, max_bytes: SMALL_BYTES, ..spec };
        [
            small(LogSpec::fenced(self.table.log.clone(), 1).latest_of_key()),
            small(LogSpec::shared(self.adverts.log.clone(), 1).latest_of_key()),
            small(LogSpec::shared(self.secret.log.clone(), 1)),
            small(LogSpec::shared(self.tenants.log.clone(), 1)),
            LogSpec { max_bytes: IMAGE_BYTES, ..LogSpec::shared(self.images.log.clone(), 1) },
        ]
    }

    /// Makes the logs again that the servers have lost, with the secret. Nothing is waited for: a log that is not
    /// made is found missing again.
    pub(super) fn make_again(&self) {
        for spec in self.specs() {
            let (logs, is_secret) = (self.clone(), spec.name == self.secret.log);
            let done = move |outcome: Result<(), BusError>| match outcome {
                Ok(()) if is_secret => logs.keep_secret(),
                Ok(()) => {}
                Err(error) => tracing::warn!(%error, "cannot create a log of the cluster again; retrying"),
            };
            if let Err(error) = self.bus.create(spec, Box::new(done)) {
                tracing::warn!(%error, "cannot create a log of the cluster again; retrying");
            }
        }
    }

    /// Puts the secret into its log, if that is empty: a node that is started now has to find the one in use.
    fn keep_secret(&self) {
        let Some(secret) = self.agreed.get().cloned() else { return };
        let (bus, place) = (self.bus.clone(), self.secret.clone());
        let append = move |bounds: Result<tidegate_bus::Bounds, BusError>| {
            if bounds.is_ok_and(|bounds| bounds.next <= bounds.first) {
                let _ = bus.append(&place, Append::new(secret.to_vec()), Box::new(|_| {}));
            }
        };
        let _ = self.bus.bounds(&self.secret, Box::new(append));
    }

    /// The secret of the cluster: the first that any node has put on the bus.
    pub(super) fn agree_on_secret(&self, stop: &mut dyn FnMut() -> bool) -> Result<Zeroizing<Vec<u8>>, NotJoined> {
        let failed = NodeError::SharedSecret;
        let bounds = wait(|done| self.bus.bounds(&self.secret, done), stop)?.map_err(failed)?;
        if bounds.next <= bounds.first {
            let mut made_up = vec![0; SECRET_BYTES];
            let filled = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut made_up));
            filled.map_err(NodeError::Randomness)?;
            wait(|done| self.bus.append(&self.secret, Append::new(made_up), done), stop)?.map_err(failed)?;
        }
        let (sender, woken) = channel();
        let wake: Wake = Arc::new(move || {
            let _ = sender.send(());
        });
        let mut reader = self.bus.read(&self.secret, Position::START, wake).map_err(failed)?;
        loop {
            if let Some(record) = reader.take(1).map_err(failed)?.records.first() {
                let secret = Zeroizing::new(record.payload.to_vec());
                return Ok(self.agreed.get_or_init(|| secret).clone());
            }
            if stop() {
                return Err(NotJoined::Stopped);
            }
            let _ = woken.recv_timeout(LOOK);
        }
    }

    /// The names of tenants that this node has agreed on with the others, in the order of their numbers.
    pub(super) fn agreed_tenants(&self) -> Vec<String> {
        self.tenant_names.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The names in the log as they are valid for this node: numbers that it uses are restored first where the log was
    /// lost.
    fn valid_tenants(&self, stop: &mut dyn FnMut() -> bool) -> Result<Names, NotJoined> {
        let failed = NodeError::Tenants;
        let own = self.agreed_tenants();
        let names = self.read_tenants(stop)?;
        match names.judge(&own) {
            TenantCheck::Same => Ok(names),
            TenantCheck::Other => Err(NodeError::OtherTenants.into()),
            TenantCheck::Restore => {
                let append = Append::new(tenants::record(&own, true));
                wait(|done| self.bus.append(&self.tenants, append, done), stop)?.map_err(failed)?;
                self.read_tenants(stop)
            }
        }
    }

    /// The names of all tenants of the cluster in the order of their numbers. Names of `wanted` that it does not have
    /// are added behind the others.
    pub(super) fn agree_on_tenants(
        &self,
        wanted: &[String],
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<String>, NotJoined> {
        let failed = NodeError::Tenants;
        let mut names = self.valid_tenants(stop)?.all();
        let missing: Vec<String> = wanted.iter().filter(|name| !names.contains(name)).cloned().collect();
        if !missing.is_empty() {
            // In one record, so that no name of another node gets between them.
            let append = Append::new(tenants::record(&missing, false));
            wait(|done| self.bus.append(&self.tenants, append, done), stop)?.map_err(failed)?;
            names = self.read_tenants(stop)?.all();
        }
        let mut known = self.tenant_names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.starts_with(&known) {
            known.clone_from(&names);
        }
        Ok(names)
    }

    /// The names in the log.
    fn read_tenants(&self, stop: &mut dyn FnMut() -> bool) -> Result<Names, NotJoined> {
        let failed = NodeError::Tenants;
        let end = wait(|done| self.bus.bounds(&self.tenants, done), stop)?.map_err(failed)?.next;
        let (sender, woken) = channel();
        let wake: Wake = Arc::new(move || {
            let _ = sender.send(());
        });
        let mut reader = self.bus.read(&self.tenants, Position::START, wake).map_err(failed)?;
        let (mut names, mut at) = (Names::default(), Position::START);
        while at < end {
            let taken = reader.take(TENANTS_AT_ONCE).map_err(failed)?;
            taken.records.iter().for_each(|record| names.take(&record.payload));
            at = taken.next;
            if at < end && taken.records.is_empty() {
                if stop() {
                    return Err(NotJoined::Stopped);
                }
                let _ = woken.recv_timeout(LOOK);
            }
        }
        Ok(names)
    }

    /// Appends to the log of images and waits until it is there.
    pub(super) fn append_image(&self, append: Append) -> Result<(), BusError> {
        let (sender, outcome) = channel();
        self.bus.append(&self.images, append, Box::new(move |outcome| drop(sender.send(outcome))))?;
        outcome.recv().unwrap_or(Err(BusError::Stopped)).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use tidegate_config::sections::cluster::Cluster;
    use tidegate_config::value::Lease;

    #[test]
    fn nodes_on_kafka_have_a_longer_lease_unless_it_is_configured() {
        let mut config = Config::default();
        let lease = |config: &Config| (lease(config).as_secs(), settings(config).lease.as_secs());
        config.cluster.bus = Some("kafka://h".to_owned());
        assert_eq!(lease(&config), (30, 30));
        config.cluster.lease = Lease::For(Duration::from_secs(2));
        assert_eq!(lease(&config), (2, 2));
        config.cluster = Cluster { bus: Some("nats://h".to_owned()), ..Cluster::default() };
        assert_eq!(lease(&config), (10, 10));
    }

    fn specs() -> Vec<LogSpec> {
        ["a", "b", "c", "d"].map(|name| LogSpec::shared(LogName::new(name).unwrap(), 1)).into()
    }

    #[test]
    fn all_logs_are_asked_for_before_the_first_is_waited_for() {
        let (asked, looks) = (RefCell::new(Vec::new()), RefCell::new(0));
        // A bus that answers when it has all four, as Kafka makes topics that come together.
        let create = |_: LogSpec, done: Done<()>| {
            asked.borrow_mut().push(done);
            if asked.borrow().len() == 4 {
                asked.take().into_iter().for_each(|done| done(Ok(())));
            }
            Ok(())
        };
        let mut stop = || looks.replace_with(|looks| *looks + 1) > 0;
        assert!(make(specs(), create, &Address::Embedded, &mut stop).is_ok());
    }

    #[test]
    fn only_logs_that_were_not_made_are_asked_for_again() {
        let asked = RefCell::new(Vec::new());
        let create = |spec: LogSpec, done: Done<()>| {
            let is_again = asked.borrow().contains(&spec.name);
            let away = BusError::Away { waited: Duration::ZERO, reason: String::new() };
            done(if spec.name.as_str() == "c" && !is_again { Err(away) } else { Ok(()) });
            asked.borrow_mut().push(spec.name);
            Ok(())
        };
        assert!(make(specs(), create, &Address::Embedded, &mut || false).is_ok());
        let names: Vec<String> = asked.take().iter().map(ToString::to_string).collect();
        assert_eq!(names, ["a", "b", "c", "d", "c"]);
    }
}
