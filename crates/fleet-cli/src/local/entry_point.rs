//! The DNS zone of a fleet as its entry point.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use tidegate_dns::{
    Counters, Database, Endpoint, EndpointName, Limits, Load, Location, NoneHealthy, Places, Policy, Server, Settings,
    StartError, Table, Ttl, UpdateKey, UpdateSettings, Updater, Zone, ZoneName,
};
use tidegate_fleet::fleet_file::{Dns, DnsPolicy, DnsUpdate};
use tidegate_fleet::manage::Endpoint as Orchestrator;
use tidegate_fleet::manage::driver::{EntryPoint, Unnamed};
use tidegate_fleet::provider::ResourceName;

use super::dns_metrics;
use super::resolver::Resolver;

/// Names of the endpoints that the manager sets: in a zone of this process, at another DNS server, or both.
pub(super) struct DnsEntryPoint {
    zone: Option<Zone>,
    resolver: Resolver,
    counters: Option<Arc<Counters>>,
    updater: Option<Updater>,
    /// What the fleet file says of orchestrators.
    dns: Dns,
}

/// Starts the DNS server and the updates that a fleet file asks for.
///
/// # Errors
/// When the file asks for something that cannot be, or the address is taken.
pub(super) fn start(dns: &Dns) -> Result<(Option<Server>, DnsEntryPoint), String> {
    let updater = dns.update.as_ref().map(|update| self::updater(dns, update)).transpose()?;
    let server = (!dns.listen.is_empty()).then(|| serve(dns)).transpose()?;
    let resolver =
        Resolver::start().map_err(|error| format!("cannot start the thread that looks names up: {error}"))?;
    let (zone, counters) = (server.as_ref().map(Server::zone), server.as_ref().map(Server::counters));
    let point = DnsEntryPoint { zone, resolver, counters, updater, dns: dns.clone() };
    Ok((server, point))
}

fn serve(dns: &Dns) -> Result<Server, String> {
    Server::start(&settings(dns)?).map_err(|error| match error {
        StartError::Bind { .. } => {
            format!("the fleet's entry point {error}; choose another address in `dns.listen`, or stop the process that has it")
        }
        error => error.to_string(),
    })
}

fn updater(dns: &Dns, update: &DnsUpdate) -> Result<Updater, String> {
    let file = &update.key_file;
    let about = |problem: String| format!("dns.update.key_file {}: {problem}", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| about(error.to_string()))?;
    let settings = UpdateSettings {
        server: update.server,
        zone: ZoneName::new(&update.zone).map_err(|error| format!("dns.update.zone: {error}"))?,
        name: ZoneName::new(&dns.name).map_err(|error| format!("dns.name: {error}"))?,
        ttl: ttl(dns)?,
        key: UpdateKey::parse(&text).map_err(|error| about(error.to_string()))?,
    };
    Updater::start(settings).map_err(|error| format!("cannot start the thread of DNS updates: {error}"))
}

fn ttl(dns: &Dns) -> Result<Ttl, String> {
    Ttl::new(u32::try_from(dns.ttl.as_secs()).unwrap_or(u32::MAX)).map_err(|error| format!("dns.ttl: {error}"))
}

fn settings(dns: &Dns) -> Result<Settings, String> {
    let zone = ZoneName::new(&dns.name).map_err(|error| format!("dns.name: {error}"))?;
    let usual = Limits::default();
    let rate = dns.rate.unwrap_or(usual.queries_per_second);
    let database = dns.maxmind.as_deref().map(Database::open).transpose().map_err(|error| error.to_string())?;
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
pub(crate) fn table(path: Option<&Path>) -> Result<Table, String> {
    let Some(path) = path else { return Ok(Table::default()) };
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Table::parse(&text).map_err(|error| format!("{}: {error}", path.display()))
}

impl EntryPoint for DnsEntryPoint {
    fn set_endpoints(&mut self, endpoints: &[Orchestrator]) -> Result<Unnamed, String> {
        let most = endpoints.iter().map(|endpoint| endpoint.clients).max().unwrap_or_default().max(1);
        let (mut healthy, mut waiting, mut names) = (Vec::new(), Unnamed::new(), BTreeMap::new());
        self.resolver.keep(&endpoints.iter().map(place).collect());
        for orchestrator in endpoints {
            match self.endpoint(orchestrator, most) {
                Ok(endpoint) => {
                    names.insert(endpoint.name.clone(), orchestrator.name.clone());
                    healthy.push(endpoint);
                }
                Err(problem) => waiting.push((orchestrator.name.clone(), problem)),
            }
        }
        let updated = self.updater.as_ref().map(|updater| update(updater, &healthy, &names));
        if let Some(zone) = &self.zone {
            zone.set_endpoints(healthy).map_err(|error| error.to_string())?;
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
) -> Result<Unnamed, String> {
    updater.set_endpoints(endpoints.to_vec());
    let accepted = updater.accepted();
    // Without any endpoint the last names stay.
    if let Some(old) = accepted.iter().find(|name| !names.is_empty() && !names.contains_key(name)) {
        return Err(format!("the DNS server of dns.update still names {old}"));
    }
    let waiting = names.iter().filter(|(name, _)| !accepted.contains(name));
    Ok(waiting
        .map(|(_, name)| (name.clone(), "the DNS server of dns.update has not accepted it yet".to_owned()))
        .collect())
}

impl DnsEntryPoint {
    /// The load of an orchestrator is its number of clients beside that of the one with the most.
    #[expect(clippy::cast_precision_loss, reason = "a load needs no more than 52 bits")]
    fn endpoint(&mut self, orchestrator: &Orchestrator, most: u64) -> Result<Endpoint, String> {
        let name = EndpointName::new(orchestrator.name.as_str()).map_err(|error| error.to_string())?;
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
            location: location.map_err(|error| error.to_string())?,
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
        let error = start(&Dns { listen: vec![address], ..taken }).err().unwrap();
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
        let error = start(&alone).err().unwrap();
        assert!(error.starts_with("dns.update.key_file /does/not/exist: "), "{error}");
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
