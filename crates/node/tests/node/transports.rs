//! A message crosses from each transport to each, on one shard and between shards.

use tidegate_engine::Reason;
use tidegate_node::{FlightSubject, LocalAddress, Node};

use crate::wire::*;
use crate::{addresses, node, settings};

/// Two clients, whose ids lie on different shards where there are two, and a message from one to the other.
fn echo(from: &LocalAddress, to: &LocalAddress) {
    for (publisher, subscriber) in [("a", "b"), ("c", "d"), ("e", "e2"), ("f", "f3")] {
        let mut receiver = Client::connect(to, subscriber);
        receiver.send(&subscribe("t/+"));
        receiver.expect(&SUBACK);
        let mut sender = Client::connect(from, publisher);
        sender.send(&publish_qos1("t/1", b"hello"));
        sender.expect(&PUBACK);
        receiver.expect(&publish("t/1", b"hello"));
        receiver.send(&DISCONNECT);
        assert_eq!(receiver.rest(), b"");
    }
}

#[test]
fn messages_cross_from_every_transport_to_every_other() {
    for shards in [1, 2, 3] {
        let node = node(shards);
        for from in &addresses(&node) {
            for to in &addresses(&node) {
                echo(from, to);
            }
        }
        let report = node.handle().report().unwrap();
        assert_eq!(report.shell.handed_over, report.shell.adopted);
        assert_eq!(report.shell.handed_over > 0, shards > 1);
        assert_eq!(report.shards.len(), usize::from(shards));
    }
}

#[test]
fn a_packet_may_arrive_byte_by_byte() {
    for shards in [1, 2] {
        let node = node(shards);
        for address in &addresses(&node) {
            for client_id in ["a", "b", "c", "d"] {
                let mut client = Client::dial(address);
                for byte in connect(client_id) {
                    client.send(&[byte]);
                }
                client.expect(&CONNACK);
                for byte in PINGREQ {
                    client.send(&[byte]);
                }
                client.expect(&PINGRESP);
            }
        }
    }
}

#[test]
fn websocket_frames_and_packets_need_not_agree() {
    let node = node(1);
    let web = &addresses(&node)[2];
    let mut client = Client::dial(web);
    // One packet over three frames with a ping between, then two packets in one frame.
    let connect = connect("split");
    client.send_raw(&frame(0x02, &connect[..3]));
    client.send_raw(&frame(0x00, &connect[3..9]));
    client.send_raw(&frame(0x89, b"are you there"));
    assert_eq!(read_frame(client.socket()).unwrap(), Some((0x8a, b"are you there".to_vec())));
    client.send_raw(&frame(0x80, &connect[9..]));
    client.expect(&CONNACK);
    client.send_raw(&frame(0x82, &[PINGREQ, PINGREQ].concat()));
    // Both answers of one turn leave in one frame.
    assert_eq!(read_frame(client.socket()).unwrap(), Some((0x82, [PINGRESP, PINGRESP].concat())));
}

#[test]
fn a_websocket_ends_with_a_close_frame() {
    let node = node(1);
    let web = &addresses(&node)[2];
    let close = |code: u16| Some((0x88, code.to_be_bytes().to_vec()));

    // The broker answers with the client's code.
    let mut client = Client::connect(web, "closes");
    client.send_raw(&frame(0x88, &1000_u16.to_be_bytes()));
    assert_eq!(read_frame(client.socket()).unwrap(), close(1000));
    assert_eq!(read_frame(client.socket()).unwrap(), None);

    // [MQTT-6.0.0-1]
    let mut client = Client::connect(web, "sends text");
    client.send_raw(&frame(0x81, &PINGREQ));
    assert_eq!(read_frame(client.socket()).unwrap(), close(1003));
    assert_eq!(read_frame(client.socket()).unwrap(), None);

    // A violation of MQTT is one of the protocol inside.
    let mut client = Client::connect(web, "sends nonsense");
    client.send(&[0x00, 0x00]);
    assert_eq!(read_frame(client.socket()).unwrap(), close(1002));
    assert_eq!(read_frame(client.socket()).unwrap(), None);

    let mut client = Client::connect(web, "says goodbye");
    client.send(&DISCONNECT);
    assert_eq!(read_frame(client.socket()).unwrap(), close(1000));
    assert_eq!(read_frame(client.socket()).unwrap(), None);
    let shell = node.handle().report().unwrap().shell;
    assert_eq!((shell.websocket_violations, shell.websocket_refused), (1, 0));
}

#[test]
fn a_request_that_is_no_websocket_gets_an_answer_for_people() {
    let node = node(1);
    let [_, _, web, ..] = addresses(&node);
    // The same port, spoken to as if it were plain TCP.
    let plain = LocalAddress::Tcp(web.socket().unwrap());
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(), "HTTP/1.1 404 "),
        (request("/mqtt").replace("mqtt\r\n", "xmpp\r\n"), "HTTP/1.1 400 "),
    ] {
        let mut client = Client::dial(&plain);
        client.send_raw(request.as_bytes());
        let response = String::from_utf8(client.rest()).unwrap();
        assert!(response.starts_with(status), "{response}");
        assert!(response.contains("mqtt"), "{response}");
    }
    let report = node.handle().report().unwrap();
    assert_eq!(report.shell.websocket_refused, 2);
    let refused = report.counters.connects_refused;
    assert_eq!((refused[Reason::HandshakeFailed.number()], refused[Reason::ConnectionLost.number()]), (2, 0));
    let story = node.handle().clients().why(&FlightSubject::Address("127.0.0.0/8".parse().unwrap()), None).unwrap();
    let event = story.events.iter().find(|event| event.reason == Some(Reason::HandshakeFailed)).unwrap();
    assert!(event.detail.contains("path"), "{event:?}");
}

#[test]
fn a_websocket_listener_refuses_pages_of_other_origins() {
    let mut settings = settings(1);
    settings.allowed_origins.insert(2, vec!["https://shop.example".to_owned()]);
    let node = Node::start(settings).unwrap();
    let [_, _, web, .., secure] = addresses(&node);
    let plain = LocalAddress::Tcp(web.socket().unwrap());
    for (origin, status) in [("https://shop.example", "HTTP/1.1 101 "), ("https://evil.example", "HTTP/1.1 403 ")] {
        let mut client = Client::dial(&plain);
        client.send_raw(request("/mqtt").replace("\r\n\r\n", &format!("\r\nOrigin: {origin}\r\n\r\n")).as_bytes());
        assert_eq!(client.receive(status.len()), status.as_bytes(), "{origin}");
    }
    // Clients that are no page, and listeners without a list.
    Client::connect(&web, "c");
    Client::connect(&secure, "d");
}
