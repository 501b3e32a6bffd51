//! A node's store is on the bus, and another node continues with it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tidegate_bus::{Address, Bus};
use tidegate_engine::{Durability, PARTITIONS, PartitionId, Partitions};
use tidegate_mirror::MirrorDisk;
use tidegate_node::{Node, NodeSettings, OrchestratorMoves, StoreImages, images_of};
use tidegate_store::{Disk, Store, keep_all};

use crate::wire::{Client, PUBACK, connect_lasting, publish_qos1};

/// A directory that is removed with this.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("tidegate-node-place-{}-{number}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn settings() -> NodeSettings {
    let mut settings = NodeSettings::new("127.0.0.1:0".parse().unwrap());
    settings.shards = 2;
    settings.engine.durability = Durability::Commit;
    settings
}

/// The store of a node, from the bus.
fn open(bus: &Bus, node: &str, folder: &Folder) -> (Arc<MirrorDisk>, Store) {
    let mirror = tidegate_mirror::Settings::new(node, &folder.0).unwrap();
    let disk = tidegate_mirror::open(bus, tidegate_mirror::Settings { local_sync: false, ..mirror }).unwrap().disk;
    let shared: Arc<dyn Disk> = Arc::clone(&disk) as Arc<dyn Disk>;
    let store = tidegate_store::open(shared, tidegate_store::Settings::default(), keep_all()).unwrap().store;
    (disk, store)
}

fn packet(first: u8, body: &[&[u8]]) -> Vec<u8> {
    let body = body.concat();
    [&[first, body.len() as u8][..], &body].concat()
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat()
}

fn publish_qos2(id: u8, topic: &str, payload: &str, dup: bool) -> Vec<u8> {
    packet(0x34 | u8::from(dup) << 3, &[&text(topic), &[0, id], payload.as_bytes()])
}

/// The next packet: its first byte and the rest.
fn next(client: &mut Client) -> (u8, Vec<u8>) {
    let head = client.receive(2);
    (head[0], client.receive(usize::from(head[1])))
}

/// A message that came: QoS, packet id, topic and payload.
fn message(client: &mut Client) -> (u8, [u8; 2], String) {
    let (first, body) = next(client);
    assert_eq!(first & 0xf0, 0x30, "{first:02x} {body:02x?}");
    let length = usize::from(u16::from_be_bytes([body[0], body[1]]));
    let (topic, rest) = body[2..].split_at(length);
    let said = format!("{} {}", String::from_utf8_lossy(topic), String::from_utf8_lossy(&rest[2..]));
    (first >> 1 & 3, [rest[0], rest[1]], said)
}

fn connected(node: &Node, id: &str, is_known: bool) -> Client {
    let mut client = Client::dial(&node.local_addresses()[0]);
    client.send(&connect_lasting(id));
    client.expect(&[0x20, 2, u8::from(is_known), 0]);
    client
}

/// Publishes with QoS 2 to the end.
fn complete(client: &mut Client, id: u8, topic: &str, payload: &str) {
    client.send(&publish_qos2(id, topic, payload, false));
    client.expect(&[0x50, 2, 0, id]);
    client.send(&[0x62, 2, 0, id]);
    client.expect(&[0x70, 2, 0, id]);
}

/// Takes a message of QoS 2, and says so. Returns its packet id.
fn received(client: &mut Client, expected: &str) -> [u8; 2] {
    let (qos, id, said) = message(client);
    assert_eq!((qos, said.as_str()), (2, expected));
    client.send(&[0x50, 2, id[0], id[1]]);
    id
}

fn all() -> Partitions {
    (0..PARTITIONS).map(PartitionId).collect()
}

#[test]
fn a_replacement_delivers_the_pending_messages() {
    let bus = Bus::open(&Address::Embedded, tidegate_bus::Settings::default(), Arc::new(|_| {})).unwrap();
    let (mine, theirs, scratch) = (Folder::new(), Folder::new(), Folder::new());
    let (mirror, store) = open(&bus, "a", &mine);
    let first = Node::start_with_store(settings(), store).unwrap();
    let mut device = connected(&first, "device", false);
    device.send(&packet(0x82, &[&[0, 1], &text("in/#"), &[2]]));
    device.expect(&[0x90, 3, 0, 1, 2]);
    let mut publisher = connected(&first, "publisher", false);
    // One message is half delivered, two wait, one is half published, one is retained.
    complete(&mut publisher, 1, "in/a", "one");
    let id = received(&mut device, "in/a one");
    device.expect(&[0x62, 2, id[0], id[1]]);
    drop(device);
    complete(&mut publisher, 2, "in/b", "two");
    publisher.send(&publish_qos1("in/c", b"three"));
    publisher.expect(&PUBACK);
    publisher.send(&packet(0x33, &[&text("kept"), &[0, 4], b"value"]));
    publisher.expect(&[0x40, 2, 0, 4]);
    publisher.send(&publish_qos2(9, "in/d", "four", false));
    publisher.expect(&[0x50, 2, 0, 9]);

    // Another node takes the place. The first one still runs, and acknowledges no message.
    let (taken, store) = open(&bus, "a", &scratch);
    publisher.send(&publish_qos1("in/e", b"never"));
    let StoreImages { partitions, had, .. } = images_of(&store, settings().engine, all()).unwrap();
    drop((store, taken));
    let (_disk, store) = open(&bus, "b", &theirs);
    let second = Node::start_with_store(settings(), store).unwrap();
    let arrived = OrchestratorMoves::of(&second.handle()).arrive(partitions, Some(had), 1).unwrap();
    let sessions: u64 = arrived.owed.iter().map(|(_, owed)| owed.sessions).sum();
    assert_eq!(sessions, 2);
    second.handle().moves().release_partitions(all()).unwrap();

    let mut device = connected(&second, "device", true);
    device.expect(&[0x62, 2, id[0], id[1]]);
    device.send(&[0x70, 2, id[0], id[1]]);
    // Acknowledged messages are not sent again.
    let two = received(&mut device, "in/b two");
    let (qos, three, said) = message(&mut device);
    assert_eq!((qos, said.as_str()), (1, "in/c three"));
    device.send(&[0x40, 2, three[0], three[1]]);
    let (qos, four, said) = message(&mut device);
    assert_eq!((qos, said.as_str()), (2, "in/d four"));
    device.expect(&[0x62, 2, two[0], two[1]]);
    device.send(&[0x70, 2, two[0], two[1]]);
    device.send(&[0x50, 2, four[0], four[1]]);
    device.expect(&[0x62, 2, four[0], four[1]]);
    device.send(&[0x70, 2, four[0], four[1]]);

    // The publisher repeats unacknowledged messages, which are not published a second time.
    let mut again = connected(&second, "publisher", true);
    again.send(&publish_qos2(9, "in/d", "four", true));
    again.expect(&[0x50, 2, 0, 9]);
    again.send(&[0x62, 2, 0, 9]);
    again.expect(&[0x70, 2, 0, 9]);
    complete(&mut again, 10, "in/f", "last");
    let (_, _, said) = message(&mut device);
    assert_eq!(said, "in/f last", "no message came twice, and none that was not acknowledged");
    device.send(&packet(0x82, &[&[0, 2], &text("kept"), &[1]]));
    device.expect(&[0x90, 3, 0, 2, 1]);
    let (_, _, said) = message(&mut device);
    assert_eq!(said, "kept value");

    assert_eq!(mirror.lost().map(|lost| lost.to_string().contains("another process")), Some(true));
    drop(first);
    assert_eq!(publisher.rest(), b"", "messages to a fenced node are not acknowledged");
}
