//! The network carries as its ways say: bytes over real sockets, waited for without a clock.

use std::net::{TcpListener as Server, TcpStream as Client};

use super::*;

/// Longest wait for something that must come.
const ENOUGH: Duration = Duration::from_secs(60);

fn wait_until(awaited: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < ENOUGH, "{awaited} does not come");
        std::thread::yield_now();
    }
}

/// A network with one port for each owner, and a server behind all.
fn network_of<const COUNT: usize>(owners: [Owner; COUNT]) -> (Network, [SocketAddr; COUNT], Server) {
    let server = Server::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to = server.local_addr().unwrap();
    loop {
        // Another process may take a port that the system has just chosen.
        let chosen = owners.map(|_| Server::bind((ADVERTISED, 0)).unwrap());
        let ports = chosen.each_ref().map(|listener| listener.local_addr().unwrap());
        drop(chosen);
        let carried = ports.iter().zip(owners).map(|(at, owner)| Carried { at: *at, to, owner });
        if let Ok(network) = Network::start(3, carried.collect()) {
            return (network, ports, server);
        }
    }
}

/// A network with one port of node 1, and a server behind it.
fn network() -> (Network, SocketAddr, Server) {
    let (network, [at], server) = network_of([Owner::BusOf(1)]);
    (network, at, server)
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
    assert_eq!(network.hindered(Way::Bus(1)), 0);
    network.strike(Way::Bus(1), WayState::Silent);
    kept.write_all(b"while it is silent").unwrap();
    network.strike(Way::Bus(1), WayState::Slow);
    let mut seen = [0; 18];
    peer.read_exact(&mut seen).unwrap();
    assert_eq!(&seen, b"while it is silent");
    // The bytes are counted a moment after they were passed on.
    wait_until("the count", || network.hindered(Way::Bus(1)) > 0);
    assert_eq!(network.hindered(Way::Bus(0)), 0);
    network.strike(Way::Bus(0), WayState::Cut);
    echo(&mut kept, &mut peer, b"another way is cut");
    network.strike(Way::Bus(1), WayState::Cut);
    assert_eq!(peer.read(&mut seen).unwrap_or(0), 0, "an end or a reset");
}

#[test]
fn a_fault_meets_only_a_way_that_has_something_to_carry() {
    let (network, ports, server) = network_of([Owner::BusOf(1), Owner::BusOf(0)]);
    let [(mut idle, mut idle_peer), (mut busy, mut busy_peer)] = ports.map(|at| {
        let client = Client::connect(at).unwrap();
        (client, server.accept().unwrap().0)
    });
    echo(&mut idle, &mut idle_peer, b"all events");
    // A batch of events answers at most three: later ones show that the events of the idle way are handled.
    (0..5).for_each(|_| echo(&mut busy, &mut busy_peer, b"are handled"));
    network.strike(Way::Bus(1), WayState::Silent);
    (0..5).for_each(|_| echo(&mut busy, &mut busy_peer, b"the strike is seen"));
    assert_eq!(network.hindered(Way::Bus(1)), 0, "nothing was to be carried");
    idle.write_all(b"x").unwrap();
    wait_until("the fault", || network.hindered(Way::Bus(1)) > 0);
}

#[test]
fn the_source_tells_between_which_nodes_a_connection_is() {
    assert_eq!(node_at(IpAddr::V4(source_of(2)), 3), Some(2));
    assert_eq!(node_at(IpAddr::V4(Ipv4Addr::LOCALHOST), 3), None);
    let shared = Shared {
        nodes: 3,
        ways: (0..12).map(|_| AtomicU8::new(0)).collect(),
        hindered: Vec::new(),
        stranger: OnceLock::new(),
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

#[test]
fn a_connection_from_no_node_is_noticed() {
    let (network, [at], _server) = network_of([Owner::Node(1)]);
    assert_eq!(network.stranger(), None);
    let client = Client::connect(at).unwrap();
    let own = client.local_addr().unwrap().ip();
    wait_until("the stranger", || network.stranger() == Some(own));
}
