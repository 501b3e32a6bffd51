//! Clients that are parts of the process: a pipe in the place of a socket.

use std::io::{self, ErrorKind, Read, Write};
use std::time::Duration;

use mio::event::Source;
use mio::{Events, Interest, Poll, Token};
use tidegate_engine::ListenerId;
use tidegate_node::{Node, NodeSettings};
use tidegate_pipe::{CAPACITY, PipeEnd};

use crate::addresses;
use crate::settings;
use crate::wire::*;

/// Long enough that only a lost wake-up lets a wait run into it.
const PATIENCE: Duration = Duration::from_secs(120);

/// A pipe whose reads and writes wait.
struct Blocking {
    end: PipeEnd,
    poll: Poll,
}

impl Blocking {
    fn to(node: &Node) -> Self {
        let (mut end, poll) = (node.handle().insiders().connect(ListenerId(0)).unwrap(), Poll::new().unwrap());
        end.register(poll.registry(), Token(0), Interest::READABLE).unwrap();
        Self { end, poll }
    }

    fn until_done<T>(&mut self, mut work: impl FnMut(&mut PipeEnd) -> io::Result<T>) -> io::Result<T> {
        let mut events = Events::with_capacity(1);
        loop {
            match work(&mut self.end) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return done,
            }
            self.poll.poll(&mut events, Some(PATIENCE))?;
            assert!(!events.is_empty(), "a wake-up is lost");
        }
    }
}

impl Read for Blocking {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.until_done(|end| end.read(buffer))
    }
}

impl Write for Blocking {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.until_done(|end| end.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Socket for Blocking {
    fn finish(&mut self) {
        self.end.shutdown_write();
    }
}

fn dial(node: &Node) -> Client {
    Client::over(Box::new(Blocking::to(node)), None)
}

/// A connected client whose session outlives its connection; `present` says whether it has one already.
fn connect_to(node: &Node, client_id: &str, present: u8) -> Client {
    let mut client = dial(node);
    client.send(&connect_lasting(client_id));
    client.expect(&[0x20, 2, present, 0]);
    client
}

/// Takes a message of QoS 1 with this payload, and returns its packet identifier.
fn take(client: &mut Client, first: u8, payload: &[u8]) -> [u8; 2] {
    let length = 2 + "t".len() + 2 + payload.len();
    let head =
        if length < 128 { vec![first, length as u8] } else { vec![first, length as u8 | 0x80, (length >> 7) as u8] };
    client.expect(&[&head[..], b"\0\x01t"].concat());
    let packet_id = client.receive(2).try_into().unwrap();
    client.expect(payload);
    packet_id
}

fn publish_all(publisher: &mut Client, payloads: impl Iterator<Item = Vec<u8>>) {
    for payload in payloads {
        publisher.send(&publish_qos1("t", &payload));
        publisher.expect(&PUBACK);
    }
}

fn numbers(count: u32) -> impl Iterator<Item = Vec<u8>> {
    (0..count).map(|number| number.to_be_bytes().to_vec())
}

#[test]
fn a_pipe_has_messages_in_order_and_no_limit() {
    for shards in [1, 2] {
        let mut settings: NodeSettings = settings(shards);
        settings.max_connections = 1;
        let node = Node::start(settings).unwrap();
        let [tcp, ..] = addresses(&node);
        let mut publisher = Client::connect(&tcp, "publisher");
        // Their homes are on both shards, where there are two.
        let mut clients: Vec<Client> = ["a", "b", "c", "d"].map(|name| connect_to(&node, name, 0)).into();
        for client in &mut clients {
            client.send(&subscribe_qos1("t"));
            client.expect(&[0x90, 3, 0, 1, 1]);
        }
        publish_all(&mut publisher, numbers(500));
        for client in &mut clients {
            for payload in numbers(500) {
                let packet_id = take(client, 0x32, &payload);
                client.send(&[&[0x40, 2][..], &packet_id].concat());
            }
            client.send(&PINGREQ);
            client.expect(&PINGRESP);
        }
    }
}

#[test]
fn an_unread_pipe_holds_no_more_than_its_capacity() {
    const PAYLOAD: usize = 8_000;
    let node = crate::node(1);
    let [tcp, ..] = addresses(&node);
    let mut publisher = Client::connect(&tcp, "publisher");
    let mut client = connect_to(&node, "inside", 0);
    client.send(&subscribe_qos1("t"));
    client.expect(&[0x90, 3, 0, 1, 1]);
    let count = (4 * CAPACITY / PAYLOAD) as u32;
    let payloads = || numbers(count).map(|number| number.repeat(PAYLOAD / 4));
    publish_all(&mut publisher, payloads());
    let blocked = node.handle().report().unwrap().shell.writes_blocked;
    assert!(blocked > 0, "the pipe refuses what does not fit");
    for payload in payloads() {
        take(&mut client, 0x32, &payload);
    }
}

#[test]
fn a_pipe_that_is_not_read_takes_output_again() {
    let node = crate::node(1);
    let mut client = Blocking::to(&node);
    client.write_all(&connect_lasting("inside")).unwrap();
    client.read_exact(&mut [0; 4]).unwrap();
    // Its answers fill the pipe, and then the node does not read it.
    let (pings, mut sent, mut idle_turns) = (PINGREQ.repeat(CAPACITY), 0, 0);
    while idle_turns < 8 {
        if let Ok(count) = client.end.write(&pings[sent % PINGREQ.len()..]) {
            (sent, idle_turns) = (sent + count, 0);
        } else {
            node.handle().report().unwrap();
            idle_turns += 1;
        }
    }
    let mut answers = vec![0; sent - sent % PINGREQ.len()];
    client.read_exact(&mut answers).unwrap();
    assert!(answers.chunks(PINGRESP.len()).all(|answer| answer == PINGRESP));
}

#[test]
fn the_end_of_a_pipe_is_seen_behind_its_last_bytes() {
    let node = crate::node(1);
    for present in (0..100).map(|round| u8::from(round > 0)) {
        let mut client = connect_to(&node, "inside", present);
        client.send(&PINGREQ);
        client.socket().finish();
        client.rest();
    }
}

#[test]
fn a_lost_end_keeps_the_session_with_its_messages() {
    for shards in [1, 2] {
        let node = crate::node(shards);
        let [tcp, ..] = addresses(&node);
        let mut publisher = Client::connect(&tcp, "publisher");
        let mut client = connect_to(&node, "inside", 0);
        client.send(&subscribe_qos1("t"));
        client.expect(&[0x90, 3, 0, 1, 1]);
        publish_all(&mut publisher, numbers(3));
        let packet_ids: Vec<[u8; 2]> = numbers(3).map(|payload| take(&mut client, 0x32, &payload)).collect();
        client.send(&[&[0x40, 2][..], &packet_ids[0]].concat());
        // The thread ends, without a word.
        drop(client);
        let mut client = connect_to(&node, "inside", 1);
        for (payload, packet_id) in numbers(3).zip(packet_ids).skip(1) {
            assert_eq!(take(&mut client, 0x3a, &payload), packet_id, "it comes again, as a duplicate");
        }
        publish_all(&mut publisher, std::iter::once(b"next".to_vec()));
        take(&mut client, 0x32, b"next");
    }
}

#[test]
fn a_node_that_stops_ends_its_pipes() {
    let node = crate::node(1);
    let client = connect_to(&node, "inside", 0);
    let handle = node.handle();
    node.stop(Duration::from_secs(60));
    assert_eq!(client.rest(), b"");
    let mut late = handle.insiders().connect(ListenerId(0)).unwrap();
    assert_eq!(late.read(&mut [0]).unwrap(), 0);
}
