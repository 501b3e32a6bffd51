//! A broker joins, or returns without its sessions: it gets no message before the other members have their filters there.

use std::collections::BTreeSet;

use tidegate_engine::LogEvent;
use tidegate_mqtt::QoS::{AtLeastOnce, ExactlyOnce};

use crate::harness::*;

/// Seeds that are played.
const SEEDS: u64 = 200;
/// Things that happen in one run.
const ACTIONS: usize = 120;

/// Two members, and a client at home on each: the second one has subscribed below `t`.
fn with_subscriber(world: &World) -> [Client; 2] {
    let clients = [0, 1].map(|member| world.connect(v5(&world.name_on(member, "client "))));
    clients[1].subscribe("t/+", ExactlyOnce);
    clients
}

/// A broker of both members.
fn shared(world: &World, name: &str) -> Broker {
    let broker = world.broker(name);
    broker.set_at(1);
    world.advance(seconds(1));
    broker
}

/// The broker has returned without its sessions, and answers the first member alone.
fn returned_to_first(world: &World) -> (Broker, [Client; 2]) {
    let broker = shared(world, "a");
    let clients = with_subscriber(world);
    broker.die_and_forget();
    broker.with(|broker| broker.ways.holds_up = Some("member-1-a".to_owned()));
    broker.come_back();
    assert_eq!(broker.with(|broker| broker.lines().len()), 2);
    (broker, clients)
}

#[test]
fn a_returned_broker_waits_for_filters_of_all_members() {
    for qos in [AtLeastOnce, ExactlyOnce] {
        let world = World::orchestrators(2, 1);
        let (broker, [here, there]) = returned_to_first(&world);
        here.publish_later(message("t/1", "x").qos(qos));
        assert!(broker.taken().is_empty(), "the second member's filters are not there");
        broker.now(|ways| ways.holds_up = None);
        world.advance(seconds(4));
        assert_eq!(there.payloads(), ["x"]);
        assert_eq!(broker.payloads(), ["x"]);
    }
}

#[test]
fn a_broker_without_granted_filters_of_a_member_waits() {
    let world = World::orchestrators(2, 1);
    let broker = world.broker("a");
    let [here, there] = with_subscriber(&world);
    broker.now(|ways| ways.withholds_sub_acks = true);
    broker.set_at(1);
    world.advance(seconds(1));
    here.publish_later(message("t/1", "x").qos1());
    assert!(broker.taken().is_empty(), "the filters are not granted");
    broker.now(|ways| ways.withholds_sub_acks = false);
    assert_eq!(there.payloads(), ["x"], "SUBACK is answered by messages at once");
}

#[test]
fn a_broker_that_joins_waits_for_members_without_it() {
    let world = World::orchestrators(2, 1);
    let broker = world.broker("a");
    let [here, there] = with_subscriber(&world);
    here.publish_later(message("t/1", "x").qos1());
    assert!(broker.taken().is_empty(), "the second member does not know the broker yet");
    broker.set_at(1);
    world.advance(seconds(1));
    assert_eq!(there.payloads(), ["x"]);
}

#[test]
fn a_broker_waits_for_a_dead_member_or_its_successor() {
    let world = World::orchestrators(2, 1);
    let broker = shared(&world, "a");
    let here = world.connect(v5(&world.name_on(0, "client ")));
    world.fall(1, usize::MAX, 0);
    broker.die_and_forget();
    broker.come_back();
    here.publish_later(message("t/1", "x").qos1());
    assert!(broker.taken().is_empty(), "no one has the filters of the dead member");
    world.take_over(1);
    world.advance(seconds(1));
    assert_eq!(broker.payloads(), ["x"]);
}

#[test]
fn a_member_without_answer_is_waited_for_ten_seconds() {
    let world = World::orchestrators(2, 1);
    let (broker, [here, _]) = returned_to_first(&world);
    here.publish_later(message("t/1", "x").qos1());
    world.advance(seconds(4));
    assert!(broker.taken().is_empty());
    world.advance(seconds(2));
    assert_eq!(broker.payloads(), ["x"]);
    let is_warning = |event: &LogEvent| matches!(event, LogEvent::BrokerOpensEarly { broker } if broker == "a");
    assert_eq!(world.take_log().iter().filter(|event| is_warning(event)).count(), 1);
}

/// Brokers die without their sessions and return, while the first member gets messages for a subscriber at the second.
fn play(seed: u64) {
    let mut random = Random::salted(seed, 41);
    let world = World::seeded_orchestrators(2, 1, seed, &format!("openings, TIDEGATE_SEED={seed}"), |_| {});
    let brokers = ["a", "b"].map(|name| shared(&world, name));
    let [here, there] = with_subscriber(&world);
    let mut sent = BTreeSet::new();
    for _ in 0..ACTIONS {
        let broker = &brokers[random.below(2)];
        match random.below(20) {
            0 => {
                world.kill_broker(broker.name(), random.pick(&[0, 40, usize::MAX]));
                broker.forget();
            }
            1..=3 => broker.with(|broker| broker.ways.reachable = true),
            4..=5 => world.advance(random.pick(&[20, 100, 400, 1_500])),
            6..=11 => {
                let payload = sent.len().to_string();
                let topic = format!("t/{}", random.below(4));
                here.send_publish(message(&topic, &payload).qos(random.pick(&[AtLeastOnce, ExactlyOnce])));
                sent.insert(payload);
            }
            _ => world.run_some(random.below(30)),
        }
    }
    for broker in &brokers {
        broker.come_back();
    }
    world.advance(seconds(60));
    let got: BTreeSet<String> = there.payloads().into_iter().collect();
    let lost: Vec<&String> = sent.difference(&got).collect();
    assert!(lost.is_empty(), "seed {seed}: {lost:?} of {} messages are lost", sent.len());
    assert_eq!(world.owed(), 0, "seed {seed}");
}

/// `TIDEGATE_SEED` plays one seed, `TIDEGATE_SEEDS` another number of them.
#[test]
fn brokers_that_forget_and_return_cost_no_message() {
    let number = |name| std::env::var(name).ok().map(|text: String| text.parse::<u64>().expect("a number"));
    let all = 0..number("TIDEGATE_SEEDS").unwrap_or(SEEDS);
    for seed in number("TIDEGATE_SEED").map_or(all, |seed| seed..seed + 1) {
        play(seed);
    }
}
