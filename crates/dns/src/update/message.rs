//! The message of an update: the records of a name are deleted and added again, in one step (RFC 2136, section 2.5).

use std::collections::BTreeSet;
use std::net::IpAddr;

use hickory_proto::op::{Message, MessageType, OpCode, Query, UpdateMessage};
use hickory_proto::rr::rdata::SRV;
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};

use super::UpdateSettings;
use crate::endpoint::{Endpoint, EndpointName};

/// The records of endpoints: of healthy endpoints that do not drain, else of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Records {
    /// Addresses of all endpoints.
    addresses: BTreeSet<IpAddr>,
    /// Addresses of each endpoint, by its label.
    named: BTreeSet<(String, IpAddr)>,
    /// Label, weight and port for MQTT.
    plain: BTreeSet<(String, u16, u16)>,
    /// The same for MQTT over TLS.
    secure: BTreeSet<(String, u16, u16)>,
}

pub(super) fn records_of(endpoints: &[Endpoint]) -> Records {
    let is_good = |endpoint: &&Endpoint| endpoint.healthy && !endpoint.draining;
    let any_is_good = endpoints.iter().any(|endpoint| is_good(&endpoint));
    let mut records = Records::default();
    for endpoint in endpoints.iter().filter(|endpoint| !any_is_good || is_good(endpoint)) {
        let label = endpoint.name.as_str().to_owned();
        for address in &endpoint.addresses {
            records.addresses.insert(*address);
            records.named.insert((label.clone(), *address));
        }
        if let Some(port) = endpoint.secure_port {
            records.secure.insert((label.clone(), endpoint.weight, port));
        }
        records.plain.insert((label, endpoint.weight, endpoint.port));
    }
    records
}

/// The update that makes the records of these endpoints the only ones of the name. Records of `labels` below it are
/// deleted, too.
pub(super) fn update(
    settings: &UpdateSettings,
    id: u16,
    endpoints: &[Endpoint],
    labels: &BTreeSet<EndpointName>,
) -> Result<Message, hickory_proto::ProtoError> {
    let records = records_of(endpoints);
    let root = settings.name.name();
    let below = |label: &str| Name::from_ascii(label).and_then(|label| label.append_domain(root));
    let service = |service: &str| Name::from_ascii(format!("{service}._tcp")).and_then(|name| name.append_domain(root));
    let mut message = Message::new(id, MessageType::Query, OpCode::Update);
    let mut zone = Query::new();
    zone.set_name(settings.zone.name().clone()).set_query_class(DNSClass::IN).set_query_type(RecordType::SOA);
    message.add_zone(zone);
    for kind in [RecordType::A, RecordType::AAAA] {
        message.add_update(deletion(root.clone(), kind));
        for label in labels {
            message.add_update(deletion(below(label.as_str())?, kind));
        }
    }
    let services = [(service("_mqtt")?, &records.plain), (service("_secure-mqtt")?, &records.secure)];
    for (name, _) in &services {
        message.add_update(deletion(name.clone(), RecordType::SRV));
    }
    let ttl = settings.ttl.seconds();
    for address in &records.addresses {
        message.add_update(Record::from_rdata(root.clone(), ttl, address_data(*address)));
    }
    for (label, address) in &records.named {
        message.add_update(Record::from_rdata(below(label)?, ttl, address_data(*address)));
    }
    for (name, targets) in services {
        for (label, weight, port) in targets {
            let data = RData::SRV(SRV::new(0, *weight, *port, below(label)?));
            message.add_update(Record::from_rdata(name.clone(), ttl, data));
        }
    }
    Ok(message)
}

fn address_data(address: IpAddr) -> RData {
    match address {
        IpAddr::V4(address) => RData::A(address.into()),
        IpAddr::V6(address) => RData::AAAA(address.into()),
    }
}

/// Deletes all records of a name and type.
fn deletion(name: Name, kind: RecordType) -> Record {
    let mut record = Record::from_rdata(name, 0, RData::Update0(kind));
    record.dns_class = DNSClass::ANY;
    record
}
