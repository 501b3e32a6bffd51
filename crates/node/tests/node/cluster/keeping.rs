//! A packet that promises durability leaves a node after the commit of its promise.

use std::sync::Arc;
use std::time::Duration;

use tidegate_engine::Durability;
use tidegate_node::{LinkLimits, Node};
use tidegate_store::{Settings, SimulatedDisk, keep_all};

use super::slow_disk::{Gate, SlowDisk};
use super::world::*;
use crate::wire::{CONNACK, Client, connect_lasting};

/// Lets the disk go on when a test ends, also by a failure.
struct Opens(Arc<Gate>);

impl Drop for Opens {
    fn drop(&mut self) {
        self.0.set_shut(false);
    }
}

#[test]
fn a_message_is_confirmed_to_other_nodes_after_its_commit() {
    let mut world = World::apart(&[("a", 1)], LinkLimits::default());
    let gate = Arc::new(Gate::default());
    let disk = SlowDisk { disk: SimulatedDisk::new(1), gate: Arc::clone(&gate) };
    let store = tidegate_store::open(Arc::new(disk), Settings::default(), keep_all()).unwrap().store;
    let mut settings = settings_of("b", 1, 2);
    settings.engine.durability = Durability::Commit;
    world.add("b", 1, Node::start_with_store(settings, store).unwrap());
    world.introduce();
    world.settle();
    let mut keeps = Client::dial(&world.nodes["b"].local_addresses()[0]);
    keeps.send(&connect_lasting("keeps"));
    keeps.expect(&CONNACK);
    subscribe_at(&mut keeps, "kept", 1);
    let mut passes = world.connect("b", "passes");
    subscribe_at(&mut passes, "passing", 0);
    let mut publisher = world.connect("a", "publisher");
    publish_and_wait(&mut publisher, "kept", b"first", 1, false);
    assert_eq!(receive_message(&mut keeps).payload, "first");
    // Nothing that is being written: nothing waits.
    publish_and_wait(&mut publisher, "passing", b"by", 1, false);
    assert_eq!(receive_message(&mut passes).payload, "by");

    let taken = || world.nodes["b"].handle().report().unwrap().counters.shard_messages_in;
    let said = || world.link("b", "a").counters.batches_out;
    let (taken_before, said_before) = (taken(), said());
    let opens = Opens(Arc::clone(&gate));
    gate.set_shut(true);
    publisher.send(&publish_at("kept", b"second", 1, 9, false));
    until("the message", || taken() != taken_before);
    // The turn that has taken it is over when the shard answers once more.
    taken();
    assert_eq!(said(), said_before, "the word of it has left before the commit");
    expect_nothing(&mut publisher);
    let disk_waits = || world.nodes["b"].store_status().unwrap().waits_for_disk() > Duration::ZERO;
    until("a wait for the disk", disk_waits);
    drop(opens);
    publisher.expect(&[0x40, 2, 0, 9]);
    until("the end of the wait for the disk", || !disk_waits());
    assert_eq!(receive_message(&mut keeps).payload, "second");
}
