//! The nearest endpoint, by the subnet that a resolver passes on or by the resolver.

use super::*;
use crate::counters::Event;
use crate::location::Location;
use crate::places::{Places, Table};

/// `a` in Rome, `b` in Berlin; the resolver is in Munich, two networks of 24 bits in Naples and Hamburg.
fn placed() -> Responder {
    let places = "203.0.113.0/24 48.1 11.6\n10.1.2.0/24 40.8 14.3\n10.1.3.0/24 53.6 10.0\n2001:db8:aa::/48 40.8 14.3";
    let places = Places { table: Table::parse(places).unwrap(), database: None };
    let mut endpoints = two();
    endpoints[0].location = Some(Location::new(41.9, 12.5).unwrap());
    endpoints[1].location = Some(Location::new(52.5, 13.4).unwrap());
    responder_of(&Settings { policy: Policy::Nearest, places, ..settings() }, endpoints)
}

fn from(responder: &Responder, subnet: Option<(&str, u8)>) -> (String, Option<(u8, u8)>) {
    let mut message = question("fleet.example.", RecordType::A);
    if let Some((address, prefix)) = subnet {
        let mut edns = Edns::new();
        edns.options_mut().insert(EdnsOption::Subnet(ClientSubnet::new(address.parse().unwrap(), prefix, 0)));
        message.set_edns(edns);
    }
    let answer = ask(responder, &message);
    let subnet = answer.edns.as_ref().and_then(|edns| edns.option(EdnsCode::Subnet)).map(|option| match option {
        EdnsOption::Subnet(subnet) => (subnet.source_prefix(), subnet.scope_prefix()),
        other => panic!("{other:?}"),
    });
    let [record] = answer.answers.as_slice() else { panic!("{answer:?}") };
    (record.data.to_string(), subnet)
}

#[test]
fn the_client_subnet_decides_and_the_answer_has_its_scope() {
    let responder = placed();
    assert_eq!(from(&responder, Some(("10.1.2.0", 24))), ("192.0.2.1".to_owned(), Some((24, 24))));
    assert_eq!(from(&responder, Some(("10.1.3.0", 24))), ("192.0.2.2".to_owned(), Some((24, 24))));
    assert_eq!(from(&responder, Some(("10.1.3.7", 32))), ("192.0.2.2".to_owned(), Some((32, 24))));
    assert_eq!(from(&responder, Some(("2001:db8:aa:bb::", 56))), ("192.0.2.1".to_owned(), Some((56, 48))));
}

#[test]
fn without_a_subnet_the_resolver_decides() {
    let responder = placed();
    // From Munich it is nearer to Berlin.
    assert_eq!(from(&responder, None), ("192.0.2.2".to_owned(), None));
    assert_eq!(from(&responder, Some(("0.0.0.0", 0))), ("192.0.2.2".to_owned(), Some((0, 0))));
    // The subnet is unknown, so the resolver's location is used.
    assert_eq!(from(&responder, Some(("172.16.0.0", 24))).0, "192.0.2.2");
    assert_eq!(responder.counters().events(Event::PlaceUnknown), 0);
}

#[test]
fn an_asker_from_nowhere_gets_each_in_turn() {
    let settings = Settings { policy: Policy::Nearest, ..settings() };
    let responder = responder_of(&settings, two());
    let turns: Vec<String> = (0..3).map(|_| from(&responder, None).0).collect();
    assert_eq!(turns, ["192.0.2.1", "192.0.2.2", "192.0.2.1"]);
    assert_eq!(responder.counters().events(Event::PlaceUnknown), 3);
}

#[test]
fn other_policies_answer_for_everybody() {
    assert_eq!(from(&responder(), Some(("10.1.2.0", 24))).1, Some((24, 0)));
}

#[test]
fn a_subnet_that_is_not_as_it_must_be_is_a_wrong_query() {
    let responder = placed();
    for (address, prefix, scope) in [("10.1.2.0", 24, 1), ("10.1.2.3", 31, 0)] {
        let mut message = question("fleet.example.", RecordType::A);
        let subnet = ClientSubnet::new(address.parse().unwrap(), prefix, scope);
        let mut edns = Edns::new();
        edns.options_mut().insert(EdnsOption::Subnet(subnet));
        message.set_edns(edns);
        let answer = ask(&responder, &message);
        assert_eq!(answer.metadata.response_code, ResponseCode::FormErr, "{address}/{prefix} {scope}");
    }
}
