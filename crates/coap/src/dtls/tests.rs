use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::*;

const KEY: &[u8] = b"0123456789abcdef";

/// The key that a client has.
struct Own(Vec<u8>);

impl PskResolver for Own {
    fn resolve(&self, _identity: &[u8]) -> Option<Vec<u8>> {
        Some(self.0.clone())
    }
}

/// A guard with the key of `pump`, and the time.
struct World {
    guard: Guard,
    now: Instant,
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

impl World {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-dtls-{name}-{}", std::process::id()));
        fs::write(&path, format!("pump:{}\n", hexadecimal(KEY))).unwrap();
        let keys = Arc::new(Keys::open(&path).unwrap());
        Self { guard: Guard::new(&keys), now: Instant::now() }
    }

    /// Events but the datagrams to send, which return by their peer.
    fn events(&mut self) -> (Vec<(PeerId, Vec<u8>)>, Vec<Passed>) {
        let (mut sent, mut others) = (Vec::new(), Vec::new());
        while let Some(passed) = self.guard.poll() {
            match passed {
                Passed::Send { peer, datagram } => sent.push((peer, datagram)),
                other => others.push(other),
            }
        }
        (sent, others)
    }

    /// Passes datagrams between a client and the guard until both are silent. Returns the other events, and the bytes
    /// that the client has got.
    fn exchange(&mut self, peer: PeerId, client: &mut dimpl::Dtls) -> (Vec<Passed>, Vec<Vec<u8>>) {
        let (mut events, mut got, mut buffer) = (Vec::new(), Vec::new(), vec![0; BUFFER]);
        loop {
            let _ = client.handle_timeout(self.now);
            let mut out = Vec::new();
            loop {
                match client.poll_output(&mut buffer) {
                    Output::Packet(bytes) => out.push(bytes.to_vec()),
                    Output::ApplicationData(bytes) => got.push(bytes.to_vec()),
                    Output::Timeout(_) => break,
                    _ => {}
                }
            }
            for datagram in &out {
                self.guard.handle_datagram(self.now, peer, datagram);
            }
            let (sent, mut others) = self.events();
            events.append(&mut others);
            if out.is_empty() && sent.is_empty() {
                return (events, got);
            }
            for (_, datagram) in sent.iter().filter(|(to, _)| *to == peer) {
                // A client that fails says no more.
                let _ = client.handle_packet(datagram);
            }
        }
    }

    fn client(&self, identity: &[u8], key: &[u8]) -> dimpl::Dtls {
        let config = Config::builder().with_psk_client(identity.to_vec(), Arc::new(Own(key.to_vec())));
        let mut client = dimpl::Dtls::new_12_psk(Arc::new(config.build().unwrap()), self.now);
        client.set_active(true);
        client
    }
}

fn peer(port: u16) -> PeerId {
    PeerId { socket: 0, at: SocketAddr::from((Ipv4Addr::LOCALHOST, port)) }
}

#[test]
fn a_client_with_the_key_is_read_and_answered() {
    let mut world = World::new("key");
    let mut client = world.client(b"pump", KEY);
    client.send_application_data(b"hello").unwrap();
    let (events, _) = world.exchange(peer(1), &mut client);
    assert_eq!(events, [Passed::Datagram { peer: peer(1), datagram: b"hello".to_vec() }]);
    assert_eq!(world.guard.identity(peer(1)).as_deref(), Some("pump"));
    world.guard.send(peer(1), b"yes");
    assert_eq!(world.exchange(peer(1), &mut client).1, [b"yes".to_vec()]);
    client.close().unwrap();
    assert_eq!(world.exchange(peer(1), &mut client).0, [Passed::Left { peer: peer(1) }]);
    assert_eq!((world.guard.identity(peer(1)), world.guard.next_deadline(), world.guard.failed()), (None, None, 0));
}

