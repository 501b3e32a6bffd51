//! All nodes are stopped and started again in turn.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::{A, B, C, Cluster, connect, until};
use crate::broker::PATIENCE;

/// A client that stays connected as long as it may.
struct Client {
    id: String,
    at: usize,
    home: usize,
    stream: TcpStream,
}

impl Client {
    /// Whether it is still connected.
    fn is_there(&mut self) -> bool {
        let mut answer = [0; 2];
        let asked = self.stream.write_all(&[0xc0, 0]).and_then(|()| self.stream.read_exact(&mut answer));
        asked.is_ok() && answer == [0xd0, 0]
    }
}

/// Clients that are connected to each node; each node is the home of some.
fn clients(cluster: &Cluster, round: usize) -> Vec<Client> {
    let mut clients = Vec::new();
    for (at, home) in [A, B, C].into_iter().flat_map(|at| [A, B, C].map(|home| (at, home))) {
        let view = cluster.view(A);
        let is_served = view["homes"].as_array().unwrap().iter().any(|name| *name == super::NAMES[home]);
        if is_served {
            let id = cluster.id_at(home, &format!("c{round}-{at}"));
            let stream = connect(cluster.port(at), &id).unwrap();
            clients.push(Client { id, at, home, stream });
        }
    }
    clients
}

#[test]
fn a_rolling_restart_cuts_only_sockets_of_the_stopped_node() {
    let mut cluster = Cluster::durable_with(3, "10s", &["cluster.settle=1h"]);
    let keeps: Vec<String> = [A, B, C].iter().map(|home| cluster.id_at(*home, "keeps")).collect();
    for id in &keeps {
        cluster.subscribe(A, id);
    }
    for (round, stopped) in [A, B, C].into_iter().enumerate() {
        let mut clients = clients(&cluster, round);
        let number = round as u32;
        cluster.publish(stopped, "in/x", 2 * number..2 * number + 2);
        let node = cluster.nodes[stopped].take().unwrap();
        node.signal("TERM");
        assert_eq!(node.wait().code, Some(0));
        cluster.run(stopped);
        cluster.wait_served();
        for client in &mut clients {
            let Client { id, at, home, .. } = client;
            let name = format!("{id} at {at}, at home at {home}, while {stopped} was stopped");
            let stays = *at != stopped;
            assert_eq!(client.is_there(), stays, "{name}");
        }
        assert_eq!(cluster.view(stopped)["served"], 0, "nothing has moved back yet");
    }
    for id in &keeps {
        cluster.expect_owed(B, id, 6);
    }
}

/// CONNECT of a lasting session with a will of QoS 1 without a delay.
fn connect_lasting_with_will(port: u16, id: &str) -> Option<TcpStream> {
    let text = |text: &str| [&[0, text.len() as u8][..], text.as_bytes()].concat();
    let payload = [&[id.len() as u8][..], id.as_bytes(), &[0], &text("wills/x"), &text("gone")].concat();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let properties = [5, 0x11, 0, 0, 1, 0];
    let body = [&b"\0\x04MQTT\x05"[..], &[0x0c, 0, 0], &properties, &[0], &payload].concat();
    stream.write_all(&[&[0x10, body.len() as u8][..], &body].concat()).ok()?;
    let mut head = [0; 4];
    stream.read_exact(&mut head).ok()?;
    stream.read_exact(&mut vec![0; usize::from(head[1]) - 2]).ok()?;
    ((head[0], head[3]) == (0x20, 0)).then_some(stream)
}

#[test]
fn a_planned_stop_publishes_no_wills_of_lasting_sessions() {
    let mut cluster = Cluster::durable_with(3, "10s", &["cluster.settle=1h"]);
    cluster.client(A, &["sub", "-i", "mourner", "-c", "-q", "1", "-t", "wills/#", "-E"]);
    // At home at the node that stops, and relayed by it.
    let ids: Vec<String> = [B, C].iter().map(|home| cluster.id_at(*home, "mourned")).collect();
    let mut clients: Vec<TcpStream> =
        ids.iter().filter_map(|id| connect_lasting_with_will(cluster.port(B), id)).collect();
    assert_eq!(clients.len(), 2);
    let node = cluster.nodes[B].take().unwrap();
    node.signal("TERM");
    for client in &mut clients {
        let mut goodbye = Vec::new();
        client.read_to_end(&mut goodbye).unwrap();
        assert!(matches!(goodbye[..], [0xe0, _, 0x9c, ..]), "{goodbye:02x?}");
    }
    let back = |id: &String| until("service", || connect_lasting_with_will(cluster.port(A), id));
    let _back: Vec<TcpStream> = ids.iter().map(back).collect();
    assert_eq!(node.wait().code, Some(0));
    cluster.client(A, &["pub", "-q", "1", "-t", "wills/y", "-m", "last"]);
    let wills = cluster.client(A, &["sub", "-i", "mourner", "-c", "-q", "1", "-t", "wills/#", "-C", "1", "-W", "120"]);
    assert_eq!(wills, "last\n");
}
