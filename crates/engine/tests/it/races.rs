//! Races between shards, in many orders: each seed is one order, and a failure names it.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_engine::Reason;
use tidegate_mqtt::QoS::{AtLeastOnce, ExactlyOnce};
use tidegate_mqtt::{PacketType, SubscriptionOptions};

use crate::harness::*;

const SEEDS: u64 = 200;

/// Plays a story for each seed, in a world of three shards.
fn for_seeds(title: &str, story: impl Fn(&World, &mut Random)) {
    let only = std::env::var("TIDEGATE_SEED").ok().and_then(|text| text.parse().ok());
    let seeds = only.map_or(0..SEEDS, |seed: u64| seed..seed + 1);
    for seed in seeds {
        let world = World::seeded(3, seed, &format!("{title}, TIDEGATE_SEED={seed}"), |_| {});
        story(&world, &mut Random::salted(seed, 2));
    }
}

fn numbers(client: &Client) -> Vec<u32> {
    let arrivals = std::iter::from_fn(|| client.take_arrival());
    arrivals.filter_map(|arrival| arrival.delivered()).map(|got| got.text().parse().unwrap()).collect()
}

/// A publisher sends 1, 2, 3, ... to one topic; a subscriber comes at some moment.
fn subscribe_and_publish(world: &World, random: &mut Random, retain: bool) -> (Vec<u32>, Option<u32>) {
    let publisher = world.connect(v5(&world.name_on(random.below(3) as u16, "p")));
    let subscriber = world.connect(v5(&world.name_on(random.below(3) as u16, "s")).receive_maximum(5));
    let topic = world.name_on(random.below(3) as u16, "t");
    let filter = random.pick(&[topic.as_str(), "+", "#"]);
    let moment = 1 + random.below(12) as u32;
    let mut acknowledged_at = None;
    for number in 1..=16 {
        let text = number.to_string();
        let message = message(&topic, text).qos1();
        publisher.send_publish(if retain { message.retain() } else { message });
        if number == moment {
            subscriber.send_subscribe(&[(filter, SubscriptionOptions::new(ExactlyOnce))], None);
        }
        world.run_some(random.below(14));
        if acknowledged_at.is_none() && subscriber.has_arrived(PacketType::SubAck) {
            acknowledged_at = Some(number);
        }
    }
    world.run();
    assert_eq!(publisher.answers().len(), 16);
    (numbers(&subscriber), acknowledged_at)
}

#[test]
fn subscribe_and_publish_racing_on_two_shards() {
    for_seeds("subscribe and publish", |world, random| {
        let (got, acknowledged_at) = subscribe_and_publish(world, random, false);
        // Whatever was sent after SUBACK came has to arrive, and what arrives has no gap and no repetition.
        if let Some(first) = got.first() {
            assert_eq!(got, (*first..=16).collect::<Vec<u32>>());
        }
        if let Some(after) = acknowledged_at {
            let wanted: Vec<u32> = (after + 1..=16).collect();
            assert!(got.ends_with(&wanted), "SUBACK came before {wanted:?} were sent, but {got:?} arrived");
        }
    });
}

#[test]
fn retained_publish_and_subscribe_race_on_two_shards() {
    for_seeds("subscribe and publish retained", |world, random| {
        let (mut got, _) = subscribe_and_publish(world, random, true);
        // A value may come both live and as the retained one; none may be missing after the first, and the last one is
        // the retained one.
        got.dedup();
        let first = got.first().copied().expect("at least the retained value");
        let different: BTreeSet<u32> = got.iter().copied().collect();
        assert_eq!(different, (first..=16).collect::<BTreeSet<u32>>(), "{got:?}");
        assert_eq!(got.last(), Some(&16), "{got:?}");
    });
}

