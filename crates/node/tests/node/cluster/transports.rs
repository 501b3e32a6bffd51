//! Authenticated clients of every transport at nodes whose partitions move.

use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use rcgen::SerialNumber;
use tidegate_engine::{
    Accepted, AuthOutcome, AuthRequest, Authentication, Identity, ListenerSettings, LogEvent, Proof, Reason,
};
use tidegate_node::{
    Answer, ClientCertificates, ConnectionFacts, ContinuedClient, LinkLimits, Node, Observer, Occasion, Peer,
    TlsSettings,
};

use super::clients::{id_at, relay_clients};
use super::leaving::move_all;
use super::world::*;
use crate::pki::{COMMON, Directory, Issued, client_config};
use crate::quic_client::{QuicOptions, QuicSocket};
use crate::wire::*;

/// The header of a proxy for a client.
const PROXIED: &[u8] = b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 1883\r\n";

/// Positions of listeners.
const PLAIN: usize = 0;
const WEB: usize = 2;
const TLS: usize = 3;
const QUIC: usize = 4;
const PROXY: usize = 5;

/// Accepts every client as the same user, and clients of other nodes by the mark of their proof.
struct Judge {
    mark: u8,
    came: Mutex<Sender<(String, Option<Peer>)>>,
}

impl Observer for Judge {
    fn log(&self, occasion: &Occasion<'_>) {
        if let LogEvent::Connected { client_id, .. } = occasion.event {
            // The test may have dropped the receiver.
            let _ = self.came.lock().unwrap().send((client_id.clone(), occasion.peer));
        }
    }

    fn authenticate(&self, _: AuthRequest, _: ConnectionFacts, answer: Answer) {
        let proof = Some(Proof { provider: "users".into(), mark: [self.mark; Proof::MARK_BYTES] });
        let identity = Identity { user_name: Some("ann".into()), proof, ..Identity::default() };
        answer.give(AuthOutcome::Accept(Accepted { identity: Some(Arc::new(identity)), data: None }));
    }

    fn accept_continued(&self, client: &ContinuedClient<'_>) -> Result<(), Reason> {
        let mark = [self.mark; Proof::MARK_BYTES];
        let proof = client.identity.and_then(|identity| identity.proof.as_ref());
        assert!(proof.is_some_and(|proof| proof.mark != mark), "no mark leaves a node without a seal");
        if client.has_mark("users", mark) { Ok(()) } else { Err(Reason::UseAnotherServer) }
    }
}

/// The clients that a node has accepted, with their certificates.
type Arrivals = Receiver<(String, Option<Peer>)>;

/// Nodes with listeners of every transport, marks of users, and revoked certificates.
fn world_of(nodes: &[(&str, u8, &[u64])], directory: &Directory) -> (World, Vec<Arrivals>) {
    let mut world = World::apart(&[], LinkLimits::default());
    let mut arrivals = Vec::new();
    for (node, mark, revoked) in nodes {
        let mut settings = settings_of(node, 1, 2);
        settings.engine.authentication = Authentication::External;
        let (came, all) = channel();
        settings.observer = Arc::new(Judge { mark: *mark, came: Mutex::new(came) });
        arrivals.push(all);
        for (address, name) in [("ws", "web"), ("mqtts", "tls"), ("quic", "quic"), ("mqtt", "proxied")] {
            settings.listeners.push(format!("{address}://127.0.0.1:0").parse().unwrap());
            settings.engine.listeners.push(ListenerSettings { name: name.into(), ..ListenerSettings::default() });
        }
        settings.engine.listeners[1].name = "relay".into();
        settings.proxies.insert(PROXY, vec!["127.0.0.0/8".parse().unwrap()]);
        let crl = directory.write(&format!("{node}.crl"), &COMMON.authority.revoke(revoked));
        let client_ca = Some(COMMON.directory.path().join("ca.pem"));
        let client_certificates = ClientCertificates::Optional;
        let mutual = TlsSettings { client_certificates, client_ca, crl: vec![crl], ..COMMON.settings.clone() };
        settings.tls.insert(TLS, mutual);
        settings.tls.insert(QUIC, COMMON.settings.clone());
        world.add(node, 1, Node::start(settings).unwrap());
    }
    world.introduce();
    world.settle();
    relay_clients(&world);
    (world, arrivals)
}

fn address(world: &World, node: &str, position: usize) -> SocketAddr {
    world.nodes[node].local_addresses()[position].socket().unwrap()
}

/// A connection of a transport, without a packet.
fn dial(world: &World, node: &str, position: usize, identity: Option<&Issued>) -> Client {
    let at = address(world, node, position);
    match position {
        TLS => {
            let config = Arc::new(client_config(&COMMON.authority.pem(), identity));
            Client::over(Box::new(tls(at, &config)), None)
        }
        QUIC => Client::over(Box::new(QuicSocket::connect(at, &QuicOptions::default()).unwrap()), None),
        WEB => Client::over(Box::new(tcp(at)), Some("/mqtt")),
        PROXY => {
            let mut socket = tcp(at);
            std::io::Write::write_all(&mut socket, PROXIED).unwrap();
            Client::over(Box::new(socket), None)
        }
        _ => Client::over(Box::new(tcp(at)), None),
    }
}

/// A client of MQTT 5 that was accepted.
fn accepted_v5(mut client: Client, id: &str) -> Client {
    client.send(&connect_v5(id));
    let head = client.receive(2);
    assert_eq!(head[0], 0x20);
    client.receive(usize::from(head[1]));
    client
}

