//! The records of the zone for a query.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::rdata::{A, AAAA, HINFO, NS, SOA, SRV};
use hickory_proto::rr::{Name, RData, Record, RecordType};

use super::query::Query;
use super::reply::Reply;
use crate::counters::{Counters, Event};
use crate::error::StartError;
use crate::location::Location;
use crate::places::Places;
use crate::policy::Policy;
use crate::settings::{NameServer, Settings, ZoneName};
use crate::zone::{Choice, Chosen, MAX_ADDRESSES, Wanted, Zone};

/// Maximum number of servers of a zone: as many as fit a packet of 512 bytes, like the root's.
const MAX_SERVERS: usize = 13;
/// How long resolvers may cache the NS records, s. A drain does not change them.
const SERVER_TTL: u32 = 3600;
/// Refresh, retry and expire of the SOA, s. There are no zone transfers, so they have no effect.
const SOA_TIMES: (i32, i32, i32) = (3600, 600, 86_400);

/// A place in the zone.
enum Node {
    /// The zone itself.
    Apex,
    /// `mqtt`: all endpoints.
    All,
    /// A name of a service.
    Service(Wanted),
    /// A name that only has names below it.
    Branch,
    /// A server of the zone, by its place.
    Server(usize),
    /// An endpoint.
    Endpoint(Chosen),
}

/// A server of the zone.
#[derive(Debug)]
struct Server {
    name: Name,
    /// Its label, where it is in the zone.
    label: Option<String>,
    addresses: Vec<IpAddr>,
}

/// The records of the zone.
#[derive(Debug)]
pub(crate) struct Contents {
    zone: Zone,
    apex: Name,
    contact: Name,
    ttl: u32,
    servers: Vec<Server>,
    nearest: bool,
    places: Places,
}

impl Contents {
    /// The zone of some settings; `bound` is where it is listened.
    pub(crate) fn new(settings: &Settings, bound: &[SocketAddr], seed: u64, serial: u32) -> Result<Self, StartError> {
        let apex = settings.zone.name().clone();
        let servers = servers(settings, bound)?;
        let labels: BTreeSet<String> = servers.iter().filter_map(|server| server.label.clone()).collect();
        Ok(Self {
            zone: Zone::new(settings, labels, seed, serial),
            contact: below(&apex, "hostmaster").map_err(|()| StartError::Zone(settings.zone.to_string()))?,
            apex,
            ttl: settings.ttl.seconds(),
            servers,
            nearest: settings.policy == Policy::Nearest,
            places: settings.places.clone(),
        })
    }

    pub(crate) fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Answers a query that came from an address.
    pub(crate) fn answer(&self, query: &Query, source: IpAddr, counters: &Counters) -> Reply {
        let Some(labels) = labels_below(&self.apex, &query.name).filter(|_| query.internet) else {
            return Reply::of(ResponseCode::Refused);
        };
        if matches!(query.record_type, RecordType::AXFR | RecordType::IXFR) {
            return Reply::of(ResponseCode::Refused);
        }
        let Some(node) = self.node(&labels, query.record_type) else { return self.empty(ResponseCode::NXDomain) };
        if query.record_type == RecordType::ANY {
            let minimal = RData::HINFO(HINFO::new("RFC8482".to_owned(), String::new()));
            return Reply::with(vec![self.record(query, minimal)]);
        }
        match (node, query.record_type) {
            (Node::Apex | Node::All, RecordType::A) => self.address(query, source, Wanted::V4, counters),
            (Node::Apex | Node::All, RecordType::AAAA) => self.address(query, source, Wanted::V6, counters),
            (Node::Apex, RecordType::NS) => self.name_servers(),
            (Node::Apex, RecordType::SOA) => Reply::with(vec![self.soa()]),
            (Node::Service(wanted), RecordType::SRV) => self.service(query, source, wanted, counters),
            (Node::Endpoint(chosen), RecordType::A | RecordType::AAAA) => {
                self.found(query, chosen.address(query.record_type == RecordType::AAAA))
            }
            (Node::Server(place), RecordType::A | RecordType::AAAA) => self.server(query, place),
            _ => self.empty(ResponseCode::NoError),
        }
    }

