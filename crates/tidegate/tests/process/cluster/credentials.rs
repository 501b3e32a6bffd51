//! Users and rules of nodes that a client comes to without a new CONNECT.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::{A, B, Cluster, NAMES, connect_by, publish_packet};
use crate::broker::{Folder, run};
use crate::nats::Nats;

const RULES: &str = "[[rule]]\nallow = true\ntopics = ['in/#', 'out/#']\n";
/// At the new homes `out/secret` is forbidden.
const NARROW: &str = "[[rule]]\nallow = false\ntopics = ['out/secret']\n";

/// CONNECT of MQTT 5 with a user, whose password is the name.
fn connect_as(port: u16, id: &str, user: &str) -> TcpStream {
    let text = |text: &str| [&[0, text.len() as u8][..], text.as_bytes()].concat();
    connect_by(port, 0xc2, &[&text(id)[1..], &text(user), &text(user)].concat()).expect("an accepted client")
}

/// The reason code of the PUBACK.
fn publish(client: &mut TcpStream, topic: &str) -> u8 {
    client.write_all(&publish_packet(topic, 7)).unwrap();
    let mut head = [0; 2];
    client.read_exact(&mut head).unwrap();
    let mut rest = vec![0; usize::from(head[1])];
    client.read_exact(&mut rest).unwrap();
    assert_eq!(head[0], 0x40);
    rest.get(2).copied().unwrap_or_default()
}

#[test]
fn clients_stay_by_the_users_and_rules_of_their_new_homes() {
    let folder = Folder::new();
    let users = folder.write("a.users", "");
    for name in ["ann", "bob"] {
        let ended = run(&["passwd", "-b", "-H", "sha512-pbkdf2", "-I", "100", &users, name, name]);
        assert_eq!(ended.code, Some(0), "{}", ended.err);
    }
    let all = std::fs::read_to_string(&users).unwrap();
    let ann: String = all.split_inclusive('\n').filter(|line| line.starts_with("ann:")).collect();
    for node in NAMES {
        let users = folder.write(&format!("{node}.users"), if node == "a" { &all } else { &ann });
        let rules = if node == "a" { RULES.to_owned() } else { format!("{NARROW}{RULES}") };
        let rules = folder.write(&format!("{node}.rules"), &rules);
        let text = format!("[[auth]]\nfile = '{users}'\n[access]\nrules_file = '{rules}'\n");
        folder.write(&format!("{node}.toml"), &text);
    }
    let config = format!("--config={}", folder.file("{name}.toml"));
    let data = Some(Folder::new());
    let settings = ["cluster.settle=1h", &config];
    let mut cluster = Cluster::of(3, "10s", data, Box::new(Nats::start()), &settings);
    // Their sockets are at another node than their home, which asks for the password.
    let mut ann = connect_as(cluster.port(B), &cluster.id_at(A, "ann"), "ann");
    let mut bob = connect_as(cluster.port(B), &cluster.id_at(A, "bob"), "bob");
    assert!(publish(&mut ann, "out/secret") < 0x80 && publish(&mut bob, "out/secret") < 0x80);
    let node = cluster.nodes[A].take().unwrap();
    node.signal("TERM");
    assert_eq!(node.wait().code, Some(0));
    // The new homes do not know bob.
    let mut last = Vec::new();
    bob.read_to_end(&mut last).unwrap();
    assert!(matches!(last[..], [0xe0, _, 0x9c, ..]), "{last:02x?}");
    assert_eq!(publish(&mut ann, "out/secret"), 0x87);
    assert!(publish(&mut ann, "out/open") < 0x80);
}
