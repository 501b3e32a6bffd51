//! Shared groups over orchestrators: the home of a group asks its brokers for the filter, and deals each message to one
//! member, which may be at home at another orchestrator.

use std::collections::BTreeSet;

use tidegate_engine::{PartitionId, Reason, TenantId, TenantQuota, partition_of};
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

#[test]
fn a_value_sent_again_comes_to_brokers_once() {
    let (world, [_, other]) = two();
    let mut names = (0..100_000).map(|number| format!("n{number}"));
    let in_first = names.find(|name| partition_of(TenantId::DEFAULT, name) == PartitionId(0));
    world.begin_move(0, 1, &in_first.expect("a name"));
    world.end_move();
    let broker = world.broker("a");
    broker.set_at(1);
    world.advance(seconds(1));
    let (topic, publisher) = (world.name_on(1, "t "), v5(&world.name_on(0, "publisher ")).lasting().accept_on(0));
    let client = world.connect(publisher.clone());
    world.hold(0, 1);
    client.send_publish(message(&topic, "x").qos2().retain());
    world.run();
    assert!(client.answers().is_empty(), "the home of the value has not confirmed it");
    world.break_link(0, 1, 0);
    world.run();
    client.lose();
    world.mend_links();
    world.run();
    let client = world.connect(publisher.clean(false));
    let id = client.next_id();
    let mut again = message(&topic, "x").qos2().retain();
    (again.dup, again.id) = (true, Some(id));
    client.send_publish(again);
    world.run();
    assert_eq!(broker.payloads(), ["x"]);
    // The next message has an id of its own: the value at the other member has the last one.
    let reader = world.connect(v5(&world.name_on(0, "reader ")));
    reader.subscribe("#", AtLeastOnce);
    let _ = reader.messages_among_others();
    let next = world.connect(v5(&world.name_on(0, "next ")).accept_on(0));
    next.publish(message(&topic, "y").qos2().retain());
    reader.expect_publish(&topic, "y");
    other.subscribe_later(&topic);
    let kept: Vec<String> = other.messages_among_others().iter().map(Delivered::text).collect();
    assert_eq!(kept, ["y"]);
}

#[test]
fn a_refused_member_leaves_its_place_in_quotas() {
    let world = World::seeded_orchestrators(2, 1, 1, "two orchestrators, seed 1", |settings| {
        let quota = TenantQuota { max_subscriptions: 1, ..TenantQuota::default() };
        settings.tenant_quotas.insert(TenantId::DEFAULT, quota);
    });
    world.broker("a");
    let member = world.connect(v5(&world.name_on(1, "client ")));
    world.break_link(0, 1, 0);
    world.run();
    assert_eq!(member.subscribe_code(&shared(&world, "t"), AtLeastOnce), Some(ReasonCode::UnspecifiedError));
    member.subscribe("u", AtLeastOnce);
}

#[test]
fn a_member_without_suback_is_refused_while_its_home_is_away() {
    let (world, _) = two();
    let broker = world.broker("a");
    let filter = shared(&world, "t");
    let steady = v5(&world.name_on(1, "steady ")).lasting().accept_on(1);
    let member = world.connect(steady.clone());
    broker.now(|ways| ways.withholds_sub_acks = true);
    member.send_subscribe(&[(&filter, SubscriptionOptions::new(AtLeastOnce))], None);
    member.expect_nothing();
    world.break_link(0, 1, 0);
    world.run();
    member.lose();
    let member = world.connect(steady.clean(false));
    assert_eq!(member.subscribe_code(&filter, AtLeastOnce), Some(ReasonCode::UnspecifiedError));
    broker.now(|ways| ways.withholds_sub_acks = false);
    world.mend_links();
    world.run();
    assert_eq!(member.subscribe_code(&filter, AtLeastOnce), Some(ReasonCode::granted(AtLeastOnce)));
}

