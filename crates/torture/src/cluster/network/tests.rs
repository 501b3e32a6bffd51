//! The network carries as its ways say: bytes over real sockets, waited for without a clock.

use std::net::{TcpListener as Server, TcpStream as Client};

use super::*;

/// A network with one port of node 1, and a server behind it.
fn network() -> (Network, SocketAddr, Server) {
    let server = Server::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to = server.local_addr().unwrap();
    loop {
        // Another process may take the port that the system has just chosen.
        let at = Server::bind((ADVERTISED, 0)).unwrap().local_addr().unwrap();
        if let Ok(network) = Network::start(3, vec![Carried { at, to, owner: Owner::BusOf(1) }]) {
            return (network, at, server);
        }
    }
}

fn echo(client: &mut Client, server: &mut Client, text: &[u8]) {
    let mut seen = vec![0; text.len()];
    client.write_all(text).unwrap();
    server.read_exact(&mut seen).unwrap();
    assert_eq!(seen, text);
    server.write_all(text).unwrap();
    client.read_exact(&mut seen).unwrap();
    assert_eq!(seen, text);
}

#[test]
fn an_open_way_carries_more_than_its_room() {
    let (_network, at, server) = network();
    let mut client = Client::connect(at).unwrap();
    let (mut peer, _) = server.accept().unwrap();
    echo(&mut client, &mut peer, b"hello");
    let sender = std::thread::spawn(move || client.write_all(&vec![7; 10 * ROOM]).map(|()| client));
    let mut all = vec![0; 10 * ROOM];
    peer.read_exact(&mut all).unwrap();
    assert!(all.iter().all(|byte| *byte == 7));
    drop(sender.join().unwrap().unwrap());
    assert_eq!(peer.read(&mut all).unwrap(), 0, "the end is carried, too");
}

#[test]
fn a_cut_ends_connections_and_a_silent_way_keeps_them() {
    let (network, at, server) = network();
    let mut kept = Client::connect(at).unwrap();
    let (mut peer, _) = server.accept().unwrap();
    echo(&mut kept, &mut peer, b"before");
    network.strike(Way::Bus(1), WayState::Silent);
    kept.write_all(b"while it is silent").unwrap();
    network.strike(Way::Bus(1), WayState::Slow);
    let mut seen = [0; 18];
    peer.read_exact(&mut seen).unwrap();
    assert_eq!(&seen, b"while it is silent");
    network.strike(Way::Bus(0), WayState::Cut);
    echo(&mut kept, &mut peer, b"another way is cut");
    network.strike(Way::Bus(1), WayState::Cut);
    assert_eq!(peer.read(&mut seen).unwrap_or(0), 0, "an end or a reset");
}

#[test]
fn the_source_tells_between_which_nodes_a_connection_is() {
    assert_eq!(node_at(IpAddr::V4(source_of(2)), 3), Some(2));
    assert_eq!(node_at(IpAddr::V4(Ipv4Addr::LOCALHOST), 3), None);
    let shared = Shared {
        nodes: 3,
        ways: (0..12).map(|_| AtomicU8::new(0)).collect(),
        alive: Vec::new(),
        changes: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
    };
    assert_eq!(shared.place(Way::Link(2, 0)), shared.place(Way::Link(0, 2)));
    let ways = [Way::Link(0, 1), Way::Link(0, 2), Way::Link(1, 2), Way::Bus(0), Way::Bus(1), Way::Bus(2)];
    let mut places = ways.map(|way| shared.place(way)).to_vec();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), ways.len());
}
