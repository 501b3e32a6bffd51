//! The bus is away for longer than a lease, and clients notice only longer waits.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{A, B, Cluster, connect, until};
use crate::broker::pause;

/// A client that keeps its connection, pings all the time, and counts.
struct Device {
    stream: TcpStream,
    bytes: Vec<u8>,
}

impl Device {
    fn connect(port: u16, id: &str) -> Self {
        let stream = connect(port, id).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        Self { stream, bytes: Vec::new() }
    }

    /// The packets received until now. A connection that ends fails the test.
    fn packets(&mut self) -> Vec<Vec<u8>> {
        let mut part = [0; 4096];
        match self.stream.read(&mut part) {
            Ok(0) => panic!("the connection has ended"),
            Ok(read) => self.bytes.extend_from_slice(&part[..read]),
            Err(error) => assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}"),
        }
        let mut packets = Vec::new();
        while self.bytes.len() >= 2 && self.bytes.len() >= 2 + usize::from(self.bytes[1]) {
            let rest = self.bytes.split_off(2 + usize::from(self.bytes[1]));
            packets.push(std::mem::replace(&mut self.bytes, rest));
        }
        packets
    }

    /// Publishes numbers at QoS 1, each when the one before is acknowledged, and pings meanwhile; says how many.
    fn publish(mut self, stop: &AtomicBool, pongs: &AtomicBool) -> u16 {
        for number in 1.. {
            let payload = number.to_string();
            let head = [&[0x32, 7 + payload.len() as u8][..], b"\0\x02in", &u16::to_be_bytes(number), &[0]].concat();
            self.stream.write_all(&[&head[..], payload.as_bytes()].concat()).unwrap();
            let mut acknowledged = false;
            while !acknowledged {
                self.stream.write_all(&[0xc0, 0]).unwrap();
                for packet in self.packets() {
                    acknowledged |= packet[0] == 0x40 && packet[2..4] == number.to_be_bytes();
                    pongs.fetch_or(packet[0] == 0xd0, Ordering::SeqCst);
                }
            }
            if stop.load(Ordering::SeqCst) {
                return number;
            }
        }
        0
    }

    /// Takes numbers until the last one; says which.
    fn take(mut self, last: &AtomicBool, sum: impl Fn() -> u16) -> Vec<u16> {
        let mut got = Vec::new();
        let began = Instant::now();
        while !last.load(Ordering::SeqCst) || got.last().is_none_or(|number| *number < sum()) {
            assert!(began.elapsed() < Duration::from_secs(120), "{got:?}");
            self.stream.write_all(&[0xc0, 0]).unwrap();
            for packet in self.packets().into_iter().filter(|packet| packet[0] & 0xf6 == 0x32) {
                self.stream.write_all(&[0x40, 2, packet[6], packet[7]]).unwrap();
                got.push(std::str::from_utf8(&packet[9..]).unwrap().parse().unwrap());
            }
        }
        got
    }
}

/// Duration of the outage of the bus, milliseconds: as long as a test may last, or a value set by hand.
fn outage(milliseconds: u64) -> u64 {
    std::env::var("OUTAGE_MS").map_or(milliseconds, |asked| asked.parse().expect("milliseconds"))
}

/// Kills the bus for a time longer than a lease, while one client publishes by one node and another subscribes by the
/// other. Returns how many memberships the nodes have lost.
pub(super) fn outlast(cluster: &mut Cluster, milliseconds: u64) -> u64 {
    // Each is at home at the node that it is not connected to, and both are connected to both.
    let ids = [cluster.id_at(B, "publisher"), cluster.id_at(A, "subscriber")];
    let publisher = Device::connect(cluster.port(A), &ids[0]);
    let mut subscriber = Device::connect(cluster.port(B), &ids[1]);
    subscriber.stream.write_all(&[0x82, 8, 0, 1, 0, 0, 2, b'i', b'n', 1]).unwrap();
    until("SUBACK", || subscriber.packets().iter().any(|packet| packet[0] == 0x90).then_some(()));
    let (stop, pongs, done) = (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
    let number = std::sync::Mutex::new(0);
    thread::scope(|scope| {
        let publishing = scope.spawn(|| publisher.publish(&stop, &pongs));
        let taking = scope.spawn(|| subscriber.take(&done, || *number.lock().unwrap()));
        // On a busy machine one may have lost its membership before.
        let lost = |cluster: &Cluster| cluster.lost_memberships(A) + cluster.lost_memberships(B);
        let lost_before = lost(cluster);
        cluster.bus.kill();
        let killed = Instant::now();
        let lapsed = || [A, B].iter().all(|at| cluster.view(*at)["member"] == false);
        until("the ends of both leases", || lapsed().then_some(()));
        pongs.store(false, Ordering::SeqCst);
        until("pings are answered", || pongs.load(Ordering::SeqCst).then_some(()));
        pause(outage(milliseconds).saturating_sub(killed.elapsed().as_millis() as u64));
        cluster.bus.resume();
        let back = Instant::now();
        cluster.wait_even();
        println!(
            "full service {} ms after the bus was back, with a lease of {}",
            back.elapsed().as_millis(),
            cluster.lease
        );
        stop.store(true, Ordering::SeqCst);
        *number.lock().unwrap() = publishing.join().unwrap();
        done.store(true, Ordering::SeqCst);
        let (got, all) = (taking.join().unwrap(), *number.lock().unwrap());
        assert_eq!(got, (1..=all).collect::<Vec<u16>>(), "each once, in their order");
        lost(cluster) - lost_before
    })
}
