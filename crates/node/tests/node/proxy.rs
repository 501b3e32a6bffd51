//! The PROXY protocol: trusted and untrusted senders, and invalid headers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use tidegate_engine::Reason;
use tidegate_node::proxy_protocol::Network;
use tidegate_node::{BanTarget, LocalAddress, Node, NodeSettings, Peer};

use crate::pki::COMMON;
use crate::wire::*;
use crate::witness::{Witnessed, watch};

const V1: &[u8] = b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 1883\r\n";
const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x07\xc6\x33\x64\x01\x12\x67\x07\x5b";
const V2_LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

/// A node with all transports over TCP behind proxies of these networks, with the addresses of plain MQTT, WebSocket,
/// TLS and WebSocket over TLS.
fn node(shards: u16, networks: &[&str]) -> (Node, [SocketAddr; 4], Witnessed) {
    node_with(shards, networks, |_| {})
}

/// The same with other settings.
fn node_with(
    shards: u16,
    networks: &[&str],
    change: impl FnOnce(&mut NodeSettings),
) -> (Node, [SocketAddr; 4], Witnessed) {
    let mut settings = NodeSettings::new("127.0.0.1:0".parse().unwrap());
    settings.shards = shards;
    for address in ["ws://127.0.0.1:0", "mqtts://127.0.0.1:0", "wss://127.0.0.1:0"] {
        settings.listeners.push(address.parse().unwrap());
    }
    settings.tls.insert(2, COMMON.settings.clone());
    settings.tls.insert(3, COMMON.settings.clone());
    let networks: Vec<Network> = networks.iter().map(|text| text.parse().unwrap()).collect();
    settings.proxies = (0..4).map(|position| (position, networks.clone())).collect();
    let listener = settings.engine.listeners[0].clone();
    settings.engine.listeners.resize(4, listener);
    let seen = watch(&mut settings);
    change(&mut settings);
    let node = Node::start(settings).unwrap();
    let addresses: Vec<_> = node.local_addresses().iter().filter_map(LocalAddress::socket).collect();
    (node, addresses.try_into().unwrap(), seen)
}

/// A client that comes through a proxy with this header, over the transport at this position.
fn through(header: &[u8], at: SocketAddr, position: usize) -> Client {
    let mut socket = tcp(at);
    socket.write_all(header).unwrap();
    let path = [None, Some("/mqtt"), None, Some("/mqtt")][position];
    if position < 2 {
        return Client::over(Box::new(socket), path);
    }
    Client::over(Box::new(tls_over(socket, &COMMON.client)), path)
}

fn close(client: &mut Client) {
    client.send(&DISCONNECT);
}

#[test]
fn the_proxy_tells_where_the_client_is_on_every_transport() {
    for shards in [1, 2] {
        let (_node, addresses, seen) = node(shards, &["127.0.0.0/8"]);
        for (position, at) in addresses.into_iter().enumerate() {
            for header in [V1, V2] {
                for client_id in ["a", "b", "c"] {
                    let mut client = through(header, at, position);
                    client.send(&connect(client_id));
                    client.expect(&CONNACK);
                    let source: SocketAddr = "192.0.2.7:4711".parse().unwrap();
                    assert_eq!(seen.facts.recv().unwrap().peer, Some(source));
                    assert_eq!(seen.peers.recv().unwrap(), Some(Peer::Address(source)), "connected");
                    close(&mut client);
                    assert_eq!(seen.peers.recv().unwrap(), Some(Peer::Address(source)), "disconnected");
                }
            }
        }
    }
}

#[test]
fn a_proxy_that_speaks_for_itself_is_the_peer() {
    let (_node, [at, ..], seen) = node(1, &["127.0.0.1"]);
    for header in [V2_LOCAL, b"PROXY UNKNOWN\r\n"] {
        let mut client = through(header, at, 0);
        client.send(&connect("check"));
        client.expect(&CONNACK);
        assert_eq!(seen.facts.recv().unwrap().peer.map(|peer| peer.ip()), Some([127, 0, 0, 1].into()));
    }
}

#[test]
fn a_header_may_arrive_byte_by_byte() {
    let (_node, [at, ..], seen) = node(1, &["127.0.0.0/8"]);
    for header in [V1, V2] {
        let mut socket = tcp(at);
        for byte in [header, &connect("drip")].concat() {
            socket.write_all(&[byte]).unwrap();
        }
        let mut connack = [0; 4];
        socket.read_exact(&mut connack).unwrap();
        assert_eq!(connack, CONNACK);
        assert_eq!(seen.facts.recv().unwrap().peer, "192.0.2.7:4711".parse().ok());
    }
}

