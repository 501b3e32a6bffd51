//! The time of each promise, and the state after the process has died.

use tidegate_engine::{Durability, Owed, PARTITIONS, PartitionId, Settings};

use crate::harness::*;

mod clock;
mod crossing;
mod damage;
mod expiry;
mod full;
mod policies;
mod promises;
mod restart;
mod sweep;
mod tail;

/// From how many shards to how many.
const RESTARTS: [(u16, u16); 5] = [(1, 1), (1, 2), (2, 3), (3, 1), (3, 3)];

/// A broker that keeps its promises over a crash.
fn stored(shards: u16) -> World {
    stored_with(shards, |_| {})
}

fn stored_with(shards: u16, change: impl FnOnce(&mut Settings)) -> World {
    World::with(shards, |settings| {
        settings.durability = Durability::Commit;
        change(settings);
    })
}

/// The owed messages of each partition.
fn owed(world: &World) -> Vec<Owed> {
    world.run();
    let owed = |partition: u16| {
        world.engine(world.home_of_partition(partition), |engine, _| engine.questions().owed(PartitionId(partition)))
    };
    (0..PARTITIONS).map(owed).collect()
}

/// Plays `before`, lets the process die after a number of milliseconds, and plays `after` with the result of `before`.
fn restarted<S>(away: u64, before: impl Fn(&World) -> S, after: impl Fn(&World, S)) {
    for (from, to) in RESTARTS {
        for swept in [false, true] {
            let world = stored(from);
            let state = before(&world);
            world.run();
            world.crash(Crash { away, swept, ..Crash::now(to) });
            after(&world, state);
        }
    }
}

/// Sessions in every state that there is, on a broker of the default settings.
fn everything(world: &World) {
    let publisher = world.connect(v5("publisher").lasting().manual());
    let away = world.connect(v311("away").lasting());
    away.subscribe("t/#", tidegate_mqtt::QoS::ExactlyOnce);
    away.subscribe("$share/g/s/+", tidegate_mqtt::QoS::AtLeastOnce);
    away.lose();
    let slow = world.connect(v5("slow").lasting().manual().receive_maximum(4).will(message("w", "gone").delay(300)));
    slow.subscribe_with("t/+", tidegate_mqtt::SubscriptionOptions::new(tidegate_mqtt::QoS::ExactlyOnce), Some(77));
    for (number, qos) in [1, 2, 2, 1, 2, 1].into_iter().enumerate() {
        let payload = "x".repeat(1 + number * 3_500);
        let qos =
            [tidegate_mqtt::QoS::AtMostOnce, tidegate_mqtt::QoS::AtLeastOnce, tidegate_mqtt::QoS::ExactlyOnce][qos];
        let sent = message(&format!("t/{number}"), payload).qos(qos).user("name", "value").expiry(10_000);
        publisher.publish_later(if number == 3 { sent.retain() } else { sent });
    }
    publisher.publish_later(message("s/1", "dealt").qos1());
    publisher.publish_later(message("r/1", "kept").qos1().retain());
    publisher.publish_later(message("r/2", "cleared").qos1().retain());
    publisher.publish_later(message("r/2", "").qos1().retain());
    let got = slow.messages();
    assert_eq!(got.len(), 4, "its receive maximum");
    slow.pubrec(got[1].id.unwrap());
    slow.expect(tidegate_mqtt::PacketType::PubRel);
    world.connect(v5("brief").expiry(60).will(message("w/brief", "gone").qos1().delay(3600))).lose();
    world.connect(v5("fleeting"));
    world.run();
}