#[test]
fn a_moved_or_restored_member_stays_one_while_its_home_is_away() {
    for (moves, is_confirmed) in [(true, true), (false, true), (true, false), (false, false)] {
        let world = World::stored_orchestrators(3, 1);
        let broker = world.broker("a");
        let filter = shared(&world, "t");
        let steady = v5(&world.name_on(1, "steady ")).clean(false).expiry(u32::MAX);
        let member = world.connect(steady.clone());
        broker.now(|ways| ways.withholds_sub_acks = !is_confirmed);
        if is_confirmed {
            member.subscribe(&filter, AtLeastOnce);
        } else {
            member.send_subscribe(&[(&filter, SubscriptionOptions::new(AtLeastOnce))], None);
            member.expect_nothing();
        }
        member.lose();
        world.run();
        if moves {
            world.begin_move(1, 2, &steady.client_id);
            world.end_move();
        } else {
            world.fall(1, usize::MAX, 0);
            world.take_over(1);
        }
        world.break_link(0, 2, 0);
        world.run();
        let member = world.connect(steady.accept_on(2));
        let wanted = if is_confirmed { ReasonCode::granted(AtLeastOnce) } else { ReasonCode::UnspecifiedError };
        assert_eq!(member.subscribe_code(&filter, AtLeastOnce), Some(wanted), "moves: {moves}");
        assert_eq!(member.subscribe_code(&filter, AtLeastOnce), Some(wanted), "moves: {moves}, again");
        let new = member.subscribe_code(&shared(&world, "u"), AtLeastOnce);
        assert_eq!(new, Some(ReasonCode::UnspecifiedError), "a new membership");
    }
}

#[test]
fn a_group_keeps_messages_while_a_link_is_broken() {
    let (world, [_, member]) = two();
    world.keep_nothing();
    let broker = world.broker("a");
    let filter = shared(&world, "t");
    member.subscribe(&filter, ExactlyOnce);
    world.break_link(0, 1, 0);
    world.run();
    broker.publish(&message("t", "x").qos2());
    world.advance(minutes(10));
    assert_eq!(broker.held(), ["t"], "the member returns");
    world.mend_links();
    world.run();
    world.advance(seconds(1));
    member.expect_publish("t", "x");
}

#[test]
fn messages_beyond_the_limit_of_a_group_are_counted() {
    let world = World::seeded_orchestrators(2, 1, 1, "two orchestrators, seed 1", |settings| {
        settings.limits.kept_deal_bytes = 4_000;
    });
    let broker = world.broker("a");
    let member = world.connect(v5(&world.name_on(1, "client ")));
    member.subscribe(&shared(&world, "t"), AtLeastOnce);
    world.break_link(0, 1, 0);
    world.run();
    for number in 0..3 {
        broker.publish(&message("t", format!("{number}").repeat(1_500)).qos1());
    }
    assert_eq!(world.dropped(Reason::NoGroupMember), 1);
    world.mend_links();
    world.run();
    world.advance(seconds(1));
    let got: Vec<String> = member.payloads().into_iter().map(|payload| payload[..1].to_owned()).collect();
    assert_eq!(got, ["0", "1"]);
}

/// The first of two members is started without the other, with this number of shards, and keeps nothing of a group whose
/// members were at the other one.
fn former_member_alone(shards: u16) {
    let world = World::stored_orchestrators(2, 1);
    let broker = world.broker("a");
    let [own, other] = [0, 1].map(|at| v5(&world.name_on(at, "client ")).lasting());
    let member = world.connect(other.manual());
    member.subscribe(&shared(&world, "t"), ExactlyOnce);
    let resident = world.connect(own);
    resident.subscribe(&shared(&world, "r"), AtLeastOnce);
    for draft in [message("t", "one").qos1(), message("t", "two").qos2()] {
        broker.publish(&draft);
    }
    let wanted = || world.engine(0, |engine, _| engine.questions().wanted_filters());
    world.run();
    assert_eq!(wanted(), 2);
    world.crash(Crash::now(shards));
    world.run();
    assert_eq!(wanted(), 1, "the group of the other one has no member here");
    world.advance(minutes(2));
    assert_eq!(world.gauges().kept_deals, 0, "nor are its messages kept");
    world.crash(Crash::now(shards));
    world.run();
    assert_eq!((wanted(), world.gauges().kept_deals), (1, 0), "nothing of it is in the store");
}

#[test]
fn a_former_member_alone_forgets_groups_of_others() {
    [1, 2].into_iter().for_each(former_member_alone);
}
