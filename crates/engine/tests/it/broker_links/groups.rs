//! Shared groups over orchestrators: the home of a group asks its brokers for the filter, and deals each message to one
//! member, which may be at home at another orchestrator.

use std::collections::BTreeSet;

use tidegate_mqtt::QoS::{AtLeastOnce, ExactlyOnce};
use tidegate_mqtt::{ReasonCode, SubscriptionOptions};

use crate::harness::*;

/// A shared subscription whose group is at home at the first orchestrator, which has the brokers.
fn shared(world: &World, filter: &str) -> String {
    let shares = (0..).map(|number| format!("g{number}"));
    let mut at_first = shares.filter(|share| world.home_of(&format!("{share}/{filter}")) == 0);
    format!("$share/{}/{filter}", at_first.next().expect("a share name"))
}

/// Two orchestrators, and a client at home on each.
fn two() -> (World, [Client; 2]) {
    let world = World::orchestrators(2, 1);
    let clients = [0, 1].map(|member| world.connect(v5(&world.name_on(member, "client "))));
    (world, clients)
}

#[test]
fn each_message_comes_to_one_member_at_any_orchestrator() {
    let (world, members) = two();
    let broker = world.broker("a");
    for member in &members {
        member.subscribe(&shared(&world, "t"), ExactlyOnce);
    }
    assert_eq!(broker.held(), ["t"]);
    for number in 0..10 {
        let draft = message("t", number.to_string());
        broker.publish(&if number % 2 == 0 { draft.qos1() } else { draft.qos2() });
    }
    let got = members.each_ref().map(|member| member.payloads());
    assert!(got.iter().all(|got| !got.is_empty()), "{got:?}");
    let all: BTreeSet<String> = got.iter().flatten().cloned().collect();
    assert_eq!((all.len(), got.iter().map(Vec::len).sum::<usize>()), (10, 10), "{got:?}");
    for member in &members {
        member.unsubscribe(&shared(&world, "t"));
    }
    assert!(broker.held().is_empty(), "the group has no member");
}

#[test]
fn a_suback_waits_for_the_brokers_of_the_home_of_a_group() {
    let (world, [_, member]) = two();
    let broker = world.broker("a");
    broker.now(|ways| ways.withholds_sub_acks = true);
    let filter = shared(&world, "t");
    let id = member.send_subscribe(&[(&filter, SubscriptionOptions::new(AtLeastOnce))], None);
    member.expect_nothing();
    broker.now(|ways| ways.withholds_sub_acks = false);
    assert_eq!(member.expect_sub_ack(id), [ReasonCode::granted(AtLeastOnce)]);
    broker.publish(&message("t", "x").qos1());
    member.expect_publish("t", "x");
}

#[test]
fn a_filter_refused_at_the_home_of_a_group_is_refused() {
    let (world, [_, member]) = two();
    let broker = world.broker("a");
    broker.now(|ways| ways.refuses_filter = Some("bad".to_owned()));
    let code = member.subscribe_code(&shared(&world, "bad"), AtLeastOnce);
    assert!(code.is_some_and(ReasonCode::is_error), "{code:?}");
    assert_eq!(world.engine(0, |engine, _| engine.questions().wanted_filters()), 0, "the group has no member");
}

#[test]
fn a_group_whose_home_is_away_refuses_new_members() {
    let (world, [_, member]) = two();
    let broker = world.broker("a");
    let filter = shared(&world, "t");
    world.break_link(0, 1, 0);
    world.run();
    assert_eq!(member.subscribe_code(&filter, AtLeastOnce), Some(ReasonCode::UnspecifiedError));
    world.mend_links();
    world.run();
    member.subscribe(&filter, AtLeastOnce);
    broker.publish(&message("t", "x").qos1());
    member.expect_publish("t", "x");
    // A member of before stays one.
    world.break_link(0, 1, 0);
    world.run();
    member.subscribe(&filter, ExactlyOnce);
}
