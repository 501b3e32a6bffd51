//! How connections and the node end.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use tidegate_engine::Durability;
use tidegate_node::{LocalAddress, Node, Stopped};
use tidegate_store::{OpenError, Settings, SimulatedDisk, keep_all};

use crate::wire::*;
use crate::{addresses, node, settings};

/// Its last usage goes into the books of the same directory, which a successor reads with the store.
#[test]
fn a_successor_waits_for_the_last_entries_of_a_stopped_node() {
    let disk = SimulatedDisk::new(1);
    let open = || tidegate_store::open(Arc::new(disk.clone()), Settings::default(), keep_all());
    let mut settings = settings(1);
    settings.engine.durability = Durability::Commit;
    let node = Node::start_with_store(settings, open().unwrap().store).unwrap();
    let stopped = node.stop(Duration::from_secs(60));
    assert!(matches!(open().map(|_| ()), Err(OpenError::Locked { .. })));
    drop(stopped);
    assert!(open().is_ok());
}

/// Closing a socket with unread bytes resets it; then the client would lose the DISCONNECT that says why.
#[test]
fn a_client_that_keeps_sending_still_reads_the_reason() {
    let node = node(1);
    let [tcp, ..] = addresses(&node);
    for _ in 0..20 {
        let mut client = Client::dial(&tcp);
        client.send(&connect_v5("babbler"));
        assert_eq!(client.receive(2)[0], 0x20);
        // A reserved packet type, and much behind it.
        client.send(&[0x00, 0x00]);
        let _ = client.try_send(&vec![0; 300_000]);
        let rest = client.rest();
        let disconnect = rest.windows(3).any(|three| three[0] == 0xe0 && three[2] == 0x81);
        assert!(disconnect, "no DISCONNECT with Malformed Packet in {rest:02x?}");
    }
}

#[test]
fn stopping_tells_every_client_and_closes_every_listener() {
    for shards in [1, 2] {
        let node = node(shards);
        let listening = addresses(&node);
        let mut clients = Vec::new();
        for (number, address) in listening.iter().enumerate() {
            for name in ["a", "b", "c"] {
                let mut client = Client::dial(address);
                client.send(&connect_v5(&format!("{name}{number}")));
                let length = usize::from(client.receive(2)[1]);
                client.receive(length);
                clients.push(client);
            }
        }
        let threads: Vec<_> = clients.into_iter().map(|client| std::thread::spawn(|| client.rest())).collect();
        let stopped = node.stop(Duration::from_secs(60));
        assert_eq!((stopped.drained, stopped.failed), (true, vec![]));
        for thread in threads {
            let rest = thread.join().unwrap();
            // Server shutting down
            assert!(rest.len() > 2 && rest[0] == 0xe0 && rest[2] == 0x8b, "{rest:02x?}");
        }
        for address in listening {
            match address {
                LocalAddress::Unix(path) => assert!(!path.exists()),
                other => assert!(TcpStream::connect(other.socket().unwrap()).is_err()),
            }
        }
    }
}

/// How many wills each of six clients gets that have one and are there when the node is stopped.
fn wills_at_the_end(shards: u16, stop: impl FnOnce(Node) -> Stopped) -> Vec<usize> {
    let node = node(shards);
    let [tcp, ..] = addresses(&node);
    let mut clients = Vec::new();
    for number in 0..6 {
        let mut client = Client::dial(&tcp);
        client.send(&connect_with_will(&format!("c{number}"), "wills", &number.to_string()));
        client.expect(&CONNACK);
        client.send(&subscribe("wills"));
        client.expect(&SUBACK);
        clients.push(client);
    }
    let threads: Vec<_> = clients.into_iter().map(|client| std::thread::spawn(|| client.rest())).collect();
    assert!(stop(node).drained);
    let got = threads.into_iter().map(|thread| {
        let rest = thread.join().unwrap();
        let wills = (0..6).map(|number| publish("wills", number.to_string().as_bytes()));
        wills.filter(|will| rest.windows(will.len()).any(|part| part == will)).count()
    });
    got.collect()
}

/// Each client is connected until all wills have been published, on any shard.
#[test]
fn stopping_publishes_wills_to_the_clients_that_are_there() {
    for shards in [1, 3] {
        assert_eq!(wills_at_the_end(shards, |node| node.stop(Duration::from_secs(60))), [6; 6], "{shards} shards");
    }
}

/// The node that took its place publishes them.
#[test]
fn a_node_whose_place_another_has_taken_publishes_no_wills() {
    for shards in [1, 3] {
        let got = wills_at_the_end(shards, |node| node.stop_replaced(Duration::from_secs(60)));
        assert_eq!(got, [0; 6], "{shards} shards");
    }
}

/// A client that reads nothing cannot delay the end.
#[test]
fn stopping_cuts_off_clients_that_do_not_leave_in_time() {
    let node = node(1);
    let [tcp, ..] = addresses(&node);
    let mut reader = Client::connect(&tcp, "reads nothing");
    reader.send(&subscribe("much"));
    reader.expect(&SUBACK);
    let mut writer = Client::connect(&tcp, "writer");
    for _ in 0..10 {
        writer.send(&publish_qos1("much", &vec![0; 1_000_000]));
        writer.expect(&PUBACK);
    }
    let stopped = node.stop(Duration::ZERO);
    assert_eq!((stopped.drained, stopped.failed), (false, vec![]));
    drop(reader);
}

/// Connections end in every way at every stage, and every slot is released.
#[test]
fn no_way_to_end_leaks_a_connection() {
    const LIMIT: u32 = 30;
    for shards in [1, 2] {
        let mut settings = crate::settings(shards);
        settings.max_connections = LIMIT;
        let node = Node::start(settings).unwrap();
        let handle = node.handle();
        for round in 0..10 {
            for (number, address) in addresses(&node).iter().enumerate() {
                end_in_every_way(address, &format!("{round}-{number}"));
            }
            // Half-closed sockets and sockets that the server drains are gone when the shards say so.
            while handle.report().unwrap().gauges.connections > 0 {
                std::thread::yield_now();
            }
        }
        let [tcp, ..] = addresses(&node);
        let clients: Vec<Client> = (0..LIMIT).map(|number| Client::connect(&tcp, &number.to_string())).collect();
        assert_eq!(handle.report().unwrap().gauges.sessions_connected, u64::from(LIMIT));
        assert_eq!(Client::dial(&tcp).rest(), b"", "the limit holds");
        drop(clients);
    }
}

fn end_in_every_way(address: &LocalAddress, name: &str) {
    // Without a packet, in the middle of a CONNECT, in the middle of a packet, and after a DISCONNECT.
    drop(Client::dial(address));
    let mut client = Client::dial(address);
    client.send(&connect(name)[..5]);
    drop(client);
    let mut client = Client::connect(address, name);
    client.send(&[0x30, 100, 0]);
    drop(client);
    let mut client = Client::connect(address, name);
    client.send(&DISCONNECT);
    assert_eq!(client.rest(), b"");
    // One that is still there when it is taken over, one that only closes its own side, one that breaks the protocol.
    let taken = Client::connect(address, name);
    let mut client = Client::connect(address, name);
    client.socket().finish();
    assert_eq!(client.rest(), b"");
    assert_eq!(taken.rest(), b"");
    let mut client = Client::connect(address, name);
    client.send(&[0x00, 0x00]);
    assert_eq!(client.rest(), b"");
}
