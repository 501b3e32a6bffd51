mod malformed;
mod names;
mod nearest;

use std::net::IpAddr;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query as Question};
use hickory_proto::rr::rdata::opt::{ClientSubnet, EdnsCode, EdnsOption};
use hickory_proto::rr::{Name, RData};

use super::*;
use crate::endpoint::{Endpoint, EndpointName};
use crate::policy::Policy;
use crate::settings::{NameServer, Settings, ZoneName};

const RESOLVER: &str = "203.0.113.53:4053";

fn settings() -> Settings {
    let server = NameServer {
        name: ZoneName::new("ns1.fleet.example").unwrap(),
        addresses: vec!["198.51.100.53".parse().unwrap()],
    };
    let far = NameServer { name: ZoneName::new("ns2.other.example").unwrap(), addresses: Vec::new() };
    Settings {
        name_servers: vec![server, far],
        seed: Some(0),
        limits: Limits { queries_per_second: 0, ..Limits::default() },
        ..Settings::new(ZoneName::new("fleet.example").unwrap())
    }
}

/// `a` at two families, `b` with TLS and IPv4 alone.
fn two() -> Vec<Endpoint> {
    let endpoint = |name, addresses: &[&str]| {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        Endpoint::new(EndpointName::new(name).unwrap(), addresses)
    };
    let (a, b) = (endpoint("a", &["192.0.2.1", "2001:db8::1"]), endpoint("b", &["192.0.2.2"]));
    vec![Endpoint { weight: 7, ..a }, Endpoint { port: 1884, secure_port: Some(8883), ..b }]
}

fn responder_of(settings: &Settings, endpoints: Vec<Endpoint>) -> Responder {
    let contents = Contents::new(settings, &[], 0, 2026).unwrap();
    contents.zone().set_endpoints(endpoints).unwrap();
    Responder::new(contents, &settings.limits, Instant::now())
}

fn responder() -> Responder {
    responder_of(&settings(), two())
}

fn question(name: &str, record_type: RecordType) -> Message {
    let mut message = Message::new(4711, MessageType::Query, OpCode::Query);
    message.add_query(Question::query(Name::from_ascii(name).unwrap(), record_type));
    message.metadata.recursion_desired = true;
    message
}

fn over(responder: &Responder, packet: &[u8], transport: Transport) -> Option<Vec<u8>> {
    responder.respond(packet, RESOLVER.parse().unwrap(), transport, Instant::now())
}

fn ask(responder: &Responder, message: &Message) -> Message {
    let answer = over(responder, &message.to_vec().unwrap(), Transport::Udp).unwrap();
    let answer = Message::from_vec(&answer).unwrap();
    assert_eq!((answer.metadata.id, answer.metadata.message_type), (message.metadata.id, MessageType::Response));
    assert!(!answer.metadata.recursion_available);
    answer
}

fn data(records: &[hickory_proto::rr::Record]) -> Vec<String> {
    records.iter().map(|record| format!("{} {} {}", record.ttl, record.record_type(), record.data)).collect()
}

/// The code, the answers and whether there is an SOA beside.
fn asked(responder: &Responder, name: &str, record_type: RecordType) -> (ResponseCode, Vec<String>, bool) {
    let answer = ask(responder, &question(name, record_type));
    let soa = answer.authorities.iter().any(|record| record.record_type() == RecordType::SOA);
    (answer.metadata.response_code, data(&answer.answers), soa)
}
