//! Orchestrators of a cluster exchange messages on topics of addresses over their links. All other messages cross by
//! brokers.

use tidegate_engine::{
    Durability, MembershipChange, MembershipOutcome, OrchestratorMoves, Roster, Settings, ShardId, ShardPosition,
    TenantId, partition_of,
};
use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};

use crate::harness::*;

const MEMBERS: u16 = 2;

fn crossed(world: &World) -> u64 {
    world.counters().shard_messages_out
}

/// Two orchestrators of one shard, and a client at home on each.
fn two() -> (World, [Client; 2]) {
    let world = World::orchestrators(MEMBERS, 1);
    let clients = [0, 1].map(|member| world.connect(v5(&world.name_on(member, "client "))));
    (world, clients)
}

fn join(world: &World, client_id: &str, group: &str) {
    let (client_id, add) = (client_id.to_owned(), vec![group.to_owned()]);
    let change = MembershipChange { tenant: TenantId::DEFAULT, client_id, add, remove: Vec::new() };
    let home = world.home_of(&change.client_id);
    let outcome = world.engine(home, |engine, now| engine.insiders().change_membership(now, &change));
    assert_eq!(outcome, MembershipOutcome::Done);
    world.run();
}

#[test]
fn messages_to_nodes_of_another_member_arrive() {
    let (world, [sender, _]) = two();
    let broker = world.broker("a");
    let name = world.name_on(1, "truck-");
    let node = world.connect(v5(&name));
    join(&world, &name, "g");
    for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
        for to in [format!("node/{name}"), "group/g/x".to_owned(), "all/x".to_owned()] {
            let topic = format!("ctx/to/{to}");
            sender.publish(message(&topic, "x").qos(qos));
            assert_eq!(node.expect_publish(&topic, "x").qos, qos);
        }
    }
    node.disconnect();
    let topic = format!("ctx/to/node/{name}");
    sender.publish(message(&topic, "while away").qos1());
    let node = world.connect(v5(&name));
    let got: Vec<String> = node.messages_among_others().iter().map(Delivered::text).collect();
    assert_eq!(got, ["while away"]);
    assert!(broker.taken().is_empty() && broker.asked().is_empty(), "a broker is part of it");
}

#[test]
fn receipts_and_counts_come_from_another_member() {
    let (world, [sender, there]) = two();
    let name = world.name_on(1, "truck-");
    let node = world.connect(v5(&name));
    let topic = format!("ctx/to/node/{name}");
    sender.publish(message(&topic, "x").qos1().user("receipt", "delivered"));
    node.expect_publish(&topic, "x");
    world.run();
    let receipts: Vec<String> = sender.messages_among_others().iter().map(Delivered::text).collect();
    assert!(receipts.iter().any(|text| text.contains("\"delivered\"") && text.contains(&name)), "{receipts:?}");
    sender.publish(message("ctx/to/all", "y").qos1().user("receipt", "delivered"));
    for client in [&node, &there, &sender] {
        client.expect_publish("ctx/to/all", "y");
    }
    world.advance(seconds(2));
    let counts: Vec<String> = sender.messages_among_others().iter().map(Delivered::text).collect();
    assert!(counts.iter().any(|text| text.contains("\"members\":3")), "{counts:?}");
}

#[test]
fn ordinary_messages_do_not_cross_over_links() {
    let (world, [here, there]) = two();
    let broker = world.broker("a");
    world.advance(seconds(10));
    for client in [&here, &there] {
        client.subscribe("#", AtLeastOnce);
        client.subscribe("t", AtLeastOnce);
        client.subscribe("$share/g/t", AtLeastOnce);
    }
    assert_eq!(broker.held(), ["#", "t"], "a member asks for filters of another one");
    let before = crossed(&world);
    here.publish(message("t", "ordinary").qos1());
    assert_eq!(broker.payloads(), ["ordinary"]);
    assert_eq!(crossed(&world), before);
    there.expect_nothing();
    here.publish(message("ctx/up", "addressed").qos1());
    there.expect_publish("ctx/up", "addressed");
    assert!(broker.payloads().is_empty());
    assert_eq!(crossed(&world), before + 1);
}

#[test]
fn retained_values_of_addresses_are_found_at_each_member() {
    let (world, [here, there]) = two();
    let broker = world.broker("a");
    for member in 0..MEMBERS {
        let topic = world.name_on(member, "ctx/value ");
        here.publish(message(&topic, "first").qos1().retain());
        there.publish(message(&topic, "second").qos1().retain());
    }
    for client in [&here, &there] {
        client.subscribe_later("ctx/#");
        let values = client.messages_among_others();
        assert!(values.iter().all(|value| value.retain && value.text() == "second"), "{values:?}");
        assert_eq!(values.len(), usize::from(MEMBERS));
    }
    assert!(broker.taken().is_empty());
}

/// The retained values that a new subscriber at a member gets, by topic.
pub(super) fn kept_at(world: &World, member: u16, topics: &[&str]) -> Vec<(String, String)> {
    let reader = world.connect(v5(&world.name_on(member, "reader ")).accept_on(member));
    for topic in topics {
        reader.subscribe_later(topic);
    }
    let mut kept: Vec<_> = reader.messages_among_others().into_iter().map(|it| (it.topic.clone(), it.text())).collect();
    kept.sort();
    reader.disconnect();
    kept
}

pub(super) fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut pairs: Vec<_> = all.iter().map(|(topic, value)| ((*topic).to_owned(), (*value).to_owned())).collect();
    pairs.sort();
    pairs
}

