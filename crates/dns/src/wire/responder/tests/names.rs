//! The records of each name.

use super::*;

#[test]
fn an_answer_holds_one_address_and_the_next_one_another() {
    let responder = responder();
    let records = |text: &str| (ResponseCode::NoError, vec![text.to_owned()], false);
    assert_eq!(asked(&responder, "fleet.example.", RecordType::A), records("10 A 192.0.2.1"));
    assert_eq!(asked(&responder, "mqtt.fleet.example.", RecordType::A), records("10 A 192.0.2.2"));
    assert_eq!(asked(&responder, "fleet.example.", RecordType::A), records("10 A 192.0.2.1"));
    assert_eq!(asked(&responder, "fleet.example.", RecordType::AAAA), records("10 AAAA 2001:db8::1"));
    assert_eq!(asked(&responder, "b.fleet.example.", RecordType::A), records("10 A 192.0.2.2"));
    assert_eq!(responder.counters().queries(QueryKind::A), 4);
    assert_eq!(responder.counters().answers(AnswerKind::Records), 5);
}

#[test]
fn the_question_is_copied_and_names_ignore_case() {
    let answer = ask(&responder(), &question("MqTt.fLeeT.eXample.", RecordType::A));
    assert!(answer.metadata.authoritative && answer.metadata.recursion_desired);
    assert_eq!(answer.queries[0].name.to_ascii(), "MqTt.fLeeT.eXample.");
    assert_eq!(answer.answers[0].name.to_ascii(), "MqTt.fLeeT.eXample.");
    assert!(answer.edns.is_none());
}

#[test]
fn a_service_names_host_port_and_address() {
    let responder = responder();
    let answer = ask(&responder, &question("_mqtt._tcp.fleet.example.", RecordType::SRV));
    assert_eq!(data(&answer.answers), ["10 SRV 0 7 1883 a.fleet.example."]);
    assert_eq!(data(&answer.additionals), ["10 A 192.0.2.1", "10 AAAA 2001:db8::1"]);
    // Only one of them has TLS.
    for _ in 0..2 {
        let answer = ask(&responder, &question("_secure-mqtt._tcp.fleet.example.", RecordType::SRV));
        assert_eq!(data(&answer.answers), ["10 SRV 0 1 8883 b.fleet.example."]);
    }
}

#[test]
fn the_zone_names_its_servers_and_itself() {
    let responder = responder();
    let answer = ask(&responder, &question("fleet.example.", RecordType::NS));
    assert_eq!(data(&answer.answers), ["3600 NS ns1.fleet.example.", "3600 NS ns2.other.example."]);
    assert_eq!(data(&answer.additionals), ["3600 A 198.51.100.53"]);
    let soa = "10 SOA ns1.fleet.example. hostmaster.fleet.example. 2027 3600 600 86400 10";
    assert_eq!(asked(&responder, "fleet.example.", RecordType::SOA).1, [soa]);
    assert_eq!(asked(&responder, "ns1.fleet.example.", RecordType::A).1, ["3600 A 198.51.100.53"]);
}

#[test]
fn a_missing_type_is_empty_and_a_missing_name_is_nxdomain() {
    let responder = responder();
    let no_data = (ResponseCode::NoError, vec![], true);
    let not_there = (ResponseCode::NXDomain, vec![], true);
    for (name, record_type) in [
        ("fleet.example.", RecordType::MX),
        ("mqtt.fleet.example.", RecordType::NS),
        ("b.fleet.example.", RecordType::AAAA),
        ("ns1.fleet.example.", RecordType::AAAA),
        ("_tcp.fleet.example.", RecordType::A),
        ("_mqtt._tcp.fleet.example.", RecordType::A),
    ] {
        assert_eq!(asked(&responder, name, record_type), no_data, "{name}");
    }
    for name in ["c.fleet.example.", "a.b.fleet.example.", "_udp.fleet.example.", "x.mqtt.fleet.example."] {
        assert_eq!(asked(&responder, name, RecordType::A), not_there, "{name}");
    }
    // How long that may be believed is the last number of the SOA.
    let soa = &ask(&responder, &question("c.fleet.example.", RecordType::A)).authorities[0];
    assert!(matches!(&soa.data, RData::SOA(soa) if soa.minimum == 10) && soa.ttl == 10);
    assert_eq!(responder.counters().answers(AnswerKind::NoData), 6);
    assert_eq!(responder.counters().answers(AnswerKind::NoName), 5);
}

