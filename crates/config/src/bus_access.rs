//! How the servers of a bus are spoken to: what the sections that name one have in common.

use std::path::PathBuf;
use std::time::Duration;

use tidegate_bus::{Address, AddressError, Sasl, Settings, TlsIdentity};
use tidegate_engine::Durability;

use crate::Config;
use crate::finding::Findings;
use crate::sections::cluster::{BusSasl, Cluster};
use crate::sections::context::Context;
use crate::sections::hub::HubBus;
use crate::sections::orchestrator::Orchestrator;
use crate::value::{Lease, Problem};

/// How long a member of a group on this bus may be silent.
pub fn lease_on(bus: &Address, lease: Lease) -> Duration {
    match lease {
        Lease::Auto => bus.usual_lease(),
        Lease::For(length) => length,
    }
}

/// TLS, and the credentials of this process.
pub struct BusAccess<'a> {
    tls: bool,
    authorities: Option<&'a String>,
    certificate: Option<&'a String>,
    key: Option<&'a String>,
    sasl: BusSasl,
    max_embedded_bytes: u64,
}

impl<'a> BusAccess<'a> {
    /// That of the bus of a cluster.
    pub fn of_cluster(cluster: &'a Cluster) -> Self {
        Self {
            tls: cluster.bus_tls,
            authorities: cluster.bus_ca.as_ref(),
            certificate: cluster.bus_certificate.as_ref(),
            key: cluster.bus_key.as_ref(),
            sasl: cluster.bus_sasl,
            max_embedded_bytes: cluster.bus_max_bytes.0,
        }
    }

    /// That of the bus of the core: its own, or that of the cluster where it has none of its own.
    pub fn of_context(context: &'a Context, cluster: &'a Cluster) -> Self {
        if context.bus.is_none() {
            return Self::of_cluster(cluster);
        }
        Self {
            tls: context.bus_tls,
            authorities: context.bus_ca.as_ref(),
            certificate: context.bus_certificate.as_ref(),
            key: context.bus_key.as_ref(),
            sasl: context.bus_sasl,
            max_embedded_bytes: cluster.bus_max_bytes.0,
        }
    }

    /// The settings of a bus with it.
    pub fn put(self, settings: Settings) -> Settings {
        let identity = self.certificate.zip(self.key);
        Settings {
            max_embedded_bytes: self.max_embedded_bytes,
            tls: self.tls,
            tls_ca: self.authorities.map(PathBuf::from),
            tls_identity: identity
                .map(|(certificate, key)| TlsIdentity { certificate: certificate.into(), key: key.into() }),
            sasl: match self.sasl {
                BusSasl::Plain => Sasl::Plain,
                BusSasl::ScramSha256 => Sasl::ScramSha256,
                BusSasl::ScramSha512 => Sasl::ScramSha512,
            },
            ..settings
        }
    }
}

/// How long a record of usage waits for a bus that is away.
const USAGE_WITHIN: Duration = Duration::from_secs(10);

/// The bus for records of usage, where there are some, and the configured name of this broker.
pub fn usage_bus(
    hub: &HubBus,
    cluster: &Cluster,
    orchestrator: &Orchestrator,
) -> Option<(Address, Settings, Option<String>)> {
    let address = usage_address(hub, cluster).filter(|_| hub.usage)?.ok()?;
    let settings = BusAccess::of_cluster(cluster).put(Settings {
        prefix: cluster.prefix.clone(),
        replicas: cluster.bus_replicas,
        lease: lease_on(&address, cluster.lease),
        max_waiting_time: USAGE_WITHIN,
        ..Settings::default()
    });
    let node = [&cluster.name, &orchestrator.name].into_iter().find(|name| !name.is_empty());
    Some((address, settings, node.cloned()))
}

fn usage_address(hub: &HubBus, cluster: &Cluster) -> Option<Result<Address, AddressError>> {
    hub.bus.as_ref().or(cluster.bus.as_ref()).map(|bus| bus.parse())
}

/// Checks that records of usage have a bus that others can read, and books that outlive the process: with books in
/// memory a restart would replace the sum of an hour by a smaller one.
pub(crate) fn check_usage(config: &Config, findings: &mut Findings) {
    let Config { hub, cluster, store, origins, .. } = config;
    if !hub.usage {
        return;
    }
    let source = origins.source_of("hub", "usage");
    if matches!(usage_address(hub, cluster), None | Some(Ok(Address::Embedded))) {
        findings.push(
            Problem::new("records of usage have no bus").hint("set hub.bus, or cluster.bus (--bus)"),
            source.clone(),
        );
    }
    if store.engine_durability() == Durability::Memory {
        let problem = Problem::new("records of usage need a data directory");
        findings.push(problem.hint("name one with `store.directory` or --data"), source.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_is_set_stays_as_it_is() {
        let (kafka, nats) = ("kafka://h".parse().unwrap(), "nats://h".parse().unwrap());
        assert_eq!([&kafka, &nats].map(|bus| lease_on(bus, Cluster::default().lease).as_secs()), [30, 10]);
        assert_eq!([&kafka, &nats].map(|bus| lease_on(bus, Context::default().lease).as_secs()), [30, 10]);
        assert_eq!(lease_on(&kafka, Lease::For(Duration::from_secs(2))), Duration::from_secs(2));
    }

    #[test]
    fn records_of_usage_need_a_bus_and_a_directory() {
        let with_usage = |text: &str| crate::tests::from_file(&format!("[hub]\nusage = true\n{text}"));
        let bus = "bus = \"nats://h\"\n";
        assert!(with_usage("").unwrap_err().contains("records of usage have no bus"));
        let said = with_usage(bus).unwrap_err();
        assert!(said.contains("records of usage need a data directory") && said.contains("store.directory"), "{said}");
        let config = with_usage(&format!("{bus}[store]\ndirectory = \"data\"\n")).unwrap();
        let (_, _, name) = usage_bus(&config.hub, &config.cluster, &config.orchestrator).unwrap();
        assert_eq!(name, None, "a broker alone has no configured name");
    }

    #[test]
    fn the_core_uses_the_bus_settings_of_its_cluster() {
        let cluster = Cluster {
            bus_tls: true,
            bus_ca: Some("ca.pem".to_owned()),
            bus_certificate: Some("node.pem".to_owned()),
            bus_key: Some("node.key".to_owned()),
            bus_sasl: BusSasl::ScramSha512,
            ..Cluster::default()
        };
        let mut context = Context::default();
        let put = |context: &Context| BusAccess::of_context(context, &cluster).put(Settings::default());
        let settings = put(&context);
        assert!(settings.tls && settings.tls_identity.is_some() && settings.sasl == Sasl::ScramSha512);
        assert_eq!(settings.tls_ca, Some("ca.pem".into()));
        context.bus = Some("nats://elsewhere".to_owned());
        let settings = put(&context);
        assert!(!settings.tls && settings.tls_identity.is_none() && settings.tls_ca.is_none());
        context.bus_tls = true;
        assert!(put(&context).tls);
    }
}
