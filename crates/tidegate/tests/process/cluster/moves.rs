//! Nodes that come and go while a client publishes.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::{A, B, C, Cluster};
use crate::broker::{PATIENCE, pause};

/// Publishes numbers at QoS 2, one after the other, and sends unfinished ones again when its connection ends.
pub(super) struct Publisher {
    pub(super) port: u16,
    pub(super) id: String,
}

const PUBREC: u8 = 0x50;
const PUBCOMP: u8 = 0x70;

impl Publisher {
    /// Connects to its session, until it is served.
    fn connect(&self) -> TcpStream {
        loop {
            if let Ok(stream) = self.try_connect() {
                return stream;
            }
            pause(5);
        }
    }

    fn try_connect(&self) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let id = self.id.as_bytes();
        let head = [
            &[0x10, 18 + id.len() as u8][..],
            b"\0\x04MQTT\x05\0\0\0",
            &[5, 0x11, 0, 0, 1, 0],
            &[0, id.len() as u8],
            id,
        ];
        stream.write_all(&head.concat())?;
        let answer = read_packet(&mut stream)?;
        if answer[0] == 0x20 && answer[3] == 0 { Ok(stream) } else { Err(io::ErrorKind::ConnectionRefused.into()) }
    }

    /// Publishes until it is stopped; returns the count.
    pub(super) fn run(&self, stop: &AtomicBool) -> u32 {
        let mut stream = self.connect();
        let mut number = 0_u32;
        while !stop.load(Ordering::SeqCst) {
            let id = (number % 1000 + 1).to_be_bytes();
            let payload = number.to_string();
            let publish = |dup: u8| {
                let head = [&[0x34 | dup, 2 + 4 + 2 + 1 + payload.len() as u8][..], b"\0\x04in/x", &id[2..], &[0]];
                [&head.concat()[..], payload.as_bytes()].concat()
            };
            let (mut dup, mut received) = (0, false);
            while let Err(_ended) = Self::finish(&mut stream, &publish(dup), &id[2..], &mut received) {
                stream = self.connect();
                dup = 8;
            }
            number += 1;
            // At a pace at which the queues of absent clients stay within their limits.
            pause(20);
        }
        number
    }

    fn finish(stream: &mut TcpStream, publish: &[u8], id: &[u8], received: &mut bool) -> io::Result<()> {
        let other = || io::Error::from(io::ErrorKind::ConnectionAborted);
        if !*received {
            stream.write_all(publish)?;
            let answer = read_packet(stream)?;
            if answer[0] != PUBREC || answer.get(4).is_some_and(|code| *code >= 0x80) {
                return Err(other());
            }
            *received = true;
        }
        stream.write_all(&[0x62, 2, id[0], id[1]])?;
        if read_packet(stream)?[0] == PUBCOMP { Ok(()) } else { Err(other()) }
    }
}

/// Sets the flag when it goes out of scope.
pub(super) struct Stop<'a>(pub(super) &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A short packet.
fn read_packet(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut packet = vec![0; 2];
    stream.read_exact(&mut packet)?;
    let len = usize::from(packet[1]);
    packet.resize(2 + len, 0);
    stream.read_exact(&mut packet[2..])?;
    Ok(packet)
}

#[test]
fn nothing_is_missed_while_a_node_joins_and_another_stops() {
    join_and_stop(&mut Cluster::start(2));
}

/// To two nodes another one joins and the second is stopped, while a client publishes at QoS 2.
pub(super) fn join_and_stop(cluster: &mut Cluster) {
    // Sessions in many partitions; some of these move twice.
    let ids: Vec<String> = (0..12).map(|number| format!("reader-{number}")).collect();
    for id in &ids {
        cluster.subscribe(A, id);
    }
    let stop = AtomicBool::new(false);
    let publisher = Publisher { port: cluster.port(A), id: "publisher".to_owned() };
    let number = thread::scope(|scope| {
        let publishing = scope.spawn(|| publisher.run(&stop));
        // Also when something here fails.
        let stopping = Stop(&stop);
        assert_eq!(cluster.add(), C);
        cluster.wait_even();
        let stopped = cluster.nodes[B].take().unwrap();
        stopped.signal("TERM");
        stopped.wait();
        cluster.wait_even();
        drop(stopping);
        publishing.join().unwrap()
    });
    let moved: u64 = [A, C].map(|which| cluster.view(which)["moved_in"].as_u64().unwrap()).iter().sum();
    assert!(moved >= 341 + 170 && number > 10, "{moved} partitions moved, {number} messages");
    for id in &ids {
        cluster.expect_owed(C, id, number);
    }
    let emptied: u64 = [A, C].map(|which| cluster.view(which)["taken_anew"].as_u64().unwrap()).iter().sum();
    assert_eq!(emptied, 0);
}