#[test]
fn a_name_of_another_zone_is_refused_with_an_empty_answer() {
    let responder = responder();
    let refused = (ResponseCode::Refused, vec![], false);
    for name in ["example.", ".", "other.example.", "xfleet.example.", "fleet.example.org."] {
        assert_eq!(asked(&responder, name, RecordType::A), refused, "{name}");
    }
    assert_eq!(asked(&responder, "fleet.example.", RecordType::AXFR), refused);
    let mut chaos = question("fleet.example.", RecordType::TXT);
    chaos.queries[0].query_class = hickory_proto::rr::DNSClass::CH;
    let answer = ask(&responder, &chaos);
    assert_eq!((answer.metadata.response_code, answer.metadata.authoritative), (ResponseCode::Refused, false));
}

#[test]
fn a_drained_endpoint_vanishes_with_the_next_query() {
    let responder = responder();
    let mut endpoints = two();
    endpoints[0].draining = true;
    responder.contents().zone().set_endpoints(endpoints).unwrap();
    for _ in 0..4 {
        assert_eq!(asked(&responder, "fleet.example.", RecordType::A).1, ["10 A 192.0.2.2"]);
    }
    assert_eq!(asked(&responder, "a.fleet.example.", RecordType::A).0, ResponseCode::NXDomain);
    // No other endpoint has IPv6; the name still exists.
    assert_eq!(asked(&responder, "fleet.example.", RecordType::AAAA), (ResponseCode::NoError, vec![], true));
}

#[test]
fn without_an_eligible_endpoint_the_answer_is_servfail() {
    let responder = responder_of(&settings(), Vec::new());
    for record_type in [RecordType::A, RecordType::AAAA] {
        assert_eq!(asked(&responder, "fleet.example.", record_type), (ResponseCode::ServFail, vec![], false));
    }
    assert_eq!(asked(&responder, "_mqtt._tcp.fleet.example.", RecordType::SRV).0, ResponseCode::ServFail);
    assert_eq!(responder.counters().answers(AnswerKind::ServerFailure), 3);
}

#[test]
fn an_unhealthy_one_is_better_than_none_and_counted() {
    let mut endpoints = two();
    for endpoint in &mut endpoints {
        endpoint.healthy = false;
    }
    let responder = responder_of(&settings(), endpoints);
    assert_eq!(asked(&responder, "fleet.example.", RecordType::A).1, ["10 A 192.0.2.1"]);
    assert_eq!(responder.counters().events(crate::counters::Event::LeastBad), 1);
}

#[test]
fn any_is_answered_with_as_little_as_possible() {
    let responder = responder();
    for name in ["fleet.example.", "mqtt.fleet.example.", "_mqtt._tcp.fleet.example."] {
        let (code, answers, _) = asked(&responder, name, RecordType::ANY);
        assert_eq!((code, answers.len()), (ResponseCode::NoError, 1));
        assert!(answers[0].contains("HINFO") && answers[0].contains("RFC8482"), "{answers:?}");
    }
    assert_eq!(asked(&responder, "c.fleet.example.", RecordType::ANY).0, ResponseCode::NXDomain);
}