/// The whole DISCONNECT that a client gets, and nothing behind it.
fn dismissed(client: Client) -> Vec<u8> {
    client.rest()
}

#[test]
fn clients_of_every_transport_keep_their_sockets() {
    let directory = Directory::new();
    let (mut world, arrivals) = world_of(&[("a", 1, &[]), ("b", 1, &[]), ("c", 1, &[])], &directory);
    let mut clients = Vec::new();
    for position in [PLAIN, WEB, TLS, QUIC, PROXY] {
        // At the home itself, at the new home, and at a third node.
        for node in ["a", "b", "c"] {
            let id = id_at(&world, "a", &format!("{node}-{position}"));
            let mut client = dial(&world, node, position, None);
            client.send(&connect(&id));
            client.expect(&CONNACK);
            subscribe_at(&mut client, &format!("to/{id}"), 1);
            clients.push((client, id, position));
        }
    }
    for arrival in &arrivals {
        while arrival.try_recv().is_ok() {}
    }
    for (number, way) in [(1, ("a", "b")), (2, ("b", "c")), (3, ("c", "a"))] {
        move_all(&mut world, number, way);
        let publisher_id = id_at(&world, way.1, "publisher");
        let mut publisher = world.connect("c", &publisher_id);
        for (client, id, position) in &mut clients {
            let payload = format!("move {number}");
            publish_and_wait(&mut publisher, &format!("to/{id}"), payload.as_bytes(), 1, false);
            assert_eq!(receive_message(client).payload, payload, "{id}, transport {position}, {way:?}");
        }
    }
    // Each node knows where a client is that came through a proxy.
    for (came, node) in arrivals.iter().zip(["a", "b", "c"]) {
        let proxied: Vec<_> = came.try_iter().filter(|(id, _)| id.contains(&format!("-{PROXY}-"))).collect();
        assert_eq!(proxied.len(), 3, "{node}");
        let expected = Some(Peer::Address("192.0.2.7:4711".parse().unwrap()));
        assert!(proxied.iter().all(|(_, peer)| *peer == expected), "{node}: {proxied:?}");
    }
    world.expect_well();
}

#[test]
fn a_client_whose_user_is_another_at_the_new_home_is_dismissed() {
    let directory = Directory::new();
    let (mut world, _arrivals) = world_of(&[("a", 1, &[]), ("b", 2, &[]), ("c", 1, &[])], &directory);
    let mut clients = Vec::new();
    for node in ["a", "b", "c"] {
        let id = id_at(&world, "a", &format!("old-{node}"));
        let mut old = dial(&world, node, PLAIN, None);
        old.send(&connect(&id));
        old.expect(&CONNACK);
        let id = id_at(&world, "a", &format!("new-{node}"));
        clients.push((old, accepted_v5(dial(&world, node, PLAIN, None), &id)));
    }
    move_all(&mut world, 1, ("a", "b"));
    for (old, new) in clients {
        assert_eq!(old.rest(), b"");
        let last = dismissed(new);
        assert_eq!((last[0], last[2]), (0xe0, 0x9c), "{last:02x?}");
    }
    let report = world.nodes["b"].handle().report().unwrap();
    assert_eq!((report.shell.continued, report.shell.not_continued), (0, 6));
}

#[test]
fn a_certificate_goes_along_and_may_be_revoked_at_a_new_home() {
    let directory = Directory::new();
    let (mut world, _arrivals) = world_of(&[("a", 1, &[1]), ("b", 1, &[66]), ("c", 1, &[66, 67])], &directory);
    let with_serial = |serial: u64| {
        COMMON.authority.issue("device", &[], |params| params.serial_number = Some(SerialNumber::from(serial)))
    };
    let mut at_home = |serial: u64| {
        let id = id_at(&world, "a", &format!("device-{serial}"));
        let mut client = accepted_v5(dial(&world, "a", TLS, Some(&with_serial(serial))), &id);
        client.send(&PINGREQ);
        client.expect(&PINGRESP);
        client
    };
    let [revoked, mut later, mut valid] = [66, 67, 68].map(&mut at_home);
    move_all(&mut world, 1, ("a", "b"));
    assert_eq!(dismissed(revoked)[2], 0x87);
    later.send(&PINGREQ);
    later.expect(&PINGRESP);
    move_all(&mut world, 2, ("b", "c"));
    assert_eq!(dismissed(later)[2], 0x87);
    valid.send(&PINGREQ);
    valid.expect(&PINGRESP);
}

#[test]
fn a_connection_is_brought_again_after_a_home_that_closes() {
    let directory = Directory::new();
    let (mut world, _arrivals) = world_of(&[("a", 1, &[]), ("b", 1, &[]), ("c", 1, &[])], &directory);
    let id = id_at(&world, "a", "again");
    let mut client = dial(&world, "c", PLAIN, None);
    client.send(&connect(&id));
    client.expect(&CONNACK);
    let closes = TcpListener::bind("127.0.0.1:0").unwrap();
    world.relays.insert("b".to_owned(), closes.local_addr().unwrap());
    move_all(&mut world, 1, ("a", "b"));
    for _ in 0..2 {
        drop(closes.accept().unwrap());
    }
    world.relays.clear();
    relay_clients(&world);
    client.send(&PINGREQ);
    client.expect(&PINGRESP);
    assert_eq!(world.nodes["b"].handle().report().unwrap().shell.continued, 1);
}
