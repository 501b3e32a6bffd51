//! A message to very many, or to many who take nothing, reaches them in several turns, as if it had been one.

use tidegate_engine::{Reason, Settings};
use tidegate_mqtt::QoS::AtMostOnce;
use tidegate_mqtt::{PacketType, PingReq, SubscriptionOptions};

use crate::harness::*;

const READERS: usize = 600;
const MESSAGES: usize = 4;

/// Clients that have subscribed to `flood`; two of three take no output.
fn readers(world: &World) -> Vec<Client> {
    let readers: Vec<Client> = (0..READERS).map(|number| world.connect(v311(&format!("s{number}")))).collect();
    for (number, reader) in readers.iter().enumerate() {
        reader.subscribe("flood", AtMostOnce);
        if number % 3 != 0 {
            // One byte more, so that a write shows that there is no room.
            reader.set_window(1);
        }
    }
    readers
}

/// A world in which a message has made the broker see who takes nothing, and a publisher that has sent some more.
fn flooded(world: &World) -> (Vec<Client>, Client) {
    let readers = readers(world);
    let flood = world.connect(v311("flood"));
    flood.send_publish(message("flood", "first"));
    world.run();
    for number in 0..MESSAGES {
        flood.send_publish(message("flood", number.to_string()));
    }
    (readers, flood)
}

fn expected() -> Vec<String> {
    std::iter::once("first".to_owned()).chain((0..MESSAGES).map(|number| number.to_string())).collect()
}

fn delivered(world: &World) -> usize {
    world.counters().messages_out[0] as usize
}

#[test]
fn each_turn_reaches_some_and_all_get_it_once_in_order() {
    let world = World::new(1);
    let other = world.connect(v311("other"));
    other.subscribe("other", AtMostOnce);
    let (readers, flood) = flooded(&world);
    let before = delivered(&world);
    other.send_publish(message("other", "at once"));
    world.turns();
    assert!(other.has_arrived(PacketType::Publish), "no other client waits");
    assert!(delivered(&world) - before <= READERS, "{} in one turn", delivered(&world) - before);
    world.run();
    assert_eq!(delivered(&world) - before, READERS * MESSAGES + 1);
    for reader in &readers {
        reader.read();
        assert_eq!(reader.payloads(), expected());
    }
    flood.ping();
}

#[test]
fn subscribers_coming_or_going_get_no_message_twice() {
    let world = World::new(1);
    let (readers, _flood) = flooded(&world);
    world.turns();
    readers[3].send_unsubscribe("flood");
    readers[597].send_unsubscribe("flood");
    readers[300].lose();
    let late = world.connect(v311("late"));
    late.send_subscribe(&[("flood", tidegate_mqtt::SubscriptionOptions::default())], None);
    world.run();
    for (number, reader) in readers.iter().enumerate().filter(|(number, _)| *number != 300) {
        reader.read();
        let got: Vec<String> = reader.messages_among_others().iter().map(Delivered::text).collect();
        let left_early = number == 3 || number == 597;
        assert!(expected().starts_with(&got) && (left_early || got.len() == MESSAGES + 1), "s{number}: {got:?}");
    }
    let got: Vec<String> = late.messages_among_others().iter().map(Delivered::text).collect();
    assert!(expected().ends_with(&got), "{got:?}");
}

#[test]
fn a_publishers_message_reaches_all_before_its_will() {
    let world = World::with(1, |settings: &mut Settings| settings.limits.block_timeout_ms = 1);
    let readers = readers(&world);
    let flood = world.connect(v311("flood").will(message("flood", "gone")));
    flood.send_publish(message("flood", "first"));
    world.run();
    for number in 0..MESSAGES {
        flood.send_publish(message("flood", number.to_string()));
    }
    world.turns();
    let known = world.engine(0, |engine, now| {
        engine.control().disconnect_client(now, tidegate_engine::TenantId(0), "flood", Reason::AdministrativeAction)
    });
    assert!(known);
    world.run();
    let mut all = std::collections::BTreeSet::new();
    for reader in &readers {
        reader.read();
        let got = reader.payloads();
        let last = got.len() - 1;
        assert_eq!(got[last], "gone");
        assert!(last >= 2 && expected().starts_with(&got[..last]), "{got:?}");
        all.insert(got);
    }
    assert_eq!(all.len(), 1, "everybody has got the same: {all:?}");
}