    fn node(&self, labels: &[String], record_type: RecordType) -> Option<Node> {
        let v6 = record_type == RecordType::AAAA;
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        match labels.as_slice() {
            [] => Some(Node::Apex),
            ["mqtt"] => Some(Node::All),
            ["_tcp"] => Some(Node::Branch),
            ["_mqtt", "_tcp"] => Some(Node::Service(Wanted::Mqtt)),
            ["_secure-mqtt", "_tcp"] => Some(Node::Service(Wanted::SecureMqtt)),
            [label] => {
                let server = self.servers.iter().position(|server| server.label.as_deref() == Some(*label));
                server.map(Node::Server).or_else(|| self.zone.named(label, v6).map(Node::Endpoint))
            }
            _ => None,
        }
    }

    /// The endpoint that the policy names for this asker, and the scope for which it does.
    fn choose(&self, query: &Query, source: IpAddr, wanted: Wanted, counters: &Counters) -> (Choice, u8) {
        let (asker, scope) = if self.nearest { self.asker(query, source, counters) } else { (None, 0) };
        let choice = self.zone.choose(wanted, asker);
        if matches!(choice, Choice::LeastBad(_)) {
            counters.event(Event::LeastBad);
        }
        (choice, scope)
    }

    /// The location of the asker: by the subnet that a resolver passes on, else by the resolver's own address.
    fn asker(&self, query: &Query, source: IpAddr, counters: &Counters) -> (Option<Location>, u8) {
        // A prefix of 0 asks not to look at the subnet; such an answer is for everybody (RFC 7871, section 7.1.2).
        let subnet = query.subnet.filter(|subnet| subnet.source_prefix() > 0);
        let passed = subnet.map(|subnet| self.places.find(subnet.addr(), subnet.source_prefix()));
        let location = passed.and_then(|passed| passed.location).or_else(|| self.places.find(source, 128).location);
        if location.is_none() {
            counters.event(Event::PlaceUnknown);
        }
        (location, passed.map_or(0, |passed| passed.prefix))
    }

    fn address(&self, query: &Query, source: IpAddr, wanted: Wanted, counters: &Counters) -> Reply {
        let (choice, scope) = self.choose(query, source, wanted, counters);
        let reply = match choice {
            Choice::Healthy(chosen) | Choice::LeastBad(chosen) => {
                self.found(query, chosen.address(wanted == Wanted::V6))
            }
            Choice::NotOffered => self.empty(ResponseCode::NoError),
            Choice::Unavailable => Reply::of(ResponseCode::ServFail),
        };
        Reply { scope, ..reply }
    }

    fn service(&self, query: &Query, source: IpAddr, wanted: Wanted, counters: &Counters) -> Reply {
        let (choice, scope) = self.choose(query, source, wanted, counters);
        let reply = match choice {
            Choice::Healthy(chosen) | Choice::LeastBad(chosen) => self.service_record(query, wanted, &chosen),
            Choice::NotOffered => Some(self.empty(ResponseCode::NoError)),
            Choice::Unavailable => None,
        };
        Reply { scope, ..reply.unwrap_or_else(|| Reply::of(ResponseCode::ServFail)) }
    }

    fn service_record(&self, query: &Query, wanted: Wanted, chosen: &Chosen) -> Option<Reply> {
        let endpoint = chosen.endpoint()?;
        let port = if wanted == Wanted::SecureMqtt { endpoint.secure_port? } else { endpoint.port };
        let target = below(&self.apex, endpoint.name.as_str()).ok()?;
        let beside = [false, true].into_iter().filter_map(|v6| chosen.address(v6));
        let additionals =
            beside.map(|address| Record::from_rdata(target.clone(), self.ttl, data_of(address))).collect();
        let service = RData::SRV(SRV::new(0, endpoint.weight, port, target.clone()));
        Some(Reply { additionals, ..Reply::with(vec![self.record(query, service)]) })
    }

    fn found(&self, query: &Query, address: Option<IpAddr>) -> Reply {
        match address {
            Some(address) => Reply::with(vec![self.record(query, data_of(address))]),
            None => self.empty(ResponseCode::NoError),
        }
    }

    fn server(&self, query: &Query, place: usize) -> Reply {
        let v6 = query.record_type == RecordType::AAAA;
        let addresses = self.servers.get(place).into_iter().flat_map(|server| &server.addresses);
        let of_family = addresses.filter(|address| address.is_ipv6() == v6);
        let records: Vec<Record> =
            of_family.map(|address| Record::from_rdata(query.name.clone(), SERVER_TTL, data_of(*address))).collect();
        if records.is_empty() { self.empty(ResponseCode::NoError) } else { Reply::with(records) }
    }