#[test]
fn a_wrong_key_and_an_unknown_identity_get_nothing() {
    let mut world = World::new("wrong");
    let wrong: [(&[u8], &[u8]); 3] = [(b"pump", b"fedcba9876543210"), (b"other", KEY), (b"\xFF", KEY)];
    for ((identity, key), port) in wrong.into_iter().zip(1..) {
        let mut client = world.client(identity, key);
        client.send_application_data(b"hello").unwrap();
        let (events, got) = world.exchange(peer(port), &mut client);
        assert!(events.is_empty() && got.is_empty());
        assert_eq!(world.guard.identity(peer(port)), None);
        assert_eq!(world.guard.failed(), u64::from(port));
    }
    assert_eq!(world.guard.next_deadline(), None);
}

#[test]
fn an_association_lasts_until_another_handshake_has_ended() {
    let mut world = World::new("again");
    let mut first = world.client(b"pump", KEY);
    world.exchange(peer(1), &mut first);
    let mut stranger = world.client(b"pump", b"fedcba9876543210");
    assert!(world.exchange(peer(1), &mut stranger).0.is_empty());
    first.send_application_data(b"still").unwrap();
    let still = Passed::Datagram { peer: peer(1), datagram: b"still".to_vec() };
    assert_eq!(world.exchange(peer(1), &mut first).0, [still]);
    let mut second = world.client(b"pump", KEY);
    second.send_application_data(b"new").unwrap();
    let (events, _) = world.exchange(peer(1), &mut second);
    let new = Passed::Datagram { peer: peer(1), datagram: b"new".to_vec() };
    assert_eq!(events, [Passed::Left { peer: peer(1) }, new]);
    first.send_application_data(b"late").unwrap();
    assert!(world.exchange(peer(1), &mut first).0.is_empty());
}

#[test]
fn half_open_handshakes_are_bounded_and_end() {
    let mut world = World::new("half");
    let (mut client, mut buffer) = (world.client(b"pump", KEY), vec![0; BUFFER]);
    client.handle_timeout(world.now).unwrap();
    let Output::Packet(hello) = client.poll_output(&mut buffer) else { panic!("a client begins") };
    let hello = hello.to_vec();
    for port in 0..2 * MAX_HANDSHAKES as u16 {
        world.guard.handle_datagram(world.now, peer(port + 1), &hello);
        let (sent, events) = world.events();
        assert!(events.is_empty());
        let bytes: usize = sent.iter().map(|(_, datagram)| datagram.len()).sum();
        assert!(bytes <= hello.len(), "a client without a cookie gets no more bytes than it has sent");
    }
    assert_eq!((world.guard.clients.len(), world.guard.failed()), (MAX_HANDSHAKES, MAX_HANDSHAKES as u64));
    while let Some(due) = world.guard.next_deadline() {
        assert!(due < world.now + Duration::from_secs(3600), "handshakes end");
        world.guard.handle_deadline(due);
    }
    assert!(world.guard.clients.is_empty() && world.guard.timers.is_empty() && world.guard.handshakes.is_empty());
}

#[test]
fn no_bytes_make_it_panic_or_open_an_association() {
    use proptest::prelude::*;

    let world = World::new("bytes");
    let (mut client, mut buffer) = (world.client(b"pump", KEY), vec![0; BUFFER]);
    client.handle_timeout(world.now).unwrap();
    let Output::Packet(hello) = client.poll_output(&mut buffer) else { panic!("a client begins") };
    let hello = hello.to_vec();
    let mut runner = proptest::test_runner::TestRunner::default();
    let changes = (proptest::collection::vec((any::<usize>(), any::<u8>()), 0..8), any::<u16>(), 0..200usize);
    let ran = runner.run(&changes, |(changes, port, cut)| {
        let mut bytes = hello.clone();
        for (at, byte) in changes {
            let len = bytes.len();
            bytes[at % len] = byte;
        }
        bytes.truncate(bytes.len().saturating_sub(cut % 60));
        let mut world = World::new("bytes");
        world.guard.handle_datagram(world.now, peer(port), &bytes);
        world.guard.handle_datagram(world.now, peer(port), &bytes);
        prop_assert!(world.guard.associations.is_empty());
        Ok(())
    });
    ran.unwrap();
}
