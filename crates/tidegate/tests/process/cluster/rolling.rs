//! All nodes are stopped and started again in turn.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::{A, B, C, Cluster, connect};

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

/// Clients that are connected to each node, of which each has its home.
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
