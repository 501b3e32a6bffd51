//! QUIC: negotiation, the begin and end of connections, and clients that move.

mod handshake;
mod hostile;
mod migration;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tidegate_node::{LocalAddress, Node, NodeReport, NodeSettings, TlsSettings};

use crate::pki::COMMON;
use crate::quic_client::{QuicOptions, QuicSocket};
use crate::wire::*;

/// Settings for one QUIC listener.
fn settings(shards: u16, tls: TlsSettings) -> NodeSettings {
    let mut settings = NodeSettings::new("quic://127.0.0.1:0".parse().unwrap());
    settings.shards = shards;
    settings.tls.insert(0, tls);
    settings
}

fn start(shards: u16) -> (Node, SocketAddr) {
    let node = Node::start(settings(shards, COMMON.settings.clone())).unwrap();
    let at = address_of(&node);
    (node, at)
}

fn address_of(node: &Node) -> SocketAddr {
    node.local_addresses()[0].socket().unwrap()
}

/// A connection without any MQTT packet.
fn dial(at: SocketAddr) -> QuicSocket {
    QuicSocket::connect(at, &QuicOptions::default()).unwrap()
}

/// A client over a connection, accepted.
fn over(socket: QuicSocket, id: &str) -> Client {
    let mut client = Client::over(Box::new(socket), None);
    client.send(&connect(id));
    client.expect(&CONNACK);
    client
}

/// Waits until the report satisfies a condition; only a broken broker never does.
fn report_when(node: &Node, holds: impl Fn(&NodeReport) -> bool) -> NodeReport {
    loop {
        let report = node.handle().report().unwrap();
        if holds(&report) {
            return report;
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_reader_that_takes_little_at_a_time_gets_everything() {
    let (node, at) = start(2);
    let options = QuicOptions { window: 2_000, ..QuicOptions::default() };
    let mut reader = over(QuicSocket::connect(at, &options).unwrap(), "reader");
    reader.send(&subscribe("large"));
    reader.expect(&SUBACK);
    let mut writer = Client::connect(&LocalAddress::Quic(at), "writer");
    let payload: Vec<u8> = (0..400_000_u32).map(|number| (number % 251) as u8).collect();
    for _ in 0..4 {
        writer.send(&publish_qos1("large", &payload));
        writer.expect(&PUBACK);
    }
    // More waits for the reader than QUIC keeps, so that the rest stays in its queue.
    assert!(report_when(&node, |report| report.shell.writes_blocked > 0).shell.writes_blocked > 0);
    for _ in 0..4 {
        reader.expect(&publish("large", &payload));
    }
}

#[test]
fn a_client_that_closes_without_disconnect_leaves_its_will() {
    let (node, at) = start(2);
    let mut reader = Client::connect(&LocalAddress::Quic(at), "reader");
    reader.send(&subscribe("wills"));
    reader.expect(&SUBACK);
    for number in 0..4 {
        let mut client = Client::over(Box::new(dial(at)), None);
        client.send(&connect_with_will(&format!("c{number}"), "wills", "gone"));
        client.expect(&CONNACK);
        drop(client);
        reader.expect(&publish("wills", b"gone"));
    }
    // A client that disconnects properly leaves no will and no state.
    let mut client = Client::over(Box::new(dial(at)), None);
    client.send(&connect_with_will("polite", "wills", "gone"));
    client.expect(&CONNACK);
    client.send(&DISCONNECT);
    assert_eq!(client.rest(), b"");
    reader.send(&PINGREQ);
    reader.expect(&PINGRESP);
    report_when(&node, |report| report.gauges.connections == 1);
}

#[test]
fn silence_longer_than_the_keep_alive_ends_a_client() {
    let (node, at) = start(1);
    let mut socket = dial(at);
    let mut client = connect("silent");
    // The seconds of the keep-alive follow the protocol's name, its level and the flags.
    client[11] = 1;
    std::io::Write::write_all(&mut socket, &client).unwrap();
    socket.wait_lost();
    let report = node.handle().report().unwrap();
    assert_eq!(report.gauges.sessions_connected, 0);
}

#[test]
fn a_link_without_messages_lives_longer_than_any_keep_alive() {
    let (_node, at) = start(1);
    let mut socket = dial(at);
    std::io::Write::write_all(&mut socket, &connect("idle")).unwrap();
    let mut connack = [0; 4];
    std::io::Read::read_exact(&mut socket, &mut connack).unwrap();
    assert_eq!(connack, CONNACK);
    // The server's idle timeout applies, for the client has named none; the clock is the test's.
    let began = Instant::now();
    for (seconds, lost) in [(65_535 + 65_535 / 2 + 1, false), (100_001, true)] {
        socket.connection.handle_timeout(began + Duration::from_secs(seconds));
        socket.note();
        assert_eq!(socket.lost.is_some(), lost, "after {seconds} s: {:?}", socket.lost);
    }
}

#[test]
fn a_node_that_stops_tells_its_clients() {
    let (node, at) = start(2);
    let mut client = over(dial(at), "client");
    client.send(&subscribe("t"));
    client.expect(&SUBACK);
    let stopped = std::thread::spawn(move || node.stop(Duration::from_secs(60)));
    assert_eq!(client.rest(), b"");
    let stopped = stopped.join().unwrap();
    assert!(stopped.drained && stopped.failed.is_empty(), "{stopped:?}");
}

#[test]
fn an_address_has_its_limit_and_clients_prove_theirs_first() {
    let mut settings = settings(2, COMMON.settings.clone());
    settings.admission.max_connections_per_address = 3;
    let node = Node::start(settings).unwrap();
    let at = address_of(&node);
    for round in 0..5 {
        let clients: Vec<Client> = (0..3).map(|number| over(dial(at), &format!("{round}-{number}"))).collect();
        assert!(QuicSocket::connect(at, &QuicOptions::default()).is_err(), "one too many");
        drop(clients);
        report_when(&node, |report| report.gauges.connections == 0);
    }
    let shell = node.handle().report().unwrap().shell;
    assert!(shell.quic_retries >= 20, "{} retries", shell.quic_retries);
}