/// The connection is closed without an answer.
fn refused(node: &Node, at: SocketAddr, bytes: &[u8]) {
    let before = node.handle().report().unwrap().shell.proxy_refused;
    let mut socket = tcp(at);
    socket.write_all(bytes).unwrap();
    let mut rest = Vec::new();
    let _ = socket.read_to_end(&mut rest);
    assert_eq!(rest, b"");
    let report = node.handle().report().unwrap();
    assert_eq!(report.shell.proxy_refused, before + 1);
    let counted = report.counters.connects_refused;
    assert_eq!((counted[Reason::ProxyHeader.number()], counted[Reason::ConnectionLost.number()]), (before + 1, 0));
}

#[test]
fn from_a_proxy_a_header_must_come_and_be_right() {
    let (node, addresses, _seen) = node(1, &["127.0.0.0/8"]);
    let malformed = V1.iter().map(|byte| if *byte == b'4' { b'5' } else { *byte }).collect::<Vec<_>>();
    let beginnings: [&[u8]; 4] = [&connect("missing"), &malformed, b"GET / HTTP/1.1\r\n\r\n", &[0; 5000]];
    for at in addresses {
        for bytes in beginnings {
            refused(&node, at, bytes);
        }
    }
}

#[test]
fn from_elsewhere_none_may_come_and_none_is_missed() {
    let (node, addresses, seen) = node(1, &["10.0.0.0/8", "::/0"]);
    for (position, at) in addresses.into_iter().enumerate() {
        refused(&node, at, V1);
        refused(&node, at, V2);
        let mut client = through(b"", at, position);
        client.send(&connect("direct"));
        client.expect(&CONNACK);
        assert_eq!(seen.facts.recv().unwrap().peer.map(|peer| peer.ip()), Some([127, 0, 0, 1].into()));
    }
}

#[test]
fn a_client_that_leaves_within_its_header_leaves_nothing_behind() {
    let (node, [at, ..], _seen) = node(1, &["127.0.0.0/8"]);
    for length in [0, 1, 6, V1.len() - 1, V1.len()] {
        let mut socket = TcpStream::connect(at).unwrap();
        socket.write_all(&V1[..length]).unwrap();
        drop(socket);
        while node.handle().report().unwrap().gauges.connections > 0 {
            std::thread::yield_now();
        }
    }
}

/// Limits and bans are about the client that the proxy names, and never about the proxy.
#[test]
fn the_named_client_is_limited_and_banned_and_its_proxy_is_not() {
    for shards in [1, 2] {
        let (node, addresses, _seen) = node_with(shards, &["127.0.0.0/8"], |settings| {
            settings.admission.max_connections_per_address = 2;
            settings.admission.banned = vec![BanTarget::Address("203.0.113.0/24".parse().unwrap())];
        });
        for (position, at) in addresses.into_iter().enumerate().take(2) {
            let come = |number: u8, client_id: &str| {
                let mut client = through(&header_of(&format!("192.0.2.{number}")), at, position);
                client.send(&connect(client_id));
                client.expect(&CONNACK);
                client
            };
            for round in 0..5 {
                let mut clients = [come(1, "a"), come(1, "b"), come(2, "c"), come(2, "d")];
                let mut socket = tcp(at);
                socket.write_all(&header_of("192.0.2.1")).unwrap();
                assert_eq!(socket.read(&mut [0]).unwrap_or_default(), 0, "round {round}");
                for client in &mut clients {
                    close(client);
                }
                drop(clients);
                while node.handle().report().unwrap().gauges.connections > 0 {
                    std::thread::yield_now();
                }
            }
            let mut socket = tcp(at);
            socket.write_all(&header_of("203.0.113.9")).unwrap();
            assert_eq!(socket.read(&mut [0]).unwrap_or_default(), 0, "banned");
        }
        let refused: Vec<u64> =
            node.handle().report().unwrap().shell.refused.by_reason().map(|(_, count)| count).collect();
        assert_eq!(refused, [2, 10, 0, 0, 0], "banned, and too many from an address");
        let counted = node.handle().report().unwrap().counters.connects_refused;
        assert_eq!(counted[Reason::ConnectionLost.number()], 0, "no connection is counted twice");
    }
}

/// V1 with another client.
fn header_of(address: &str) -> Vec<u8> {
    String::from_utf8(V1.to_vec()).unwrap().replace("192.0.2.7", address).into_bytes()
}