#[test]
fn all_members_give_out_the_newest_retained_value() {
    let (world, [here, _]) = two();
    world.broker("a");
    for member in 0..MEMBERS {
        let topic = world.name_on(member, "value ");
        let topics = [topic.as_str()];
        here.publish(message(&topic, "old").qos1().retain());
        here.publish(message(&topic, "new").qos2().retain());
        assert_eq!(
            [0, 1].map(|at| kept_at(&world, at, &topics)),
            [pairs(&[(&topic, "new")]), pairs(&[(&topic, "new")])]
        );
        here.publish(message(&topic, "").qos1().retain());
        assert_eq!([0, 1].map(|at| kept_at(&world, at, &topics)), [Vec::new(), Vec::new()]);
    }
}

#[test]
fn a_returning_member_gives_out_the_newest_value() {
    for is_replaced in [false, true] {
        let commit = |settings: &mut Settings| settings.durability = Durability::Commit;
        let world = World::seeded_orchestrators(MEMBERS, 1, 1, "a member returns", commit);
        let here = world.connect(v5(&world.name_on(0, "client ")));
        let broker = world.broker("a");
        let names = |stem: &str| [0, 1].map(|member| world.name_on(member, stem));
        let (changed, removed) = (names("changed "), names("removed "));
        let topics: Vec<&str> = changed.iter().chain(&removed).map(String::as_str).collect();
        for topic in &topics {
            here.publish(message(topic, "old").qos1().retain());
        }
        world.fall(1, usize::MAX, 0);
        world.run();
        if is_replaced {
            world.take_over(1);
        }
        world.advance(seconds(1));
        // A message above QoS 0 waits for the place of the dead member to be taken.
        let change = |topic: &str, value: &str| {
            let change = message(topic, value).retain();
            here.publish(if is_replaced { change.qos1() } else { change });
        };
        for (changed, removed) in changed.iter().zip(&removed) {
            change(changed, "new");
            change(removed, "");
        }
        if is_replaced {
            world.begin_node(1);
        } else {
            world.revive(1);
        }
        world.run();
        world.advance(seconds(1));
        // One that was replaced works no partition at first.
        let readers = if is_replaced { 1 } else { MEMBERS };
        let newest = pairs(&[(&changed[0], "new"), (&changed[1], "new")]);
        for member in 0..readers {
            assert_eq!(kept_at(&world, member, &topics), newest, "at {member}, it is replaced: {is_replaced}");
        }
        // A value that its broker has not forgotten does not return.
        let mut old = broker.taken().into_iter().find(|it| it.topic == removed[0]).expect("the first value");
        old.retain = true;
        broker.carry(&old);
        for member in 0..readers {
            assert_eq!(kept_at(&world, member, &topics), newest, "at {member}, it is replaced: {is_replaced}");
        }
    }
}

#[test]
fn a_message_sent_again_comes_to_one_member_of_a_group() {
    let world = World::orchestrators(MEMBERS, 1);
    let steady = |member, stem: &str| v5(&world.name_on(member, stem)).expiry(u32::MAX).accept_on(member);
    let groups: Vec<Client> = (0..MEMBERS)
        .map(|member| {
            let client = world.connect(steady(member, "member "));
            client.subscribe("$share/g/ctx/up", ExactlyOnce);
            client
        })
        .collect();
    let publisher = steady(0, "publisher ");
    let client = world.connect(publisher.clone());
    world.hold(0, 1);
    client.send_publish(message("ctx/up", "x").qos2());
    world.run();
    assert!(client.answers().is_empty(), "the other member has not confirmed it");
    world.break_link(0, 1, 0);
    world.run();
    client.lose();
    world.mend_links();
    let client = world.connect(publisher.clean(false));
    let id = client.next_id();
    let mut again = message("ctx/up", "x").qos2();
    (again.dup, again.id) = (true, Some(id));
    client.send_publish(again);
    world.run();
    let all: Vec<String> = groups.iter().flat_map(Client::payloads).collect();
    assert_eq!(all, ["x"]);
}

#[test]
fn a_takeover_repeats_no_retained_value_of_a_broker() {
    let world = World::orchestrators(MEMBERS, 1);
    let broker = world.broker("a");
    let name = world.name_on(0, "first ");
    let first = world.connect(v5(&name));
    broker.publish(&message("t", "x").qos1().retain());
    first.subscribe_later("t");
    assert_eq!(first.messages_among_others().len(), 1);
    world.fall(1, usize::MAX, 0);
    world.run();
    let second = world.connect(v5(&world.name_on(0, "second ")).accept_on(0));
    second.subscribe_later("#");
    let before = second.messages_among_others().len();
    world.take_over(1);
    world.advance(seconds(1));
    assert_eq!((before, second.messages_among_others()), (1, Vec::new()));
}

#[test]
fn a_session_whose_move_is_forwarded_again_is_no_node() {
    let (world, [sender, _]) = two();
    let name = world.name_on(0, "truck ");
    let steady = v5(&name).expiry(u32::MAX).accept_on(0);
    world.connect(steady).lose();
    let partition = partition_of(TenantId::DEFAULT, &name);
    let queued = || {
        sender.publish(message("ctx/to/all", "x").qos1());
        world.engine(0, |engine, _| engine.questions().owed(partition).queued)
    };
    assert_eq!(queued(), 1);
    // As after a restart: the store has the session of a node, and its home is elsewhere.
    let roster = Roster::alone(ShardPosition { shard: ShardId(0), shards: 1 })
        .with_peer(ShardId(1))
        .with_home(partition, ShardId(1));
    world.engine(0, |engine, now| {
        engine.cluster().set_roster(now, roster.with_topics_below("ctx"));
        OrchestratorMoves::of(engine).begin_forwarding(1, [partition].into_iter().collect());
    });
    assert_eq!(queued(), 1, "the new home has the second message");
}