#[test]
fn waiting_for_a_turn_has_no_end_but_the_turn() {
    let world = World::with(1, |settings: &mut Settings| settings.limits.block_timeout_ms = 1);
    let (readers, _flood) = flooded(&world);
    world.turns();
    for _ in 0..3 {
        world.skip(10);
        let before = delivered(&world);
        world.turns();
        assert!(delivered(&world) - before <= READERS, "{} in one turn", delivered(&world) - before);
    }
    world.run();
    for reader in &readers {
        reader.read();
        assert_eq!(reader.payloads(), expected());
    }
}

#[test]
fn a_publisher_with_many_subscribers_delays_no_others() {
    let world = World::new(1);
    let many: Vec<Client> = (0..500).map(|number| world.connect(v311(&format!("s{number}")))).collect();
    for client in &many {
        client.subscribe("flood", AtMostOnce);
    }
    let flood = world.connect(v311("flood"));
    let other = world.connect(v311("other"));
    other.subscribe("other", AtMostOnce);
    for number in 0..30 {
        flood.send_publish(message("flood", format!("{number}")));
    }
    flood.send_bytes(&PingReq::BYTES);
    other.send_publish(message("other", "at once"));
    world.turns();
    let delivered = || world.counters().messages_out[0];
    assert!((4_000..15_000).contains(&delivered()), "{}", delivered());
    assert!(other.has_arrived(PacketType::Publish), "no other client waits");
    assert!(flood.has_arrived(PacketType::PingResp), "nor do its own pings");
    world.run();
    assert_eq!(delivered(), 500 * 30 + 1);
}

/// Each level of a filter is `a` or `+`, and the last one `+`: all of them match each topic of the publisher.
#[test]
fn topics_that_many_filters_match_delay_no_others() {
    const LEVELS: usize = 11;
    let world = World::new(1);
    let flood = world.connect(v311("flood"));
    let level = |number: usize, at: usize| if number >> at & 1 == 0 { "a/" } else { "+/" };
    let filter = |number: usize| (0..LEVELS).map(|at| level(number, at)).collect::<String>() + "+";
    let filters: Vec<String> = (0..1 << LEVELS).map(filter).collect();
    let filters: Vec<_> = filters.iter().map(|filter| (&**filter, SubscriptionOptions::new(AtMostOnce))).collect();
    flood.send_subscribe(&filters, None);
    world.run();
    let other = world.connect(v311("other"));
    other.subscribe("other", AtMostOnce);
    for number in 0..60 {
        flood.send_publish(message(&format!("{}{number}", "a/".repeat(LEVELS)), "x"));
    }
    other.send_publish(message("other", "at once"));
    world.turns();
    assert!(other.has_arrived(PacketType::Publish), "no other client waits");
    assert!((10..50).contains(&delivered(&world)), "{} in some turns", delivered(&world));
    world.run();
    assert_eq!(delivered(&world), 60 + 1);
}

#[test]
fn input_of_a_gone_publisher_takes_its_turns_too() {
    let world = World::new(1);
    let many: Vec<Client> = (0..500).map(|number| world.connect(v311(&format!("s{number}")))).collect();
    for client in &many {
        client.subscribe("flood", AtMostOnce);
    }
    let flood = world.connect(v311("flood"));
    for number in 0..60 {
        flood.send_publish(message("flood", format!("{number}")));
    }
    let delivered = || world.counters().messages_out[0];
    world.turns();
    flood.cut(usize::MAX);
    world.turns();
    assert!(delivered() < 20_000, "{}", delivered());
    assert_eq!(world.gauges().connections, 501, "it ends when all of it is worked off");
    world.run();
    assert_eq!(delivered(), 500 * 60);
    assert_eq!(world.gauges().connections, 500);
}
