//! Sessions and exchanges that a restart or a move interrupts, and their end afterwards.

use tidegate_mqtt::PacketType;
use tidegate_mqtt::QoS::{AtLeastOnce, ExactlyOnce};

use crate::harness::*;

/// A client `a` leaves with messages 1 to 3 of its topic `t` in flight, the last one released, 4 acknowledged and 5
/// queued.
pub(crate) fn messages_in_flight(world: &World) {
    let client = world.connect(v311("a").lasting().manual());
    client.subscribe("t", ExactlyOnce);
    let publisher = world.connect(v5("p"));
    for (payload, qos) in [("1", AtLeastOnce), ("2", ExactlyOnce), ("3", ExactlyOnce), ("4", AtLeastOnce)] {
        publisher.publish(message("t", payload).qos(qos));
    }
    assert_eq!(client.payloads(), ["1", "2", "3", "4"]);
    client.pubrec(id(3));
    client.expect(PacketType::PubRel);
    client.puback(id(4));
    client.lose();
    publisher.publish(message("t", "5").qos2());
}

/// A publisher has sent a message of QoS 2 for an absent subscriber, and not released it.
pub(crate) fn open_exchange(world: &World) {
    world.absent_subscriber(v5("s").lasting(), "t", ExactlyOnce);
    let publisher = world.connect(v5("p").lasting().manual());
    publisher.open_exchange(message("t", "once").qos2().id(5));
}

/// The publisher sends that message again and releases it, and it comes once.
pub(crate) fn exchange_ends_once(world: &World) {
    let subscriber = world.connect(v5("s").lasting());
    let publisher = world.connect(v5("p").lasting().manual());
    publisher.open_exchange(message("t", "once").qos2().id(5).dup());
    publisher.end_exchange(id(5));
    assert_eq!(subscriber.payloads(), ["once"]);
    publisher.open_exchange(message("t", "new").qos2().id(5));
    assert_eq!(subscriber.payloads(), ["new"], "the packet id is free again");
}