#[test]
fn retained_values_agree_after_racing_publishers() {
    for_seeds("racing retained publishers", |world, random| {
        let publishers: Vec<Client> = (0..4).map(|number| world.connect(v5(&format!("p{number}")))).collect();
        let topics: Vec<String> = (0..4).map(|number| world.name_on(number % 3, &format!("t{number}/"))).collect();
        let mut last: BTreeMap<(String, usize), String> = BTreeMap::new();
        for round in 0..12 {
            let who = random.below(4);
            let topic = random.pick(&[0, 1, 2, 3]);
            let payload = if random.percent(15) { String::new() } else { format!("{who} {round}") };
            let qos = random.pick(&[AtLeastOnce, ExactlyOnce]);
            publishers[who].send_publish(message(&topics[topic], &payload).qos(qos).retain());
            last.insert((topics[topic].clone(), who), payload);
            world.run_some(random.below(8));
        }
        world.run();
        let mut seen: Vec<BTreeMap<String, String>> = Vec::new();
        for shard in 0..3 {
            for filter in ["#", "+/+"] {
                let reader = world.connect(v5(&world.name_on(shard, "reader")));
                reader.send_subscribe(&[(filter, SubscriptionOptions::new(AtLeastOnce))], None);
                reader.expect(PacketType::SubAck);
                seen.push(reader.messages().into_iter().map(|got| (got.topic.clone(), got.text())).collect());
                reader.disconnect();
            }
        }
        assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "{seen:#?}");
        for topic in &topics {
            let finals: BTreeSet<&str> =
                last.iter().filter(|((of, _), _)| of == topic).map(|(_, payload)| payload.as_str()).collect();
            let value = seen[0].get(topic).map_or("", String::as_str);
            assert!(
                finals.contains(value) || (finals.is_empty() && value.is_empty()),
                "{topic}: {value} of {finals:?}"
            );
        }
    });
}

#[test]
fn members_that_come_and_go_lose_and_repeat_nothing() {
    for_seeds("racing group members", |world, random| {
        let publishers: Vec<Client> = (0..3).map(|number| world.connect(v5(&world.name_on(number, "p")))).collect();
        // One stays, so that there is always a member.
        let stays = world.connect(v5(&world.name_on(random.below(3) as u16, "stays")).receive_maximum(2));
        stays.subscribe("$share/g/t/#", ExactlyOnce);
        let mut members: BTreeMap<usize, Client> = BTreeMap::new();
        let mut got: Vec<u32> = Vec::new();
        let mut sent = 0;
        for round in 0..40 {
            let who = random.below(3);
            match random.below(10) {
                0..=2 => {
                    members.entry(round).or_insert_with(|| {
                        let name = world.name_on(random.below(3) as u16, &format!("m{round}-"));
                        let member = world.connect(v5(&name).receive_maximum(2));
                        member.send_subscribe(&[("$share/g/t/#", SubscriptionOptions::new(ExactlyOnce))], None);
                        member
                    });
                }
                3 => {
                    if let Some((_, member)) = members.pop_first() {
                        // Everything that was written arrives before the goodbye; a QoS 2 message is not sent again.
                        member.send_bytes(&[0xE0, 0]);
                        world.run();
                        got.extend(numbers(&member));
                    }
                }
                _ => {
                    sent += 1;
                    publishers[who].send_publish(message("t/1", sent.to_string()).qos2());
                }
            }
            world.run_some(random.below(12));
        }
        world.run();
        got.extend(members.values().chain([&stays]).flat_map(numbers));
        let different: BTreeSet<u32> = got.iter().copied().collect();
        assert_eq!(different.len(), got.len(), "twice: {got:?}");
        assert_eq!(world.dropped(Reason::NoGroupMember), 0);
        // A message that a member had and did not confirm before it left is counted, since it may be lost.
        assert!(got.len() + world.dropped(Reason::SessionDiscarded) as usize >= sent, "lost: {got:?} of {sent}");
        assert!(got.len() <= sent);
    });
}

#[test]
fn an_unsubscribed_client_gets_nothing_more_from_other_shards() {
    for_seeds("racing unsubscribe", |world, random| {
        let publisher = world.connect(v5(&world.name_on(0, "p")));
        let subscriber = world.connect(v5(&world.name_on(1, "s")).manual());
        subscriber.subscribe("t", AtLeastOnce);
        for number in 1..=10 {
            publisher.send_publish(message("t", number.to_string()).qos1());
            world.run_some(random.below(6));
        }
        subscriber.send_unsubscribe("t");
        world.run();
        let mut ended = false;
        while let Some(arrival) = subscriber.take_arrival() {
            assert!(!ended, "after UNSUBACK: {arrival:?}");
            ended = arrival.packet_type() == PacketType::UnsubAck;
        }
        assert!(ended);
    });
}
