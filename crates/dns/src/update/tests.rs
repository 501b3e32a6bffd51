use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

use hickory_proto::op::{Message, MessageType, OpCode, ResponseCode, UpdateMessage};
use hickory_proto::rr::{DNSClass, RData, RecordType, TSigResponseContext};

use super::*;
use crate::endpoint::EndpointName;

const KEY: &str =
    "key \"fleet\" {\n\talgorithm hmac-sha256;\n\tsecret \"c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0ISE=\";\n};\n";

fn settings(server: SocketAddr) -> UpdateSettings {
    UpdateSettings {
        server,
        zone: ZoneName::new("example.com").unwrap(),
        name: ZoneName::new("mqtt.example.com").unwrap(),
        ttl: Ttl::default(),
        key: UpdateKey::parse(KEY).unwrap(),
    }
}

fn endpoint(name: &str, last: u8) -> Endpoint {
    Endpoint::new(EndpointName::new(name).unwrap(), vec![IpAddr::V4(Ipv4Addr::new(192, 0, 2, last))])
}

/// A primary server that verifies each update, and gives these answers in turn.
fn primary(answers: Vec<ResponseCode>) -> (SocketAddr, Receiver<Message>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, received) = channel();
    std::thread::spawn(move || {
        for code in answers {
            let (stream, _) = listener.accept().unwrap();
            answer(stream, code, &sender);
        }
    });
    (address, received)
}

fn answer(mut stream: TcpStream, code: ResponseCode, sender: &Sender<Message>) {
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut bytes = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut bytes).unwrap();
    let signer = UpdateKey::parse(KEY).unwrap().signer().clone();
    let (mac, time, _) = signer.verify_message_byte(&bytes, None, true).unwrap();
    let request = Message::from_vec(&bytes).unwrap();
    let mut response = Message::new(request.id, MessageType::Response, OpCode::Update);
    response.metadata.response_code = code;
    let signature = TSigResponseContext::new(request.id, time, signer, mac, None).sign(&response.to_vec().unwrap());
    response.set_signature(signature.unwrap());
    let bytes = response.to_vec().unwrap();
    stream.write_all(&u16::try_from(bytes.len()).unwrap().to_be_bytes()).unwrap();
    stream.write_all(&bytes).unwrap();
    let _ = sender.send(request);
}

/// The records that an update adds, and the names and types that it deletes.
fn parts(update: &Message) -> (Vec<String>, Vec<String>) {
    let added = |data: &RData| data.to_string();
    let (mut adds, mut deletes) = (Vec::new(), Vec::new());
    for record in update.updates() {
        if record.dns_class == DNSClass::ANY {
            deletes.push(format!("{} {}", record.name, record.record_type()));
        } else {
            adds.push(format!("{} {} {}", record.name, record.ttl, added(&record.data)));
        }
    }
    (adds, deletes)
}

#[test]
fn an_update_replaces_all_records_of_the_name() {
    let (address, received) = primary(vec![ResponseCode::NoError, ResponseCode::NoError]);
    let updater = Updater::start(settings(address)).unwrap();
    let first = Endpoint { secure_port: Some(8883), ..endpoint("o-1", 1) };
    updater.set_endpoints(vec![first.clone(), Endpoint { draining: true, ..endpoint("o-2", 2) }]);
    let update = received.recv().unwrap();
    let zone = &update.queries[0];
    assert_eq!((zone.name().to_ascii(), zone.query_type()), ("example.com.".to_owned(), RecordType::SOA));
    let (adds, deletes) = parts(&update);
    assert_eq!(
        adds,
        [
            "mqtt.example.com. 10 192.0.2.1",
            "o-1.mqtt.example.com. 10 192.0.2.1",
            "_mqtt._tcp.mqtt.example.com. 10 0 1 1883 o-1.mqtt.example.com.",
            "_secure-mqtt._tcp.mqtt.example.com. 10 0 1 8883 o-1.mqtt.example.com.",
        ]
    );
    assert!(deletes.contains(&"o-2.mqtt.example.com. A".to_owned()), "{deletes:?}");
    // The load is in no record: it needs no update.
    updater.set_endpoints(vec![Endpoint { load: crate::Load::saturating(0.9), ..first }]);
    updater.set_endpoints(vec![endpoint("o-3", 3)]);
    let (adds, deletes) = parts(&received.recv().unwrap());
    assert_eq!(adds[0], "mqtt.example.com. 10 192.0.2.3");
    assert!(deletes.contains(&"o-1.mqtt.example.com. A".to_owned()), "{deletes:?}");
}

#[test]
fn a_refused_update_is_repeated() {
    let (address, received) = primary(vec![ResponseCode::ServFail, ResponseCode::NoError]);
    let updater = Updater::start(settings(address)).unwrap();
    updater.set_endpoints(vec![endpoint("o-1", 1)]);
    let (first, second) = (received.recv().unwrap(), received.recv().unwrap());
    assert_eq!(parts(&first), parts(&second));
    let counters = updater.counters();
    drop(updater);
    assert_eq!((counters.done(), counters.failed()), (1, 1));
}

#[test]
fn no_endpoint_deletes_no_name() {
    let (address, received) = primary(vec![ResponseCode::NoError, ResponseCode::NoError, ResponseCode::NoError]);
    let updater = Updater::start(settings(address)).unwrap();
    updater.set_endpoints(vec![endpoint("o-1", 1)]);
    received.recv().unwrap();
    updater.set_endpoints(Vec::new());
    updater.set_endpoints(vec![endpoint("o-2", 2)]);
    assert!(received.recv().unwrap().updates().iter().any(|record| record.dns_class == DNSClass::IN));
    assert!(received.try_recv().is_err());
}

#[test]
fn names_are_accepted_when_the_server_has_answered() {
    let (address, received) = primary(vec![ResponseCode::NoError]);
    let updater = Updater::start(settings(address)).unwrap();
    assert!(updater.accepted().is_empty());
    updater.set_endpoints(vec![endpoint("o-1", 1)]);
    received.recv().unwrap();
    updater.wait_for_answers(1);
    assert_eq!(updater.accepted(), [EndpointName::new("o-1").unwrap()].into());
}

#[test]
fn a_comment_in_a_key_file_is_skipped() {
    let commented = format!("# key for the fleet\n// key two\n{KEY}");
    assert_eq!(format!("{:?}", UpdateKey::parse(&commented).unwrap()), "UpdateKey(\"fleet.\")");
}

#[test]
fn a_wrong_key_is_refused_with_the_fault() {
    for (text, problem) in [
        ("", "no key"),
        ("key \"a\" { secret \"AA==\"; };", "no algorithm"),
        ("key \"a\" { algorithm hmac-md5; secret \"AA==\"; };", "`hmac-md5` is not supported"),
        ("key \"a\" { algorithm hmac-sha256; secret \"A\"; };", "not base64"),
    ] {
        let error = UpdateKey::parse(text).unwrap_err().to_string();
        assert!(error.contains(problem), "{text}: {error}");
    }
    assert_eq!(format!("{:?}", UpdateKey::parse(KEY).unwrap()), "UpdateKey(\"fleet.\")");
}
