//! The DNS zone of a fleet as its entry point.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use tidegate_dns::{Endpoint, EndpointName, Load, Policy, Server, Settings, Ttl, Zone, ZoneName};
use tidegate_fleet::fleet_file::Dns;
use tidegate_fleet::manage::Endpoint as Orchestrator;
use tidegate_fleet::manage::driver::EntryPoint;

/// A zone whose endpoints the manager sets.
pub(super) struct DnsEntryPoint(Zone);

/// Starts the DNS server that a fleet file asks for.
///
/// # Errors
/// When the file asks for something that cannot be, or the address is taken.
pub(super) fn start(dns: &Dns) -> Result<(Server, DnsEntryPoint), String> {
    let zone = ZoneName::new(&dns.name).map_err(|error| format!("dns.name: {error}"))?;
    let listen: SocketAddr =
        dns.listen.parse().map_err(|_| format!("dns.listen: {:?} is no ADDRESS:PORT", dns.listen))?;
    let seconds = u32::try_from(dns.ttl.as_secs()).unwrap_or(u32::MAX);
    let policy = match dns.policy.as_str() {
        "weighted" => Policy::Weighted,
        "least-loaded" => Policy::LeastLoaded,
        _ => Policy::RoundRobin,
    };
    let settings = Settings {
        listen: vec![listen],
        ttl: Ttl::new(seconds).map_err(|error| format!("dns.ttl: {error}"))?,
        policy,
        ..Settings::new(zone)
    };
    let server = Server::start(&settings).map_err(|error| error.to_string())?;
    let zone = server.zone();
    Ok((server, DnsEntryPoint(zone)))
}

impl EntryPoint for DnsEntryPoint {
    fn set_endpoints(&mut self, endpoints: &[Orchestrator]) -> Result<(), String> {
        let most = endpoints.iter().map(|endpoint| endpoint.clients).max().unwrap_or_default().max(1);
        let endpoints: Result<Vec<Endpoint>, String> =
            endpoints.iter().map(|orchestrator| endpoint(orchestrator, most)).collect();
        self.0.set_endpoints(endpoints?).map_err(|error| error.to_string())
    }
}

/// The load of an orchestrator is its number of clients beside that of the one with the most.
#[expect(clippy::cast_precision_loss, reason = "a load needs no more than 52 bits")]
fn endpoint(orchestrator: &Orchestrator, most: u64) -> Result<Endpoint, String> {
    let name = EndpointName::new(orchestrator.name.as_str()).map_err(|error| error.to_string())?;
    let address = orchestrator.address.strip_prefix("mqtt://").unwrap_or(&orchestrator.address);
    let found = address.to_socket_addrs().map_err(|error| format!("{address}: {error}"))?;
    let found: Vec<SocketAddr> = found.collect();
    let port = found.first().map_or(0, SocketAddr::port);
    let addresses: Vec<IpAddr> = found.iter().map(SocketAddr::ip).collect();
    let load = Load::saturating(orchestrator.clients as f64 / most as f64);
    Ok(Endpoint { port, load, ..Endpoint::new(name, addresses) })
}
