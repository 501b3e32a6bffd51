//! Limits of user names over the nodes of a cluster.

use std::net::TcpStream;

use super::{A, B, Cluster, connect_by, until};
use crate::nats::Nats;

/// A client with a user name and no password, if it is accepted.
fn connect_as(port: u16, id: &str, user: &str) -> Option<TcpStream> {
    let text = |text: &str| [&[0, text.len() as u8][..], text.as_bytes()].concat();
    connect_by(port, 0x82, &[&text(id)[1..], &text(user)].concat())
}

#[test]
fn a_limit_of_a_user_counts_clients_of_all_nodes() {
    let settings = ["admission.max_connections_per_user=2"];
    let cluster = Cluster::of(2, "10s", None, Box::new(Nats::start()), &settings);
    let at = |which: usize, stem: &str, user: &str| connect_as(cluster.port(which), &cluster.id_at(which, stem), user);
    let first = at(A, "first", "ann").unwrap();
    let second = at(B, "second", "ann").unwrap();
    for which in [A, B] {
        until("a refusal by the limit", || at(which, "third", "ann").is_none().then_some(()));
        drop(at(which, "other", "bob").unwrap());
    }
    drop(second);
    let third = until("room for another client", || at(A, "third", "ann"));
    until("a refusal by the limit", || at(B, "fourth", "ann").is_none().then_some(()));
    drop((first, third));
}
