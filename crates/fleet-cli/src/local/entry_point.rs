//! The DNS zone of a fleet as its entry point.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_dns::{
    Counters, Database, Endpoint, EndpointName, KeyError, Limits, Load, Location, NameError, NoneHealthy, NumberError,
    Places, PlacesError, Policy, Server, Settings, StartError, Table, Ttl, UpdateKey, UpdateSettings, Updater, Zone,
    ZoneName,
};
use tidegate_fleet::fleet_file::{Dns, DnsPolicy, DnsUpdate};
use tidegate_fleet::manage::Endpoint as Orchestrator;
use tidegate_fleet::manage::driver::{EntryPoint, EntryPointError, Unnamed};
use tidegate_fleet::provider::ResourceName;

use super::dns_metrics;
use super::resolver::{LookupError, Resolver};

/// Why the entry point of a fleet file does not start.
#[derive(Debug, thiserror::Error)]
pub(super) enum EntryPointStartError {
    /// The system gives no thread for this task.
    #[error("cannot start the thread {task}: {source}")]
    Thread {
        /// The task of the thread.
        task: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// An address of the DNS server.
    #[error("the fleet's entry point {0}; choose another address in `dns.listen`, or stop the process that has it")]
    Listen(#[source] StartError),
    /// Another part of the DNS server.
    #[error(transparent)]
    Server(StartError),
    /// The file of the key of updates.
    #[error("dns.update.key_file {}: {source}", .path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The key of updates.
    #[error("dns.update.key_file {}: {source}", .path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// The fault.
        source: KeyError,
    },
    /// A name of the fleet file.
    #[error("{key}: {source}")]
    Name {
        /// The key of the fleet file.
        key: &'static str,
        /// The fault.
        source: NameError,
    },
    /// The TTL of the fleet file.
    #[error("dns.ttl: {0}")]
    Ttl(#[source] NumberError),
    /// The database of places.
    #[error(transparent)]
    Database(#[from] PlacesError),
    /// The file of places.
    #[error(transparent)]
    Table(#[from] TableError),
}

/// Why a file of places is not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TableError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A line is wrong.
    #[error("{}: {source}", .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The fault, with its line.
        source: PlacesError,
    },
}

/// Why an endpoint is not named.
#[derive(Debug, thiserror::Error)]
enum UnnamedEndpoint {
    /// Its name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Its addresses are unknown.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// Its place on the earth.
    #[error(transparent)]
    Location(#[from] NumberError),
}

/// Names of the endpoints that the manager sets: in a zone of this process, at another DNS server, or both.
pub(super) struct DnsEntryPoint {
    zone: Option<Zone>,
    resolver: Resolver,
    counters: Option<Arc<Counters>>,
    updater: Option<Updater>,
    /// The settings of the fleet file for orchestrators.
    dns: Dns,
}

/// Starts the DNS server and the updates that a fleet file asks for.
///
/// # Errors
/// When the file asks for something that cannot be, or the address is taken.
pub(super) fn start(dns: &Dns) -> Result<(Option<Server>, DnsEntryPoint), EntryPointStartError> {
    let updater = dns.update.as_ref().map(|update| self::updater(dns, update)).transpose()?;
    let server = (!dns.listen.is_empty()).then(|| serve(dns)).transpose()?;
    let thread = |source| EntryPointStartError::Thread { task: "that looks names up", source };
    let resolver = Resolver::start().map_err(thread)?;
    let (zone, counters) = (server.as_ref().map(Server::zone), server.as_ref().map(Server::counters));
    let point = DnsEntryPoint { zone, resolver, counters, updater, dns: dns.clone() };
    Ok((server, point))
}

fn serve(dns: &Dns) -> Result<Server, EntryPointStartError> {
    Server::start(&settings(dns)?).map_err(|error| match error {
        StartError::Bind { .. } => EntryPointStartError::Listen(error),
        error => EntryPointStartError::Server(error),
    })
}

fn updater(dns: &Dns, update: &DnsUpdate) -> Result<Updater, EntryPointStartError> {
    let path = || update.key_file.clone();
    let text = tidegate_document::read_bounded(&update.key_file)
        .map_err(|source| EntryPointStartError::KeyFile { path: path(), source })?;
    let settings = UpdateSettings {
        server: update.server,
        zone: zone_name("dns.update.zone", &update.zone)?,
        name: zone_name("dns.name", &dns.name)?,
        ttl: ttl(dns)?,
        key: UpdateKey::parse(&text).map_err(|source| EntryPointStartError::Key { path: path(), source })?,
    };
    Updater::start(settings).map_err(|source| EntryPointStartError::Thread { task: "of DNS updates", source })
}

fn zone_name(key: &'static str, name: &str) -> Result<ZoneName, EntryPointStartError> {
    ZoneName::new(name).map_err(|source| EntryPointStartError::Name { key, source })
}

fn ttl(dns: &Dns) -> Result<Ttl, EntryPointStartError> {
    Ttl::new(u32::try_from(dns.ttl.as_secs()).unwrap_or(u32::MAX)).map_err(EntryPointStartError::Ttl)
}

fn settings(dns: &Dns) -> Result<Settings, EntryPointStartError> {
    let zone = zone_name("dns.name", &dns.name)?;
    let usual = Limits::default();
    let rate = dns.rate.unwrap_or(usual.queries_per_second);
    let database = dns.maxmind.as_deref().map(Database::open).transpose()?;
    Ok(Settings {
        listen: dns.listen.clone(),
        ttl: ttl(dns)?,
        policy: match dns.policy {
            DnsPolicy::RoundRobin => Policy::RoundRobin,
            DnsPolicy::Weighted => Policy::Weighted,
            DnsPolicy::LeastLoaded => Policy::LeastLoaded,
            DnsPolicy::Nearest => Policy::Nearest,
        },
        none_healthy: if dns.strict { NoneHealthy::ServerFailure } else { NoneHealthy::LeastBad },
        places: Places { table: table(dns.places.as_deref())?, database: database.map(Arc::new) },
        limits: Limits { queries_per_second: rate, burst: rate.saturating_mul(2).max(1), ..usual },
        ..Settings::new(zone)
    })
}

/// A file of places.
///
/// # Errors
/// When it cannot be read, or is wrong, with the line.
pub(crate) fn table(path: Option<&Path>) -> Result<Table, TableError> {
    let Some(path) = path else { return Ok(Table::default()) };
    let text =
        tidegate_document::read_bounded(path).map_err(|source| TableError::Read { path: path.to_owned(), source })?;
    Table::parse(&text).map_err(|source| TableError::Line { path: path.to_owned(), source })
}

impl EntryPoint for DnsEntryPoint {
    fn set_endpoints(&mut self, endpoints: &[Orchestrator]) -> Result<Unnamed, EntryPointError> {
        let most = endpoints.iter().map(|endpoint| endpoint.clients).max().unwrap_or_default().max(1);
        let (mut healthy, mut waiting, mut names) = (Vec::new(), Unnamed::new(), BTreeMap::new());
        self.resolver.keep(&endpoints.iter().map(place).collect());
        for orchestrator in endpoints {
            match self.endpoint(orchestrator, most) {
                Ok(endpoint) => {
                    names.insert(endpoint.name.clone(), orchestrator.name.clone());
                    healthy.push(endpoint);
                }
                Err(error) => waiting.push((orchestrator.name.clone(), error.to_string())),
            }
        }
        let updated = self.updater.as_ref().map(|updater| update(updater, &healthy, &names));
        if let Some(zone) = &self.zone {
            zone.set_endpoints(healthy).map_err(|error| EntryPointError::Refused(error.into()))?;
        }
        if let Some(unaccepted) = updated {
            waiting.extend(unaccepted?);
        }
        Ok(waiting)
    }

    fn metrics(&self) -> String {
        let updates = self.updater.as_ref().map(Updater::counters);
        dns_metrics::page(self.counters.as_deref(), updates.as_deref())
    }
}

/// Updates the other DNS server. Returns the endpoints that it does not name yet.
///
/// # Errors
/// While it names an endpoint that is to be withdrawn: its clients must not be sent away before.
fn update(
    updater: &Updater,
    endpoints: &[Endpoint],
    names: &BTreeMap<EndpointName, ResourceName>,
) -> Result<Unnamed, EntryPointError> {
    updater.set_endpoints(endpoints.to_vec());
    let accepted = updater.accepted();
    // Without any endpoint the last names stay.
    if let Some(old) = accepted.iter().find(|name| !names.is_empty() && !names.contains_key(name)) {
        return Err(EntryPointError::StillNames(old.to_string()));
    }
    let waiting = names.iter().filter(|(name, _)| !accepted.contains(name));
    Ok(waiting
        .map(|(_, name)| (name.clone(), "the DNS server of dns.update has not accepted it yet".to_owned()))
        .collect())
}

impl DnsEntryPoint {
    /// The load of an orchestrator is its number of clients divided by the largest number of clients of
    /// all orchestrators.
    #[expect(clippy::cast_precision_loss, reason = "a load needs no more than 52 bits")]
    fn endpoint(&mut self, orchestrator: &Orchestrator, most: u64) -> Result<Endpoint, UnnamedEndpoint> {
        let name = EndpointName::new(orchestrator.name.as_str())?;
        let found = self.resolver.addresses(place(orchestrator))?;
        let port = found.first().map_or(0, SocketAddr::port);
        let addresses: Vec<IpAddr> = found.iter().map(SocketAddr::ip).collect();
        let said = self.dns.endpoint(orchestrator.name.as_str(), &orchestrator.template);
        let location = said.at.map(|(latitude, longitude)| Location::new(latitude, longitude)).transpose();
        let usual = Endpoint::new(name, addresses);
        Ok(Endpoint {
            port,
            load: Load::saturating(orchestrator.clients as f64 / most as f64),
            weight: said.weight.unwrap_or(usual.weight),
            secure_port: said.secure_port,
            location: location?,
            ..usual
        })
    }
}

/// `HOST:PORT` of an orchestrator.
fn place(orchestrator: &Orchestrator) -> &str {
    orchestrator.address.strip_prefix("mqtt://").unwrap_or(&orchestrator.address)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_fleet::fleet_file::DnsEndpoint;

    use super::*;

    fn dns(policy: DnsPolicy, endpoints: &[(&str, DnsEndpoint)]) -> Dns {
        Dns {
            name: "fleet.example".to_owned(),
            listen: vec!["127.0.0.1:0".parse().unwrap(), "127.0.0.1:0".parse().unwrap()],
            ttl: Duration::from_secs(5),
            policy,
            strict: true,
            rate: Some(7),
            places: None,
            maxmind: None,
            endpoints: endpoints.iter().map(|(name, said)| ((*name).to_owned(), *said)).collect::<BTreeMap<_, _>>(),
            update: None,
        }
    }

    fn orchestrator(name: &str, address: &str) -> Orchestrator {
        let template = "orchestrator".to_owned();
        Orchestrator { name: name.parse().unwrap(), template, address: address.to_owned(), clients: 0 }
    }

    #[test]
    fn a_taken_port_is_named_with_its_key() {
        let taken = dns(DnsPolicy::RoundRobin, &[]);
        let (server, _point) = start(&taken).unwrap();
        let server = server.unwrap();
        let address = server.addresses()[0];
        let error = start(&Dns { listen: vec![address], ..taken }).err().unwrap().to_string();
        assert!(error.starts_with(&format!("the fleet's entry point cannot listen on {address} for DNS: ")), "{error}");
        assert!(error.contains("`dns.listen`") && error.contains("another manager"), "{error}");
    }

    #[test]
    fn an_unusable_key_of_updates_is_named_with_its_file() {
        let update = DnsUpdate {
            server: "127.0.0.1:1".parse().unwrap(),
            zone: "example".to_owned(),
            key_file: "/does/not/exist".into(),
        };
        let alone = Dns { listen: Vec::new(), update: Some(update), ..dns(DnsPolicy::RoundRobin, &[]) };
        let error = start(&alone).err().unwrap().to_string();
        assert!(error.starts_with("dns.update.key_file /does/not/exist: "), "{error}");
    }

    #[test]
    fn a_pipe_in_the_place_of_a_table_is_not_waited_for() {
        let pipe = std::env::temp_dir().join(format!("tidegate-entry-point-{}", std::process::id()));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let error = table(Some(&pipe)).unwrap_err();
        std::fs::remove_file(&pipe).unwrap();
        assert!(
            matches!(&error, TableError::Read { source, .. } if source.to_string().contains("it is a pipe")),
            "{error}"
        );
    }

    #[test]
    fn weights_places_and_ports_of_the_fleet_file_are_in_the_zone() {
        let (weight, secure_port, at) = (Some(3), Some(8883), Some((41.9, 12.5)));
        let of_template = DnsEndpoint { secure_port, at, ..DnsEndpoint::default() };
        let own = DnsEndpoint { weight, ..DnsEndpoint::default() };
        let dns = dns(DnsPolicy::Weighted, &[("orchestrator", of_template), ("orchestrator-2", own)]);
        let (server, mut point) = start(&dns).unwrap();
        let server = server.unwrap();
        assert_eq!(server.addresses().len(), 2);
        let all = [
            orchestrator("orchestrator-1", "mqtt://127.0.0.1:1"),
            orchestrator("orchestrator-2", "mqtt://127.0.0.1:2"),
            orchestrator("orchestrator-3", "mqtt://does-not-exist.invalid:3"),
        ];
        let unnamed = point.set_endpoints(&all).unwrap();
        let names: Vec<&str> = unnamed.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["orchestrator-3"], "one that cannot be found keeps others from being named: {unnamed:?}");
        let zone = server.zone().endpoints();
        let shares: Vec<(u16, u16, Option<u16>)> =
            zone.iter().map(|endpoint| (endpoint.port, endpoint.weight, endpoint.secure_port)).collect();
        assert_eq!(shares, [(1, 1, secure_port), (2, 3, secure_port)]);
        assert!(zone.iter().all(|endpoint| endpoint.location.is_some_and(|place| place.latitude() > 41.0)));
        let settings = settings(&dns).unwrap();
        assert_eq!((settings.none_healthy, settings.limits.queries_per_second), (NoneHealthy::ServerFailure, 7));
        assert!(point.metrics().contains("tidegate_dns_answers_total{answer=\"records\"} 0"), "{}", point.metrics());
    }
}
