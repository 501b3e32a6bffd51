//! Messages of one client that come in one read go to the fleet as if each came in its own.

use std::collections::BTreeSet;

use tidegate_engine::{RoutingPolicy, Settings};
use tidegate_mqtt::QoS;
use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};

use crate::harness::*;

/// Messages as a publisher, a broker and a subscriber see them, and the counts. `together` sends all in one read;
/// a silent broker acknowledges nothing and brings nothing back.
fn outcome(
    change: &impl Fn(&mut Settings),
    connecting: &Connecting,
    messages: &[Message],
    (together, silent): (bool, bool),
) -> String {
    let world = World::with(1, |settings| {
        fleet_settings(settings, RoutingPolicy::TopicHash);
        change(settings);
    });
    let broker = world.broker("a");
    let subscriber = world.connect(v5("s"));
    subscriber.subscribe("t/#", ExactlyOnce);
    broker.now(|ways| {
        ways.withholds_acknowledgements = silent;
        ways.withholds_messages = silent;
    });
    let publisher = world.connect(connecting.clone());
    let before = world.counters();
    for message in messages {
        publisher.send_publish(message.clone());
        if !together {
            world.run();
        }
    }
    let answers = publisher.answers();
    let (mut taken, mut ids) = (broker.taken(), BTreeSet::new());
    for message in &mut taken {
        let (name, id) = message.user_properties.pop().expect("an id");
        assert!(name == "tidegate-id" && ids.insert(id), "two messages have the same id");
    }
    let delivered: Vec<_> = subscriber.messages().iter().map(|got| (got.topic.clone(), got.text())).collect();
    let after = world.counters();
    let counts = (
        [0, 1, 2].map(|qos| after.messages_in[qos] - before.messages_in[qos]),
        after.payload_bytes_in - before.payload_bytes_in,
        after.dropped.iter().sum::<u64>() - before.dropped.iter().sum::<u64>(),
    );
    format!("{answers:?} {taken:?} {delivered:?} {counts:?}")
}

/// The outcome is the same whether messages come in one read or each in its own.
#[track_caller]
fn expect_same(change: impl Fn(&mut Settings), connecting: &Connecting, messages: &[Message], silent: bool) {
    let alone = outcome(&change, connecting, messages, (false, silent));
    assert_eq!(alone, outcome(&change, connecting, messages, (true, silent)));
}

fn of_lengths(topic: &str, qos: QoS, lengths: &[usize]) -> Vec<Message> {
    lengths.iter().map(|len| message(topic, "x".repeat(*len)).qos(qos)).collect()
}

#[test]
fn messages_of_one_read_go_to_a_broker_as_alone() {
    for connecting in [v311("p"), v5("p")] {
        for qos in [AtMostOnce, AtLeastOnce] {
            let mut messages = of_lengths("t/1", qos, &[3, 3, 2, 0, 9, 400, 1]);
            messages.push(message("t/1", "kept").qos(qos).retain());
            messages.extend(of_lengths("t/1", qos, &[1, 1]));
            messages.extend(of_lengths("t/12", qos, &[1, 1]));
            messages.extend(of_lengths("t/2", AtLeastOnce, &[1, 1]));
            messages.extend(of_lengths("t/2", AtMostOnce, &[1, 1]));
            if connecting.version.is_v5() {
                messages.push(message("t/2", "own").user("k", "v"));
                messages.extend(of_lengths("t/2", AtMostOnce, &[1, 1]));
            }
            expect_same(|_| {}, &connecting, &messages, false);
        }
    }
}

#[test]
fn a_fleet_fills_amid_one_read_as_by_single_messages() {
    for connecting in [v311("p"), v5("p")] {
        for qos in [AtMostOnce, AtLeastOnce] {
            let messages = of_lengths("t/1", qos, &[5; 200]);
            let narrow = |settings: &mut Settings| settings.broker_links.as_mut().unwrap().max_owed_messages = 40;
            expect_same(narrow, &connecting, &messages, true);
        }
    }
}

#[test]
fn a_long_message_amid_one_read_is_refused_as_alone() {
    let messages = of_lengths("t/1", AtLeastOnce, &[5, 5, 101, 5, 100, 101]);
    let short = |settings: &mut Settings| settings.limits.max_payload = 100;
    expect_same(short, &v5("p"), &messages, false);
}