#[test]
fn a_long_answer_fits_the_limit_of_the_client_or_asks_for_tcp() {
    let label = "x".repeat(60);
    let zone = format!("{label}.{label}.fleet");
    let servers = (0..8).map(|number| NameServer {
        name: ZoneName::new(&format!("ns{number}.{label}.{}.example", "y".repeat(50))).unwrap(),
        addresses: Vec::new(),
    });
    let settings = Settings { name_servers: servers.collect(), zone: ZoneName::new(&zone).unwrap(), ..settings() };
    let responder = responder_of(&settings, two());
    let mut message = question(&format!("{zone}."), RecordType::NS);
    // Its names are compressed: 8 servers fit into 512 bytes as long as they have the same end.
    assert_eq!(ask(&responder, &message).answers.len(), 8);
    let servers = (0..8).map(|number| NameServer {
        name: ZoneName::new(&format!("ns.{}.example", number.to_string().repeat(60))).unwrap(),
        addresses: Vec::new(),
    });
    let responder = responder_of(&Settings { name_servers: servers.collect(), ..settings }, two());
    let short = ask(&responder, &message);
    assert!(short.metadata.truncation && short.answers.is_empty() && short.queries.len() == 1);
    assert_eq!(responder.counters().answers(AnswerKind::Truncated), 1);
    let over_tcp = over(&responder, &message.to_vec().unwrap(), Transport::Tcp).unwrap();
    let over_tcp = Message::from_vec(&over_tcp).unwrap();
    assert!(!over_tcp.metadata.truncation && over_tcp.answers.len() == 8);
    let mut edns = Edns::new();
    edns.set_max_payload(4096);
    message.set_edns(edns);
    let long = ask(&responder, &message);
    assert_eq!((long.answers.len(), long.max_payload()), (8, 1232));
}

#[test]
fn addresses_beside_an_answer_give_way_before_it_does() {
    let label = "x".repeat(63);
    let zone = format!("{label}.{label}.fleet");
    let settings = Settings { zone: ZoneName::new(&zone).unwrap(), name_servers: Vec::new(), ..settings() };
    let mut endpoints = two();
    endpoints.truncate(1);
    endpoints[0].name = EndpointName::new(&"z".repeat(63)).unwrap();
    let responder = responder_of(&settings, endpoints);
    let answer = ask(&responder, &question(&format!("_mqtt._tcp.{zone}."), RecordType::SRV));
    assert_eq!((answer.answers.len(), answer.metadata.truncation), (1, false));
}

#[test]
fn edns_is_answered_in_kind_and_an_unknown_version_refused() {
    let responder = responder();
    let mut message = question("fleet.example.", RecordType::A);
    let mut edns = Edns::new();
    edns.set_max_payload(512).set_dnssec_ok(true);
    message.set_edns(edns.clone());
    let answer = ask(&responder, &message).edns.unwrap();
    assert_eq!((answer.version(), answer.max_payload(), answer.flags().dnssec_ok), (0, 1232, true));
    edns.set_version(1);
    message.set_edns(edns);
    let answer = ask(&responder, &message);
    // 16 is BADVERS in an answer to EDNS, and BADSIG elsewhere.
    assert_eq!((u16::from(answer.metadata.response_code), answer.answers.len()), (16, 0));
    assert_eq!(answer.edns.unwrap().version(), 0);
    assert_eq!(responder.counters().answers(AnswerKind::BadVersion), 1);
}

#[test]
fn servers_of_the_zone_get_no_names_that_are_in_use() {
    let with = |name: &str, addresses: Vec<IpAddr>| {
        let server = NameServer { name: ZoneName::new(name).unwrap(), addresses };
        Contents::new(&Settings { name_servers: vec![server], ..settings() }, &[], 0, 0).is_ok()
    };
    let address = || vec![IpAddr::from([192, 0, 2, 53])];
    assert!(with("ns.fleet.example", address()) && with("ns.other.example", Vec::new()));
    assert!(!with("mqtt.fleet.example", address()), "a name of the zone");
    assert!(!with("ns.deep.fleet.example", address()), "too deep");
    assert!(!with("ns.fleet.example", Vec::new()), "no address");
    assert!(!with("fleet.example", address()), "the zone itself");
}