    fn name_servers(&self) -> Reply {
        let record =
            |server: &Server| Record::from_rdata(self.apex.clone(), SERVER_TTL, RData::NS(NS(server.name.clone())));
        let inside = self.servers.iter().filter(|server| server.label.is_some());
        let addresses = inside.flat_map(|server| {
            server.addresses.iter().map(|one| Record::from_rdata(server.name.clone(), SERVER_TTL, data_of(*one)))
        });
        let additionals = addresses.collect();
        Reply { additionals, ..Reply::with(self.servers.iter().map(record).collect()) }
    }

    /// An empty answer, with the time for which it may be cached (RFC 2308).
    fn empty(&self, code: ResponseCode) -> Reply {
        Reply { authorities: vec![self.soa()], authoritative: true, ..Reply::of(code) }
    }

    fn soa(&self) -> Record {
        let (refresh, retry, expire) = SOA_TIMES;
        let first = self.servers.first().map_or_else(|| self.apex.clone(), |server| server.name.clone());
        let soa = SOA::new(first, self.contact.clone(), self.zone.serial(), refresh, retry, expire, self.ttl);
        Record::from_rdata(self.apex.clone(), self.ttl, RData::SOA(soa))
    }

    /// A record for the name that was asked for, as it was written.
    fn record(&self, query: &Query, data: RData) -> Record {
        Record::from_rdata(query.name.clone(), self.ttl, data)
    }
}

fn data_of(address: IpAddr) -> RData {
    match address {
        IpAddr::V4(address) => RData::A(A(address)),
        IpAddr::V6(address) => RData::AAAA(AAAA(address)),
    }
}

/// A name one label below another one.
fn below(apex: &Name, label: &str) -> Result<Name, ()> {
    apex.prepend_label(label.as_bytes()).map_err(|_| ())
}

/// The labels of a name below the zone, in lower case, the lowest first; `None` for a name outside.
fn labels_below(apex: &Name, name: &Name) -> Option<Vec<String>> {
    let (zone, labels): (Vec<&[u8]>, Vec<&[u8]>) = (apex.iter().collect(), name.iter().collect());
    let (below, end) = labels.split_at_checked(labels.len().checked_sub(zone.len())?)?;
    let inside = end.iter().zip(&zone).all(|(one, other)| one.eq_ignore_ascii_case(other));
    // A label that is not UTF-8 is not one of our names; it only has to stay different from them.
    inside.then(|| below.iter().map(|label| String::from_utf8_lossy(label).to_ascii_lowercase()).collect())
}

/// The servers of the zone, as they were given or from where it is listened.
fn servers(settings: &Settings, bound: &[SocketAddr]) -> Result<Vec<Server>, StartError> {
    let wrong = |name: &ZoneName, reason| StartError::NameServer { name: name.to_string(), reason };
    let apex = settings.zone.name();
    if settings.name_servers.is_empty() {
        let name = below(apex, "ns").map_err(|()| StartError::Zone(settings.zone.to_string()))?;
        let addresses = bound.iter().map(SocketAddr::ip).filter(|address| !address.is_unspecified());
        let addresses = addresses.collect::<BTreeSet<_>>().into_iter().take(MAX_ADDRESSES).collect();
        return Ok(vec![Server { name, label: Some("ns".to_owned()), addresses }]);
    }
    let server = |NameServer { name, addresses }: &NameServer| {
        if addresses.len() > MAX_ADDRESSES {
            return Err(wrong(name, "has more than 16 addresses"));
        }
        let label = match labels_below(apex, name.name()).as_deref() {
            None => None,
            Some([label]) if label != "mqtt" && label != "_tcp" => Some(label.clone()),
            Some(_) => return Err(wrong(name, "is a name that the zone has for something else, or too far below it")),
        };
        if label.is_some() && addresses.is_empty() {
            return Err(wrong(name, "is in the zone and has no address: give it one"));
        }
        Ok(Server { name: name.name().clone(), label, addresses: addresses.clone() })
    };
    if settings.name_servers.len() > MAX_SERVERS {
        return Err(StartError::TooManyNameServers(settings.name_servers.len()));
    }
    settings.name_servers.iter().map(server).collect()
}
